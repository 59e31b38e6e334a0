//! What the configuration lets modules do: read anew at every change, so that an operator who edits the file need not restart the service.

use std::collections::BTreeMap;
use std::path::PathBuf;

use super::Refusal;
use crate::config::{self, Config};

/// Where ceilings come from.
#[derive(Debug)]
pub(super) struct Ceilings {
    file: Option<PathBuf>,
    /// The service's address as it started.
    base_url: String,
    at_start: Allowed,
}

/// What modules may do.
#[derive(Clone, Debug)]
pub(super) struct Allowed {
    /// Those that are named.
    pub(super) named: BTreeMap<String, config::Module>,
    unnamed: Option<config::Module>,
}

impl Allowed {
    fn of(config: &Config) -> Self {
        Self {
            named: config.modules.clone(),
            unnamed: config.new_modules.clone().map(|ceiling| config::Module {
                source: None,
                ..ceiling
            }),
        }
    }

    /// What a module of this name may do; none where there may be no such module.
    pub(super) fn of_module(&self, name: &str) -> Option<&config::Module> {
        self.named.get(name).or(self.unnamed.as_ref())
    }

    /// The same, or why there may be no such module.
    pub(super) fn ceiling(&self, name: &str) -> Result<&config::Module, Refusal> {
        self.of_module(name).ok_or_else(|| {
            Refusal::Conflict(format!(
                "the configuration does not allow a module `{name}`: it needs a section [modules.{name}] that says what it may import, as \
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

    /// As they were at the start.
    pub(super) fn at_start(&self) -> &Allowed {
        &self.at_start
    }

    /// As they are now.
    pub(super) fn now(&self) -> Result<Allowed, Refusal> {
        let Some(file) = &self.file else {
            return Ok(self.at_start.clone());
        };
        match Config::load(Some(file)) {
            Ok(mut config) => {
                // The address that the service has is the one that it started with.
                config.base_url.clone_from(&self.base_url);
                config.tell_agents_module();
                Ok(Allowed::of(&config))
            }
            Err(why) => Err(Refusal::Conflict(why.to_string())),
        }
    }
}
