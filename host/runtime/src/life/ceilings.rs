//! The policies of modules from the configuration. The file is read again at every change, so that an edit needs no restart.

use std::collections::BTreeMap;
use std::path::PathBuf;

use latchmail_core::config::{self, Config};

use super::Refusal;

/// The source of policies.
#[derive(Debug)]
pub(super) struct Ceilings {
    file: Option<PathBuf>,
    /// The base URL that the service started with.
    base_url: String,
    at_start: Allowed,
}

/// The policies of all modules.
#[derive(Clone, Debug)]
pub(super) struct Allowed {
    /// The policies of modules that have a section.
    pub(super) named: BTreeMap<String, config::Module>,
    unnamed: Option<config::Module>,
}

impl Allowed {
    fn of(config: &Config) -> Self {
        Self {
            named: config.modules_with_service_settings(),
            unnamed: config.new_modules.clone().map(|ceiling| config::Module {
                source: None,
                ..ceiling
            }),
        }
    }

    /// Returns the policy of a module. Returns `None` if the configuration does not allow the module.
    pub(super) fn of_module(&self, name: &str) -> Option<&config::Module> {
        self.named.get(name).or(self.unnamed.as_ref())
    }

    /// Returns the policy of a module, or an error if the configuration does not allow the module.
    pub(super) fn ceiling(&self, name: &str) -> Result<&config::Module, Refusal> {
        self.of_module(name).ok_or_else(|| {
            Refusal::Conflict(format!(
                "the configuration does not allow a module `{name}`: it needs a section [modules.{name}] with the interfaces that it may import, as \
                 `grants`"
            ))
        })
    }
}

impl Ceilings {
    pub(super) fn new(config: &Config) -> Self {
        Self {
            file: config.file.clone(),
            base_url: config.base_url(),
            at_start: Allowed::of(config),
        }
    }

    /// Returns the policies at the start of the service.
    pub(super) fn at_start(&self) -> &Allowed {
        &self.at_start
    }

    /// Reads the current policies.
    pub(super) fn now(&self) -> Result<Allowed, Refusal> {
        let Some(file) = &self.file else {
            return Ok(self.at_start.clone());
        };
        match Config::load(Some(file)) {
            Ok(mut config) => {
                // The base URL of a running service does not change.
                config.base_url.clone_from(&self.base_url);
                Ok(Allowed::of(&config))
            }
            Err(why) => Err(Refusal::Conflict(why.to_string())),
        }
    }
}
