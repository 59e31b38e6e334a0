//! The DNS, as far as custom domains need it: what is published at a name, and whether the records are there that a domain should have.
//!
//! Asks a resolver and believes it; knows no zone and keeps nothing: the resolver's own cache is off, so that whoever corrects a
//! record is not told of the old one.

mod name;
mod records;
mod spf;
mod tags;

use std::net::SocketAddr;
use std::time::Duration;

use hickory_resolver::TokioResolver;
use hickory_resolver::config::{ConnectionConfig, NameServerConfig, ResolverConfig};
use hickory_resolver::net::NetError;
use hickory_resolver::net::runtime::TokioRuntimeProvider;
use hickory_resolver::proto::rr::{Name, RData, RecordType};
use tokio::time::timeout;

pub use name::{DomainName, NoDomain, fold};
pub use records::{Kind, Record};

use crate::config;
use crate::error::StartError;

/// How many times a query is sent within the time that one look-up has.
const TRIES: u32 = 3;

/// The DNS cannot be read at this moment: no answer came in time, or the server failed. For an operator to read.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct Unreadable(String);

/// The way to the DNS.
pub struct Dns {
    resolver: TokioResolver,
    /// How long one look-up may take, with all its queries.
    patience: Duration,
    /// The name of the mail server, in lower case.
    mail_host: String,
}

impl std::fmt::Debug for Dns {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Dns")
            .field("mail_host", &self.mail_host)
            .finish_non_exhaustive()
    }
}

impl Dns {
    /// Reads the configuration. Nothing is asked.
    ///
    /// # Errors
    /// A sentence where the server is no `address:port`, or the system names none.
    pub fn new(config: &config::Dns) -> Result<Self, StartError> {
        let mut builder = if config.server.is_empty() {
            TokioResolver::builder_tokio().map_err(|error| {
                StartError::new(format!(
                    "the system's DNS servers cannot be read: {error}; name one by `dns.server`"
                ))
            })?
        } else {
            let server: SocketAddr = config.server.parse().map_err(|_| {
                StartError::new(format!(
                    "`dns.server` `{}` is not an IP address with a port",
                    config.server
                ))
            })?;
            let config = ResolverConfig::from_parts(None, Vec::new(), vec![at(server)]);
            TokioResolver::builder_with_config(config, TokioRuntimeProvider::default())
        };
        let options = builder.options_mut();
        options.timeout = config.timeout / TRIES;
        options.attempts = TRIES as usize - 1;
        options.cache_size = 0;
        options.try_tcp_on_error = true;
        let resolver = builder
            .build()
            .map_err(|error| StartError::new(format!("the DNS cannot be used: {error}")))?;
        Ok(Self {
            resolver,
            patience: config.timeout,
            mail_host: config.mail_host.to_ascii_lowercase(),
        })
    }

    /// The TXT records at a name: the strings of each joined, aliases (CNAME) followed. None where nothing is there.
    ///
    /// # Errors
    /// [`Unreadable`].
    pub async fn txt(&self, name: &str) -> Result<Vec<String>, Unreadable> {
        let text = |data: &RData| match data {
            RData::TXT(txt) => Some(String::from_utf8_lossy(&txt.txt_data.concat()).into_owned()),
            _ => None,
        };
        self.look_up(name, RecordType::TXT, text).await
    }

    /// The mail servers of a name, in lower case and without the last dot.
    async fn mx(&self, name: &str) -> Result<Vec<String>, Unreadable> {
        let exchange = |data: &RData| match data {
            RData::MX(mx) => {
                let host = mx.exchange.to_ascii().to_ascii_lowercase();
                Some(host.trim_end_matches('.').to_owned())
            }
            _ => None,
        };
        self.look_up(name, RecordType::MX, exchange).await
    }

    async fn look_up<T>(
        &self,
        name: &str,
        kind: RecordType,
        read: impl Fn(&RData) -> Option<T>,
    ) -> Result<Vec<T>, Unreadable> {
        // With its last dot, so that the system's search list is not tried.
        let Ok(fqdn) = Name::from_ascii(format!("{name}.")) else {
            return Ok(Vec::new());
        };
        let unreadable = |why: String| Unreadable(format!("{kind} of {name}: {why}"));
        match timeout(self.patience, self.resolver.lookup(fqdn, kind)).await {
            Ok(Ok(found)) => {
                let data = found.answers().iter().map(|record| &record.data);
                Ok(data.filter_map(read).collect())
            }
            Ok(Err(error)) if nothing_there(&error) => Ok(Vec::new()),
            Ok(Err(error)) => Err(unreadable(error.to_string())),
            Err(_) => Err(unreadable("no answer in time".into())),
        }
    }
}

/// NXDOMAIN, or a name without such a record. Refusals and failures of a server say nothing of what is published.
fn nothing_there(error: &NetError) -> bool {
    error.is_no_records_found()
}

/// A server by UDP, and by TCP for what does not fit.
fn at(server: SocketAddr) -> NameServerConfig {
    let mut connections = vec![ConnectionConfig::udp(), ConnectionConfig::tcp()];
    for connection in &mut connections {
        connection.port = server.port();
    }
    NameServerConfig::new(server.ip(), true, connections)
}
