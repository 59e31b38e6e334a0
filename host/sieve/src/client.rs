//! The ManageSieve client (RFC 5804): logs in with the credential of IMAP, and lists, reads, stores
//! and activates scripts.
//!
//! Connections are not pooled, because changes of scripts are rare.

use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use latchmail_core::caller::{MailCredential, Proof};
use latchmail_core::config;
use latchmail_core::error::StartError;
use latchmail_net::endpoint::{Endpoint, Io};
use latchmail_net::sasl::Mechanism;
use secrecy::ExposeSecret as _;
use tokio::time::timeout;
use zeroize::Zeroizing;

use super::Error;
use super::script::EXTENSIONS;
use super::wire::{Reply, Status, Wire, Word};

/// Maximum size of a script that is read or stored, in bytes. Pigeonhole has the same limit by
/// default (`sieve_max_script_size`).
pub const MAX_SCRIPT: usize = 1 << 20;

type Connection = Wire<Box<dyn Io>>;

/// The address of the `ManageSieve` server.
#[derive(Clone, Debug)]
pub struct Connector {
    endpoint: Endpoint,
    /// Whether the connection must use TLS.
    tls: bool,
    timeout: Duration,
}

/// What the server announced before the log-in.
#[derive(Debug, Default)]
pub struct Probe {
    /// The name and the version of the server.
    pub implementation: String,
    /// The missing Sieve extensions that the script of the service needs.
    pub missing: Vec<&'static str>,
}

/// A script at the server.
#[derive(Debug)]
pub struct Listed {
    /// The name.
    pub name: String,
    /// Whether the mail server runs the script.
    pub is_active: bool,
}

#[derive(Debug, Default)]
struct Capabilities {
    implementation: String,
    mechanisms: Vec<String>,
    extensions: Vec<String>,
    starttls: bool,
}

impl Connector {
    /// Creates the connector from the configuration. Returns `None` if no server is configured.
    /// Does not connect.
    ///
    /// # Errors
    /// Returns an error if the address is invalid.
    pub fn new(sieve: &config::Sieve, imap: &config::Imap) -> Result<Option<Self>, StartError> {
        if sieve.address.is_empty() {
            return Ok(None);
        }
        Ok(Some(Self {
            endpoint: Endpoint::new("sieve.address", &sieve.address, imap.tls)?,
            tls: imap.tls,
            timeout: imap.timeout,
        }))
    }

    /// Connects and reads what the server announces. Does not log in.
    ///
    /// # Errors
    /// Returns [`Error::Unavailable`] if the server is unreachable or does not support TLS although
    /// TLS is required. Returns [`Error::Protocol`] if the server is not a ManageSieve server.
    pub async fn probe(&self) -> Result<Probe, Error> {
        let (mut wire, capabilities) = within(self.timeout, self.connect()).await?;
        let _ = within(self.timeout, wire.send(b"LOGOUT\r\n")).await;
        Ok(Probe {
            missing: capabilities.missing(),
            implementation: capabilities.implementation,
        })
    }

    /// Connects and logs in.
    ///
    /// # Errors
    /// Returns [`Error::Refused`] if the server rejects the credential. Returns another [`Error`]
    /// if the log-in fails for another reason.
    pub async fn logged_in(&self, credential: &MailCredential) -> Result<Session, Error> {
        within(self.timeout, async {
            let (mut wire, capabilities) = self.connect().await?;
            log_in(&mut wire, &capabilities, credential).await?;
            Ok(Session {
                wire,
                timeout: self.timeout,
                missing: capabilities.missing(),
            })
        })
        .await
    }

    async fn connect(&self) -> Result<(Connection, Capabilities), Error> {
        let unreachable = |error: std::io::Error| {
            Error::Unavailable(format!("{} cannot be reached: {error}", self.endpoint))
        };
        let tcp = self.endpoint.connect_tcp().await.map_err(unreachable)?;
        if !self.tls {
            let mut wire = Connection::new(Box::new(tcp), MAX_SCRIPT);
            let capabilities = greeting(wire.reply().await?)?;
            return Ok((wire, capabilities));
        }
        let mut plain = Wire::new(tcp, MAX_SCRIPT);
        let offered = greeting(plain.reply().await?)?.starttls;
        if !offered {
            return Err(Error::Unavailable(format!(
                "{} does not offer STARTTLS",
                self.endpoint
            )));
        }
        plain.send(b"STARTTLS\r\n").await?;
        let reply = plain.reply().await?;
        // Bytes that arrive before the TLS handshake could come from an attacker.
        let Some(tcp) = plain.into_inner().filter(|_| reply.status == Status::Ok) else {
            return Err(Error::Unavailable("STARTTLS failed".into()));
        };
        let io = self.endpoint.encrypt(tcp).await.map_err(unreachable)?;
        let mut wire = Wire::new(io, MAX_SCRIPT);
        let capabilities = greeting(wire.reply().await?)?;
        Ok((wire, capabilities))
    }
}

/// Returns the capabilities in a greeting (RFC 5804, section 1.7).
fn greeting(reply: Reply) -> Result<Capabilities, Error> {
    if reply.status != Status::Ok || reply.lines.is_empty() {
        return Err(Error::Protocol("it is not a ManageSieve greeting".into()));
    }
    let mut capabilities = Capabilities::default();
    for line in reply.lines {
        let mut words = line.iter().filter_map(Word::text);
        let name = words.next().unwrap_or_default().to_ascii_uppercase();
        let value = words.next().unwrap_or_default();
        let list = || value.split_ascii_whitespace().map(Into::into).collect();
        match name.as_str() {
            "IMPLEMENTATION" => value.clone_into(&mut capabilities.implementation),
            "SASL" => capabilities.mechanisms = list(),
            "SIEVE" => capabilities.extensions = list(),
            "STARTTLS" => capabilities.starttls = true,
            _ => {}
        }
    }
    Ok(capabilities)
}

impl Capabilities {
    fn offers(&self, mechanism: &str) -> bool {
        let mut mechanisms = self.mechanisms.iter();
        mechanisms.any(|offered| offered.eq_ignore_ascii_case(mechanism))
    }

    fn missing(&self) -> Vec<&'static str> {
        let is_missing = |name: &&str| !self.extensions.iter().any(|offered| offered == name);
        EXTENSIONS.into_iter().filter(is_missing).collect()
    }
}

async fn log_in(
    wire: &mut Connection,
    capabilities: &Capabilities,
    credential: &MailCredential,
) -> Result<(), Error> {
    let username = &credential.username;
    let (name, response, error_response) = match &credential.proof {
        Proof::AppPassword(password) => {
            let password = password.expose_secret();
            if username.contains('\0') || password.contains('\0') {
                return Err(Error::Refused);
            }
            if !capabilities.offers("PLAIN") {
                let text = "the server does not offer the log-in PLAIN for this connection";
                return Err(Error::Unavailable(text.into()));
            }
            // The authorization identity before the first NUL is empty (RFC 4616, section 2).
            let plain = Zeroizing::new(format!("\0{username}\0{password}"));
            let response = Zeroizing::new(STANDARD.encode(plain.as_bytes()));
            ("PLAIN", response, None)
        }
        Proof::AccessToken { token, .. } => {
            let mechanism = Mechanism::preferred(|one| capabilities.offers(one.name()));
            let mechanism = mechanism.ok_or_else(|| {
                let text = "the server offers neither OAUTHBEARER nor XOAUTH2";
                Error::Unavailable(text.into())
            })?;
            let response = mechanism.response(username, token).ok_or(Error::Refused)?;
            (mechanism.name(), response, Some(mechanism.error_response()))
        }
    };
    let command = format!("AUTHENTICATE \"{name}\" \"{}\"\r\n", response.as_str());
    wire.send(Zeroizing::new(command).as_bytes()).await?;
    let mut literals = 0;
    loop {
        let words = wire.line(&mut literals).await?;
        match words.first() {
            Some(word) if word.is_atom("OK") => return Ok(()),
            Some(word) if word.is_atom("NO") || word.is_atom("BYE") => {
                let temporary = words.iter().any(|word| word.is_atom("TRYLATER"));
                return Err(if temporary || word.is_atom("BYE") {
                    Error::Unavailable("the log-in failed for a temporary reason".into())
                } else {
                    Error::Refused
                });
            }
            // The server has rejected the token, and waits for a response (RFC 7628, section
            // 3.2.3).
            Some(Word::Text(_)) if error_response.is_some() => {
                let response = error_response.unwrap_or_default();
                wire.send(format!("\"{response}\"\r\n").as_bytes()).await?;
            }
            _ => return Err(Error::Protocol("the reply to AUTHENTICATE".into())),
        }
    }
}

/// An authenticated connection. After an error other than [`Error::Rejected`] and
/// [`Error::OverQuota`], the connection must not be used again.
#[derive(Debug)]
pub struct Session {
    wire: Connection,
    timeout: Duration,
    missing: Vec<&'static str>,
}

impl Session {
    /// Returns the missing Sieve extensions that the script of the service needs.
    #[must_use]
    pub fn missing_extensions(&self) -> &[&'static str] {
        &self.missing
    }

    /// Lists the scripts.
    ///
    /// # Errors
    /// Returns an [`Error`] if the command fails.
    pub async fn list(&mut self) -> Result<Vec<Listed>, Error> {
        let reply = self.run(b"LISTSCRIPTS\r\n").await?;
        let reply = succeeded(reply)?;
        let listed = reply.lines.iter().filter_map(|line| {
            Some(Listed {
                name: line.first()?.text()?.to_owned(),
                is_active: line.iter().any(|word| word.is_atom("ACTIVE")),
            })
        });
        Ok(listed.collect())
    }

    /// Returns a script, or `None` if the script does not exist.
    ///
    /// # Errors
    /// Returns an [`Error`] if the command fails.
    pub async fn get(&mut self, name: &str) -> Result<Option<String>, Error> {
        let command = command("GETSCRIPT", name, None);
        let reply = self.run(&command).await?;
        if reply.status == Status::No && reply.code.eq_ignore_ascii_case("NONEXISTENT") {
            return Ok(None);
        }
        let reply = succeeded(reply)?;
        let script = reply.lines.into_iter().flatten().next();
        match script {
            Some(Word::Text(script)) => Ok(Some(script)),
            _ => Err(Error::Protocol("the reply to GETSCRIPT".into())),
        }
    }

    /// Stores a script. The server replaces a script with this name.
    ///
    /// # Errors
    /// Returns [`Error::Rejected`] if the script has an error, and [`Error::OverQuota`] if the
    /// server has no space. Returns another [`Error`] if the command fails. If the connection
    /// fails, it is unknown whether the server stored the script.
    pub async fn put(&mut self, name: &str, script: &str) -> Result<(), Error> {
        let reply = self.run(&command("PUTSCRIPT", name, Some(script))).await?;
        succeeded(reply).map(drop)
    }

    /// Makes the mail server run a script instead of the active script.
    ///
    /// # Errors
    /// Returns an [`Error`] if the command fails. If the connection fails, it is unknown which
    /// script is active.
    pub async fn activate(&mut self, name: &str) -> Result<(), Error> {
        let reply = self.run(&command("SETACTIVE", name, None)).await?;
        succeeded(reply).map(drop)
    }

    /// Makes the mail server run no script (RFC 5804, section 2.8).
    ///
    /// # Errors
    /// Returns an [`Error`] if the command fails.
    pub async fn deactivate(&mut self) -> Result<(), Error> {
        self.activate("").await
    }

    /// Deletes a script, which must not be active. Succeeds if there is no such script.
    ///
    /// # Errors
    /// Returns an [`Error`] if the command fails.
    pub async fn delete(&mut self, name: &str) -> Result<(), Error> {
        let reply = self.run(&command("DELETESCRIPT", name, None)).await?;
        if reply.status == Status::No && reply.code.eq_ignore_ascii_case("NONEXISTENT") {
            return Ok(());
        }
        succeeded(reply).map(drop)
    }

    async fn run(&mut self, command: &[u8]) -> Result<Reply, Error> {
        within(self.timeout, async {
            self.wire.send(command).await?;
            self.wire.reply().await
        })
        .await
    }
}

/// Returns a command. All strings are literals without a round trip (RFC 5804, section 4), so they
/// can contain any characters.
fn command(verb: &str, name: &str, script: Option<&str>) -> Vec<u8> {
    let script = script.map(|script| format!(" {{{}+}}\r\n{script}", script.len()));
    let script = script.unwrap_or_default();
    format!("{verb} {{{}+}}\r\n{name}{script}\r\n", name.len()).into_bytes()
}

fn succeeded(reply: Reply) -> Result<Reply, Error> {
    let has_code = |code: &str| {
        let name = reply.code.split('/').next().unwrap_or_default();
        name.eq_ignore_ascii_case(code)
    };
    match reply.status {
        Status::Ok => Ok(reply),
        Status::No if has_code("QUOTA") => Err(Error::OverQuota),
        Status::No if has_code("TRYLATER") => Err(Error::Unavailable(reply.text)),
        Status::No => Err(Error::Rejected(reply.text)),
        Status::Bye => Err(Error::Unavailable(reply.text)),
    }
}

async fn within<T>(
    limit: Duration,
    work: impl Future<Output = Result<T, Error>>,
) -> Result<T, Error> {
    let ended = timeout(limit, work).await;
    ended.unwrap_or_else(|_| Err(Error::Unavailable("it did not respond in time".into())))
}

#[cfg(test)]
mod tests {
    use secrecy::SecretString;
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
    use tokio::net::TcpListener;

    use super::*;

    const GREETING: &str = "\"IMPLEMENTATION\" \"Test\"\r\n\"SASL\" \"PLAIN\"\r\n\"SIEVE\" \"fileinto include\"\r\n\"STARTTLS\"\r\nOK\r\n";

    /// Starts a server that sends these replies, each after a command. Returns its client.
    async fn server(tls: bool, replies: &'static [&'static str]) -> Connector {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap().to_string();
        tokio::spawn(async move {
            let (mut stream, _) = listener.accept().await.unwrap();
            for reply in replies {
                stream.write_all(reply.as_bytes()).await.unwrap();
                let mut command = [0; 4096];
                let _ = stream.read(&mut command).await;
            }
        });
        let imap = config::Imap {
            tls,
            timeout: Duration::from_secs(5),
            ..config::Imap::default()
        };
        let sieve = config::Sieve { address };
        Connector::new(&sieve, &imap).unwrap().unwrap()
    }

    fn credential() -> MailCredential {
        let password = SecretString::from("secret");
        MailCredential::app_password("1".into(), "ada@example.test".into(), password)
    }

    #[tokio::test]
    async fn scripts_are_listed_read_and_stored() {
        let connector = server(
            false,
            &[
                GREETING,
                "OK \"Logged in.\"\r\n",
                "\"mine\" ACTIVE\r\n\"other\"\r\nOK\r\n",
                "{4}\r\nkeep\r\nOK\r\n",
                "NO (NONEXISTENT) \"No such script.\"\r\n",
                "NO {5}\r\nwrong\r\n",
                "NO (QUOTA/MAXSIZE) \"Full.\"\r\n",
                "OK (WARNINGS) \"Fine.\"\r\n",
            ],
        )
        .await;
        let mut session = connector.logged_in(&credential()).await.unwrap();
        assert!(session.missing_extensions().contains(&"vacation"));
        let listed = session.list().await.unwrap();
        let listed: Vec<_> = listed
            .iter()
            .map(|one| (one.name.as_str(), one.is_active))
            .collect();
        assert_eq!(listed, [("mine", true), ("other", false)]);
        assert_eq!(session.get("mine").await.unwrap().unwrap(), "keep");
        assert_eq!(session.get("none").await.unwrap(), None);
        let refused = session.put("mine", "wrong").await.unwrap_err();
        assert!(matches!(refused, Error::Rejected(text) if text == "wrong"));
        let full = session.put("mine", "keep;").await.unwrap_err();
        assert!(matches!(full, Error::OverQuota));
        session.activate("mine").await.unwrap();
    }

    #[tokio::test]
    async fn a_rejected_credential_and_a_busy_server_differ() {
        let refused = server(false, &[GREETING, "NO \"Authentication failed.\"\r\n"]).await;
        let refused = refused.logged_in(&credential()).await.unwrap_err();
        assert!(matches!(refused, Error::Refused));
        let busy = server(false, &[GREETING, "NO (TRYLATER) \"Busy.\"\r\n"]).await;
        let busy = busy.logged_in(&credential()).await.unwrap_err();
        assert!(matches!(busy, Error::Unavailable(_)));
    }

    /// An attacker on the network cannot remove STARTTLS, or add replies before the TLS handshake.
    #[tokio::test]
    async fn no_credential_is_sent_without_tls_if_tls_is_required() {
        let without = "\"SASL\" \"PLAIN\"\r\nOK\r\n";
        for replies in [
            &[without][..],
            &[GREETING, "NO\r\n"],
            &[GREETING, "OK\r\nOK\r\n"],
        ] {
            let replies = Box::leak(replies.to_vec().into_boxed_slice());
            let connector = server(true, replies).await;
            let error = connector.logged_in(&credential()).await.unwrap_err();
            assert!(matches!(error, Error::Unavailable(_)), "{error}");
        }
    }

    #[test]
    fn a_name_cannot_end_its_command() {
        let command = command("GETSCRIPT", "a\r\nLOGOUT", None);
        assert_eq!(command, b"GETSCRIPT {9+}\r\na\r\nLOGOUT\r\n");
    }
}
