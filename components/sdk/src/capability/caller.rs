//! `latchmail:host/caller`: the caller of a request.

use super::Host;
use crate::bindings::latchmail::host::caller;
pub use crate::bindings::latchmail::host::caller::{Identity, Kind};

/// The caller of the current request.
pub trait Caller {
    /// Returns the caller of the current request.
    fn current(&self) -> Identity;

    /// Passes the two-factor code of the request to the host. The host checks the code when the
    /// handler calls a function that has a password argument. The default implementation does
    /// nothing.
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
