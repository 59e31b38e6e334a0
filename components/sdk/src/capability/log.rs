//! `latchmail:host/log`: the host's log.

use super::Host;
use crate::bindings::latchmail::host::log;
pub use crate::bindings::latchmail::host::log::Level;

/// The host's log.
pub trait Log {
    /// Writes one line to the log. The line must not contain mail content or secrets.
    fn write(&self, level: Level, message: &str);
}

impl Log for Host {
    fn write(&self, level: Level, message: &str) {
        log::write(level, message);
    }
}
