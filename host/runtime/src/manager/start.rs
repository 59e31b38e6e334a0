//! Loads the modules when the service starts. The database contains the installed modules. If the
//! file in a module's setting `source` has changed since its last installation, the component in
//! the file is installed first. The component of a module that the program contains is installed in
//! the same way.
//!
//! If the version that should handle requests cannot be loaded, the manager logs the error and uses
//! the most recent earlier version that can be loaded. Other modules are not affected.

use std::collections::BTreeSet;
use std::sync::Arc;

use bytes::Bytes;
use latchmail_core::caller::Origin;
use latchmail_core::config;
use latchmail_core::error::StartError;
use latchmail_directory::modules::{Installed, NewVersion, Version};

use super::error::Error;
use super::policies::Policies;
use super::router::Router;
use super::state::{Entries, ModuleEntry, ModuleManager, serving};
use crate::log_line::to_log_line;
use crate::modules::{Examined, Module, digest};

impl ModuleManager {
    /// Loads the modules that should handle requests, and makes their routes active.
    ///
    /// # Errors
    /// Returns an error if the database cannot be read, or if the service's own routes conflict.
    pub async fn start(&self, router: &dyn Router) -> Result<(), StartError> {
        let _lock = self.change_lock.lock().await;
        let start_error = |error: latchmail_directory::Error| StartError::new(error.to_string());
        let locked = self.directory.modules.lock_changes().await;
        let _hosts = locked.map_err(start_error)?;
        // The list contains this host, because the service registers the host before it loads
        // modules.
        let hosts = self.directory.hosts.list().await.map_err(start_error)?;
        let has_other_hosts = hosts.len() > 1;
        let installed = self
            .directory
            .modules
            .installed()
            .await
            .map_err(start_error)?;
        let policies = self.policy_source.initial();
        let names: BTreeSet<&str> = policies
            .named
            .iter()
            .filter(|(_, policy)| policy.has_component())
            .map(|(name, _)| name.as_str())
            .chain(installed.iter().map(|one| one.module.as_str()))
            .collect();
        let find_installed = |name: &str| installed.iter().find(|one| one.module == name);
        // Modules from the database are loaded before new modules. If the routes of two modules
        // conflict, the module that is loaded first gets the routes.
        let (known, new): (Vec<_>, Vec<_>) = names
            .into_iter()
            .partition(|name| find_installed(name).is_some());
        let mut entries = Entries::new();
        for name in known.into_iter().chain(new) {
            let entry = self
                .initial_entry(
                    router,
                    &entries,
                    policies,
                    name,
                    find_installed(name),
                    has_other_hosts,
                )
                .await;
            if let Some(problem) = &entry.problem {
                let problem = to_log_line(problem);
                tracing::error!(module = name, serves = entry.serving.is_some(), "{problem}");
            }
            entries.insert(name.to_owned(), entry);
        }
        let publish_routes = router.prepare(&serving(&entries))?;
        self.entries.publish(entries, publish_routes);
        Ok(())
    }

    /// Creates the entry of a module. If the version that should handle requests cannot be loaded,
    /// the entry contains the reason.
    async fn initial_entry(
        &self,
        router: &dyn Router,
        entries: &Entries,
        policies: &Policies,
        name: &str,
        installed: Option<&Installed>,
        has_other_hosts: bool,
    ) -> ModuleEntry {
        let loaded = match policies.require(name) {
            Ok(policy) => {
                self.load_configured(router, entries, name, policy, installed, has_other_hosts)
                    .await
            }
            Err(reason) => Err(reason),
        };
        let problem = match loaded {
            Ok(Some(module)) => return ModuleEntry::serving(module),
            Ok(None) => None,
            Err(reason) => Some(reason.to_string()),
        };
        let mut entry = match installed {
            Some(installed) => {
                self.stored_entry(router, entries, policies, installed)
                    .await
            }
            None => ModuleEntry {
                enabled: true,
                ..ModuleEntry::default()
            },
        };
        entry.problem = problem.or(entry.problem);
        entry
    }

    /// Creates the entry of an installed module with the version in the database. If this version
    /// cannot be loaded, the entry contains the reason, and the most recent earlier version that
    /// can be loaded handles the requests.
    pub(super) async fn stored_entry(
        &self,
        router: &dyn Router,
        entries: &Entries,
        policies: &Policies,
        installed: &Installed,
    ) -> ModuleEntry {
        let mut entry = ModuleEntry {
            digest: Some(installed.digest.clone()),
            enabled: installed.enabled,
            ..ModuleEntry::default()
        };
        if !installed.enabled {
            return entry;
        }
        let loaded = match policies.require(&installed.module) {
            Ok(policy) => {
                self.load_last_good(router, entries, &installed.module, policy, installed)
                    .await
            }
            Err(reason) => Err(reason),
        };
        match loaded {
            Ok((module, problem)) => {
                entry.serving = module;
                entry.problem = problem;
            }
            Err(reason) => entry.problem = Some(reason.to_string()),
        }
        entry
    }

    /// Loads the file of the setting `source`, and installs its component if the content of the
    /// file is new. Returns `None` if the file is ignored. If the module has no `source`, uses the
    /// component that the program contains in the same way.
    ///
    /// An already installed file is ignored if an administrator chose another version after the
    /// installation. The file of a disabled module is also ignored, so that an upgrade of a package
    /// does not enable the module. While other hosts run, each version that was installed before is
    /// ignored: during an upgrade of the hosts, a host with the old file must not replace the new
    /// version.
    async fn load_configured(
        &self,
        router: &dyn Router,
        entries: &Entries,
        name: &str,
        policy: &config::Module,
        installed: Option<&Installed>,
        has_other_hosts: bool,
    ) -> Result<Option<Arc<Module>>, Error> {
        if installed.is_some_and(|one| !one.enabled) {
            return Ok(None);
        }
        let bytes = match (&policy.source, policy.embedded) {
            (Some(file), _) => tokio::fs::read(file)
                .await
                .map(Bytes::from)
                .map_err(|error| {
                    Error::cannot_load(name, &format!("{} cannot be read: {error}", file.display()))
                })?,
            (None, Some(embedded)) => embedded.component().map(Bytes::from).map_err(|error| {
                Error::cannot_load(
                    name,
                    &format!("the program's component cannot be read: {error}"),
                )
            })?,
            (None, None) => return Ok(None),
        };
        let digest = digest(&bytes);
        let serves = installed.is_some_and(|one| one.digest == digest);
        let seen = installed.is_some_and(|one| one.source_digest.as_ref() == Some(&digest));
        if seen && !serves {
            return Ok(None);
        }
        let is_digest = |version: &Version| version.digest == digest;
        if has_other_hosts && !serves && self.stored_versions(name).await?.iter().any(is_digest) {
            tracing::info!(
                module = name,
                digest,
                "ignored the configured file, because other hosts serve a version that was installed later"
            );
            return Ok(None);
        }
        let examined = self.examine_named(name, bytes, policy).await?;
        let module = self
            .load_without_conflicts(router, entries, &examined, policy)
            .await?;
        if !seen {
            let new = NewVersion {
                module: name,
                digest: &digest,
                version: &examined.manifest.version,
                component: &examined.bytes,
                source: true,
                artifact: None,
            };
            let (now, origin) = (self.clock.now(), Origin::service());
            self.directory
                .modules
                .install(&[new], self.max_versions, now, &origin)
                .await?;
        }
        Ok(Some(module))
    }

    /// Loads the version that should handle requests. If this version cannot be loaded, returns the
    /// reason and the most recent earlier version that can be loaded.
    async fn load_last_good(
        &self,
        router: &dyn Router,
        entries: &Entries,
        name: &str,
        policy: &config::Module,
        installed: &Installed,
    ) -> Result<(Option<Arc<Module>>, Option<String>), Error> {
        let mut versions = self.stored_versions(name).await?;
        versions.retain(|version| version.served.is_some());
        versions.sort_by_key(|version| std::cmp::Reverse(version.served));
        let first = versions.iter().position(|v| v.digest == installed.digest);
        let mut problem = None;
        for version in versions.iter().skip(first.unwrap_or(0)) {
            let loaded = match self.examine_stored(name, &version.digest, policy).await {
                Ok(examined) => {
                    self.load_without_conflicts(router, entries, &examined, policy)
                        .await
                }
                Err(reason) => Err(reason),
            };
            match loaded {
                Ok(module) => return Ok((Some(module), problem)),
                Err(reason) => {
                    let reason = format!("version {} does not serve: {reason}", version.version);
                    problem.get_or_insert(reason);
                }
            }
        }
        Ok((None, problem))
    }

    /// Examines a component, and checks that its manifest contains the given module name.
    async fn examine_named(
        &self,
        name: &str,
        bytes: Bytes,
        policy: &config::Module,
    ) -> Result<Examined, Error> {
        let examined = self
            .loader
            .examine(bytes, Some(policy), Some(name))
            .await
            .map_err(|reason| Error::cannot_load(name, &reason))?;
        if examined.manifest.name == name {
            Ok(examined)
        } else {
            let reason = format!("its manifest has the name `{}`", examined.manifest.name);
            Err(Error::cannot_load(name, &reason))
        }
    }

    /// Loads a module with its policy, and checks that its routes do not conflict with the routes
    /// of the loaded modules.
    async fn load_without_conflicts(
        &self,
        router: &dyn Router,
        entries: &Entries,
        examined: &Examined,
        policy: &config::Module,
    ) -> Result<Arc<Module>, Error> {
        let module = self.load(examined, policy).await?;
        let mut modules = serving(entries);
        modules.push(Arc::clone(&module));
        router
            .check(&modules)
            .map_err(|reason| Error::route_conflict(&reason))?;
        Ok(module)
    }
}
