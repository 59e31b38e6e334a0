//! The envelope of a message (RFC 5321).

use std::fmt;

use latchmail_shape::addresses::{ascii_domain, parse_address};

use crate::access::Access;

/// The sender and the recipients of a message.
#[derive(Debug)]
pub(crate) struct Envelope {
    pub(crate) from: EnvelopeAddress,
    pub(crate) to: Vec<EnvelopeAddress>,
}

/// A caller that is allowed to send from an address.
#[derive(Clone, Debug)]
pub struct Sender {
    pub(super) access: Access,
    pub(super) address: EnvelopeAddress,
}

/// An address in the form for SMTP. The domain is in lower case and ASCII (RFC 5891). The local
/// part is quoted if necessary.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct EnvelopeAddress {
    text: String,
    /// The byte offset of the domain in `text`.
    domain: usize,
}

impl EnvelopeAddress {
    /// Parses an address and converts the address to the form for SMTP. Returns `None` if the
    /// address is invalid.
    pub(super) fn parse(address: &str) -> Option<Self> {
        let address = parse_address(address)?;
        let (local_part, domain) = address.rsplit_once('@')?;
        let domain = ascii_domain(domain)?;
        Some(Self {
            text: format!("{local_part}@{domain}"),
            domain: local_part.len() + 1,
        })
    }

    pub(super) fn as_str(&self) -> &str {
        &self.text
    }

    pub(super) fn domain(&self) -> &str {
        &self.text[self.domain..]
    }
}

impl fmt::Display for EnvelopeAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}
