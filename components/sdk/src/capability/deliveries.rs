//! `latchmail:host/deliveries`: the states of the deliveries of sent messages.

use super::{Error, Host};
use crate::bindings::latchmail::host::deliveries;
pub use crate::bindings::latchmail::host::deliveries::{Delivery, Recipient as DeliveryRecipient};

/// The states of the deliveries of sent messages. Needs the scope `mail:read`.
pub trait Deliveries {
    /// Returns a message that was sent in the last 30 days, by its Message-ID with angle brackets.
    ///
    /// # Errors
    /// Returns [`Error::NotFound`] if the mailbox sent no such message.
    fn get_delivery(&self, message_id: &str) -> Result<Delivery, Error>;
}

impl Deliveries for Host {
    fn get_delivery(&self, message_id: &str) -> Result<Delivery, Error> {
        deliveries::get(message_id)
    }
}
