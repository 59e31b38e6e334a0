//! `latchmail:host/caller`: the caller of the request.

use super::Host;
use crate::bindings::latchmail::host::caller;
pub use crate::bindings::latchmail::host::caller::{Identity, Kind};

/// The caller of the request.
pub trait Caller {
    /// Returns the caller of this request.
    fn current(&self) -> Identity;

    /// Gives the host the two-factor code of this request. The host checks the code in functions that take the account's password. The default implementation
    /// does nothing.
    fn present_code(&self, _code: &str) {}
}

impl Caller for Host {
    fn current(&self) -> Identity {
        caller::current()
    }

    fn present_code(&self, code: &str) {
        caller::present_code(code);
    }
}
