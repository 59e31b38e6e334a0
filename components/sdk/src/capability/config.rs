//! `latchmail:host/config`: the module's own settings.

use super::Host;
use crate::bindings::latchmail::host::config;

/// The module's own settings.
pub trait Config {
    /// Returns a setting, or `None` if it is not set.
    fn get(&self, key: &str) -> Option<String>;
}

impl Config for Host {
    fn get(&self, key: &str) -> Option<String> {
        config::get(key)
    }
}
