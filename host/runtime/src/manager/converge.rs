//! Applies the changes of other hosts, and revoked rights. The database contains the version of
//! each module that should handle requests on all hosts. A host loads this version with the policy
//! in its own configuration. If the configuration revokes a right of an active version, the host
//! loads the version again with the new policy. A version that needs the revoked right then no
//! longer handles requests.
//!
//! This file does not write to the database.

use latchmail_core::metrics;
use latchmail_directory::modules::{ChangeLock, Installed};
use tokio::sync::MutexGuard;

use super::error::Error;
use super::router::Router;
use super::state::{Entries, ModuleEntry, ModuleManager, serving};
use crate::log_line::to_log_line;
use crate::modules::set_module_metrics;

/// The locks of a change of modules. While a value of this type exists, no other change runs on
/// this host or on another host.
pub(super) struct Change<'a> {
    _local: MutexGuard<'a, ()>,
    _hosts: ChangeLock,
}

impl ModuleManager {
    /// Applies all changes of other hosts, and revoked rights. If the version in the database
    /// cannot be loaded, the most recent earlier version that can be loaded handles the requests,
    /// as at the start of the service. The next call tries to load the version in the database
    /// again.
    ///
    /// # Errors
    /// Returns an [`Error`] if the database or the configuration cannot be read, or if the routes
    /// conflict. Nothing changes in this case.
    pub async fn converge(&self, router: &dyn Router) -> Result<(), Error> {
        let _lock = self.change_lock.lock().await;
        self.converge_locked(router).await
    }

    /// Returns one sentence for each enabled module whose version in the database does not handle
    /// requests on this host.
    #[must_use]
    pub fn problems(&self) -> Vec<String> {
        let entries = self.entries.current();
        let failed = entries.iter().filter(|(_, entry)| !entry.is_as_wanted());
        failed
            .filter_map(|(name, entry)| {
                Some(format!("module `{name}`: {}", entry.problem.as_ref()?))
            })
            .collect()
    }

    /// Sets the metrics of modules that are read at each scrape.
    pub fn set_metrics(&self) {
        let entries = self.entries.current();
        let not_serving = entries.values().filter(|entry| !entry.is_as_wanted());
        metrics::MODULES_NOT_SERVING.set([], not_serving.count());
        let serving = entries
            .values()
            .filter_map(|entry| entry.serving.as_deref());
        set_module_metrics(serving);
    }

    /// Locks the modules on all hosts and applies the changes of other hosts, so that the next
    /// change starts from the state in the database.
    pub(super) async fn begin_change(&self, router: &dyn Router) -> Result<Change<'_>, Error> {
        let local = self.change_lock.lock().await;
        let hosts = self.directory.modules.lock_changes().await?;
        self.converge_locked(router).await?;
        Ok(Change {
            _local: local,
            _hosts: hosts,
        })
    }

    /// Applies all changes of other hosts. The caller must have locked `change_lock`.
    async fn converge_locked(&self, router: &dyn Router) -> Result<(), Error> {
        let installed = self.directory.modules.installed().await?;
        let current = self.entries.current();
        let is_installed = |name: &str| installed.iter().any(|one| one.module == name);
        // An entry without a digest stays. It belongs to a module that was never installed and is
        // therefore not in the database, for example because its configured file cannot be loaded.
        let mut entries: Entries = current
            .iter()
            .filter(|(name, entry)| entry.digest.is_none() || is_installed(name))
            .map(|(name, entry)| (name.clone(), entry.clone()))
            .collect();
        let removed = current.len() - entries.len();
        let policies = self.policy_source.current();
        let has_lost_rights = |name: &str| {
            let serving = current.get(name).and_then(|entry| entry.serving.as_ref());
            // If the configuration file is invalid, no right counts as revoked.
            let (Some(module), Ok(policies)) = (serving, &policies) else {
                return false;
            };
            let policy = policies.get(name);
            policy.is_none_or(|policy| module.policy().has_lost_rights(policy))
        };
        let changed: Vec<_> = installed
            .iter()
            .filter(|one| {
                !is_current(current.get(&one.module), one) || has_lost_rights(&one.module)
            })
            .collect();
        if changed.is_empty() && removed == 0 {
            return Ok(());
        }
        // The old entries of changed modules are removed first, because the new routes must only be
        // compared with the routes of other modules.
        for one in &changed {
            entries.remove(&one.module);
        }
        for name in changed.iter().map(|one| &one.module) {
            if has_lost_rights(name) {
                tracing::warn!(
                    module = name,
                    "the configuration revoked a right of the module"
                );
            }
        }
        let policies = policies?;
        for one in changed {
            let entry = self.stored_entry(router, &entries, &policies, one).await;
            log(one, current.get(&one.module), &entry);
            entries.insert(one.module.clone(), entry);
        }
        let publish_routes = router
            .prepare(&serving(&entries))
            .map_err(|error| Error::route_conflict(&error))?;
        self.entries.publish(entries, publish_routes);
        for name in current
            .keys()
            .filter(|name| self.entries.get(name).is_err())
        {
            tracing::info!(module = name, "removed by another host");
            self.loader.discard_log(name);
        }
        Ok(())
    }
}

/// Returns whether the entry matches the state of the module in the database.
fn is_current(entry: Option<&ModuleEntry>, installed: &Installed) -> bool {
    entry.is_some_and(|entry| {
        let is_same = entry.digest.as_ref() == Some(&installed.digest);
        is_same && entry.enabled == installed.enabled && entry.is_as_wanted()
    })
}

/// Logs the new state of a module, if it differs from the previous state.
fn log(installed: &Installed, before: Option<&ModuleEntry>, entry: &ModuleEntry) {
    let (module, digest) = (&installed.module, &installed.digest);
    match &entry.problem {
        Some(problem) => {
            if before.and_then(|before| before.problem.as_ref()) != Some(problem) {
                let serves = entry.serving.is_some();
                tracing::error!(module, digest, serves, "{}", to_log_line(problem));
            }
        }
        None if entry.enabled => {
            tracing::info!(module, digest, "serves the version in the database");
        }
        None => tracing::info!(module, "disabled by another host"),
    }
}
