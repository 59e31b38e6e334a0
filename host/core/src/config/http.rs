//! `[http]`: timeouts and limits of the HTTP server.

use std::net::SocketAddr;
use std::time::Duration;

use super::Config;
use super::values::{list, seconds, section};
use crate::error::StartError;
use crate::network;

section! {
    /// `[http]`: timeouts and limits of the server. Times are in seconds.
    pub struct Http {
        /// The maximum number of connections. Further connections wait to be accepted.
        pub max_connections: usize = 8192,
        /// The maximum number of connections of one client. A client is an IPv4 address or an IPv6
        /// /64 network. Further connections are closed immediately. This limit does not apply to
        /// trusted proxies.
        pub connections_per_client: usize = 256,
        /// The memory for all request bodies together, in MiB. The value must be at least the
        /// maximum body size of every route. If too little memory is free for a request, the
        /// request is rejected with 503 and `Retry-After`.
        pub body_memory: usize = 256,
        /// The timeout from the first byte of a request to the end of its headers.
        #[serde(deserialize_with = "seconds")]
        pub header_timeout: Duration = Duration::from_secs(10),
        /// The timeout between two parts of a request body. The timeout for the complete body is
        /// ten times as long.
        #[serde(deserialize_with = "seconds")]
        pub body_timeout: Duration = Duration::from_secs(10),
        /// The timeout of an idle connection after its first request. Before the first request,
        /// `header_timeout` applies.
        #[serde(deserialize_with = "seconds")]
        pub idle_timeout: Duration = Duration::from_mins(1),
        /// The maximum time that a shutdown waits for running requests.
        #[serde(deserialize_with = "seconds")]
        pub shutdown_grace: Duration = Duration::from_secs(30),
        /// The time at the start of a shutdown during which the service still accepts requests,
        /// while it reports that it is not ready. A load balancer can take the service out of use
        /// in this time.
        #[serde(deserialize_with = "seconds")]
        pub drain_delay: Duration,
        /// The addresses or networks (`10.0.0.0/8`) of the proxies whose `X-Forwarded-For` header
        /// is trusted.
        #[serde(deserialize_with = "list")]
        pub trusted_proxies: Vec<String>,
        /// Whether every connection of a trusted proxy starts with a header of the PROXY protocol,
        /// version 1 or 2.
        pub proxy_protocol: bool,
        /// The address of a listener without TLS that redirects all requests to `base_url`. If
        /// `None`, there is no such listener.
        pub redirect_listen: Option<SocketAddr>,
    }
}

impl Http {
    /// Checks that the trusted proxies are valid addresses, that a client can send the header of
    /// the PROXY protocol, and that redirects lead to a URL with TLS.
    pub(super) fn check(&self, config: &Config) -> Result<(), StartError> {
        network::parse_all("http.trusted_proxies", &self.trusted_proxies)?;
        let is_tcp = config.listen.tcp().is_some();
        if self.proxy_protocol && self.trusted_proxies.is_empty() && is_tcp {
            return Err(StartError::new(
                "`http.proxy_protocol` is true, but `http.trusted_proxies` is empty, so no client can send the header",
            ));
        }
        if self.redirect_listen.is_some() && !config.base_url().starts_with("https:") {
            return Err(StartError::new(format!(
                "`http.redirect_listen` redirects to `base_url`, so `base_url` must be an https URL, not {}",
                config.base_url()
            )));
        }
        Ok(())
    }
}
