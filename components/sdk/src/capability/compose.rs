//! `latchmail:host/compose`: composing replies and forwards.

use super::{Draft, Error, Host};
use crate::bindings::latchmail::host::compose;

/// Composes replies to messages, and forwards of messages. Needs the scope `mail:read`.
pub trait Compose {
    /// Composes a message about the message with this number: its sender, recipients, subject,
    /// references, quotation and files. `mode` is `reply`, `reply-all`, `forward` or
    /// `forward-as-attachment`. `locale` is a language tag. Nothing is sent.
    ///
    /// # Errors
    /// Returns [`Error::NotFound`] if the message does not exist. Returns [`Error::Invalid`] if the
    /// mode is unknown.
    fn compose(&self, mode: &str, uid: u64, locale: Option<&str>) -> Result<Draft, Error>;
}

impl Compose for Host {
    fn compose(&self, mode: &str, uid: u64, locale: Option<&str>) -> Result<Draft, Error> {
        compose::compose(mode, uid, locale)
    }
}
