//! Finds the client's IP address.
//!
//! Any client can send the header `X-Forwarded-For`. So the server uses this header only if the
//! connection comes from a trusted proxy.

use std::net::{IpAddr, Ipv4Addr};

use arc_swap::ArcSwap;
use http::{HeaderMap, HeaderName};
use ipnet::IpNet;
use latchmail_core::error::StartError;
use latchmail_core::network;

const FORWARDED_FOR: HeaderName = HeaderName::from_static("x-forwarded-for");

/// The other end of a connection.
#[derive(Clone, Copy, Debug)]
pub struct Peer {
    /// The IP address. A local process has the address 127.0.0.1.
    pub address: IpAddr,
    /// Whether the peer is a local process on a Unix socket. Such a peer is a trusted proxy,
    /// because the permissions of the socket file determine which processes can connect.
    is_local_process: bool,
}

impl Peer {
    /// Returns the peer of a connection on a Unix socket.
    pub(crate) fn local_process() -> Self {
        Self {
            address: Ipv4Addr::LOCALHOST.into(),
            is_local_process: true,
        }
    }
}

impl From<IpAddr> for Peer {
    fn from(address: IpAddr) -> Self {
        Self {
            address: address.to_canonical(),
            is_local_process: false,
        }
    }
}

/// The proxies of `http.trusted_proxies`.
#[derive(Debug, Default)]
pub struct TrustedProxies(ArcSwap<Vec<IpNet>>);

impl TrustedProxies {
    /// Parses the entries of `http.trusted_proxies`. An entry is an IP address or a network such as
    /// `10.0.0.0/8`.
    ///
    /// # Errors
    /// Returns an error if an entry is invalid. The error contains the entry.
    pub fn parse(entries: &[String]) -> Result<Self, StartError> {
        let networks = network::parse_all("http.trusted_proxies", entries)?;
        Ok(Self(ArcSwap::from_pointee(networks)))
    }

    /// Replaces the proxies.
    pub fn replace(&self, with: Self) {
        self.0.store(with.0.into_inner());
    }

    /// Returns `true` if `peer` is a trusted proxy.
    #[must_use]
    pub fn trusts(&self, peer: Peer) -> bool {
        peer.is_local_process || self.contains(peer.address)
    }

    /// Returns `true` if `address` is the address of a trusted proxy.
    #[must_use]
    pub fn contains(&self, address: IpAddr) -> bool {
        let networks = self.0.load();
        networks.iter().any(|network| network.contains(&address))
    }

    /// Returns the client's IP address. If `peer` is not a trusted proxy, returns the address of
    /// `peer`. Otherwise, returns the last address in `X-Forwarded-For` that does not belong to a
    /// trusted proxy. Earlier entries and invalid entries are not trusted, because the client can
    /// forge such entries.
    #[must_use]
    pub fn client(&self, peer: Peer, headers: &HeaderMap) -> IpAddr {
        let mut client = peer.address;
        if !self.trusts(peer) {
            return client;
        }
        let values: Vec<&str> = headers
            .get_all(FORWARDED_FOR)
            .iter()
            .map(|value| value.to_str().unwrap_or_default())
            .collect();
        for entry in values.iter().rev().flat_map(|value| value.rsplit(',')) {
            let Some(address) = parse_forwarded(entry.trim()) else {
                break;
            };
            client = address;
            if !self.contains(client) {
                break;
            }
        }
        client
    }
}

/// Parses an IP address that a proxy wrote. The address can have a port, and an IPv6 address can
/// have brackets.
fn parse_forwarded(entry: &str) -> Option<IpAddr> {
    let address = entry
        .parse()
        .ok()
        .or_else(|| {
            entry
                .parse()
                .ok()
                .map(|socket: std::net::SocketAddr| socket.ip())
        })
        .or_else(|| entry.strip_prefix('[')?.strip_suffix(']')?.parse().ok())?;
    Some(IpAddr::to_canonical(&address))
}

#[cfg(test)]
mod tests {
    use http::HeaderValue;

    use super::*;

    fn client(peer: &str, forwarded_for: &[&str]) -> String {
        let proxies = TrustedProxies::parse(&["10.0.0.0/8".into(), "2001:db8::1".into()]).unwrap();
        let mut headers = HeaderMap::new();
        for value in forwarded_for {
            headers.append(FORWARDED_FOR, HeaderValue::from_str(value).unwrap());
        }
        let peer = match peer {
            "local" => Peer::local_process(),
            address => address.parse::<IpAddr>().unwrap().into(),
        };
        proxies.client(peer, &headers).to_string()
    }

    #[test]
    fn a_local_process_is_a_trusted_proxy() {
        assert_eq!(client("local", &["198.51.100.7"]), "198.51.100.7");
        assert_eq!(client("local", &["198.51.100.7, 10.2.2.2"]), "198.51.100.7");
        assert_eq!(client("local", &[]), "127.0.0.1");
    }

    #[test]
    fn headers_from_an_untrusted_peer_are_ignored() {
        assert_eq!(client("192.0.2.1", &["198.51.100.7"]), "192.0.2.1");
        assert_eq!(client("::ffff:192.0.2.1", &["198.51.100.7"]), "192.0.2.1");
    }

    #[test]
    fn the_client_is_the_last_address_that_is_not_a_trusted_proxy() {
        assert_eq!(client("10.1.2.3", &["198.51.100.7"]), "198.51.100.7");
        assert_eq!(
            client("10.1.2.3", &["1.1.1.1, 198.51.100.7", "10.9.9.9"]),
            "198.51.100.7"
        );
        assert_eq!(
            client("2001:db8::1", &["[2001:db8:9::2]:443"]),
            "2001:db8:9::2"
        );
        assert_eq!(client("10.1.2.3", &["198.51.100.7:4711"]), "198.51.100.7");
    }

    #[test]
    fn an_invalid_entry_and_the_entries_before_it_are_ignored() {
        assert_eq!(
            client("10.1.2.3", &["198.51.100.7, unknown, 10.2.2.2"]),
            "10.2.2.2"
        );
        assert_eq!(client("10.1.2.3", &[""]), "10.1.2.3");
        assert_eq!(client("10.1.2.3", &[]), "10.1.2.3");
    }

    #[test]
    fn an_invalid_network_is_rejected_with_its_text() {
        for entry in ["10.0.0.0/33", "proxy.example", "::/129", ""] {
            let error = TrustedProxies::parse(&[entry.into()])
                .unwrap_err()
                .to_string();
            assert!(error.contains(&format!("`{entry}`")), "{error}");
        }
        assert!(
            TrustedProxies::parse(&["0.0.0.0/0".into()])
                .unwrap()
                .contains([9, 9, 9, 9].into())
        );
    }
}
