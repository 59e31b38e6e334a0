//! Changes of modules while the service runs. The manager prepares a change, writes the change to
//! the database, and then makes the change active.

use std::sync::Arc;

use bytes::Bytes;
use latchmail_core::caller::Origin;
use latchmail_core::config;
use latchmail_directory::modules::{Artifact, NewVersion, Version};

use super::consent;
use super::error::Error;
use super::report::{Inspection, Report, VersionReport};
use super::router::Router;
use super::state::{Entries, ModuleEntry, ModuleManager, serving};
use crate::modules::{Examined, Module};

/// The minimum length of a prefix of a digest, in hexadecimal digits.
const MIN_DIGEST_PREFIX: usize = 8;

/// A component to install.
#[derive(Clone, Debug)]
pub struct NewComponent {
    /// The bytes of the component.
    pub bytes: Bytes,
    /// The name of the module if the component has no manifest with a name: it exports only
    /// handlers, or it is mounted.
    pub name: Option<String>,
    /// The artifact that contained the component. `None` if the component does not come from a
    /// registry.
    pub artifact: Option<Artifact>,
}

/// A change of the state of an installed module.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StateChange {
    /// Enables the module.
    Enable,
    /// Disables the module.
    Disable,
    /// Removes the module.
    Remove {
        /// Whether the data that the module stored is deleted too.
        purge: bool,
    },
}

/// A component without a name that does not come from a registry.
impl From<Vec<u8>> for NewComponent {
    fn from(bytes: Vec<u8>) -> Self {
        Self {
            bytes: bytes.into(),
            name: None,
            artifact: None,
        }
    }
}

impl ModuleManager {
    /// Installs either all components or none. The new versions handle requests when this function
    /// returns. `accept` states whether the operator consents to additional permissions of the new
    /// versions.
    ///
    /// # Errors
    /// Returns an [`Error`] if a component cannot be installed. In this case, no component is
    /// installed.
    pub async fn install(
        &self,
        router: &dyn Router,
        components: &[NewComponent],
        accept: bool,
        origin: &Origin,
    ) -> Result<Vec<Report>, Error> {
        let examined = self.examine_all(components).await?;
        let _change = self.begin_change(router).await?;
        let policies = self.policy_source.current()?;
        let mut entries = Entries::clone(&self.entries.current());
        let mut needed = Vec::new();
        for one in &examined {
            let name = &one.manifest.name;
            let module = self
                .load_checked(router, one, policies.require(name)?)
                .await?;
            needed.extend(self.consent_needed(&entries, &module).await);
            entries.insert(name.clone(), ModuleEntry::serving(module));
        }
        let publish_routes = router
            .prepare(&serving(&entries))
            .map_err(|error| Error::route_conflict(&error))?;
        if !needed.is_empty() && !accept {
            return Err(Error::ConsentRequired(needed));
        }
        let new_versions: Vec<_> = examined
            .iter()
            .zip(components)
            .map(|(one, component)| new_version(one, component.artifact.as_ref()))
            .collect();
        let stored = self
            .directory
            .modules
            .install(&new_versions, self.max_versions, self.clock.now(), origin)
            .await?;
        self.entries.publish(entries, publish_routes);
        let mut reports = Vec::with_capacity(examined.len());
        for (one, versions) in examined.iter().zip(stored) {
            let module = &one.manifest.name;
            tracing::info!(
                module,
                version = one.manifest.version,
                digest = &*one.digest,
                "installed"
            );
            reports.push(self.report(module, versions));
        }
        Ok(reports)
    }

    /// Loads a component as a module, and checks its API description.
    pub(super) async fn load_checked(
        &self,
        router: &dyn Router,
        examined: &Examined,
        policy: &config::Module,
    ) -> Result<Arc<Module>, Error> {
        let module = self.load(examined, policy).await?;
        router
            .check_description(&module)
            .map_err(|error| Error::cannot_load(&examined.manifest.name, &error.to_string()))?;
        Ok(module)
    }

    /// Reports what an installation of the components would do: their manifests, their imports, and
    /// the problems. This function changes nothing.
    ///
    /// # Errors
    /// Returns [`Error::Invalid`] if a component cannot be examined, and [`Error::Conflict`] if the
    /// configuration cannot be read.
    pub async fn inspect(
        &self,
        router: &dyn Router,
        components: &[NewComponent],
    ) -> Result<Vec<Inspection>, Error> {
        let examined = self.examine_all(components).await?;
        let policies = self.policy_source.current()?;
        let mut entries = Entries::clone(&self.entries.current());
        let mut inspections = Vec::with_capacity(examined.len());
        for one in &examined {
            let name = &one.manifest.name;
            let policy = policies.get(name);
            let mut inspection = Inspection::of(one, policy);
            let loaded = match policies.require(name) {
                Ok(policy) => self.load_checked(router, one, policy).await,
                Err(error) => Err(error),
            };
            match loaded {
                Ok(module) => {
                    inspection.needs = self.consent_needed(&entries, &module).await;
                    entries.insert(name.clone(), ModuleEntry::serving(module));
                }
                Err(error) => inspection.problems.push(error.to_string()),
            }
            inspections.push(inspection);
        }
        if let Err(error) = router.check(&serving(&entries))
            && let Some(last) = inspections.last_mut()
        {
            last.problems.push(error.to_string());
        }
        Ok(inspections)
    }

    /// Rolls a module back to an earlier version. `to` is the digest of the earlier version, or a
    /// prefix of the digest. If `to` is `None`, selects the version that was active before the
    /// current version. This rollback replaces the current version, so the next rollback without a
    /// digest does not select it.
    ///
    /// # Errors
    /// Returns [`Error::NotFound`] if the module or the version does not exist. Returns another
    /// [`Error`] if the earlier version cannot be loaded.
    pub async fn roll_back(
        &self,
        router: &dyn Router,
        name: &str,
        to: Option<&str>,
        origin: &Origin,
    ) -> Result<Report, Error> {
        let _change = self.begin_change(router).await?;
        self.roll_back_locked(router, name, to, origin).await
    }

    /// Returns the version that [`ModuleManager::roll_back`] selects without a digest.
    ///
    /// # Errors
    /// Returns [`Error::NotFound`] if the module does not exist, and [`Error::Conflict`] if the
    /// module has no earlier version.
    pub async fn earlier_version(&self, name: &str) -> Result<VersionReport, Error> {
        let entry = self.entries.get(name)?;
        let versions = self.stored_versions(name).await?;
        let serving = entry.serving.as_ref().map(|module| module.digest());
        let current = serving.or(entry.digest.as_deref());
        let earlier = previous_version(name, &versions, current)?;
        Ok(VersionReport::of(earlier.clone(), serving))
    }

    /// Rolls a module back if the version with this digest handles requests and is failing.
    /// Otherwise returns `None`.
    ///
    /// # Errors
    /// Returns an [`Error`] if the rollback fails, as in [`ModuleManager::roll_back`].
    pub async fn roll_back_if_failing(
        &self,
        router: &dyn Router,
        name: &str,
        digest: &str,
    ) -> Result<Option<Report>, Error> {
        let _change = self.begin_change(router).await?;
        let serving = self.entries.get(name)?.serving;
        let fails = |module: Arc<Module>| module.digest() == digest && module.health().failing;
        if !serving.is_some_and(fails) {
            return Ok(None);
        }
        self.roll_back_locked(router, name, None, &Origin::service())
            .await
            .map(Some)
    }

    /// Rolls a module back. The caller must have called [`ModuleManager::begin_change`].
    async fn roll_back_locked(
        &self,
        router: &dyn Router,
        name: &str,
        to: Option<&str>,
        origin: &Origin,
    ) -> Result<Report, Error> {
        let entry = self.entries.get(name)?;
        let versions = self.stored_versions(name).await?;
        let serving = entry.serving.as_ref().map(|module| module.digest());
        let current = serving.or(entry.digest.as_deref());
        let to = match to {
            Some(to) => find_version(name, &versions, to)?,
            None => previous_version(name, &versions, current)?,
        };
        let module = self.load_stored(name, &to.digest).await?;
        let now = self.clock.now();
        let written = self.directory.modules.roll_back(name, to, now, origin);
        self.replace_entry(router, name, ModuleEntry::serving(module), written)
            .await?;
        tracing::info!(
            module = name,
            version = to.version,
            digest = to.digest,
            "rolled back"
        );
        Ok(self.report(name, versions))
    }

    /// Enables or disables a module. If an enabled module is enabled, reloads the current version
    /// of the module with the current configuration. If the module is disabled, its routes are
    /// removed, and its versions stay in the database.
    ///
    /// # Errors
    /// Returns an [`Error`] if the module does not exist or cannot be loaded, if its routes
    /// conflict with other routes, or if the database fails.
    pub async fn set_enabled(
        &self,
        router: &dyn Router,
        name: &str,
        enabled: bool,
        origin: &Origin,
    ) -> Result<Report, Error> {
        let change = if enabled {
            StateChange::Enable
        } else {
            StateChange::Disable
        };
        self.change(router, name, |_| Ok(Some(change)), origin)
            .await
    }

    /// Removes a module and all its versions. If `purge` is true, also deletes the data that the
    /// module stored for accounts. `purge` also works for a module that was removed earlier.
    ///
    /// # Errors
    /// Returns [`Error::NotFound`] if the module does not exist, and [`Error::Conflict`] if the
    /// configuration has a `source` for the module, or if the program contains the module.
    pub async fn remove(
        &self,
        router: &dyn Router,
        name: &str,
        purge: bool,
        origin: &Origin,
    ) -> Result<(), Error> {
        let _change = self.begin_change(router).await?;
        remove(self, router, name, purge, origin).await
    }

    /// Changes the state of a module as `decide` says, which sees the current state. No other
    /// change begins in between. Returns the state before a removal, and the state after any other
    /// change.
    ///
    /// # Errors
    /// Returns the error of `decide`, and the errors of [`Self::set_enabled`] and [`Self::remove`].
    pub async fn change<E: From<Error>>(
        &self,
        router: &dyn Router,
        name: &str,
        decide: impl FnOnce(&Report) -> Result<Option<StateChange>, E> + Send,
        origin: &Origin,
    ) -> Result<Report, E> {
        let _change = self.begin_change(router).await?;
        let report = self.show(name).await?;
        match decide(&report)? {
            None => Ok(report),
            Some(StateChange::Enable) => Ok(enable(self, router, name, origin).await?),
            Some(StateChange::Disable) => Ok(disable(self, router, name, origin).await?),
            Some(StateChange::Remove { purge }) => {
                remove(self, router, name, purge, origin).await?;
                Ok(report)
            }
        }
    }

    /// Returns one phrase for each permission of `new` that needs the operator's consent.
    ///
    /// A component replaces the installed module that has the name in the component's manifest. Any
    /// component can contain any name, so a replacement always needs consent. Compares the new
    /// version with the version that handles requests. If no version handles requests, for example
    /// because the module is disabled, compares the new version with the module's current version.
    /// The operator must then also consent to the activation of the module. A new module needs
    /// consent only to its public routes and to its handlers.
    async fn consent_needed(&self, entries: &Entries, new: &Module) -> Vec<String> {
        let name = &new.manifest().name;
        let entry = entries.get(name);
        let phrases = match (entry, entry.and_then(|entry| entry.serving.as_ref())) {
            (None, _) => consent::of_new(new.manifest()),
            (Some(_), Some(old)) if old.digest() == new.digest() => Vec::new(),
            (Some(_), Some(old)) => {
                let mut phrases = vec![consent::replacement(old)];
                phrases.extend(consent::additions(old.manifest(), old.imports(), new));
                phrases
            }
            (Some(entry), None) => {
                let old = match &entry.digest {
                    Some(digest) => self.examine_stored(name, digest, new.policy()).await.ok(),
                    None => None,
                };
                let mut phrases = vec!["it is not serving, and would start to serve".to_owned()];
                phrases.extend(match old {
                    Some(old) => consent::additions(&old.manifest, &old.imports, new),
                    None => consent::everything(new),
                });
                phrases
            }
        };
        phrases
            .into_iter()
            .map(|phrase| format!("module `{name}`: {phrase}"))
            .collect()
    }

    /// Loads a stored version of a module with the module's current policy.
    async fn load_stored(&self, name: &str, digest: &str) -> Result<Arc<Module>, Error> {
        let policies = self.policy_source.current()?;
        let policy = policies.require(name)?;
        let examined = self.examine_stored(name, digest, policy).await?;
        self.load(&examined, policy).await
    }

    /// Replaces the entry of one module. The future `written` writes the change to the database.
    async fn replace_entry(
        &self,
        router: &dyn Router,
        name: &str,
        entry: ModuleEntry,
        written: impl Future<Output = Result<(), latchmail_directory::Error>>,
    ) -> Result<(), Error> {
        let mut entries = Entries::clone(&self.entries.current());
        entries.insert(name.to_owned(), entry);
        self.replace_entries(router, entries, written).await
    }

    /// Replaces all entries. First prepares the routes. Then awaits `written`, which writes the
    /// change to the database. Then makes the entries active.
    async fn replace_entries(
        &self,
        router: &dyn Router,
        entries: Entries,
        written: impl Future<Output = Result<(), latchmail_directory::Error>>,
    ) -> Result<(), Error> {
        let publish_routes = router
            .prepare(&serving(&entries))
            .map_err(|error| Error::route_conflict(&error))?;
        written.await?;
        self.entries.publish(entries, publish_routes);
        Ok(())
    }

    /// Examines the components of a request, and checks that the components have different module
    /// names.
    pub(super) async fn examine_all(
        &self,
        components: &[NewComponent],
    ) -> Result<Vec<Examined>, Error> {
        if components.is_empty() {
            return Err(Error::Invalid("the request contains no component".into()));
        }
        let several = components.len() > 1;
        let mut examined: Vec<Examined> = Vec::with_capacity(components.len());
        for (index, component) in components.iter().enumerate() {
            let one = self
                .loader
                .examine(component.bytes.clone(), None, component.name.as_deref())
                .await
                .map_err(|error| {
                    let subject = if several {
                        format!("component {}", index + 1)
                    } else {
                        "the component".into()
                    };
                    Error::Invalid(format!("{subject} cannot be loaded: {error}"))
                })?;
            if examined
                .iter()
                .any(|other| other.manifest.name == one.manifest.name)
            {
                return Err(Error::Invalid(format!(
                    "two of the components have the name `{}`",
                    one.manifest.name
                )));
            }
            examined.push(one);
        }
        Ok(examined)
    }
}

/// Enables a module, while no other change can begin.
async fn enable(
    manager: &ModuleManager,
    router: &dyn Router,
    name: &str,
    origin: &Origin,
) -> Result<Report, Error> {
    let Some(digest) = manager.entries.get(name)?.digest else {
        return Err(Error::NotFound(format!(
            "no version of module `{name}` was installed"
        )));
    };
    let module = manager.load_stored(name, &digest).await?;
    let versions = manager.stored_versions(name).await?;
    let written = manager
        .directory
        .modules
        .switch(name, true, manager.clock.now(), origin);
    manager
        .replace_entry(router, name, ModuleEntry::serving(module), written)
        .await?;
    tracing::info!(module = name, "enabled");
    Ok(manager.report(name, versions))
}

/// Disables a module, while no other change can begin.
async fn disable(
    manager: &ModuleManager,
    router: &dyn Router,
    name: &str,
    origin: &Origin,
) -> Result<Report, Error> {
    let entry = ModuleEntry {
        serving: None,
        enabled: false,
        problem: None,
        ..manager.entries.get(name)?
    };
    let versions = manager.stored_versions(name).await?;
    let written = manager
        .directory
        .modules
        .switch(name, false, manager.clock.now(), origin);
    manager.replace_entry(router, name, entry, written).await?;
    tracing::info!(module = name, "disabled");
    Ok(manager.report(name, versions))
}

/// Removes a module, while no other change can begin.
async fn remove(
    manager: &ModuleManager,
    router: &dyn Router,
    name: &str,
    purge: bool,
    origin: &Origin,
) -> Result<(), Error> {
    let mut entries = Entries::clone(&manager.entries.current());
    let exists = entries.remove(name).is_some();
    if !exists && !purge {
        return Err(Error::not_found(name));
    }
    let policies = manager.policy_source.current()?;
    if let Some(policy) = policies.get(name)
        && policy.has_component()
    {
        let reason = if policy.source.is_some() {
            format!(
                "the configuration installs module `{name}` with `source`: disable the module, or first remove `source` from its section"
            )
        } else {
            format!("the program contains module `{name}`: disable the module instead")
        };
        return Err(Error::Conflict(reason));
    }
    let now = manager.clock.now();
    let removed = Box::pin(manager.directory.modules.remove(name, purge, now, origin));
    if exists {
        let written = async { removed.await.map(drop) };
        manager.replace_entries(router, entries, written).await?;
        manager.loader.discard_log(name);
    } else if !removed.await? {
        return Err(Error::NotFound(format!(
            "there is no module `{name}`, and no stored data of a module with this name"
        )));
    }
    tracing::info!(module = name, purge, "removed");
    Ok(())
}

fn new_version<'a>(examined: &'a Examined, artifact: Option<&'a Artifact>) -> NewVersion<'a> {
    NewVersion {
        module: &examined.manifest.name,
        digest: &examined.digest,
        version: &examined.manifest.version,
        component: &examined.bytes,
        source: false,
        artifact,
    }
}

/// Finds a version by its digest or by a prefix of its digest.
fn find_version<'a>(
    module: &str,
    versions: &'a [Version],
    digest: &str,
) -> Result<&'a Version, Error> {
    let not_found = |reason: &str| Err(Error::NotFound(format!("module `{module}`: {reason}")));
    if digest.len() < MIN_DIGEST_PREFIX {
        return not_found("the digest of a version must be given with at least 8 digits");
    }
    let mut found = versions
        .iter()
        .filter(|version| version.digest.starts_with(digest));
    match (found.next(), found.next()) {
        (Some(one), None) => Ok(one),
        (Some(_), Some(_)) => not_found("two versions have digests with this prefix"),
        (None, _) => not_found("there is no version with this digest"),
    }
}

/// Finds the version that was active before the current version.
fn previous_version<'a>(
    module: &str,
    versions: &'a [Version],
    current: Option<&str>,
) -> Result<&'a Version, Error> {
    let is_current = |version: &&Version| Some(version.digest.as_str()) == current;
    let current_served = versions.iter().find(is_current).and_then(|v| v.served);
    versions
        .iter()
        .filter(|version| version.served.is_some() && !is_current(version))
        .filter(|version| current_served.is_none_or(|at| version.served < Some(at)))
        .max_by_key(|version| version.served)
        .ok_or_else(|| Error::Conflict(format!("module `{module}` has no earlier version")))
}
