//! The envelope of a message (RFC 5321).

use lettre::Address;

/// The sender and the recipients of a message.
#[derive(Debug)]
pub(super) struct Envelope {
    pub(super) from: Address,
    pub(super) to: Vec<Address>,
}
