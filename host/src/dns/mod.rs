//! The DNS, as far as custom domains need it: what is published at a name, and whether the records are there that a domain should have.
//!
//! Asks a resolver and believes it; knows no zone and keeps nothing: the resolver's own cache is off, so that whoever corrects a
//! record is not told of the old one.

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
use tokio::sync::Semaphore;
use tokio::time::{sleep, timeout};

pub(crate) use name::host;
pub use name::{DomainName, NoDomain, fold};
pub use records::{Kind, Record, dkim_value};

use crate::config;
use crate::error::StartError;

/// The port that DNS servers listen at.
const PORT: u16 = 53;

/// Look-ups at a time, of everybody together: zones that never answer hold up no more of the service than these.
const AT_ONCE: usize = 256;

/// The DNS cannot be read at this moment: no answer came in time, or the server failed. For an operator to read.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct Unreadable(String);

/// The way to the DNS.
pub struct Dns {
    /// Asks by UDP, and by TCP for what does not fit.
    by_udp: TokioResolver,
    /// Asks by TCP only.
    by_tcp: TokioResolver,
    /// How long a look-up waits for an answer by UDP before it asks by TCP as well.
    tcp_after: Duration,
    /// Whether the last look-up was answered by TCP only, so the next one does not wait.
    udp_is_blocked: AtomicBool,
    room: Semaphore,
    /// How long one look-up may take, with all its queries.
    patience: Duration,
    /// The name of the mail server, folded.
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
    /// A sentence that names the key that cannot be used.
    pub fn new(config: &config::Dns) -> Result<Self, StartError> {
        if config.timeout.is_zero() || config.attempts == 0 {
            return Err(StartError::new(
                "`dns.timeout` and `dns.attempts` must be more than 0",
            ));
        }
        let mail_host = name::host(&config.mail_host).map_err(|_| {
            StartError::new(format!(
                "`dns.mail_host` `{}` is not the name of a host",
                config.mail_host
            ))
        })?;
        let (servers, mut options) = if config.server.is_empty() {
            // A host without a resolv.conf asks itself (resolv.conf(5)). The mail flows without the DNS: it stops no start.
            read_system_conf().unwrap_or_else(|error| {
                let local = SocketAddr::from((Ipv4Addr::LOCALHOST, PORT));
                tracing::warn!(%error, "the system names no DNS server: {local} is asked");
                asking(local)
            })
        } else {
            asking(server(&config.server)?)
        };
        options.timeout = config.timeout / config.attempts;
        // Those after the first.
        options.attempts = usize::try_from(config.attempts - 1).unwrap_or(usize::MAX);
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

    /// The addresses of a name, those of IPv4 first. Where one family cannot be read, those of the other.
    ///
    /// # Errors
    /// [`Unreadable`].
    pub async fn addresses(&self, name: &str) -> Result<Vec<IpAddr>, Unreadable> {
        let of = |kind| self.look_up(name, kind, RData::ip_addr);
        match tokio::join!(of(RecordType::A), of(RecordType::AAAA)) {
            (Ok(v4), Ok(v6)) => Ok(v4.into_iter().chain(v6).collect()),
            (Ok(found), Err(error)) | (Err(error), Ok(found)) if found.is_empty() => Err(error),
            (Ok(found), Err(_)) | (Err(_), Ok(found)) => Ok(found),
            (Err(error), Err(_)) => Err(error),
        }
    }

    /// Whether a name has an address, of whichever family.
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
        // With its last dot, so that the system's search list is not tried.
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
            Err(_) => Err(unreadable("no answer in time")),
        }
    }

    /// What a server answered by UDP, or by TCP if nothing came by UDP: some networks let no UDP through.
    async fn lookup(&self, name: &Name, kind: RecordType) -> Result<Lookup, NetError> {
        let tcp_after = if self.udp_is_blocked.load(Ordering::Relaxed) {
            Duration::ZERO
        } else {
            self.tcp_after
        };
        let ask = async |resolver: &TokioResolver, after, tcp| {
            sleep(after).await;
            match resolver.lookup(name.clone(), kind).await {
                // Another way would lead to the same answer.
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

    /// What a server answered; none where it said that nothing is there, and why nothing is known where it did not.
    async fn ask(&self, name: Name, kind: RecordType) -> Result<Option<Lookup>, String> {
        let none = match self.lookup(&name, kind).await {
            Ok(found) => return Ok(Some(found)),
            Err(error) => negative(error)?,
        };
        // The resolver follows a few aliases only, and says that nothing is there when there are more. An answer that is negative
        // itself says whose it is (RFC 2308, section 2), and of the very name that was asked for.
        let last = none.query.name().clone();
        if none.soa.is_some() && last == name {
            return Ok(None);
        }
        match self.lookup(&last, RecordType::CNAME).await {
            Ok(_) => Err("its aliases (CNAME) go in a circle, or on for too long".into()),
            Err(error) => negative(error).map(|_| None),
        }
    }
}

/// The answer that nothing is there: no such name, or no such record at it. A server that fails, refuses, or refers to others says
/// nothing of what is published.
fn negative(error: NetError) -> Result<NoRecords, String> {
    let none = match error {
        NetError::Dns(DnsError::NoRecordsFound(none)) => none,
        error => return Err(error.to_string()),
    };
    if !matches!(
        none.response_code,
        ResponseCode::NoError | ResponseCode::NXDomain
    ) {
        return Err(format!("the server answered {}", none.response_code));
    }
    if none.ns.is_some() && none.soa.is_none() {
        return Err("the server refers to others: it is no resolver".into());
    }
    Ok(none)
}

/// `address:port`, or an address alone.
fn server(configured: &str) -> Result<SocketAddr, StartError> {
    let alone = || {
        let ip = configured.parse::<IpAddr>().ok()?;
        Some(SocketAddr::new(ip, PORT))
    };
    configured.parse().ok().or_else(alone).ok_or_else(|| {
        StartError::new(format!(
            "`dns.server` `{configured}` is not an IP address with a port"
        ))
    })
}

/// The configuration that asks one server by UDP, and by TCP for what does not fit.
fn asking(server: SocketAddr) -> (ResolverConfig, ResolverOpts) {
    let mut connections = vec![ConnectionConfig::udp(), ConnectionConfig::tcp()];
    for connection in &mut connections {
        connection.port = server.port();
    }
    let server = NameServerConfig::new(server.ip(), true, connections);
    let config = ResolverConfig::from_parts(None, Vec::new(), vec![server]);
    (config, ResolverOpts::default())
}

/// The same servers by TCP only.
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
