//! The settings of a module for host functions: the module's own settings, the storage quota, and
//! the allowed hosts.

use latchmail_core::config::{self, ModuleSettings};
use latchmail_net::fetch::Hosts;

/// The settings that host functions use, from the configuration section of a module.
#[derive(Clone, Debug, Default)]
pub struct Settings {
    /// The module's own settings.
    pub(super) config: ModuleSettings,
    /// The storage quota of the module for one account, in bytes.
    pub(super) store: u64,
    /// The hosts to which the module is allowed to send HTTP requests. Empty without the grant
    /// `http-client`.
    pub(super) hosts: Hosts,
}

impl Settings {
    /// Creates the settings from a configuration section.
    ///
    /// # Errors
    /// Returns a phrase with the name of the setting if a setting is invalid.
    pub fn of(module: &config::Module) -> Result<Self, String> {
        let hosts =
            Hosts::parse(&module.hosts).map_err(|reason| format!("its `hosts` {reason}"))?;
        let sends_requests = module.grants.iter().any(|grant| grant == "http-client");
        Ok(Self {
            config: module.config.clone(),
            store: u64::from(module.store) * 1024,
            hosts: if sends_requests {
                hosts
            } else {
                Hosts::default()
            },
        })
    }
}
