//! Looks up the users of the mail server for imports. Verifies no passwords.

use std::collections::HashMap;

use latchmail_core::config::SignIn;
use latchmail_core::secrets;
use latchmail_net::dovecot_auth::Error;
use latchmail_net::dovecot_auth::lookup::Lookups;

/// The users of the mail server.
pub(crate) struct MailServerUsers<'a> {
    sign_in: &'a SignIn,
    connection: Connection,
    /// For each domain, whether the mail server reports every name as a user.
    indiscriminate: HashMap<String, bool>,
}

enum Connection {
    /// `sign_in.mailserver.lookup_socket` is not set.
    NotConfigured,
    NotConnected,
    Open(Lookups),
    /// The reason why the connection failed. There is no second attempt, because each attempt can
    /// take a timeout.
    Failed(String),
}

/// The result of looking up a user.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Lookup {
    /// The mail server has the user. The text is the user's canonical log-in name.
    User(String),
    /// The mail server has no such user.
    NotFound,
    /// It is unknown whether the user exists: there is no lookup socket, or the mail server reports
    /// every name as a user.
    Unknown,
    /// The lookup failed. The text is the reason.
    Failed(String),
}

impl<'a> MailServerUsers<'a> {
    /// Creates a value without connecting to the mail server. The first lookup connects.
    pub(crate) fn new(sign_in: &'a SignIn) -> Self {
        let is_configured = !sign_in.mailserver.lookup_socket.as_os_str().is_empty();
        Self {
            sign_in,
            connection: if is_configured {
                Connection::NotConnected
            } else {
                Connection::NotConfigured
            },
            indiscriminate: HashMap::new(),
        }
    }

    /// Looks up the user with this address. On the default domain, the log-in name of the user can
    /// be with or without the domain. Returns [`Lookup::NotFound`] for a domain that cannot have
    /// users of the mail server.
    pub(crate) async fn find(&mut self, address: &str) -> Lookup {
        let name = self.sign_in.login_name(address);
        match self.find_name(name, address).await {
            Lookup::NotFound if name != address => self.find_name(address, address).await,
            found => found,
        }
    }

    /// Looks up the user with this log-in name, which belongs to `address`.
    pub(crate) async fn find_name(&mut self, name: &str, address: &str) -> Lookup {
        if !self.sign_in.can_be_mail_server_user(address) {
            return Lookup::NotFound;
        }
        let result = async {
            if self.is_indiscriminate(address).await? {
                return Ok(Lookup::Unknown);
            }
            let found = self.look_up(name).await?;
            Ok(found.map_or(Lookup::NotFound, Lookup::User))
        };
        result.await.unwrap_or_else(|failure| failure)
    }

    /// Returns whether the mail server reports every name on the domain of `address` as a user.
    /// Dovecot's userdb `static` can do this.
    async fn is_indiscriminate(&mut self, address: &str) -> Result<bool, Lookup> {
        let (_, domain) = address.rsplit_once('@').unwrap_or_default();
        if let Some(known) = self.indiscriminate.get(domain) {
            return Ok(*known);
        }
        let id = secrets::id().map_err(|error| Lookup::Failed(error.to_string()))?;
        let invented = format!("{id}@{domain}");
        let found = self.look_up(self.sign_in.login_name(&invented)).await?;
        let domain = domain.to_owned();
        self.indiscriminate.insert(domain, found.is_some());
        Ok(found.is_some())
    }

    /// Returns the canonical name of a user. Returns [`Lookup::Unknown`] or [`Lookup::Failed`] as
    /// an error.
    async fn look_up(&mut self, name: &str) -> Result<Option<String>, Lookup> {
        if matches!(self.connection, Connection::NotConnected) {
            let connected = Lookups::connect(&self.sign_in.mailserver.lookup_socket).await;
            self.connection = match connected {
                Ok(lookups) => Connection::Open(lookups),
                Err(error) => Connection::Failed(error.to_string()),
            };
        }
        match &mut self.connection {
            Connection::NotConfigured | Connection::NotConnected => Err(Lookup::Unknown),
            Connection::Failed(reason) => Err(Lookup::Failed(reason.clone())),
            Connection::Open(lookups) => match lookups.canonical_name(name).await {
                Ok(found) => Ok(found),
                Err(Error::Failed(reason)) => Err(Lookup::Failed(reason)),
                Err(Error::Broken(reason)) => {
                    self.connection = Connection::Failed(reason.clone());
                    Err(Lookup::Failed(reason))
                }
            },
        }
    }
}

#[cfg(test)]
mod tests {
    use std::path::PathBuf;

    use latchmail_core::config::Config;
    use tokio::io::{AsyncBufReadExt as _, AsyncWriteExt as _, BufReader};
    use tokio::net::UnixListener;

    use super::*;

    const ALICE: &str = "alice@a.example";

    /// Serves one connection of Dovecot's auth-master protocol. `reply` returns the reply to a
    /// lookup of a name, without the number of the request. Closes the connection if there is no
    /// reply.
    fn serve(reply: fn(&str) -> Option<&'static str>) -> PathBuf {
        let name = format!("latchmail-{}", secrets::id().unwrap());
        let socket = std::env::temp_dir().join(name);
        let listener = UnixListener::bind(&socket).unwrap();
        let path = socket.clone();
        tokio::spawn(async move {
            let (stream, _) = listener.accept().await.unwrap();
            std::fs::remove_file(path).unwrap();
            let (read, mut write) = stream.into_split();
            write.write_all(b"VERSION\t1\t1\n").await.unwrap();
            let mut lines = BufReader::new(read).lines();
            while let Some(line) = lines.next_line().await.unwrap() {
                let fields: Vec<&str> = line.split('\t').collect();
                let ["USER", id, name, ..] = fields.as_slice() else {
                    continue;
                };
                let Some(reply) = reply(name) else {
                    return;
                };
                let (command, rest) = reply.split_once(' ').unwrap_or((reply, ""));
                let reply = format!("{command}\t{id}\t{rest}\n");
                write.write_all(reply.as_bytes()).await.unwrap();
            }
        });
        socket
    }

    fn settings(socket: &str) -> SignIn {
        let text = format!(
            "[sign_in]\nsource = 'mailserver'\ndomains.'b.example'.source = 'accounts'\n\
             mailserver.default_domain = 'a.example'\nmailserver.lookup_socket = '{socket}'"
        );
        Config::parse(&text, "test", HashMap::new())
            .unwrap()
            .sign_in
    }

    /// Looks up each address.
    async fn find(reply: fn(&str) -> Option<&'static str>, addresses: &[&str]) -> Vec<Lookup> {
        let settings = settings(&serve(reply).display().to_string());
        let mut users = MailServerUsers::new(&settings);
        let mut found = Vec::new();
        for address in addresses {
            found.push(users.find(address).await);
        }
        found
    }

    #[tokio::test]
    async fn a_user_on_the_default_domain_can_have_a_name_with_or_without_the_domain() {
        let reply = |name: &str| {
            Some(match name {
                "alice" | "alice@c.example" => "USER alice",
                "bob@a.example" => "USER bob@a.example",
                _ => "NOTFOUND",
            })
        };
        let addresses = [
            ALICE,
            "bob@a.example",
            "x@a.example",
            "alice@c.example",
            "alice@b.example",
        ];
        let alice = Lookup::User("alice".into());
        assert_eq!(
            find(reply, &addresses).await,
            [
                alice.clone(),
                Lookup::User("bob@a.example".into()),
                Lookup::NotFound,
                alice,
                Lookup::NotFound
            ]
        );
    }

    #[tokio::test]
    async fn a_user_is_unknown_if_every_name_is_a_user() {
        let found = find(|_| Some("USER alice"), &[ALICE, "bob@a.example"]).await;
        assert_eq!(found, [Lookup::Unknown, Lookup::Unknown]);
        let settings = settings("");
        let found = MailServerUsers::new(&settings).find(ALICE).await;
        assert_eq!(found, Lookup::Unknown);
    }

    #[tokio::test]
    async fn a_failed_lookup_is_no_result() {
        let reply = |name: &str| match name {
            "alice" => Some("FAIL reason=down"),
            "bob" => Some("USER bob"),
            "carol" => None,
            _ => Some("NOTFOUND"),
        };
        let addresses = [ALICE, "bob@a.example", "carol@a.example", "bob@a.example"];
        let found = find(reply, &addresses).await;
        let is_failed = |index: usize| matches!(found[index], Lookup::Failed(_));
        assert!(is_failed(0), "{found:?}");
        assert_eq!(found[1], Lookup::User("bob".into()));
        // The connection is closed, and there is no second attempt.
        assert!(is_failed(2) && is_failed(3), "{found:?}");
    }
}
