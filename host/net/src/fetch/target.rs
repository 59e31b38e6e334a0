//! The server of a request: scheme, host and port. URLs and the operator's list of hosts are parsed
//! with the same rules.

use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use http::Uri;
use http::uri::Scheme;

use crate::dns;

/// A server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Target {
    /// `true` if the scheme is `https`.
    pub tls: bool,
    /// The host.
    pub host: Host,
    /// The port.
    pub port: u16,
}

/// A host by name or by address.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Host {
    /// A name in lower case and ASCII.
    Name(String),
    /// An address. IPv4-mapped IPv6 addresses are stored as IPv4 addresses.
    Address(IpAddr),
}

impl Target {
    /// Returns the server of an absolute `http` or `https` URL. Returns `None` for other URLs and
    /// for URLs with user information.
    pub fn of(uri: &Uri) -> Option<Self> {
        let tls = match uri.scheme()? {
            scheme if *scheme == Scheme::HTTPS => true,
            scheme if *scheme == Scheme::HTTP => false,
            _ => return None,
        };
        Self::parse(tls, uri.authority()?.as_str())
    }

    /// Parses `host` or `host:port`. An IPv6 address must be in brackets.
    pub(super) fn parse(tls: bool, authority: &str) -> Option<Self> {
        let (host, rest) = if let Some(rest) = authority.strip_prefix('[') {
            let (address, rest) = rest.split_once(']')?;
            let address: Ipv6Addr = address.parse().ok()?;
            (Host::Address(address.to_canonical()), rest)
        } else {
            let end = authority.find(':').unwrap_or(authority.len());
            let (host, rest) = authority.split_at(end);
            (Host::parse(host)?, rest)
        };
        let port = match rest.strip_prefix(':') {
            Some(digits) => parse_port(digits)?,
            None if rest.is_empty() => default_port(tls),
            None => return None,
        };
        Some(Self { tls, host, port })
    }

    /// Returns the value of the `Host` header: the host, and the port if the port is not the
    /// scheme's default.
    pub(super) fn authority(&self) -> String {
        if self.port == default_port(self.tls) {
            self.host.to_string()
        } else {
            format!("{}:{}", self.host, self.port)
        }
    }
}

impl Host {
    /// Parses a name or an IPv4 address.
    fn parse(host: &str) -> Option<Self> {
        if let Ok(address) = host.parse::<Ipv4Addr>() {
            return Some(Self::Address(address.into()));
        }
        dns::normalize_host(host).ok().map(Self::Name)
    }
}

impl fmt::Display for Host {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Name(name) => f.write_str(name),
            Self::Address(IpAddr::V4(address)) => write!(f, "{address}"),
            Self::Address(IpAddr::V6(address)) => write!(f, "[{address}]"),
        }
    }
}

impl fmt::Display for Target {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let scheme = if self.tls { "https" } else { "http" };
        write!(f, "{scheme}://{}", self.authority())
    }
}

const fn default_port(tls: bool) -> u16 {
    if tls { 443 } else { 80 }
}

fn parse_port(digits: &str) -> Option<u16> {
    let is_number = digits.bytes().all(|byte| byte.is_ascii_digit());
    digits.parse().ok().filter(|port| is_number && *port != 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parsed(url: &str) -> Option<String> {
        let target = Target::of(&url.parse().ok()?)?;
        Some(target.to_string())
    }

    #[test]
    fn notations_of_one_server_have_one_normal_form() {
        for (url, server) in [
            ("https://api.example.com/a?b", "https://api.example.com"),
            ("HTTPS://API.Example.COM:443/", "https://api.example.com"),
            ("https://api.example.com./", "https://api.example.com"),
            ("http://api.example.com:80", "http://api.example.com"),
            ("https://api.example.com:80", "https://api.example.com:80"),
            ("http://localhost:8080/", "http://localhost:8080"),
            ("https://10.0.0.1/", "https://10.0.0.1"),
            ("https://[2A00:0:0::1]:8443/", "https://[2a00::1]:8443"),
            ("https://[::ffff:127.0.0.1]/", "https://127.0.0.1"),
        ] {
            assert_eq!(parsed(url).as_deref(), Some(server), "{url}");
        }
    }

    #[test]
    fn ambiguous_and_invalid_urls_are_rejected() {
        for url in [
            "",
            "/path",
            "api.example.com",
            "ftp://api.example.com/",
            "file:///etc/passwd",
            "https://",
            "https:///path",
            "https://user@api.example.com/",
            "https://api.example.com@evil.example/",
            "https://api.example.com:443@evil.example/",
            "https://api.example.com:0/",
            "https://api.example.com:+443/",
            "https://api.example.com:65536/",
            "https://api.example.com:/",
            "https://api.example.com:1:2/",
            "https://127.1/",
            "https://2130706433/",
            "https://0x7f000001/",
            "https://0x7f.1/",
            "https://0177.0.0.1/",
            "https://127.0.0.1.:80/",
            "https://[::1/",
            "https://[::1]x/",
            "https://[fe80::1%25eth0]/",
            "https://bücher.example/",
            "https://a b.example/",
            "https://a\\b.example/",
            "https://evil.example\\@api.example.com/",
            "https://api.example.com#@evil.example/",
        ] {
            let server = parsed(url);
            // The last URL is valid: its host ends before the fragment.
            assert!(
                server.is_none() || server.as_deref() == Some("https://api.example.com"),
                "{url}: {server:?}"
            );
        }
    }
}
