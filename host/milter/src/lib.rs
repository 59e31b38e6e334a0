//! `latchmail milter`: checks the sender of each message before the mail server accepts it.
//!
//! Postfix passes every message through this milter. The milter verifies a message from the
//! internet with SPF, DKIM and DMARC. The milter rejects or marks such a message if a sender in the
//! message is local and DMARC does not pass for this sender. In a message that an account submits,
//! all senders must be addresses of the account.
//!
//! For all messages, the milter writes the result into an `Authentication-Results` field. The
//! milter deletes received `Authentication-Results` fields that claim to come from this server.
//! `docs/senders.md` is the description for operators.
//!
//! This crate neither stores mail nor connects to the mail server.
//!
//! | file | purpose |
//! |---|---|
//! | `protocol` | the milter protocol: frames, commands and replies |
//! | `connection` | one connection of the mail server |
//! | `message` | collects the data of one message |
//! | `policy` | decides whether a message is accepted, and records to whom accounts write |
//! | `senders` | extracts addresses and domains from header fields |
//! | `verify` | verifies SPF, DKIM and DMARC |
//! | `deliveries` | records the reports about the mail of the service |
//! | `receipts` | counts the mail of aliases |
//! | `results` | reads and writes `Authentication-Results` |

mod connection;
mod deliveries;
mod message;
mod notification;
mod policy;
mod protocol;
mod receipts;
mod results;
mod senders;
mod verify;

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use anyhow::Context as _;
use latchmail_core::clock::Clock;
use latchmail_core::config::Config;
use latchmail_core::error::StartError;
use latchmail_directory::mailserver::MailServerView;
use latchmail_net::dns;
use mail_auth::MessageAuthenticator;
use tokio::net::TcpListener;
use tokio::sync::Semaphore;
use tokio::time::sleep;

use connection::Connection;
use policy::Policy;
use receipts::Counter;
use verify::Verifier;

/// Maximum number of concurrent connections from the mail server. Postfix has 100 processes per
/// port by default.
const MAX_CONNECTIONS: usize = 1000;

/// Maximum memory for the bodies of signed messages, in KiB. All messages that the milter is
/// receiving share this memory.
const BODY_MEMORY_KIB: usize = 512 * 1024;

/// Pause after an error while the milter accepts a connection.
const RETRY_DELAY: Duration = Duration::from_millis(100);

/// The text that the program logs after the milter has started to accept connections.
pub const READY: &str = "checking senders";

/// The milter.
pub struct Milter {
    listener: TcpListener,
    policy: Arc<Policy>,
    receipts: Arc<Counter>,
}

impl Milter {
    /// Listens for connections from the mail server. If `dns` is `false`, the milter does not use
    /// DNS and does not verify senders from the internet.
    ///
    /// # Errors
    /// Returns an error if a setting is missing or cannot be used. The error contains the name of
    /// the setting.
    pub async fn bind(config: &Config, dns: bool) -> anyhow::Result<Self> {
        let inbound = &config.inbound;
        if !inbound.listen.ip().is_loopback() {
            return Err(StartError::new(format!(
                "`inbound.listen` is {}: it must be a loopback address, for example 127.0.0.1:8892",
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
        let policy = Policy {
            authserv_id: inbound.authserv_id.clone(),
            local_from: inbound.local_from,
            list_servers: inbound.list_networks()?,
            directory: MailServerView::new(&config.database())
                .map_err(|e| StartError::new(e.to_string()))?,
            verifier: Verifier::new(authenticator, inbound.authserv_id.clone()),
        };
        Ok(Self {
            listener,
            policy: Arc::new(policy),
            receipts: Arc::new(Counter::new(Clock::system())),
        })
    }

    /// Returns the address that the milter listens on.
    ///
    /// # Errors
    /// Returns an error if the operating system cannot report the address.
    pub fn address(&self) -> io::Result<SocketAddr> {
        self.listener.local_addr()
    }

    /// Handles connections from the mail server until the future is dropped.
    pub async fn serve(self) {
        let directory = self.policy.directory.clone();
        let receipts = Arc::clone(&self.receipts);
        tokio::join!(self.accept(), receipts.write(&directory));
    }

    async fn accept(self) {
        let connections = Arc::new(Semaphore::new(MAX_CONNECTIONS));
        let body_memory = Arc::new(Semaphore::new(BODY_MEMORY_KIB));
        loop {
            let permit = Arc::clone(&connections).acquire_owned().await;
            let stream = match self.listener.accept().await {
                Ok((stream, _)) => stream,
                Err(error) => {
                    tracing::warn!(%error, "failed to accept a connection from the mail server");
                    sleep(RETRY_DELAY).await;
                    continue;
                }
            };
            let policy = Arc::clone(&self.policy);
            let receipts = Arc::clone(&self.receipts);
            let body_memory = Arc::clone(&body_memory);
            tokio::spawn(async move {
                // If the connection breaks, Postfix responds to its client with a temporary error.
                let connection = Connection::new(&policy, &receipts, &body_memory);
                if let Err(error) = connection.run(stream).await {
                    tracing::warn!(%error, "connection from the mail server failed");
                }
                drop(permit);
            });
        }
    }
}
