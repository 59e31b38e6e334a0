//! Looks up users with Dovecot's auth-master protocol. Verifies no passwords and changes nothing.
//!
//! Dovecot never returns a password or its hash: in 2.3.19 and 2.4.1, PASS returns only the
//! additional fields of the passdb. Therefore the passdb must return the field [`PASSWORD_VERSION`]
//! if the service must notice changed passwords.

use std::path::Path;

use tokio::io::{AsyncRead, AsyncWrite, AsyncWriteExt as _};
use tokio::net::UnixStream;

use super::{Connection, Error, Line, escape, within};

/// The name of the passdb field that changes together with the password, for example the time of
/// the last change.
pub const PASSWORD_VERSION: &str = "latchmail_password_version";

/// The reason in the reply to PASS if no passdb supports lookups without a password.
const NOT_SUPPORTED: &str = "Configured passdbs don't support";

/// A connection for lookups. After [`Error::Broken`], the connection must not be used again.
#[derive(Debug)]
pub struct Lookups<S = UnixStream> {
    connection: Connection<S>,
    id: u32,
}

/// The entry of a user in the passdbs.
#[derive(Debug, PartialEq, Eq)]
pub enum PassdbEntry {
    /// There is an entry.
    Found {
        /// The value of [`PASSWORD_VERSION`], if the passdb returns this field.
        version: Option<String>,
        /// Whether the user must not log in.
        disabled: bool,
    },
    /// No passdb returned an entry. The user can still exist: some passdbs, such as PAM, support no
    /// lookups.
    NotFound,
}

impl Lookups {
    /// Connects to the socket.
    ///
    /// # Errors
    /// Returns an error if the socket is unreachable or speaks another protocol.
    pub async fn connect(socket: &Path) -> Result<Self, Error> {
        let connection = Connection::open(socket).await?;
        within(Self::greet(connection)).await
    }
}

impl<S: AsyncRead + AsyncWrite + Unpin> Lookups<S> {
    async fn greet(mut connection: Connection<S>) -> Result<Self, Error> {
        connection.stream.write_all(b"VERSION\t1\t1\n").await?;
        connection.stream.flush().await?;
        connection.read_version().await?;
        Ok(Self { connection, id: 0 })
    }

    /// Returns `true` if the userdbs contain the user.
    ///
    /// # Errors
    /// Returns an error if Dovecot cannot look up the user at the moment.
    pub async fn user_exists(&mut self, user: &str) -> Result<bool, Error> {
        Ok(self.canonical_name(user).await?.is_some())
    }

    /// Returns the canonical name of the user, or `None` if the userdbs do not contain the user.
    /// The mail server can replace the name of the request.
    ///
    /// # Errors
    /// Returns an error if Dovecot cannot look up the user at the moment.
    pub async fn canonical_name(&mut self, user: &str) -> Result<Option<String>, Error> {
        let reply = self.request("USER", user).await?;
        match reply.command.as_str() {
            "USER" => match reply.fields.get(1) {
                Some(name) => Ok(Some(name.clone())),
                None => Err(Error::new("Dovecot's reply contains no user name")),
            },
            "NOTFOUND" => Ok(None),
            command => Err(unexpected("USER", command)),
        }
    }

    /// Returns the user's entry in the passdbs.
    ///
    /// # Errors
    /// Returns an error if Dovecot cannot look up the user at the moment.
    pub async fn passdb_entry(&mut self, user: &str) -> Result<PassdbEntry, Error> {
        let reply = self.request("PASS", user).await?;
        match reply.command.as_str() {
            "PASS" => Ok(PassdbEntry::Found {
                version: reply
                    .value(PASSWORD_VERSION)
                    .filter(|version| !version.is_empty())
                    .map(ToOwned::to_owned),
                disabled: reply.has("nologin"),
            }),
            "NOTFOUND" => Ok(PassdbEntry::NotFound),
            "FAIL"
                if reply
                    .value("reason")
                    .is_some_and(|reason| reason.starts_with(NOT_SUPPORTED)) =>
            {
                Ok(PassdbEntry::NotFound)
            }
            command => Err(unexpected("PASS", command)),
        }
    }

    async fn request(&mut self, command: &str, user: &str) -> Result<Line, Error> {
        self.id = self.id.wrapping_add(1);
        let id = self.id.to_string();
        let line = format!("{command}\t{id}\t{}\tservice=imap\n", escape(user));
        within(async {
            self.connection.stream.write_all(line.as_bytes()).await?;
            self.connection.stream.flush().await?;
            loop {
                let reply = self.connection.read().await?;
                // The rest of the handshake precedes the first reply.
                if matches!(
                    reply.command.as_str(),
                    "SPID" | "CUID" | "MECH" | "COOKIE" | "DONE"
                ) {
                    continue;
                }
                if reply.fields.first() != Some(&id) {
                    return Err(Error::new("Dovecot replied to another request"));
                }
                return Ok(reply);
            }
        })
        .await
    }
}

fn unexpected(request: &str, reply: &str) -> Error {
    if reply == "FAIL" {
        Error::Failed(format!(
            "Dovecot reported a temporary failure of its user database ({request})"
        ))
    } else {
        Error::new(format!(
            "Dovecot sent an unexpected reply to {request}: {reply}"
        ))
    }
}

#[cfg(test)]
mod tests {
    use tokio::io::{AsyncReadExt as _, DuplexStream, duplex};

    use super::*;

    async fn lookups(replies: &str) -> (Lookups<DuplexStream>, DuplexStream) {
        let (near, mut far) = duplex(4096);
        let replies = format!("VERSION\t1\t1\nSPID\t7\n{replies}");
        far.write_all(replies.as_bytes()).await.unwrap();
        let lookups = Lookups::greet(Connection::of(near)).await.unwrap();
        (lookups, far)
    }

    #[tokio::test]
    async fn a_user_is_found_or_not_or_unknown() {
        let replies = "USER\t1\tada\t\nNOTFOUND\t2\nFAIL\t3\treason=down\n";
        let (mut lookups, mut far) = lookups(replies).await;
        assert!(lookups.user_exists("ada").await.unwrap());
        assert!(!lookups.user_exists("a\tb").await.unwrap());
        lookups.user_exists("ada").await.unwrap_err();
        drop(lookups);
        let mut sent = String::new();
        far.read_to_string(&mut sent).await.unwrap();
        assert_eq!(
            sent,
            "VERSION\t1\t1\nUSER\t1\tada\tservice=imap\nUSER\t2\ta\u{1}tb\tservice=imap\nUSER\t3\tada\tservice=imap\n"
        );
    }

    #[tokio::test]
    async fn the_reply_contains_the_canonical_name() {
        let replies = "USER\t1\tada\tuid=1\tgid=1\nNOTFOUND\t2\nUSER\t3\n";
        let (mut lookups, _far) = lookups(replies).await;
        let found = lookups.canonical_name("ADA@a.example").await;
        assert_eq!(found.unwrap().as_deref(), Some("ada"));
        assert_eq!(lookups.canonical_name("bob").await.unwrap(), None);
        lookups.canonical_name("ada").await.unwrap_err();
    }

    #[tokio::test]
    async fn an_entry_has_a_version_if_the_passdb_returns_one() {
        let found = |version: Option<&str>, disabled| PassdbEntry::Found {
            version: version.map(Into::into),
            disabled,
        };
        for (reply, entry) in [
            ("PASS\t1\tuser=ada", found(None, false)),
            ("PASS\t1\tuser=ada\tnologin=", found(None, true)),
            (
                "PASS\t1\tuser=ada\t\tlatchmail_password_version=7",
                found(Some("7"), false),
            ),
            (
                "PASS\t1\tuser=ada\tlatchmail_password_version=\tnologin",
                found(None, true),
            ),
            ("NOTFOUND\t1", PassdbEntry::NotFound),
            (
                "FAIL\t1\treason=Configured passdbs don't support credentials lookups",
                PassdbEntry::NotFound,
            ),
        ] {
            let (mut lookups, _far) = lookups(&format!("{reply}\n")).await;
            assert_eq!(lookups.passdb_entry("ada").await.unwrap(), entry, "{reply}");
        }
    }

    #[tokio::test]
    async fn a_temporary_failure_or_an_unusable_reply_is_an_error() {
        for reply in ["FAIL\t1\n", "PASS\t2\tuser=ada\n", "USER\t1\tada\n", ""] {
            let (mut lookups, far) = lookups(reply).await;
            drop(far);
            lookups.passdb_entry("ada").await.unwrap_err();
        }
    }
}
