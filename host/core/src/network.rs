//! IP networks: those of the configuration, `10.0.0.0/8` or a single address, and those that stand for one client.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// An IP network: all addresses with the same first `bits` bits as `base`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Network {
    base: IpAddr,
    bits: u32,
}

impl Network {
    /// Creates the network of the first `bits` bits of `base`.
    #[must_use]
    pub const fn new(base: IpAddr, bits: u32) -> Self {
        Self { base, bits }
    }

    /// Parses a network or an address. Returns `None` if the text is neither.
    #[must_use]
    pub fn parse(entry: &str) -> Option<Self> {
        let (address, bits) = match entry.split_once('/') {
            Some((address, bits)) => (address, Some(bits.parse().ok()?)),
            None => (entry, None),
        };
        let base: IpAddr = address.parse().ok()?;
        let width = if base.is_ipv4() { 32 } else { 128 };
        let bits = bits.unwrap_or(width);
        (bits <= width).then_some(Self { base, bits })
    }

    /// Returns `true` if the network contains the address.
    #[must_use]
    pub fn holds(self, address: IpAddr) -> bool {
        match (self.base, address) {
            (IpAddr::V4(base), IpAddr::V4(address)) => {
                (base.to_bits() ^ address.to_bits())
                    .checked_shr(32 - self.bits)
                    .unwrap_or(0)
                    == 0
            }
            (IpAddr::V6(base), IpAddr::V6(address)) => {
                (base.to_bits() ^ address.to_bits())
                    .checked_shr(128 - self.bits)
                    .unwrap_or(0)
                    == 0
            }
            _ => false,
        }
    }
}

/// Returns the address that stands for one client: its IPv4 address, or the /64 network of its IPv6 address.
#[must_use]
pub fn network(address: IpAddr) -> IpAddr {
    match address.to_canonical() {
        IpAddr::V6(v6) => Ipv6Addr::from_bits(v6.to_bits() >> 64 << 64).into(),
        v4 @ IpAddr::V4(_) => v4,
    }
}

/// Returns the address that stands for the clients of one region: the /16 network of an IPv4 address, or the /32 network of an IPv6 address.
#[must_use]
pub fn region(address: IpAddr) -> IpAddr {
    match address.to_canonical() {
        IpAddr::V4(v4) => Ipv4Addr::from_bits(v4.to_bits() >> 16 << 16).into(),
        IpAddr::V6(v6) => Ipv6Addr::from_bits(v6.to_bits() >> 96 << 96).into(),
    }
}

/// Returns `true` if a host is this machine: `localhost` or a loopback address. Resolves no names.
#[must_use]
pub fn is_local(host: &str) -> bool {
    let address = host.trim_start_matches('[').trim_end_matches(']');
    host.eq_ignore_ascii_case("localhost")
        || address
            .parse()
            .is_ok_and(|ip: IpAddr| ip.to_canonical().is_loopback())
}
