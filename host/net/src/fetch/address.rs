//! Distinguishes public addresses from private, special-purpose and unassigned addresses.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use ipnet::{Ipv4Net, Ipv6Net};

/// The IPv4 networks that are not public: special-purpose networks (IANA registry of
/// special-purpose addresses), multicast addresses and reserved addresses.
const SPECIAL_V4: [Ipv4Net; 15] = [
    v4([0, 0, 0, 0], 8),       // this network
    v4([10, 0, 0, 0], 8),      // private
    v4([100, 64, 0, 0], 10),   // shared address space of carriers (CGNAT)
    v4([127, 0, 0, 0], 8),     // loopback
    v4([169, 254, 0, 0], 16),  // link-local, with the metadata services of clouds
    v4([172, 16, 0, 0], 12),   // private
    v4([192, 0, 0, 0], 24),    // protocol assignments
    v4([192, 0, 2, 0], 24),    // documentation
    v4([192, 88, 99, 0], 24),  // relays of 6to4
    v4([192, 168, 0, 0], 16),  // private
    v4([198, 18, 0, 0], 15),   // benchmarks
    v4([198, 51, 100, 0], 24), // documentation
    v4([203, 0, 113, 0], 24),  // documentation
    v4([224, 0, 0, 0], 4),     // multicast
    v4([240, 0, 0, 0], 4),     // reserved, broadcast
];

/// The networks within [`GLOBAL_V6`] that are not public, because they have a special purpose.
const SPECIAL_V6: [Ipv6Net; 4] = [
    v6(0x2001, 0, 23),     // protocol assignments, including Teredo
    v6(0x2001, 0xdb8, 32), // documentation
    v6(0x2002, 0, 16),     // 6to4: can contain any IPv4 address
    v6(0x3fff, 0, 20),     // documentation
];

/// The assigned global unicast addresses of IPv6. Other addresses are loopback, private,
/// link-local, multicast, translations or unassigned.
const GLOBAL_V6: Ipv6Net = v6(0x2000, 0, 3);

/// The well-known prefix of NAT64 addresses (RFC 6052). IPv6-only networks use these addresses for
/// connections to IPv4 addresses.
const NAT64: Ipv6Net = v6(0x64, 0xff9b, 96);

const fn v4([a, b, c, d]: [u8; 4], prefix_length: u8) -> Ipv4Net {
    Ipv4Net::new_assert(Ipv4Addr::new(a, b, c, d), prefix_length)
}

/// Returns the network with these first two segments.
const fn v6(first: u16, second: u16, prefix_length: u8) -> Ipv6Net {
    Ipv6Net::new_assert(
        Ipv6Addr::new(first, second, 0, 0, 0, 0, 0, 0),
        prefix_length,
    )
}

/// Returns `true` if an address belongs to the public internet.
pub(crate) fn is_public(address: IpAddr) -> bool {
    match embedded_v4(address) {
        IpAddr::V4(v4) => !SPECIAL_V4.iter().any(|network| network.contains(&v4)),
        IpAddr::V6(v6) => {
            GLOBAL_V6.contains(&v6) && !SPECIAL_V6.iter().any(|network| network.contains(&v6))
        }
    }
}

/// Returns the IPv4 address in an IPv4-mapped or NAT64 address. Returns any other address
/// unchanged.
pub(super) fn embedded_v4(address: IpAddr) -> IpAddr {
    match address.to_canonical() {
        IpAddr::V6(v6) if NAT64.contains(&v6) => {
            let [.., a, b, c, d] = v6.octets();
            Ipv4Addr::new(a, b, c, d).into()
        }
        canonical => canonical,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn special_purpose_addresses_are_not_public_in_any_notation() {
        for special in [
            "0.0.0.0",
            "0.1.2.3",
            "10.0.0.1",
            "10.255.255.255",
            "100.64.0.1",
            "100.127.255.255",
            "127.0.0.1",
            "127.255.255.254",
            "169.254.169.254",
            "172.16.0.1",
            "172.31.255.255",
            "192.0.0.8",
            "192.0.2.1",
            "192.88.99.1",
            "192.168.1.1",
            "198.18.0.1",
            "198.19.255.255",
            "198.51.100.7",
            "203.0.113.7",
            "224.0.0.1",
            "239.255.255.255",
            "240.0.0.1",
            "255.255.255.255",
            "::",
            "::1",
            "::127.0.0.1",
            "::8.8.8.8",
            "::ffff:10.0.0.1",
            "::ffff:127.0.0.1",
            "::ffff:0:127.0.0.1",
            "64:ff9b::10.0.0.1",
            "64:ff9b::7f00:1",
            "64:ff9b::169.254.169.254",
            "64:ff9b:1::8.8.8.8",
            "100::1",
            "2001::1",
            "2001:10::1",
            "2001:20::1",
            "2001:db8::1",
            "2002:7f00:1::1",
            "2002:808:808::1",
            "3fff::1",
            "4000::1",
            "5f00::1",
            "fc00::1",
            "fd00:ec2::254",
            "fe80::1",
            "febf::1",
            "fec0::1",
            "ff02::1",
        ] {
            assert!(!is_public(special.parse().unwrap()), "{special}");
        }
    }

    #[test]
    fn all_other_addresses_are_public() {
        for public in [
            "1.1.1.1",
            "8.8.8.8",
            "9.255.255.255",
            "11.0.0.0",
            "100.63.255.255",
            "100.128.0.0",
            "126.255.255.255",
            "128.0.0.0",
            "169.253.255.255",
            "172.15.255.255",
            "172.32.0.0",
            "192.167.255.255",
            "198.17.255.255",
            "198.20.0.0",
            "223.255.255.255",
            "::ffff:8.8.8.8",
            "64:ff9b::8.8.8.8",
            "2001:200::1",
            "2606:4700:4700::1111",
            "2a00:1450::1",
            "3ffe::1",
        ] {
            assert!(is_public(public.parse().unwrap()), "{public}");
        }
    }
}
