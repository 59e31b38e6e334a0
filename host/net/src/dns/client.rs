//! The DNS client. Sends each query by UDP. Repeats the query by TCP if no response arrives by UDP.

use std::net::IpAddr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use futures_util::future::select_ok;
use hickory_resolver::TokioResolver;
use hickory_resolver::lookup::Lookup;
use hickory_resolver::net::{DnsError, NetError, NoRecords};
use hickory_resolver::proto::op::ResponseCode;
use hickory_resolver::proto::rr::{Name, RData, RecordType};
use latchmail_core::config;
use latchmail_core::error::StartError;
use tokio::sync::Semaphore;
use tokio::time::{sleep, timeout};

use super::name::normalize_host;
use super::resolver;

/// Maximum number of concurrent lookups, for all accounts together.
const MAX_CONCURRENT: usize = 256;

/// The error of a lookup if the server failed or did not respond before the timeout. The text of
/// the error is for operators.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct LookupError(pub(super) String);

/// The DNS client.
pub struct Dns {
    /// The resolver that uses UDP. For responses that are too large for UDP, the resolver uses TCP.
    by_udp: TokioResolver,
    /// The resolver that uses only TCP.
    by_tcp: TokioResolver,
    /// The time that a lookup waits for a response by UDP. After this time, the lookup also queries
    /// by TCP.
    tcp_delay: Duration,
    /// `true` if the last lookup received its response by TCP. In this case, the next lookup
    /// queries by TCP without delay.
    is_udp_blocked: AtomicBool,
    permits: Semaphore,
    /// Timeout of one lookup, including all queries of the lookup.
    pub(super) timeout: Duration,
    /// The name of the mail server, in lower case and ASCII.
    pub(super) mail_host: String,
}

impl std::fmt::Debug for Dns {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Dns")
            .field("mail_host", &self.mail_host)
            .finish_non_exhaustive()
    }
}

impl Dns {
    /// Creates the client from the configuration. `mail_host` is the public name of the mail
    /// server. Sends no query.
    ///
    /// # Errors
    /// Returns an error if a setting cannot be used. The error names the setting.
    pub fn new(config: &config::Dns, mail_host: &str) -> Result<Self, StartError> {
        let mail_host = normalize_host(mail_host).map_err(|_| {
            StartError::new(format!(
                "`dns.mail_host` is `{mail_host}`, which is not a valid host name"
            ))
        })?;
        let (servers, mut options) = resolver::servers(config)?;
        options.cache_size = 0;
        options.max_active_requests = MAX_CONCURRENT;
        Ok(Self {
            by_tcp: resolver::build(resolver::with_tcp_only(servers.clone()), options.clone())?,
            by_udp: resolver::build(servers, options)?,
            tcp_delay: config.timeout / config.attempts.max(2),
            is_udp_blocked: AtomicBool::new(false),
            permits: Semaphore::new(MAX_CONCURRENT),
            timeout: config.timeout,
            mail_host,
        })
    }

    /// Returns the TXT records at a name. Joins the strings of each record, and follows aliases
    /// (CNAME). Returns an empty list if there are no TXT records.
    ///
    /// # Errors
    /// Returns [`LookupError`] if the lookup fails.
    pub async fn txt(&self, name: &str) -> Result<Vec<String>, LookupError> {
        let text = |data: &RData| match data {
            RData::TXT(txt) => Some(String::from_utf8_lossy(&txt.txt_data.concat()).into_owned()),
            _ => None,
        };
        self.query(name, RecordType::TXT, text).await
    }

    /// Returns the mail servers of a name, in lower case and without the trailing dot.
    pub(super) async fn mx(&self, name: &str) -> Result<Vec<String>, LookupError> {
        let exchange = |data: &RData| match data {
            RData::MX(mx) => {
                let host = mx.exchange.to_ascii().to_ascii_lowercase();
                Some(host.trim_end_matches('.').to_owned())
            }
            _ => None,
        };
        self.query(name, RecordType::MX, exchange).await
    }

    /// Returns the addresses of a name, IPv4 first. If the lookup of one address family fails,
    /// returns the addresses of the other family.
    ///
    /// # Errors
    /// Returns [`LookupError`] if the lookup fails.
    pub async fn addresses(&self, name: &str) -> Result<Vec<IpAddr>, LookupError> {
        let query = |kind| self.query(name, kind, RData::ip_addr);
        match tokio::join!(query(RecordType::A), query(RecordType::AAAA)) {
            (Ok(v4), Ok(v6)) => Ok(v4.into_iter().chain(v6).collect()),
            (Ok(found), Err(error)) | (Err(error), Ok(found)) if found.is_empty() => Err(error),
            (Ok(found), Err(_)) | (Err(_), Ok(found)) => Ok(found),
            (Err(error), Err(_)) => Err(error),
        }
    }

    /// Returns `true` if a name has an IPv4 or IPv6 address.
    pub(super) async fn has_address(&self, name: &str) -> Result<bool, LookupError> {
        let query = |kind| {
            self.query(name, kind, move |data| {
                (data.record_type() == kind).then_some(())
            })
        };
        let (v4, v6) = tokio::join!(query(RecordType::A), query(RecordType::AAAA));
        Ok(!v4?.is_empty() || !v6?.is_empty())
    }

    async fn query<T>(
        &self,
        name: &str,
        kind: RecordType,
        read: impl Fn(&RData) -> Option<T>,
    ) -> Result<Vec<T>, LookupError> {
        // The trailing dot prevents the use of the system's search list.
        let Ok(fqdn) = Name::from_ascii(format!("{name}.")) else {
            return Ok(Vec::new());
        };
        let failed = |reason: &str| LookupError(format!("{kind} of {name}: {reason}"));
        let resolving = async {
            let _permit = self.permits.acquire().await;
            self.resolve(fqdn, kind).await
        };
        match timeout(self.timeout, resolving).await {
            Ok(Ok(Some(found))) => {
                let data = found.answers().iter().map(|record| &record.data);
                Ok(data.filter_map(read).collect())
            }
            Ok(Ok(None)) => Ok(Vec::new()),
            Ok(Err(reason)) => Err(failed(&reason)),
            Err(_) => Err(failed("no response in time")),
        }
    }

    /// Sends a query by UDP, and by TCP if no response arrives by UDP. Some networks block UDP.
    async fn send(&self, name: &Name, kind: RecordType) -> Result<Lookup, NetError> {
        let tcp_delay = if self.is_udp_blocked.load(Ordering::Relaxed) {
            Duration::ZERO
        } else {
            self.tcp_delay
        };
        let send = async |resolver: &TokioResolver, delay, is_tcp| {
            sleep(delay).await;
            match resolver.lookup(name.clone(), kind).await {
                // The DNS server responded. The other protocol would return the same response.
                response @ (Ok(_) | Err(NetError::Dns(_))) => Ok((response, is_tcp)),
                Err(error) => Err(error),
            }
        };
        let by_udp = Box::pin(send(&self.by_udp, Duration::ZERO, false));
        let by_tcp = Box::pin(send(&self.by_tcp, tcp_delay, true));
        let ((response, is_tcp), _) = select_ok([by_udp, by_tcp]).await?;
        self.is_udp_blocked.store(is_tcp, Ordering::Relaxed);
        response
    }

    /// Looks up the records of a name. Returns the response, or `None` if the name or the record
    /// does not exist.
    async fn resolve(&self, name: Name, kind: RecordType) -> Result<Option<Lookup>, String> {
        let negative = match self.send(&name, kind).await {
            Ok(found) => return Ok(Some(found)),
            Err(error) => negative_response(error)?,
        };
        // The resolver follows only a few aliases. With more aliases, the resolver reports a
        // missing record. Unlike this report, a real negative response has an SOA record (RFC 2308,
        // section 2) and contains the requested name.
        let last = negative.query.name().clone();
        if negative.soa.is_some() && last == name {
            return Ok(None);
        }
        match self.send(&last, RecordType::CNAME).await {
            Ok(_) => Err("its aliases (CNAME) form a loop or a chain that is too long".into()),
            Err(error) => negative_response(error).map(|_| None),
        }
    }
}

/// Returns the negative response if the name or the record does not exist. Otherwise returns the
/// reason of the failure: the server failed, rejected the query or is not a resolver.
fn negative_response(error: NetError) -> Result<NoRecords, String> {
    let negative = match error {
        NetError::Dns(DnsError::NoRecordsFound(negative)) => negative,
        error => return Err(error.to_string()),
    };
    if !matches!(
        negative.response_code,
        ResponseCode::NoError | ResponseCode::NXDomain
    ) {
        return Err(format!("the server returned {}", negative.response_code));
    }
    if negative.ns.is_some() && negative.soa.is_none() {
        return Err("the server returned a referral and is not a resolver".into());
    }
    Ok(negative)
}
