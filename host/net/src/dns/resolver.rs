//! Builds DNS resolvers from the configuration, or from the system's configuration if `dns.server`
//! is empty.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};

use hickory_resolver::TokioResolver;
use hickory_resolver::config::{
    ConnectionConfig, NameServerConfig, ProtocolConfig, ResolverConfig, ResolverOpts,
};
use hickory_resolver::net::runtime::TokioRuntimeProvider;
use hickory_resolver::system_conf::read_system_conf;
use latchmail_core::config;
use latchmail_core::error::StartError;

/// The port of DNS servers.
const PORT: u16 = 53;

/// Builds a resolver with a cache. The verification of messages uses this resolver, because the
/// same names are often looked up.
///
/// # Errors
/// Returns an error if a setting in `[dns]` is not valid.
pub fn caching_resolver(config: &config::Dns) -> Result<TokioResolver, StartError> {
    let (servers, mut options) = servers(config)?;
    options.try_tcp_on_error = true;
    build(servers, options)
}

/// Returns the configured servers and timeouts.
///
/// # Errors
/// Returns an error if a setting is not valid. The error names the setting.
pub(super) fn servers(config: &config::Dns) -> Result<(ResolverConfig, ResolverOpts), StartError> {
    if config.timeout.is_zero() || config.attempts == 0 {
        return Err(StartError::new(
            "`dns.timeout` and `dns.attempts` must be greater than 0",
        ));
    }
    let (servers, mut options) = if config.server.is_empty() {
        // Without resolv.conf, the DNS server is the local machine (resolv.conf(5)). A missing file
        // is not an error, because mail does not require DNS.
        read_system_conf().unwrap_or_else(|error| {
            let local = SocketAddr::from((Ipv4Addr::LOCALHOST, PORT));
            tracing::warn!(%error, "no DNS server in the system configuration; using {local}");
            single_server(local)
        })
    } else {
        single_server(parse_server(&config.server)?)
    };
    options.timeout = config.timeout / config.attempts;
    // `dns.attempts` includes the first attempt. The resolver's option does not include the first
    // attempt.
    options.attempts = usize::try_from(config.attempts - 1).unwrap_or(usize::MAX);
    Ok((servers, options))
}

/// Parses an IP address with an optional port.
fn parse_server(configured: &str) -> Result<SocketAddr, StartError> {
    let without_port = || {
        let ip = configured.parse::<IpAddr>().ok()?;
        Some(SocketAddr::new(ip, PORT))
    };
    configured
        .parse()
        .ok()
        .or_else(without_port)
        .ok_or_else(|| {
            StartError::new(format!(
                "`dns.server` is `{configured}`, which is not an IP address with an optional port"
            ))
        })
}

/// Returns the configuration for one server. Queries use UDP, or TCP if the response is too large
/// for UDP.
fn single_server(server: SocketAddr) -> (ResolverConfig, ResolverOpts) {
    let mut connections = vec![ConnectionConfig::udp(), ConnectionConfig::tcp()];
    for connection in &mut connections {
        connection.port = server.port();
    }
    let server = NameServerConfig::new(server.ip(), true, connections);
    let config = ResolverConfig::from_parts(None, Vec::new(), vec![server]);
    (config, ResolverOpts::default())
}

/// Returns `config` with only the TCP connections.
pub(super) fn with_tcp_only(config: ResolverConfig) -> ResolverConfig {
    let (domain, search, mut servers) = config.into_parts();
    for server in &mut servers {
        let is_tcp = |one: &ConnectionConfig| matches!(one.protocol, ProtocolConfig::Tcp);
        server.connections.retain(is_tcp);
    }
    ResolverConfig::from_parts(domain, search, servers)
}

/// Builds a resolver. Sends no query.
pub(super) fn build(
    config: ResolverConfig,
    options: ResolverOpts,
) -> Result<TokioResolver, StartError> {
    TokioResolver::builder_with_config(config, TokioRuntimeProvider::default())
        .with_options(options)
        .build()
        .map_err(|error| StartError::new(format!("cannot set up the DNS client: {error}")))
}
