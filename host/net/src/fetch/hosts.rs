//! The operator's list of hosts that may be reached, and of non-public networks that these hosts may be in.

use std::net::SocketAddr;

use ipnet::IpNet;
use latchmail_core::network;

use super::address::{embedded_v4, is_public};
use super::target::{Host, Target};

/// A list of hosts and networks.
///
/// - `api.example.com` is https on port 443, `api.example.com:8443` is https on port 8443, `http://intranet.example.com` is plain HTTP.
/// - `*.example.com` is every name below `example.com`, but not `example.com`.
/// - `127.0.0.1:8080` or `[::1]:8080` is a host by its address.
/// - `10.0.0.0/8` is a network. It permits no host; it permits listed names to resolve to addresses in it.
#[derive(Clone, Debug, Default)]
pub struct Hosts {
    listed: Vec<Listed>,
    networks: Vec<IpNet>,
    /// Whether every host of the public internet is permitted over TLS.
    public: bool,
}

#[derive(Clone, Debug)]
struct Listed {
    target: Target,
    /// Whether the entry is for the names below the target's host.
    below: bool,
}

impl Hosts {
    /// Parses a list.
    ///
    /// # Errors
    /// Returns a sentence that continues "its `hosts`" if an entry is neither a host nor a network.
    pub fn parse(entries: &[String]) -> Result<Self, String> {
        let mut hosts = Self::default();
        for entry in entries {
            let read = entry.trim();
            if let Some(host) = Listed::parse(read) {
                hosts.listed.push(host);
            } else if let Some(network) = network::parse(read).filter(|_| read.contains('/')) {
                hosts.networks.push(network);
            } else {
                return Err(format!(
                    "hold `{entry}`, which is neither a host (`api.example.com`, `*.example.com:8443`, `http://127.0.0.1:8080`) \
                     nor a network (`10.0.0.0/8`)"
                ));
            }
        }
        Ok(hosts)
    }

    /// Also permits every host of the public internet over TLS, on any port. Addresses that are not public must still be listed.
    #[must_use]
    pub fn and_public(self) -> Self {
        Self {
            public: true,
            ..self
        }
    }

    /// Returns whether a server is on the list.
    pub(super) fn list(&self, target: &Target) -> bool {
        self.public && target.tls || self.listed.iter().any(|listed| listed.is(target))
    }

    /// Returns whether a server on the list may have this address.
    pub(super) fn open(&self, at: SocketAddr) -> bool {
        let address = embedded_v4(at.ip());
        let by_address = |listed: &Listed| {
            listed.target.host == Host::Address(address) && listed.target.port == at.port()
        };
        let in_network = |network: &IpNet| network.contains(&address) || network.contains(&at.ip());
        is_public(address)
            || self.listed.iter().any(by_address)
            || self.networks.iter().any(in_network)
    }
}

impl Listed {
    fn parse(entry: &str) -> Option<Self> {
        let (tls, rest) = if let Some(rest) = entry.strip_prefix("http://") {
            (false, rest)
        } else {
            (true, entry.strip_prefix("https://").unwrap_or(entry))
        };
        let (below, authority) = match rest.strip_prefix("*.") {
            Some(rest) => (true, rest),
            None => (false, rest),
        };
        let target = Target::parse(tls, authority)?;
        // An address has no names below it.
        (!below || matches!(target.host, Host::Name(_))).then_some(Self { target, below })
    }

    fn is(&self, target: &Target) -> bool {
        let listed = &self.target;
        let host = match (&listed.host, &target.host) {
            (Host::Name(parent), Host::Name(name)) if self.below => name
                .strip_suffix(parent.as_str())
                .is_some_and(|rest| rest.len() > 1 && rest.ends_with('.')),
            (listed, host) => listed == host,
        };
        host && listed.tls == target.tls && listed.port == target.port
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn hosts(entries: &[&str]) -> Hosts {
        let entries: Vec<String> = entries.iter().map(ToString::to_string).collect();
        Hosts::parse(&entries).unwrap()
    }

    fn lists(entries: &[&str], url: &str) -> bool {
        hosts(entries).list(&Target::of(&url.parse().unwrap()).unwrap())
    }

    #[test]
    fn a_host_is_listed_with_its_scheme_and_its_port() {
        let entries = [
            "API.example.com",
            " hooks.example.com:8443",
            "http://plain.example.com",
        ];
        for listed in [
            "https://api.example.com/",
            "https://api.example.com:443/",
            "https://hooks.example.com:8443/x",
            "http://plain.example.com/",
        ] {
            assert!(lists(&entries, listed), "{listed}");
        }
        for other in [
            "http://api.example.com/",
            "https://api.example.com:8443/",
            "http://api.example.com:443/",
            "https://example.com/",
            "https://x.api.example.com/",
            "https://api.example.com.evil.example/",
            "https://hooks.example.com/",
            "https://plain.example.com/",
            "https://10.0.0.1/",
        ] {
            assert!(!lists(&entries, other), "{other}");
        }
    }

    #[test]
    fn what_is_below_a_name_is_not_the_name_itself_nor_one_that_ends_like_it() {
        let entries = ["*.example.com"];
        assert!(lists(&entries, "https://a.example.com/"));
        assert!(lists(&entries, "https://a.b.example.com/"));
        for other in [
            "https://example.com/",
            "https://badexample.com/",
            "https://a.example.com.evil.example/",
            "http://a.example.com/",
        ] {
            assert!(!lists(&entries, other), "{other}");
        }
    }

    #[test]
    fn an_address_is_open_where_it_is_public_or_listed() {
        let open = |entries: &[&str], address: &str| hosts(entries).open(address.parse().unwrap());
        assert!(open(&[], "8.8.8.8:443"));
        assert!(!open(&["api.example.com"], "10.0.0.1:443"));
        assert!(!open(&["api.example.com"], "[::ffff:10.0.0.1]:443"));
        assert!(open(&["api.example.com", "10.0.0.0/8"], "10.9.9.9:443"));
        assert!(open(&["10.0.0.0/8"], "[::ffff:10.9.9.9]:443"));
        assert!(open(&["10.0.0.0/8"], "[64:ff9b::10.9.9.9]:443"));
        assert!(open(&["64:ff9b::/96"], "[64:ff9b::10.9.9.9]:443"));
        assert!(!open(&["10.0.0.0/8"], "192.168.0.1:443"));
        assert!(open(&["10.0.0.1/32"], "10.0.0.1:8080"));
        assert!(open(&["http://127.0.0.1:8080"], "127.0.0.1:8080"));
        assert!(!open(&["http://127.0.0.1:8080"], "127.0.0.1:8081"));
        assert!(!open(&["http://127.0.0.1:8080"], "127.0.0.2:8080"));
        assert!(open(&["[fd00::1]:8443"], "[fd00::1]:8443"));
        assert!(open(&["0.0.0.0/0"], "127.0.0.1:1"));
    }

    #[test]
    fn what_is_no_host_and_no_network_is_refused_by_name() {
        for entry in [
            "",
            "*",
            "*.",
            "*.10.0.0.1",
            "a.*.example.com",
            "api.*",
            "https://api.example.com/",
            "https://api.example.com/path",
            "ftp://api.example.com",
            "user@api.example.com",
            "api.example.com:",
            "api.example.com:0",
            "10.0.0.0/33",
            "10.0.0/8",
            "::1",
            "2130706433",
        ] {
            let refused = Hosts::parse(&[entry.to_owned()]).unwrap_err();
            assert!(refused.contains(&format!("`{entry}`")), "{refused}");
        }
    }
}
