//! Verifies passwords with IMAP LOGIN, for mail servers without Dovecot's authentication sockets.
//! Reads no mail.

use std::fmt;
use std::net::IpAddr;
use std::time::Duration;

use async_imap::error::Error as ImapError;
use secrecy::{ExposeSecret as _, SecretString};
use tokio::time::timeout;

use crate::endpoint::Endpoint;

/// Response codes of failures that are not caused by the credentials (RFC 5530, section 3).
/// async-imap returns these codes as part of the error text.
const TEMPORARY: [&str; 4] = ["UNAVAILABLE", "INUSE", "SERVERBUG", "LIMIT"];

/// The reason why the server could not verify the password at the moment. The text is for the log.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub struct Error(String);

/// Returns `true` if the mail server accepts the password of a user. `client` is the IP address of
/// the user's client. Dovecot uses this address if it trusts the service
/// (`login_trusted_networks`).
///
/// # Errors
/// Returns an error if the server cannot verify the password at the moment.
pub async fn verify(
    endpoint: &Endpoint,
    limit: Duration,
    user: &str,
    password: &SecretString,
    client: Option<IpAddr>,
) -> Result<bool, Error> {
    // A quoted string cannot contain these characters (RFC 3501, section 4.3), so the server cannot
    // accept the name or the password.
    if [user, password.expose_secret()]
        .iter()
        .any(|text| text.is_empty() || text.contains(['\0', '\r', '\n']))
    {
        return Ok(false);
    }
    timeout(limit, log_in(endpoint, user, password, client))
        .await
        .unwrap_or_else(|_| Err(Error(format!("{endpoint} did not respond in time"))))
}

async fn log_in(
    endpoint: &Endpoint,
    user: &str,
    password: &SecretString,
    client: Option<IpAddr>,
) -> Result<bool, Error> {
    let failed = |error: &dyn fmt::Display| Error(format!("log-in at {endpoint} failed: {error}"));
    let stream = endpoint.connect().await.map_err(|e| failed(&e))?;
    let mut imap = async_imap::Client::new(stream);
    let greeting = imap.read_response().await.map_err(|e| failed(&e))?;
    if greeting.is_none() {
        return Err(failed(&"the server closed the connection"));
    }
    if let Some(client) = client {
        let client = client.to_canonical();
        let id = format!("ID (\"x-originating-ip\" \"{client}\")");
        match imap.run_command_and_check_ok(&id, None).await {
            // A server without the extension ID (RFC 2971) rejects the command.
            Ok(()) | Err(ImapError::Bad(_) | ImapError::No(_)) => {}
            Err(error) => return Err(failed(&error)),
        }
    }
    match imap.login(user, password.expose_secret()).await {
        Ok(mut session) => {
            // The password is correct, even if the server does not respond to LOGOUT.
            let _ = session.logout().await;
            Ok(true)
        }
        Err((ImapError::No(text), _)) if !is_temporary(&text) => Ok(false),
        Err((error, _)) => Err(failed(&error)),
    }
}

fn is_temporary(text: &str) -> bool {
    TEMPORARY
        .iter()
        .any(|code| text.contains(&format!("[{code}]")))
}

#[cfg(test)]
mod tests {
    use tokio::io::{AsyncBufReadExt as _, AsyncWriteExt as _, BufReader};
    use tokio::net::TcpListener;

    use super::*;

    /// Logs in at a server that replies to LOGIN with `reply`. Returns the result and the commands
    /// without tags.
    async fn with_reply(reply: &str, password: &str) -> (Result<bool, Error>, Vec<String>) {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap().to_string();
        let reply = reply.to_owned();
        let server = tokio::spawn(async move {
            let (stream, _) = listener.accept().await.unwrap();
            let mut stream = BufReader::new(stream);
            stream.write_all(b"* OK ready\r\n").await.unwrap();
            let (mut commands, mut line) = (Vec::new(), String::new());
            while stream.read_line(&mut line).await.unwrap_or(0) > 0 {
                let (tag, command) = line.trim_end().split_once(' ').unwrap();
                let reply = match command.split(' ').next() {
                    Some("LOGIN") => reply.as_str(),
                    Some("ID") => "BAD unknown command",
                    _ => "OK done",
                };
                commands.push(command.to_owned());
                if reply.is_empty() {
                    break;
                }
                let reply = format!("{tag} {reply}\r\n");
                stream.write_all(reply.as_bytes()).await.unwrap();
                line.clear();
            }
            commands
        });
        let endpoint = Endpoint::new("test", &address, false).unwrap();
        let client = "192.0.2.1".parse().ok();
        let limit = Duration::from_secs(5);
        let result = verify(&endpoint, limit, "ada", &password.into(), client).await;
        (result, server.await.unwrap())
    }

    #[tokio::test]
    async fn the_server_decides_about_the_password() {
        let (right, commands) = with_reply("OK logged in", "pass \"word\\").await;
        assert!(right.unwrap());
        assert_eq!(
            commands.first().unwrap(),
            "ID (\"x-originating-ip\" \"192.0.2.1\")"
        );
        assert_eq!(commands[1], "LOGIN \"ada\" \"pass \\\"word\\\\\"");
        for reply in [
            "NO [AUTHENTICATIONFAILED] Authentication failed.",
            "NO failed",
        ] {
            let (wrong, _) = with_reply(reply, "x").await;
            assert!(!wrong.unwrap(), "{reply}");
        }
    }

    #[tokio::test]
    async fn a_temporary_failure_is_an_error() {
        for reply in [
            "NO [UNAVAILABLE] Temporary authentication failure.",
            "NO [SERVERBUG] oops",
            "BAD what",
            "",
        ] {
            with_reply(reply, "x").await.0.unwrap_err();
        }
    }
}
