//! `latchmail milter`: checks who sends a message before the mail server takes it.
//!
//! Postfix passes every message through this milter. A message from the internet is checked with SPF, DKIM and DMARC, and refused or marked if it names a
//! local sender without proof. A message that an account submits may name that account's own addresses only. In both cases the result is written into an
//! `Authentication-Results` field, and fields that claim to be this server's are deleted. `docs/senders.md` is the description for operators.
//!
//! This crate neither stores mail nor connects to the mail server.

mod message;
mod results;
mod senders;
mod verify;
mod wire;

use std::io;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use anyhow::Context as _;
use ipnet::IpNet;
use latchmail_core::address;
use latchmail_core::config::{Config, LocalFrom};
use latchmail_core::error::StartError;
use latchmail_directory::mailserver::MailServerView;
use latchmail_net::dns;
use mail_auth::MessageAuthenticator;
use tokio::io::{AsyncWriteExt as _, BufReader};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Semaphore;
use tokio::time::{sleep, timeout};

use message::Message;
use results::Entry;
use senders::{Named, SENDERS};
use verify::{Envelope, Verifier};
use wire::{Command, Replies};

/// Connections of the mail server at the same time. Postfix has a hundred processes per port by default.
const CONNECTIONS: usize = 1000;

/// Memory for the bodies of signed messages that are being received, in KiB.
const MEMORY: usize = 512 * 1024;

/// How long the mail server may send nothing. A client of Postfix has five minutes for each command.
const IDLE: Duration = Duration::from_mins(15);

/// Pause after a connection could not be accepted.
const PAUSE: Duration = Duration::from_millis(100);

/// What is logged when the milter listens.
pub const READY: &str = "checking senders";

const UNAVAILABLE: &str = "451 4.3.0 The sender cannot be checked at the moment";
const BUSY: &str = "451 4.3.2 Too many large messages at the same time";
const NO_DNS: &str = "451 4.7.1 The local sender cannot be checked at the moment";
const LOCAL: &str = "550 5.7.1 The sender address is local to this server: log in to send from it";
const CROWDED: &str = "550 5.7.1 The message names too many senders";

/// The milter.
pub struct Milter {
    listener: TcpListener,
    shared: Arc<Shared>,
}

/// What all connections use.
struct Shared {
    authserv_id: String,
    local_from: LocalFrom,
    list_servers: Vec<IpNet>,
    directory: MailServerView,
    verifier: Verifier,
    memory: Arc<Semaphore>,
}

impl Milter {
    /// Listens for the mail server. With `dns` false nothing is looked up in the DNS, so no foreign sender is verified.
    ///
    /// # Errors
    /// A sentence that names the setting that is missing or cannot be used.
    pub async fn bind(config: &Config, dns: bool) -> anyhow::Result<Self> {
        let inbound = &config.inbound;
        if !inbound.listen.ip().is_loopback() {
            return Err(StartError::new(format!(
                "`inbound.listen` is {}: the milter listens on a loopback address only",
                inbound.listen
            ))
            .into());
        }
        if inbound.authserv_id.is_empty() {
            return Err(StartError::new(
                "`inbound.authserv_id` is empty: set it to the name of the mail server, such as mail.example.org",
            )
            .into());
        }
        let authenticator = if dns {
            Some(MessageAuthenticator(dns::caching_resolver(&config.dns)?))
        } else {
            None
        };
        let listener = TcpListener::bind(inbound.listen)
            .await
            .with_context(|| format!("cannot listen on {} (`inbound.listen`)", inbound.listen))?;
        let shared = Shared {
            authserv_id: inbound.authserv_id.clone(),
            local_from: inbound.local_from,
            list_servers: inbound.list_networks()?,
            directory: MailServerView::new(&config.database())
                .map_err(|e| StartError::new(e.to_string()))?,
            verifier: Verifier::new(authenticator, inbound.authserv_id.clone()),
            memory: Arc::new(Semaphore::new(MEMORY)),
        };
        Ok(Self {
            listener,
            shared: Arc::new(shared),
        })
    }

    /// The address that the milter listens on.
    ///
    /// # Errors
    /// That of the system.
    pub fn address(&self) -> io::Result<SocketAddr> {
        self.listener.local_addr()
    }

    /// Serves the mail server until the future is dropped.
    pub async fn serve(self) {
        let connections = Arc::new(Semaphore::new(CONNECTIONS));
        loop {
            let permit = Arc::clone(&connections).acquire_owned().await;
            let stream = match self.listener.accept().await {
                Ok((stream, _)) => stream,
                Err(error) => {
                    tracing::warn!(%error, "cannot accept a connection of the mail server");
                    sleep(PAUSE).await;
                    continue;
                }
            };
            let shared = Arc::clone(&self.shared);
            tokio::spawn(async move {
                // Postfix tells the client to try again if a connection breaks.
                if let Err(error) = Connection::new(&shared).run(stream).await {
                    tracing::warn!(%error, "connection of the mail server ended");
                }
                drop(permit);
            });
        }
    }
}

/// One connection of the mail server: a client and its messages, one after the other.
struct Connection<'a> {
    shared: &'a Shared,
    ip: Option<IpAddr>,
    hello: String,
    login: Option<String>,
    message: Message,
}

impl<'a> Connection<'a> {
    fn new(shared: &'a Shared) -> Self {
        Self {
            shared,
            ip: None,
            hello: String::new(),
            login: None,
            message: Message::default(),
        }
    }

    async fn run(mut self, stream: TcpStream) -> io::Result<()> {
        stream.set_nodelay(true)?;
        let (read, mut write) = stream.into_split();
        let mut read = BufReader::new(read);
        loop {
            let command = timeout(IDLE, wire::read(&mut read)).await;
            let Some(command) = command.unwrap_or_else(|late| Err(late.into()))? else {
                return Ok(());
            };
            if command == Command::Quit {
                return Ok(());
            }
            let mut replies = Replies::default();
            self.take(command, &mut replies).await?;
            write.write_all(replies.bytes()).await?;
        }
    }

    async fn take(&mut self, command: Command, replies: &mut Replies) -> io::Result<()> {
        match command {
            Command::Negotiate(offered) => replies.negotiate(offered)?,
            Command::Macros(pairs) => {
                let login = pairs.into_iter().find(|(name, _)| name == "auth_authen");
                if let Some((_, login)) = login {
                    self.login = Some(login).filter(|login| !login.is_empty());
                }
            }
            Command::Connect(ip) => {
                *self = Self::new(self.shared);
                self.ip = ip;
            }
            Command::Hello(name) => self.hello = name,
            Command::Sender(sender) => {
                self.message = Message::default();
                self.message.login = self.login.take();
                self.message.sender = sender;
            }
            Command::Field { name, value } => {
                self.message.field(&name, &value, &self.shared.authserv_id);
            }
            Command::EndOfHeader => self.message.end_header(),
            Command::Body(piece) => self.message.body(&piece, &self.shared.memory),
            Command::EndOfMessage => {
                let message = std::mem::take(&mut self.message);
                match self.judge(&message).await {
                    Ok(entries) => {
                        // From the last on: the numbers of those before stay the same.
                        for index in message.forged.iter().rev() {
                            replies.delete(*index, results::NAME);
                        }
                        let value = results::value(&self.shared.authserv_id, &entries);
                        replies.insert(results::NAME, &value);
                        replies.accept();
                    }
                    Err(reply) => replies.refuse(&reply),
                }
            }
            Command::Abort => self.message = Message::default(),
            Command::NewClient => *self = Self::new(self.shared),
            Command::Quit => {}
            Command::Other => replies.proceed(),
        }
        Ok(())
    }

    /// Decides about a message: the results to write, or the reply that refuses it.
    async fn judge(&self, message: &Message) -> Result<Vec<Entry>, String> {
        match &message.login {
            Some(login) => self.submitted(login, message).await,
            None => self.arrived(message).await,
        }
    }

    /// A submission names addresses of its account only.
    async fn submitted(&self, login: &str, message: &Message) -> Result<Vec<Entry>, String> {
        if message.from_fields != 1 {
            return Err(format!(
                "550 5.7.1 The message has {} From fields instead of one",
                message.from_fields
            ));
        }
        if message.further.len() > SENDERS {
            return Err(CROWDED.into());
        }
        self.own(login, "From", &message.from).await?;
        for (field, named) in &message.further {
            self.own(login, field, named).await?;
        }
        let (_, sender) = message.sender.rsplit_once('@').unwrap_or_default();
        let entry = Entry::new("auth", "pass").with("smtp.mailfrom", sender);
        // With addresses of several domains there is none to name.
        let domains = &message.from.domains;
        let from = domains.first().filter(|_| domains.len() == 1);
        Ok(vec![
            entry.with("header.from", from.map_or("", |domain| domain)),
        ])
    }

    async fn own(&self, login: &str, field: &str, named: &Named) -> Result<(), String> {
        if named.addresses.len() > SENDERS {
            return Err(CROWDED.into());
        }
        if named.addresses.is_empty() {
            return Err(format!("550 5.7.1 The {field} field names no address"));
        }
        if !named.clear {
            return Err(format!(
                "550 5.7.1 The {field} field can be read in several ways"
            ));
        }
        for written in &named.addresses {
            let own = match address::fold(written) {
                Some(address) => self.shared.directory.may_send(login, &address).await,
                None => Ok(false),
            };
            if !own.map_err(|error| unavailable(&error))? {
                return Err(format!(
                    "550 5.7.1 The {field} field must name an address of your own"
                ));
            }
        }
        Ok(())
    }

    /// A message from elsewhere names a local sender only if DMARC passes.
    async fn arrived(&self, message: &Message) -> Result<Vec<Entry>, String> {
        if message.no_memory {
            return Err(BUSY.into());
        }
        if message.from.domains.len() > SENDERS {
            return Err(CROWDED.into());
        }
        let envelope = Envelope {
            ip: self.ip,
            hello: &self.hello,
            sender: &message.sender,
        };
        let mut verdicts = self.shared.verifier.verify(envelope, message.copy()).await;
        let domains = &message.from.domains;
        let domain = domains.first().filter(|_| domains.len() == 1);
        // The domain that was verified must be the only one that a reader can see.
        let is_clear = message.from_fields == 1 && domain == Some(&verdicts.domain);
        if verdicts.dmarc.is("pass") && !is_clear {
            verdicts.dmarc.set("permerror");
        }
        let verified = domain.filter(|_| verdicts.dmarc.is("pass"));
        if self.names_local(message, verified).await? {
            if self.is_tolerated() {
                if verified.is_none() {
                    verdicts.dmarc.set("fail");
                }
            } else if verdicts.dmarc.is("temperror") {
                return Err(NO_DNS.into());
            } else {
                return Err(LOCAL.into());
            }
        }
        let dmarc = verdicts
            .dmarc
            .with("header.from", domain.map_or("", |domain| domain));
        verdicts.entries.push(dmarc);
        Ok(verdicts.entries)
    }

    /// Whether the envelope or From names a local domain other than the verified one.
    async fn names_local(
        &self,
        message: &Message,
        verified: Option<&String>,
    ) -> Result<bool, String> {
        let sender = message.sender.rsplit_once('@');
        let sender = sender.map(|(_, domain)| senders::folded(domain));
        let named = message.from.domains.iter().chain(&sender);
        for domain in named.filter(|domain| Some(*domain) != verified) {
            let local = self.shared.directory.is_local(domain).await;
            if local.map_err(|error| unavailable(&error))? {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// Whether a local sender without proof is marked instead of refused.
    fn is_tolerated(&self) -> bool {
        let from_list = |ip: IpAddr| self.shared.list_servers.iter().any(|one| one.contains(&ip));
        self.shared.local_from == LocalFrom::Mark || self.ip.is_some_and(from_list)
    }
}

fn unavailable(error: &latchmail_directory::Error) -> String {
    tracing::error!(%error, "cannot read the directory");
    UNAVAILABLE.into()
}
