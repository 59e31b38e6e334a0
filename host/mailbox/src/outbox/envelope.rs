//! The envelope of a message (RFC 5321).

use std::fmt;

use latchmail_shape::addresses::{ascii_domain, parse_address};

use super::result::{Error, invalid};
use crate::access::Access;
use crate::envelope_id::EnvelopeId;

/// The sender and the recipients of a message.
#[derive(Clone, Debug)]
pub(crate) struct Envelope {
    pub(crate) from: EnvelopeAddress,
    pub(crate) to: Vec<EnvelopeAddress>,
    pub(crate) reports: Reports,
}

/// The delivery reports that a message requests (RFC 3461), if the mail server supports requests.
#[derive(Clone, Debug)]
pub(crate) enum Reports {
    /// Without a request, the sender gets a report if the delivery fails.
    Default,
    /// The sender gets no report.
    Never,
    /// The mail server reports each outcome with this id.
    Tracked(EnvelopeId),
}

/// A caller that is allowed to send from an address.
#[derive(Clone, Debug)]
pub struct Sender {
    pub(crate) access: Access,
    pub(crate) address: EnvelopeAddress,
}

/// A recipient.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Recipient {
    pub(crate) name: String,
    pub(crate) address: EnvelopeAddress,
}

impl Recipient {
    /// Creates a recipient. The display name can be empty.
    ///
    /// # Errors
    /// Returns [`Error::Invalid`] if the name or the address is invalid.
    pub fn new(name: String, address: &str) -> Result<Self, Error> {
        if name.chars().any(char::is_control) {
            return Err(invalid("recipient name"));
        }
        let address =
            EnvelopeAddress::parse(address).ok_or_else(|| invalid("recipient address"))?;
        Ok(Self { name, address })
    }
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
    pub(crate) fn parse(address: &str) -> Option<Self> {
        let address = parse_address(address)?;
        let (local_part, domain) = address.rsplit_once('@')?;
        let domain = ascii_domain(domain)?;
        Some(Self {
            text: format!("{local_part}@{domain}"),
            domain: local_part.len() + 1,
        })
    }

    pub(crate) fn as_str(&self) -> &str {
        &self.text
    }

    pub(crate) fn domain(&self) -> &str {
        &self.text[self.domain..]
    }
}

impl fmt::Display for EnvelopeAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}
