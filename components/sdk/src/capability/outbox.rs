//! `latchmail:host/outbox`: sending mail as the caller.

use super::{Error, Host};
use crate::bindings::latchmail::host::outbox;
pub use crate::bindings::latchmail::host::outbox::{Draft, File, Sent};

/// Sends mail as the caller. Needs the scope `mail:send`.
pub trait Outbox {
    /// Sends a message to all recipients or to no recipient, and stores a copy in Sent. Within 24
    /// hours, a repeated call with the same `key` sends nothing and returns the result of the first
    /// call.
    ///
    /// # Errors
    /// Returns an error if the message was not sent, or if the outcome is unknown. `wit/outbox.wit`
    /// describes each error.
    fn send(&self, draft: Draft, key: Option<&str>) -> Result<Sent, Error>;
}

impl Outbox for Host {
    fn send(&self, draft: Draft, key: Option<&str>) -> Result<Sent, Error> {
        outbox::send(draft, key)
    }
}
