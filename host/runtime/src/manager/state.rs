//! The module manager, which has one entry for each module. This file also contains the functions
//! that load stored versions of modules.

use std::collections::BTreeMap;
use std::sync::{Arc, PoisonError, RwLock};

use bytes::Bytes;
use latchmail_core::clock::Clock;
use latchmail_core::config::{self, Config};
use latchmail_core::error::StartError;
use latchmail_directory::Directory;
use latchmail_directory::modules::Version;
use tokio::sync::{Mutex, mpsc, watch};

use super::error::Error;
use super::policies::PolicySource;
use crate::api::Services;
use crate::module_log;
use crate::modules::{Examined, Failing, Loader, Module};

/// The module manager of a service.
#[derive(Debug)]
pub struct ModuleManager {
    pub(super) loader: Loader,
    pub(super) directory: Directory,
    pub(super) clock: Clock,
    pub(super) policy_source: PolicySource,
    /// The maximum number of stored versions of each module.
    pub(super) max_versions: u32,
    pub(super) entries: EntryTable,
    /// The lock for changes. Only one change runs at a time.
    pub(super) change_lock: Mutex<()>,
    /// The lock for comparisons. Only one comparison runs at a time.
    pub(super) comparison_lock: Mutex<()>,
}

/// The entries of all modules, by name.
pub(super) type Entries = BTreeMap<String, ModuleEntry>;

/// The state of one module.
#[derive(Clone, Debug, Default)]
pub(super) struct ModuleEntry {
    /// The version that handles requests. `None` if no version of the module handles requests.
    pub(super) serving: Option<Arc<Module>>,
    /// The digest of the version that should handle requests. `None` if no version was ever
    /// installed.
    pub(super) digest: Option<String>,
    /// Whether the module should handle requests.
    pub(super) enabled: bool,
    /// The reason why the version with this `digest` does not handle requests.
    pub(super) problem: Option<String>,
}

impl ModuleEntry {
    /// Creates the entry of a module whose version `module` handles requests.
    pub(super) fn serving(module: Arc<Module>) -> Self {
        Self {
            digest: Some(module.digest().to_owned()),
            serving: Some(module),
            enabled: true,
            problem: None,
        }
    }

    /// Returns `true` if the version with the digest `digest` handles requests, or if the module is
    /// disabled.
    pub(super) fn is_as_wanted(&self) -> bool {
        let serving = self.serving.as_ref().map(|module| module.digest());
        !self.enabled || (serving.is_some() && serving == self.digest.as_deref())
    }
}

/// The current entries of all modules. A change replaces them all at once.
#[derive(Debug, Default)]
pub(super) struct EntryTable {
    entries: RwLock<Arc<Entries>>,
    /// Notifies of each replacement.
    changed: watch::Sender<()>,
}

impl EntryTable {
    /// Returns the current entries. While [`EntryTable::publish`] runs, waits for its end.
    pub(super) fn current(&self) -> Arc<Entries> {
        Arc::clone(&self.entries.read().unwrap_or_else(PoisonError::into_inner))
    }

    /// Replaces the entries, and calls `publish_routes`, which replaces the route table. The write
    /// lock makes these replacements one step: a client that can use a new route also finds its
    /// module in the list of modules. Afterwards drops the idle sandboxes of versions that no
    /// longer handle requests.
    pub(super) fn publish(&self, entries: Entries, publish_routes: impl FnOnce()) {
        let current = serving(&entries);
        let previous = {
            let mut locked = self.entries.write().unwrap_or_else(PoisonError::into_inner);
            publish_routes();
            std::mem::replace(&mut *locked, Arc::new(entries))
        };
        for module in serving(&previous) {
            if !current.iter().any(|other| Arc::ptr_eq(other, &module)) {
                module.retire();
            }
        }
        self.changed.send_replace(());
    }

    /// Returns the current entry of a module.
    pub(super) fn get(&self, name: &str) -> Result<ModuleEntry, Error> {
        self.current()
            .get(name)
            .cloned()
            .ok_or_else(|| Error::not_found(name))
    }
}

impl ModuleManager {
    /// Creates a module manager without loaded modules. The returned channel receives a message
    /// when most of the latest requests of a module have failed.
    ///
    /// # Errors
    /// Returns an error if the configuration has an invalid policy, or if the engine cannot be
    /// created.
    pub fn new(
        config: &Config,
        services: Services,
        directory: Directory,
        clock: Clock,
    ) -> Result<(Self, mpsc::UnboundedReceiver<Failing>), StartError> {
        let (loader, failing) = Loader::new(config, services, clock.clone())?;
        let manager = Self {
            loader,
            directory,
            clock,
            policy_source: PolicySource::new(config),
            max_versions: config.admin.versions.max(2),
            entries: EntryTable::default(),
            change_lock: Mutex::default(),
            comparison_lock: Mutex::default(),
        };
        Ok((manager, failing))
    }

    /// Returns the modules that handle requests.
    #[must_use]
    pub fn serving(&self) -> Vec<Arc<Module>> {
        serving(&self.entries.current())
    }

    /// Returns the serving modules that have handlers.
    #[must_use]
    pub fn handlers(&self) -> Vec<Arc<Module>> {
        let mut modules = self.serving();
        modules.retain(|module| module.manifest().handlers.is_some());
        modules
    }

    /// Returns a channel that reports each change of the serving modules and of their policies.
    #[must_use]
    pub fn changes(&self) -> watch::Receiver<()> {
        self.entries.changed.subscribe()
    }

    /// Returns the recent log entries of a module. If `request` is given, returns only the entries
    /// of the request with this id.
    ///
    /// # Errors
    /// Returns [`Error::NotFound`] if the module does not exist.
    pub fn log(&self, name: &str, request: Option<&str>) -> Result<Vec<module_log::Entry>, Error> {
        self.entries.get(name)?;
        Ok(self.loader.log(name).read(request))
    }

    /// Returns the stored versions of a module, without their components.
    pub(super) async fn stored_versions(
        &self,
        name: &str,
    ) -> Result<Vec<Version>, latchmail_directory::Error> {
        self.directory.modules.versions(name).await
    }

    /// Compiles a stored version of a module, and returns the compiled version with its manifest.
    /// Uses the cache of compiled components if possible.
    pub(super) async fn examine_stored(
        &self,
        name: &str,
        digest: &str,
        policy: &config::Module,
    ) -> Result<Examined, Error> {
        if let Some(examined) = self.loader.cached(digest) {
            let named = examined.named(Some(name));
            return named.map_err(|reason| Error::cannot_load(name, &reason));
        }
        let component = self.directory.modules.component(name, digest).await?;
        let Some(component) = component else {
            return Err(Error::NotFound(format!(
                "version {digest} of module `{name}` no longer exists"
            )));
        };
        self.loader
            .examine(Bytes::from(component), Some(policy), Some(name))
            .await
            .map_err(|reason| Error::cannot_load(name, &reason))
    }

    pub(super) async fn load(
        &self,
        examined: &Examined,
        policy: &config::Module,
    ) -> Result<Arc<Module>, Error> {
        self.loader
            .load(examined, policy)
            .await
            .map(Arc::new)
            .map_err(|reason| Error::cannot_load(&examined.manifest.name, &reason))
    }
}

pub(super) fn serving(entries: &Entries) -> Vec<Arc<Module>> {
    entries
        .values()
        .filter_map(|entry| entry.serving.clone())
        .collect()
}
