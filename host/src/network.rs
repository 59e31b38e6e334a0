//! IP networks in the notation of the configuration: `10.0.0.0/8`, or a single address.

use std::net::IpAddr;

/// An IP network: all addresses with the same first `bits` bits as `base`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Network {
    base: IpAddr,
    bits: u32,
}

impl Network {
    /// Creates the network of the first `bits` bits of `base`.
    pub(crate) const fn new(base: IpAddr, bits: u32) -> Self {
        Self { base, bits }
    }

    /// Parses a network or an address. Returns `None` if the text is neither.
    pub(crate) fn parse(entry: &str) -> Option<Self> {
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
    pub(crate) fn holds(self, address: IpAddr) -> bool {
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
