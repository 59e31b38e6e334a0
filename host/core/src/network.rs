//! Parses IP networks in the configuration, and maps client addresses to networks for rate limits.

use std::net::IpAddr;

use ipnet::{IpNet, Ipv4Net, Ipv6Net};

use crate::error::StartError;

/// Parses a network, such as `10.0.0.0/8`, or a single address. Ignores address bits after the
/// prefix. Returns `None` if the text is invalid.
#[must_use]
pub fn parse(text: &str) -> Option<IpNet> {
    let Some((address, prefix_length)) = text.split_once('/') else {
        return text.parse::<IpAddr>().ok().map(IpNet::from);
    };
    IpNet::new(address.parse().ok()?, prefix_length.parse().ok()?).ok()
}

/// Parses the networks and addresses in the setting `key`.
///
/// # Errors
/// Returns an error with the first invalid entry.
pub fn parse_all(key: &str, entries: &[String]) -> Result<Vec<IpNet>, StartError> {
    let parse = |entry: &String| {
        parse(entry.trim()).ok_or_else(|| {
            StartError::new(format!(
                "`{key}` contains `{entry}`, which is neither an IP address nor a network such as 192.0.2.0/24"
            ))
        })
    };
    entries.iter().map(parse).collect()
}

/// Returns the address that identifies a client in rate limits: the IPv4 address, or the first
/// address of the IPv6 /64 network. One client can use all addresses of an IPv6 /64 network.
#[must_use]
pub fn network(address: IpAddr) -> IpAddr {
    match address.to_canonical() {
        IpAddr::V6(v6) => Ipv6Net::new_assert(v6, 64).network().into(),
        v4 @ IpAddr::V4(_) => v4,
    }
}

/// Returns the address that identifies the network of one site: the first address of the IPv4 /24
/// network or of the IPv6 /48 network. One party often controls all networks of an IPv6 /48 (RFC
/// 6177). For a resource that all clients share, the part of one client is limited by network and
/// by site.
#[must_use]
pub fn site(address: IpAddr) -> IpAddr {
    match address.to_canonical() {
        IpAddr::V4(v4) => Ipv4Net::new_assert(v4, 24).network().into(),
        IpAddr::V6(v6) => Ipv6Net::new_assert(v6, 48).network().into(),
    }
}

/// Returns the address that identifies a provider or region in rate limits: the first address of
/// the IPv4 /16 network or of the IPv6 /32 network.
#[must_use]
pub fn region(address: IpAddr) -> IpAddr {
    match address.to_canonical() {
        IpAddr::V4(v4) => Ipv4Net::new_assert(v4, 16).network().into(),
        IpAddr::V6(v6) => Ipv6Net::new_assert(v6, 32).network().into(),
    }
}

/// Returns `true` if `host` is `localhost` or a loopback address. Does not resolve other names.
#[must_use]
pub fn is_local(host: &str) -> bool {
    let address = host.trim_start_matches('[').trim_end_matches(']');
    host.eq_ignore_ascii_case("localhost")
        || address
            .parse()
            .is_ok_and(|ip: IpAddr| ip.to_canonical().is_loopback())
}

/// Returns `true` if `address` (`host:port`) names this machine. Does not resolve names.
#[must_use]
pub fn is_on_this_machine(address: &str) -> bool {
    address
        .rsplit_once(':')
        .is_some_and(|(host, _)| is_local(host))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn networks_and_single_addresses_are_accepted() {
        for (text, inside, outside) in [
            ("10.0.0.0/8", "10.255.255.255", "11.0.0.0"),
            ("10.1.2.3/8", "10.0.0.0", "9.255.255.255"),
            ("0.0.0.0/0", "255.255.255.255", "::"),
            ("192.0.2.1", "192.0.2.1", "192.0.2.2"),
            ("192.0.2.1/32", "192.0.2.1", "192.0.2.0"),
            ("2001:db8::/032", "2001:db8:ffff::1", "2001:db9::"),
            ("::/0", "ffff::", "0.0.0.0"),
            ("2001:db8::1", "2001:db8::1", "2001:db8::2"),
            ("::ffff:10.0.0.0/104", "::ffff:10.1.1.1", "10.1.1.1"),
            ("10.0.0.0/+8", "10.0.0.1", "11.0.0.1"),
        ] {
            let network = parse(text).unwrap();
            let contains = |address: &str| network.contains(&address.parse::<IpAddr>().unwrap());
            assert!(contains(inside) && !contains(outside), "{text}");
        }
    }

    #[test]
    fn texts_that_are_neither_a_network_nor_an_address_are_rejected() {
        for text in [
            "",
            "/",
            "/8",
            "10.0.0.0/",
            "10.0.0.0/33",
            "10.0.0.0/-1",
            "10.0.0.0/8/8",
            "10.0.0.0/255.0.0.0",
            "10.0.0.0/ 8",
            " 10.0.0.0/8",
            "10.0.0/8",
            "010.0.0.0/8",
            "::/129",
            "::/300",
            "[::1]",
            "[::1]/128",
            "fe80::1%eth0",
            "mail.example.org",
        ] {
            assert_eq!(parse(text), None, "{text:?}");
        }
    }

    #[test]
    fn clients_are_grouped_by_network() {
        for (address, client, of_site, provider) in [
            ("192.0.2.1", "192.0.2.1", "192.0.2.0", "192.0.0.0"),
            ("::ffff:192.0.2.1", "192.0.2.1", "192.0.2.0", "192.0.0.0"),
            (
                "2001:db8:1:2:3:4:5:6",
                "2001:db8:1:2::",
                "2001:db8:1::",
                "2001:db8::",
            ),
        ] {
            let parsed = address.parse().unwrap();
            assert_eq!(network(parsed).to_string(), client, "{address}");
            assert_eq!(site(parsed).to_string(), of_site, "{address}");
            assert_eq!(region(parsed).to_string(), provider, "{address}");
        }
    }
}
