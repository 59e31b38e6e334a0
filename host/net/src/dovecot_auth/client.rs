//! Verifies passwords with Dovecot's authentication client protocol. Never starts a session at the
//! mail server.

use std::net::IpAddr;
use std::path::Path;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use secrecy::{ExposeSecret as _, SecretString};
use tokio::io::{AsyncRead, AsyncWrite, AsyncWriteExt as _};
use zeroize::Zeroizing;

use super::{Connection, Error, Line, MAX_HANDSHAKE, escape, within};

/// The id of the only request on a connection.
const ID: &str = "1";

/// The result of verifying a password.
#[derive(Debug, PartialEq, Eq)]
pub enum Verified {
    /// The password is correct.
    Right {
        /// The user's canonical name. The mail server can replace the name of the request.
        user: String,
    },
    /// The password is wrong, or the user must not log in. The text is a reason for the operator.
    Wrong(&'static str),
}

/// Verifies the password of a user. `client` is the IP address of the user's client.
///
/// # Errors
/// Returns an error if Dovecot cannot verify the password at the moment.
pub async fn verify(
    socket: &Path,
    user: &str,
    password: &SecretString,
    client: Option<IpAddr>,
) -> Result<Verified, Error> {
    let Some(request) = request(user, password, client) else {
        return Ok(Verified::Wrong("wrong password"));
    };
    let mut connection = Connection::open(socket).await?;
    within(exchange(&mut connection, &request)).await
}

/// Returns the request, or `None` if SASL PLAIN (RFC 4616) cannot transfer the name or the
/// password.
fn request(
    user: &str,
    password: &SecretString,
    client: Option<IpAddr>,
) -> Option<Zeroizing<String>> {
    let password = password.expose_secret();
    if user.is_empty() || password.is_empty() || user.contains('\0') || password.contains('\0') {
        return None;
    }
    let message = Zeroizing::new(format!("\0{user}\0{password}"));
    let response = Zeroizing::new(STANDARD.encode(message.as_bytes()));
    let client = client.map_or_else(String::new, |client| {
        format!("\trip={}", escape(&client.to_canonical().to_string()))
    });
    // Dovecot 2.3 and 2.4 accept `secured=tls`. The field `resp` must be the last one.
    Some(Zeroizing::new(format!(
        "AUTH\t{ID}\tPLAIN\tservice=imap\tsecured=tls\tnologin{client}\tresp={}\n",
        response.as_str()
    )))
}

async fn exchange<S: AsyncRead + AsyncWrite + Unpin>(
    connection: &mut Connection<S>,
    request: &str,
) -> Result<Verified, Error> {
    let handshake = format!("VERSION\t1\t2\nCPID\t{}\n", std::process::id());
    connection.stream.write_all(handshake.as_bytes()).await?;
    connection.stream.flush().await?;
    connection.read_version().await?;
    let mut offers_plain = false;
    for _ in 0..MAX_HANDSHAKE {
        let line = connection.read().await?;
        match line.command.as_str() {
            "MECH" => offers_plain |= line.fields.first().is_some_and(|name| name == "PLAIN"),
            "DONE" if offers_plain => {
                connection.stream.write_all(request.as_bytes()).await?;
                connection.stream.flush().await?;
                return result(&connection.read().await?);
            }
            "DONE" => {
                return Err(Error::new(
                    "Dovecot's `auth_mechanisms` does not contain PLAIN",
                ));
            }
            _ => {}
        }
    }
    Err(Error::new(
        "Dovecot's authentication service did not complete its handshake",
    ))
}

fn result(reply: &Line) -> Result<Verified, Error> {
    let (command, id) = (reply.command.as_str(), reply.fields.first());
    if id.is_none_or(|id| id != ID) {
        return Err(Error::new("Dovecot replied to another request"));
    }
    match command {
        "OK" => accepted(reply),
        "FAIL" => rejected(reply),
        _ => Err(Error::new(format!(
            "Dovecot sent an unexpected reply to AUTH: {command}"
        ))),
    }
}

/// Returns the reason of a rejection. Dovecot 2.3 and 2.4 send the reason as `code=REASON`, and
/// earlier versions send it as a flag.
fn rejected(reply: &Line) -> Result<Verified, Error> {
    let has = |code, flag| reply.value("code") == Some(code) || reply.has(flag);
    if has("temp_fail", "temp") {
        Err(temporary())
    } else if has("user_disabled", "user_disabled") {
        Ok(Verified::Wrong(
            "the mail server has disabled the user (user_disabled)",
        ))
    } else if has("pass_expired", "pass_expired") {
        Ok(Verified::Wrong(
            "the password has expired at the mail server (pass_expired)",
        ))
    } else {
        Ok(Verified::Wrong("wrong password"))
    }
}

/// Checks a reply to a correct password. Dovecot leaves some decisions to its client, so not every
/// such reply permits a log-in.
fn accepted(reply: &Line) -> Result<Verified, Error> {
    // The password belongs to a master user, who can log in as every user.
    if reply.has("auth_user") || reply.has("master") {
        return Ok(Verified::Wrong("log-in of a master user"));
    }
    if reply.has("anonymous") {
        return Ok(Verified::Wrong("anonymous log-in"));
    }
    if reply.has("nologin") {
        return Ok(Verified::Wrong(
            "the mail server does not let the user log in (nologin)",
        ));
    }
    // Dovecot is a proxy for this user, and another server must verify the password.
    if reply.has("proxy") || reply.has("proxy_maybe") {
        return Err(Error::new(
            "Dovecot is a proxy for the user and did not verify the password; `sign_in.mailserver.auth_socket` must be a socket of the mail server \
             behind the proxy",
        ));
    }
    match reply.value("user") {
        Some(user) if !user.is_empty() => Ok(Verified::Right {
            user: user.to_owned(),
        }),
        _ => Err(Error::new("Dovecot's reply contains no user name")),
    }
}

fn temporary() -> Error {
    Error::Failed("Dovecot reported a temporary failure of its user database".into())
}

#[cfg(test)]
mod tests {
    use tokio::io::{AsyncReadExt as _, duplex};

    use super::*;

    fn result_of(line: &str) -> Result<Verified, Error> {
        result(&Line::parse(line))
    }

    #[test]
    fn the_reply_contains_the_canonical_name() {
        for line in [
            "OK\t1\tuser=ada",
            "OK\t1\tuser=ada\t\toriginal_user=ADA@a.example",
            "OK\t1\tx=y\tuser=ada\tunknown",
        ] {
            let user = "ada".to_owned();
            assert_eq!(result_of(line).unwrap(), Verified::Right { user });
        }
    }

    #[test]
    fn a_correct_password_is_not_always_a_permission() {
        for line in [
            "FAIL\t1\tuser=ada",
            "FAIL\t1",
            "FAIL\t1\tuser=ada\tcode=user_disabled",
            "FAIL\t1\tuser=ada\tcode=pass_expired",
            "FAIL\t1\tuser=ada\tcode=authz_fail",
            "OK\t1\tuser=ada\tnologin",
            "OK\t1\tuser=ada\tnologin=\treason=Closed",
            "OK\t1\tuser=ada\toriginal_user=master\tauth_user=master",
            "OK\t1\tuser=ada\tanonymous",
        ] {
            let wrong = result_of(line).unwrap();
            assert!(matches!(wrong, Verified::Wrong(_)), "{line}: {wrong:?}");
        }
        for (line, reason) in [
            ("FAIL\t1\tcode=user_disabled", "user_disabled"),
            ("FAIL\t1\tcode=pass_expired", "pass_expired"),
        ] {
            let Ok(Verified::Wrong(found)) = result_of(line) else {
                panic!("{line} is no failure");
            };
            assert!(found.contains(reason));
        }
    }

    #[test]
    fn a_temporary_failure_or_an_unusable_reply_is_an_error() {
        for line in [
            "FAIL\t1\tuser=ada\tcode=temp_fail",
            "FAIL\t1\tuser=ada\ttemp",
            "OK\t2\tuser=ada",
            "OK\t1",
            "OK\t1\tuser=",
            "OK\t1\tuser=ada\tproxy\thost=192.0.2.1\tpass=x",
            "CONT\t1\t",
            "",
        ] {
            result_of(line).unwrap_err();
        }
    }

    #[test]
    fn a_request_ends_with_the_password() {
        let client = "::ffff:192.0.2.1".parse().ok();
        let line = request("ada", &"pass\tword".into(), client).unwrap();
        assert_eq!(
            line.as_str(),
            "AUTH\t1\tPLAIN\tservice=imap\tsecured=tls\tnologin\trip=192.0.2.1\tresp=AGFkYQBwYXNzCXdvcmQ=\n"
        );
        assert!(request("a\0b", &"x".into(), None).is_none());
        assert!(request("ada", &"x\0y".into(), None).is_none());
        assert!(request("ada", &"".into(), None).is_none());
    }

    async fn exchanged(replies: &str) -> Result<Verified, Error> {
        let (near, mut far) = duplex(4096);
        far.write_all(replies.as_bytes()).await.unwrap();
        let mut connection = Connection::of(near);
        let verified = exchange(&mut connection, "AUTH\n").await;
        drop(connection);
        let mut sent = String::new();
        far.read_to_string(&mut sent).await.unwrap();
        assert!(sent.starts_with("VERSION\t1\t"), "{sent}");
        assert!(verified.is_err() || sent.ends_with("\nAUTH\n"), "{sent}");
        verified
    }

    #[tokio::test]
    async fn the_request_follows_the_handshake() {
        let user = "ada".to_owned();
        let replies = "VERSION\t1\t3\nMECH\tLOGIN\tplaintext\nMECH\tPLAIN\tplaintext\nSPID\t7\nCUID\t1\nCOOKIE\t00\nDONE\nOK\t1\tuser=ada\n";
        assert_eq!(exchanged(replies).await.unwrap(), Verified::Right { user });
    }

    #[tokio::test]
    async fn a_server_with_another_protocol_is_an_error() {
        for replies in [
            "VERSION\t2\t0\nMECH\tPLAIN\nDONE\nOK\t1\tuser=ada\n",
            "* OK Dovecot ready.\n",
            "VERSION\t1\t2\nMECH\tCRAM-MD5\nDONE\nOK\t1\tuser=ada\n",
            &format!("VERSION\t1\t2\n{}", "MECH\tX\n".repeat(MAX_HANDSHAKE)),
        ] {
            exchanged(replies).await.unwrap_err();
        }
    }
}
