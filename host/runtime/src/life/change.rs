//! Changes while the service runs. Each change is prepared completely, then written to the database, then swapped in.

use std::sync::Arc;

use bytes::Bytes;
use latchmail_core::caller::Origin;
use latchmail_core::config;
use latchmail_directory::modules::{NewVersion, Version};

use super::report::{Inspection, Report};
use super::{Life, Refusal, Slot, Slots, Surface, consent, serving};
use crate::modules::{Examined, Module};

/// The minimum length of an abbreviated digest, in digits.
const SHORTEST_DIGEST: usize = 8;

impl Life {
    /// Installs components, all of them or none. They serve when this function returns. `accept` is the consent of the operator to additional
    /// permissions of the new versions.
    ///
    /// # Errors
    /// Any [`Refusal`].
    pub async fn install(
        &self,
        surface: &dyn Surface,
        components: Vec<Bytes>,
        accept: bool,
        origin: &Origin,
    ) -> Result<Vec<Report>, Refusal> {
        let examined = self.examined_set(components).await?;
        let _turn = self.turn.lock().await;
        let allowed = self.ceilings.now()?;
        let mut slots = Slots::clone(&self.slots.load());
        let mut more = Vec::new();
        for one in &examined {
            let name = &one.manifest.name;
            let module = self.loaded(one, allowed.ceiling(name)?).await?;
            more.extend(self.more_than_before(&slots, &module).await);
            slots.insert(name.clone(), Slot::serving(module));
        }
        let publish = surface
            .prepare(&serving(&slots))
            .map_err(|why| Refusal::clash(&why))?;
        if !more.is_empty() && !accept {
            return Err(Refusal::Consent(more));
        }
        let set: Vec<_> = examined.iter().map(new_version).collect();
        let kept = self
            .directory
            .install_modules(&set, self.versions, self.clock.now(), origin)
            .await?;
        publish();
        self.serve(slots);
        let mut reports = Vec::with_capacity(examined.len());
        for (one, versions) in examined.iter().zip(kept) {
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

    /// Reports what installing components would do: their manifests, their imports, and the problems. Changes nothing.
    ///
    /// # Errors
    /// [`Refusal::Unusable`] if one of them cannot be examined. [`Refusal::Conflict`] if the configuration cannot be read.
    pub async fn inspect(
        &self,
        surface: &dyn Surface,
        components: Vec<Bytes>,
    ) -> Result<Vec<Inspection>, Refusal> {
        let examined = self.examined_set(components).await?;
        let allowed = self.ceilings.now()?;
        let mut slots = Slots::clone(&self.slots.load());
        let mut inspections = Vec::with_capacity(examined.len());
        for one in &examined {
            let name = &one.manifest.name;
            let ceiling = allowed.of_module(name);
            let mut inspection = Inspection::of(one, ceiling);
            let loaded = match allowed.ceiling(name) {
                Ok(ceiling) => self.loaded(one, ceiling).await,
                Err(why) => Err(why),
            };
            match loaded {
                Ok(module) => {
                    inspection.needs = self.more_than_before(&slots, &module).await;
                    slots.insert(name.clone(), Slot::serving(module));
                }
                Err(why) => inspection.problems.push(why.to_string()),
            }
            inspections.push(inspection);
        }
        if let Err(why) = surface.check(&serving(&slots))
            && let Some(last) = inspections.last_mut()
        {
            last.problems.push(why.to_string());
        }
        Ok(inspections)
    }

    /// Rolls a module back to an earlier version: the one with the given digest or prefix of a digest, or by default the one that served before
    /// the current version. A later rollback does not return to the replaced version unless its digest is given.
    ///
    /// # Errors
    /// [`Refusal::Unknown`] if the module or version does not exist. Any other [`Refusal`] if the version can no longer be loaded.
    pub async fn roll_back(
        &self,
        surface: &dyn Surface,
        name: &str,
        to: Option<&str>,
        origin: &Origin,
    ) -> Result<Report, Refusal> {
        let _turn = self.turn.lock().await;
        self.rolled_back(surface, name, to, origin).await
    }

    /// Rolls a module back if the given version still serves and still fails. Otherwise returns `None`.
    ///
    /// # Errors
    /// The same as [`Life::roll_back`].
    pub async fn roll_back_from(
        &self,
        surface: &dyn Surface,
        name: &str,
        digest: &str,
    ) -> Result<Option<Report>, Refusal> {
        let _turn = self.turn.lock().await;
        let serves = self.slot(name)?.serving;
        let fails = |module: Arc<Module>| module.digest() == digest && module.health().failing;
        if !serves.is_some_and(fails) {
            return Ok(None);
        }
        self.rolled_back(surface, name, None, &Origin::service())
            .await
            .map(Some)
    }

    async fn rolled_back(
        &self,
        surface: &dyn Surface,
        name: &str,
        to: Option<&str>,
        origin: &Origin,
    ) -> Result<Report, Refusal> {
        let slot = self.slot(name)?;
        let versions = self.versions(name).await?;
        let serves = slot.serving.as_ref().map(|module| module.digest());
        let current = serves.or(slot.digest.as_deref());
        let to = match to {
            Some(to) => named(name, &versions, to)?,
            None => earlier(name, &versions, current)?,
        };
        let allowed = self.ceilings.now()?;
        let ceiling = allowed.ceiling(name)?;
        let examined = self.kept(name, &to.digest, ceiling).await?;
        let module = self.loaded(&examined, ceiling).await?;
        let now = self.clock.now();
        let written = self.directory.roll_module_back(name, to, now, origin);
        self.put(surface, name, Slot::serving(module), written)
            .await?;
        tracing::info!(
            module = name,
            version = to.version,
            digest = to.digest,
            "rolled back"
        );
        Ok(self.report(name, versions))
    }

    /// Enables a module, or loads its current version again, with the current configuration.
    ///
    /// # Errors
    /// Any [`Refusal`].
    pub async fn enable(
        &self,
        surface: &dyn Surface,
        name: &str,
        origin: &Origin,
    ) -> Result<Report, Refusal> {
        let _turn = self.turn.lock().await;
        let Some(digest) = self.slot(name)?.digest else {
            return Err(Refusal::Unknown(format!(
                "no version of module `{name}` was installed"
            )));
        };
        let allowed = self.ceilings.now()?;
        let ceiling = allowed.ceiling(name)?;
        let examined = self.kept(name, &digest, ceiling).await?;
        let module = self.loaded(&examined, ceiling).await?;
        let versions = self.versions(name).await?;
        let written = self
            .directory
            .switch_module(name, true, self.clock.now(), origin);
        self.put(surface, name, Slot::serving(module), written)
            .await?;
        tracing::info!(module = name, "enabled");
        Ok(self.report(name, versions))
    }

    /// Disables a module. Its routes are removed and its versions are kept.
    ///
    /// # Errors
    /// [`Refusal::Unknown`] if the module does not exist.
    pub async fn disable(
        &self,
        surface: &dyn Surface,
        name: &str,
        origin: &Origin,
    ) -> Result<Report, Refusal> {
        let _turn = self.turn.lock().await;
        let slot = Slot {
            serving: None,
            enabled: false,
            problem: None,
            ..self.slot(name)?
        };
        let versions = self.versions(name).await?;
        let written = self
            .directory
            .switch_module(name, false, self.clock.now(), origin);
        self.put(surface, name, slot, written).await?;
        tracing::info!(module = name, "disabled");
        Ok(self.report(name, versions))
    }

    /// Removes a module and all its versions. With `purge` also removes the data that the module stored for accounts, even if the module itself
    /// was removed earlier.
    ///
    /// # Errors
    /// [`Refusal::Unknown`] if the module does not exist. [`Refusal::Conflict`] if the configuration has a `source` for the module.
    pub async fn remove(
        &self,
        surface: &dyn Surface,
        name: &str,
        purge: bool,
        origin: &Origin,
    ) -> Result<(), Refusal> {
        let _turn = self.turn.lock().await;
        let mut slots = Slots::clone(&self.slots.load());
        let there = slots.remove(name).is_some();
        if !there && !purge {
            return Err(Refusal::unknown(name));
        }
        let allowed = self.ceilings.now()?;
        if allowed
            .of_module(name)
            .is_some_and(|own| own.source.is_some())
        {
            return Err(Refusal::Conflict(format!(
                "the configuration installs module `{name}` with `source`: disable the module, or remove that setting first"
            )));
        }
        let now = self.clock.now();
        let removed = Box::pin(self.directory.remove_module(name, purge, now, origin));
        if there {
            let written = async { removed.await.map(drop) };
            self.replace(surface, slots, written).await?;
            self.loader.discard_log(name);
        } else if !removed.await? {
            return Err(Refusal::Unknown(format!(
                "there is no module `{name}`, and no stored data of a module with this name"
            )));
        }
        tracing::info!(module = name, purge, "removed");
        Ok(())
    }

    /// Returns what needs the operator's consent. A new version is compared with the serving version or, if none serves, with the one that should
    /// serve. A new module needs consent to its public routes. The result also says if the module does not serve at present.
    async fn more_than_before(&self, slots: &Slots, new: &Module) -> Vec<String> {
        let name = &new.manifest().name;
        let slot = slots.get(name);
        let more = match (slot, slot.and_then(|slot| slot.serving.as_ref())) {
            (None, _) => consent::public(new.manifest()),
            (Some(_), Some(old)) => consent::more(old.manifest(), old.imports(), new),
            (Some(slot), None) => {
                let before = match &slot.digest {
                    Some(digest) => self.kept(name, digest, new.ceiling()).await.ok(),
                    None => None,
                };
                let mut more =
                    vec!["it does not serve at present and would start to serve".to_owned()];
                more.extend(match before {
                    Some(before) => consent::more(&before.manifest, &before.imports, new),
                    None => consent::all(new),
                });
                more
            }
        };
        more.into_iter()
            .map(|what| format!("module `{name}`: {what}"))
            .collect()
    }

    /// Loads a module within its policy.
    pub(super) async fn loaded(
        &self,
        examined: &Examined,
        ceiling: &config::Module,
    ) -> Result<Arc<Module>, Refusal> {
        self.loader
            .load(examined, ceiling)
            .await
            .map(Arc::new)
            .map_err(|why| Refusal::unusable(&examined.manifest.name, &why))
    }

    /// Replaces the entry of one module.
    async fn put(
        &self,
        surface: &dyn Surface,
        name: &str,
        slot: Slot,
        written: impl Future<Output = Result<(), latchmail_directory::Error>>,
    ) -> Result<(), Refusal> {
        let mut slots = Slots::clone(&self.slots.load());
        slots.insert(name.to_owned(), slot);
        self.replace(surface, slots, written).await
    }

    /// Replaces all entries: prepares the routes, writes the change to the database, and swaps the pointer.
    async fn replace(
        &self,
        surface: &dyn Surface,
        slots: Slots,
        written: impl Future<Output = Result<(), latchmail_directory::Error>>,
    ) -> Result<(), Refusal> {
        let publish = surface
            .prepare(&serving(&slots))
            .map_err(|why| Refusal::clash(&why))?;
        written.await?;
        publish();
        self.serve(slots);
        Ok(())
    }

    /// Swaps in the entries. Modules that no longer serve release their idle sandboxes.
    fn serve(&self, slots: Slots) {
        let now = serving(&slots);
        let before = self.slots.swap(Arc::new(slots));
        for module in serving(&before) {
            if !now.iter().any(|other| Arc::ptr_eq(other, &module)) {
                module.retire();
            }
        }
    }

    pub(super) fn slot(&self, name: &str) -> Result<Slot, Refusal> {
        let slots = self.slots.load();
        slots
            .get(name)
            .cloned()
            .ok_or_else(|| Refusal::unknown(name))
    }

    async fn examined_set(&self, components: Vec<Bytes>) -> Result<Vec<Examined>, Refusal> {
        if components.is_empty() {
            return Err(Refusal::Unusable(
                "the request contains no component".into(),
            ));
        }
        let several = components.len() > 1;
        let mut examined: Vec<Examined> = Vec::with_capacity(components.len());
        for (at, component) in components.into_iter().enumerate() {
            let one = self.loader.examine(component, None).await.map_err(|why| {
                let which = if several {
                    format!("component {}", at + 1)
                } else {
                    "the component".into()
                };
                Refusal::Unusable(format!("{which} cannot be loaded: {why}"))
            })?;
            if examined
                .iter()
                .any(|other| other.manifest.name == one.manifest.name)
            {
                return Err(Refusal::Unusable(format!(
                    "two of the components have the name `{}`",
                    one.manifest.name
                )));
            }
            examined.push(one);
        }
        Ok(examined)
    }
}

impl Slot {
    fn serving(module: Arc<Module>) -> Self {
        Self {
            digest: Some(module.digest().to_owned()),
            serving: Some(module),
            enabled: true,
            problem: None,
        }
    }
}

fn new_version(examined: &Examined) -> NewVersion<'_> {
    NewVersion {
        module: &examined.manifest.name,
        digest: &examined.digest,
        version: &examined.manifest.version,
        component: &examined.bytes,
        source: false,
    }
}

/// Finds a version by its digest or by a prefix of it.
fn named<'a>(module: &str, versions: &'a [Version], digest: &str) -> Result<&'a Version, Refusal> {
    let unknown = |why: &str| Err(Refusal::Unknown(format!("module `{module}`: {why}")));
    if digest.len() < SHORTEST_DIGEST {
        return unknown("give at least 8 digits of the digest of a version");
    }
    let mut found = versions
        .iter()
        .filter(|version| version.digest.starts_with(digest));
    match (found.next(), found.next()) {
        (Some(one), None) => Ok(one),
        (Some(_), Some(_)) => unknown("two versions have digests with this prefix"),
        (None, _) => unknown("there is no version with this digest"),
    }
}

/// Finds the version that served before the current one.
fn earlier<'a>(
    module: &str,
    versions: &'a [Version],
    current: Option<&str>,
) -> Result<&'a Version, Refusal> {
    let is_current = |version: &&Version| Some(version.digest.as_str()) == current;
    let until = versions.iter().find(is_current).and_then(|v| v.served);
    versions
        .iter()
        .filter(|version| version.served.is_some() && !is_current(version))
        .filter(|version| until.is_none_or(|until| version.served < Some(until)))
        .max_by_key(|version| version.served)
        .ok_or_else(|| Refusal::Conflict(format!("module `{module}` has no earlier version")))
}
