//! The policies of modules, from the configuration. A policy contains grants and limits. Every
//! change of a module reads the configuration file, so an edit of the file needs no restart.

use std::collections::BTreeMap;
use std::path::PathBuf;

use latchmail_core::config::{self, Config, EmbeddedModule};

use super::error::Error;

/// A reader of the policies in the configuration file.
#[derive(Debug)]
pub(super) struct PolicySource {
    file: Option<PathBuf>,
    /// The base URL of the running service.
    base_url: String,
    /// The modules that the program contains.
    embedded: Vec<EmbeddedModule>,
    initial: Policies,
}

/// The policies of all modules.
#[derive(Clone, Debug)]
pub(super) struct Policies {
    /// The policies of modules that have a section `[modules.NAME]`.
    pub(super) named: BTreeMap<String, config::Module>,
    /// The policies of the optional modules of the service, which need no section.
    optional: BTreeMap<String, config::Module>,
    /// The policy of all other modules, from the section `[new_modules]`.
    default: Option<config::Module>,
}

impl Policies {
    fn of(config: &Config) -> Self {
        Self {
            named: config.modules_with_service_settings(),
            optional: config.optional_modules(),
            default: config.new_modules.clone().map(|policy| config::Module {
                source: None,
                ..policy
            }),
        }
    }

    /// Returns the policy of a module, or `None` if the configuration does not allow the module.
    pub(super) fn get(&self, name: &str) -> Option<&config::Module> {
        let known = self.named.get(name).or_else(|| self.optional.get(name));
        known.or(self.default.as_ref())
    }

    /// Returns the policy of a module.
    ///
    /// # Errors
    /// Returns [`Error::Conflict`] if the configuration does not allow the module.
    pub(super) fn require(&self, name: &str) -> Result<&config::Module, Error> {
        self.get(name).ok_or_else(|| {
            Error::Conflict(format!(
                "the configuration does not allow a module `{name}`: it needs a section [modules.{name}] with the interfaces that it may import, as \
                 `grants`"
            ))
        })
    }
}

impl PolicySource {
    pub(super) fn new(config: &Config) -> Self {
        Self {
            file: config.file.clone(),
            base_url: config.base_url(),
            embedded: config.embedded.clone(),
            initial: Policies::of(config),
        }
    }

    /// Returns the policies from the configuration with which the service started.
    pub(super) fn initial(&self) -> &Policies {
        &self.initial
    }

    /// Reads the current policies from the configuration file.
    pub(super) fn current(&self) -> Result<Policies, Error> {
        let Some(file) = &self.file else {
            return Ok(self.initial.clone());
        };
        match Config::load(Some(file)) {
            Ok(mut config) => {
                // The base URL cannot change while the service runs, so a new value in the file is
                // ignored.
                config.base_url.clone_from(&self.base_url);
                Ok(Policies::of(&config.with_embedded(&self.embedded)))
            }
            Err(error) => Err(Error::Conflict(error.to_string())),
        }
    }
}
