//! DNS lookups for custom domains: published TXT records, and the state of the records that a domain needs.
//!
//! Queries a resolver and trusts its answers. Nothing is cached, and the resolver's own cache is off, so that a corrected record is found immediately.

mod dmarc;
mod name;
mod records;
mod spf;
mod tags;

use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use futures_util::future::select_ok;
use hickory_resolver::TokioResolver;
use hickory_resolver::config::{
    ConnectionConfig, NameServerConfig, ProtocolConfig, ResolverConfig, ResolverOpts,
};
use hickory_resolver::lookup::Lookup;
use hickory_resolver::net::runtime::TokioRuntimeProvider;
use hickory_resolver::net::{DnsError, NetError, NoRecords};
use hickory_resolver::proto::op::ResponseCode;
use hickory_resolver::proto::rr::{Name, RData, RecordType};
use hickory_resolver::system_conf::read_system_conf;
use latchmail_core::config;
use latchmail_core::error::StartError;
use tokio::sync::Semaphore;
use tokio::time::{sleep, timeout};

pub(crate) use name::host;
pub use name::{DomainName, NoDomain, fold};
pub use records::{Kind, Record, dkim_value};

/// The port of DNS servers.
const PORT: u16 = 53;

/// Maximum number of concurrent lookups of all accounts together.
const AT_ONCE: usize = 256;

/// The DNS could not be read: the server failed or did not respond in time. The message is for operators.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct Unreadable(String);

/// The DNS client.
pub struct Dns {
    /// Queries by UDP, and by TCP if the response is too large.
    by_udp: TokioResolver,
    /// Queries by TCP only.
    by_tcp: TokioResolver,
    /// How long a lookup waits for a response by UDP before it also queries by TCP.
    tcp_after: Duration,
    /// `true` if the last lookup received a response by TCP only. The next one then does not wait.
    udp_is_blocked: AtomicBool,
    room: Semaphore,
    /// Timeout of one lookup, including all its queries.
    patience: Duration,
    /// The name of the mail server, in lower case and ASCII.
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
    /// Creates the client from the configuration. `mail_host` is the public name of the mail server. Sends no query.
    ///
    /// # Errors
    /// Returns an error that names the setting that cannot be used.
    pub fn new(config: &config::Dns, mail_host: &str) -> Result<Self, StartError> {
        let mail_host = name::host(mail_host).map_err(|_| {
            StartError::new(format!(
                "`dns.mail_host` `{mail_host}` is not a valid host name"
            ))
        })?;
        let (servers, mut options) = servers(config)?;
        options.cache_size = 0;
        options.max_active_requests = AT_ONCE;
        Ok(Self {
            by_tcp: resolver(by_tcp(servers.clone()), options.clone())?,
            by_udp: resolver(servers, options)?,
            tcp_after: config.timeout / config.attempts.max(2),
            udp_is_blocked: AtomicBool::new(false),
            room: Semaphore::new(AT_ONCE),
            patience: config.timeout,
            mail_host,
        })
    }

    /// Returns the TXT records at a name. The strings of each record are joined and aliases (CNAME) are followed. Empty if there are none.
    ///
    /// # Errors
    /// Returns [`Unreadable`] if the DNS cannot be read.
    pub async fn txt(&self, name: &str) -> Result<Vec<String>, Unreadable> {
        let text = |data: &RData| match data {
            RData::TXT(txt) => Some(String::from_utf8_lossy(&txt.txt_data.concat()).into_owned()),
            _ => None,
        };
        self.look_up(name, RecordType::TXT, text).await
    }

    /// Returns the mail servers of a name, in lower case and without the trailing dot.
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

    /// Returns the addresses of a name, IPv4 first. If one address family cannot be read, returns those of the other.
    ///
    /// # Errors
    /// Returns [`Unreadable`] if the DNS cannot be read.
    pub async fn addresses(&self, name: &str) -> Result<Vec<IpAddr>, Unreadable> {
        let of = |kind| self.look_up(name, kind, RData::ip_addr);
        match tokio::join!(of(RecordType::A), of(RecordType::AAAA)) {
            (Ok(v4), Ok(v6)) => Ok(v4.into_iter().chain(v6).collect()),
            (Ok(found), Err(error)) | (Err(error), Ok(found)) if found.is_empty() => Err(error),
            (Ok(found), Err(_)) | (Err(_), Ok(found)) => Ok(found),
            (Err(error), Err(_)) => Err(error),
        }
    }

    /// Returns `true` if a name has an IPv4 or IPv6 address.
    async fn has_address(&self, name: &str) -> Result<bool, Unreadable> {
        let of = |kind| {
            self.look_up(name, kind, move |data| {
                (data.record_type() == kind).then_some(())
            })
        };
        let (v4, v6) = tokio::join!(of(RecordType::A), of(RecordType::AAAA));
        Ok(!v4?.is_empty() || !v6?.is_empty())
    }

    async fn look_up<T>(
        &self,
        name: &str,
        kind: RecordType,
        read: impl Fn(&RData) -> Option<T>,
    ) -> Result<Vec<T>, Unreadable> {
        // With a trailing dot, so that the system's search list is not used.
        let Ok(fqdn) = Name::from_ascii(format!("{name}.")) else {
            return Ok(Vec::new());
        };
        let unreadable = |why: &str| Unreadable(format!("{kind} of {name}: {why}"));
        let asking = async {
            let _room = self.room.acquire().await;
            self.ask(fqdn, kind).await
        };
        match timeout(self.patience, asking).await {
            Ok(Ok(Some(found))) => {
                let data = found.answers().iter().map(|record| &record.data);
                Ok(data.filter_map(read).collect())
            }
            Ok(Ok(None)) => Ok(Vec::new()),
            Ok(Err(why)) => Err(unreadable(&why)),
            Err(_) => Err(unreadable("no response in time")),
        }
    }

    /// Queries by UDP, and by TCP if no response arrives by UDP, because some networks block UDP.
    async fn lookup(&self, name: &Name, kind: RecordType) -> Result<Lookup, NetError> {
        let tcp_after = if self.udp_is_blocked.load(Ordering::Relaxed) {
            Duration::ZERO
        } else {
            self.tcp_after
        };
        let ask = async |resolver: &TokioResolver, after, tcp| {
            sleep(after).await;
            match resolver.lookup(name.clone(), kind).await {
                // The other protocol would return the same response.
                answer @ (Ok(_) | Err(NetError::Dns(_))) => Ok((answer, tcp)),
                Err(error) => Err(error),
            }
        };
        let by_udp = Box::pin(ask(&self.by_udp, Duration::ZERO, false));
        let by_tcp = Box::pin(ask(&self.by_tcp, tcp_after, true));
        let ((answer, tcp), _) = select_ok([by_udp, by_tcp]).await?;
        self.udp_is_blocked.store(tcp, Ordering::Relaxed);
        answer
    }

    /// Returns the answer, or `None` if the name or record does not exist.
    async fn ask(&self, name: Name, kind: RecordType) -> Result<Option<Lookup>, String> {
        let none = match self.lookup(&name, kind).await {
            Ok(found) => return Ok(Some(found)),
            Err(error) => negative(error)?,
        };
        // The resolver follows only a few aliases and reports no records if there are more. A real negative answer has an SOA record (RFC 2308, section 2) and
        // is for the requested name.
        let last = none.query.name().clone();
        if none.soa.is_some() && last == name {
            return Ok(None);
        }
        match self.lookup(&last, RecordType::CNAME).await {
            Ok(_) => Err("its aliases (CNAME) form a loop or a chain that is too long".into()),
            Err(error) => negative(error).map(|_| None),
        }
    }
}

/// Returns the negative answer if the name or the record does not exist. All other errors are failures: the server failed, rejected the query or is not a
/// resolver.
fn negative(error: NetError) -> Result<NoRecords, String> {
    let none = match error {
        NetError::Dns(DnsError::NoRecordsFound(none)) => none,
        error => return Err(error.to_string()),
    };
    if !matches!(
        none.response_code,
        ResponseCode::NoError | ResponseCode::NXDomain
    ) {
        return Err(format!("the server returned {}", none.response_code));
    }
    if none.ns.is_some() && none.soa.is_none() {
        return Err("the server returned a referral and is not a resolver".into());
    }
    Ok(none)
}

/// A resolver with a cache, for the checks of messages, which look up the same names often.
///
/// # Errors
/// Returns an error if the name servers are not valid or unknown.
pub fn caching_resolver(config: &config::Dns) -> Result<TokioResolver, StartError> {
    let (servers, mut options) = servers(config)?;
    options.try_tcp_on_error = true;
    resolver(servers, options)
}

/// The configured servers and timeouts.
fn servers(config: &config::Dns) -> Result<(ResolverConfig, ResolverOpts), StartError> {
    if config.timeout.is_zero() || config.attempts == 0 {
        return Err(StartError::new(
            "`dns.timeout` and `dns.attempts` must be more than 0",
        ));
    }
    let (servers, mut options) = if config.server.is_empty() {
        // Without a resolv.conf, the local machine is the server (resolv.conf(5)). The service must start without DNS, because mail does not need it.
        read_system_conf().unwrap_or_else(|error| {
            let local = SocketAddr::from((Ipv4Addr::LOCALHOST, PORT));
            tracing::warn!(%error, "no DNS server in the system configuration; using {local}");
            asking(local)
        })
    } else {
        asking(server(&config.server)?)
    };
    options.timeout = config.timeout / config.attempts;
    // `attempts` counts only the repetitions.
    options.attempts = usize::try_from(config.attempts - 1).unwrap_or(usize::MAX);
    Ok((servers, options))
}

/// Parses `address:port` or an address.
fn server(configured: &str) -> Result<SocketAddr, StartError> {
    let alone = || {
        let ip = configured.parse::<IpAddr>().ok()?;
        Some(SocketAddr::new(ip, PORT))
    };
    configured.parse().ok().or_else(alone).ok_or_else(|| {
        StartError::new(format!(
            "`dns.server` `{configured}` is not an IP address with an optional port"
        ))
    })
}

/// Returns the configuration for one server: UDP, and TCP if a response is too large.
fn asking(server: SocketAddr) -> (ResolverConfig, ResolverOpts) {
    let mut connections = vec![ConnectionConfig::udp(), ConnectionConfig::tcp()];
    for connection in &mut connections {
        connection.port = server.port();
    }
    let server = NameServerConfig::new(server.ip(), true, connections);
    let config = ResolverConfig::from_parts(None, Vec::new(), vec![server]);
    (config, ResolverOpts::default())
}

/// Returns the same servers with TCP only.
fn by_tcp(config: ResolverConfig) -> ResolverConfig {
    let (domain, search, mut servers) = config.into_parts();
    for server in &mut servers {
        let is_tcp = |one: &ConnectionConfig| matches!(one.protocol, ProtocolConfig::Tcp);
        server.connections.retain(is_tcp);
    }
    ResolverConfig::from_parts(domain, search, servers)
}

fn resolver(config: ResolverConfig, options: ResolverOpts) -> Result<TokioResolver, StartError> {
    TokioResolver::builder_with_config(config, TokioRuntimeProvider::default())
        .with_options(options)
        .build()
        .map_err(|error| StartError::new(format!("the DNS cannot be used: {error}")))
}
