//! The operator's list of allowed hosts. The list also contains non-public networks that allowed
//! hosts can use.

use std::net::SocketAddr;

use ipnet::{IpNet, Ipv4Net, Ipv6Net};
use latchmail_core::network;

use super::address::{embedded_v4, is_public};
use super::target::{Host, Target};

/// A list of hosts and networks. Each entry has one of these forms:
///
/// - `api.example.com` allows https on port 443. `api.example.com:8443` allows https on port 8443.
///   `http://intranet.example.com` allows plain HTTP.
/// - `*.example.com` allows every name below `example.com`, but not `example.com`.
/// - `127.0.0.1:8080` or `[::1]:8080` allows a host by its address.
/// - `10.0.0.0/8` is a network. The allowed hosts can have addresses in this network. The entry
///   allows no further host.
#[derive(Clone, Debug, Default)]
pub struct Hosts {
    listed: Vec<Listed>,
    networks: Vec<IpNet>,
    /// `true` if every host of the public internet is allowed over TLS.
    allows_public: bool,
}

#[derive(Clone, Debug)]
struct Listed {
    target: Target,
    /// `true` if the entry allows the names below the target's host.
    is_wildcard: bool,
}

impl Hosts {
    /// Parses a list.
    ///
    /// # Errors
    /// Returns an error text if an entry is neither a host nor a network. The caller writes the
    /// words "its `hosts`" before this text.
    pub fn parse(entries: &[String]) -> Result<Self, String> {
        let mut hosts = Self::default();
        for entry in entries {
            let trimmed = entry.trim();
            if let Some(host) = Listed::parse(trimmed) {
                hosts.listed.push(host);
            } else if let Some(network) = network::parse(trimmed).filter(|_| trimmed.contains('/'))
            {
                hosts.networks.push(network);
            } else {
                return Err(format!(
                    "contain `{entry}`, which is neither a host (`api.example.com`, `*.example.com:8443`, `http://127.0.0.1:8080`) \
                     nor a network (`10.0.0.0/8`)"
                ));
            }
        }
        Ok(hosts)
    }

    /// Returns a list with one host, which may have any address.
    #[must_use]
    pub fn only(target: Target) -> Self {
        Self {
            listed: vec![Listed {
                target,
                is_wildcard: false,
            }],
            networks: vec![Ipv4Net::default().into(), Ipv6Net::default().into()],
            allows_public: false,
        }
    }

    /// Allows every host of the public internet over TLS, on any port, in addition to the listed
    /// hosts. Addresses that are not public must be listed.
    #[must_use]
    pub fn with_public_hosts(self) -> Self {
        Self {
            allows_public: true,
            ..self
        }
    }

    /// Returns `true` if requests to a server are allowed.
    #[must_use]
    pub fn allows(&self, target: &Target) -> bool {
        self.allows_public && target.tls || self.listed.iter().any(|listed| listed.matches(target))
    }

    /// Returns `true` if an allowed server may have the address `at`.
    #[must_use]
    pub fn allows_address(&self, at: SocketAddr) -> bool {
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
        let (is_wildcard, authority) = match rest.strip_prefix("*.") {
            Some(rest) => (true, rest),
            None => (false, rest),
        };
        let target = Target::parse(tls, authority)?;
        // A wildcard entry must contain a name, because there are no names below an address.
        (!is_wildcard || matches!(target.host, Host::Name(_))).then_some(Self {
            target,
            is_wildcard,
        })
    }

    fn matches(&self, target: &Target) -> bool {
        let listed = &self.target;
        let host = match (&listed.host, &target.host) {
            (Host::Name(parent), Host::Name(name)) if self.is_wildcard => name
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

    fn allowed(entries: &[&str], url: &str) -> bool {
        hosts(entries).allows(&Target::of(&url.parse().unwrap()).unwrap())
    }

    #[test]
    fn an_entry_allows_one_scheme_and_one_port() {
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
            assert!(allowed(&entries, listed), "{listed}");
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
            assert!(!allowed(&entries, other), "{other}");
        }
    }

    #[test]
    fn a_wildcard_allows_only_the_names_below_its_name() {
        let entries = ["*.example.com"];
        assert!(allowed(&entries, "https://a.example.com/"));
        assert!(allowed(&entries, "https://a.b.example.com/"));
        for other in [
            "https://example.com/",
            "https://badexample.com/",
            "https://a.example.com.evil.example/",
            "http://a.example.com/",
        ] {
            assert!(!allowed(&entries, other), "{other}");
        }
    }

    #[test]
    fn an_address_is_allowed_if_it_is_public_or_listed() {
        let allowed = |entries: &[&str], address: &str| {
            hosts(entries).allows_address(address.parse().unwrap())
        };
        assert!(allowed(&[], "8.8.8.8:443"));
        assert!(!allowed(&["api.example.com"], "10.0.0.1:443"));
        assert!(!allowed(&["api.example.com"], "[::ffff:10.0.0.1]:443"));
        assert!(allowed(&["api.example.com", "10.0.0.0/8"], "10.9.9.9:443"));
        assert!(allowed(&["10.0.0.0/8"], "[::ffff:10.9.9.9]:443"));
        assert!(allowed(&["10.0.0.0/8"], "[64:ff9b::10.9.9.9]:443"));
        assert!(allowed(&["64:ff9b::/96"], "[64:ff9b::10.9.9.9]:443"));
        assert!(!allowed(&["10.0.0.0/8"], "192.168.0.1:443"));
        assert!(allowed(&["10.0.0.1/32"], "10.0.0.1:8080"));
        assert!(allowed(&["http://127.0.0.1:8080"], "127.0.0.1:8080"));
        assert!(!allowed(&["http://127.0.0.1:8080"], "127.0.0.1:8081"));
        assert!(!allowed(&["http://127.0.0.1:8080"], "127.0.0.2:8080"));
        assert!(allowed(&["[fd00::1]:8443"], "[fd00::1]:8443"));
        assert!(allowed(&["0.0.0.0/0"], "127.0.0.1:1"));
    }

    #[test]
    fn a_single_host_may_have_any_address() {
        let target = |url: &str| Target::of(&url.parse().unwrap()).unwrap();
        let hosts = Hosts::only(target("http://collector.internal:4318/v1/traces"));
        assert!(hosts.allows(&target("http://collector.internal:4318/")));
        assert!(!hosts.allows(&target("https://collector.internal:4318/")));
        assert!(!hosts.allows(&target("http://api.example.com/")));
        for address in ["10.0.0.1:4318", "127.0.0.1:4318", "[fd00::1]:4318"] {
            assert!(hosts.allows_address(address.parse().unwrap()), "{address}");
        }
    }

    #[test]
    fn an_error_names_the_entry_that_is_neither_a_host_nor_a_network() {
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
