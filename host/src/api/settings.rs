//! What an operator says of a module to its capabilities: its own settings, how much it may keep, whom it may reach.

use std::collections::BTreeMap;

use crate::config;
use crate::fetch::Hosts;

/// A module's section of the configuration, as far as its capabilities go by it.
#[derive(Clone, Debug, Default)]
pub struct Settings {
    /// Its own settings.
    pub(super) config: BTreeMap<String, String>,
    /// Bytes that it may keep for one account.
    pub(super) store: u64,
    /// The hosts that it may reach.
    pub(super) hosts: Hosts,
}

impl Settings {
    /// Reads a section.
    ///
    /// # Errors
    /// A sentence that names what cannot be used.
    pub fn of(module: &config::Module) -> Result<Self, String> {
        Ok(Self {
            config: module.config.clone(),
            store: u64::from(module.store) * 1024,
            hosts: Hosts::parse(&module.hosts).map_err(|why| format!("its `hosts` {why}"))?,
        })
    }
}
