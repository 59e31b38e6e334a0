//! Changes while the service runs. Each is prepared whole, then written down, then swapped in.

use std::sync::Arc;

use bytes::Bytes;

use super::report::{Inspection, Report};
use super::{Life, Refusal, Slot, Slots, Surface, consent, serving};
use crate::caller::Origin;
use crate::config;
use crate::directory;
use crate::directory::modules::{NewVersion, Version};
use crate::modules::{Examined, Module};

/// The fewest digits that a digest may be named by.
const SHORTEST_DIGEST: usize = 8;

impl Life {
    /// Installs components, all of them or none; each serves from then on. `accept` is the operator's yes to what a new version may do that the one before
    /// could not.
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

    /// What installing components would come to: what each is, what it imports, and what stands in its way. Nothing is changed.
    ///
    /// # Errors
    /// [`Refusal::Unusable`] where one is no component that can be asked what it is.
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

    /// Lets an earlier version serve again: that of a digest or its beginning, or the one that served before the one that serves now. What it takes the place of is
    /// not gone back to unless it is named.
    ///
    /// # Errors
    /// [`Refusal::Unknown`] where there is no such module or version; any other [`Refusal`] where it cannot be loaded any more.
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

    /// The same for a version of which most requests fail, where it still serves.
    ///
    /// # Errors
    /// As [`Life::roll_back`].
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

    /// Switches a module on, or loads the one that serves anew, with the configuration as it is now.
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
                "no version of module `{name}` was ever installed"
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

    /// Switches a module off: its routes are gone, its versions are kept.
    ///
    /// # Errors
    /// [`Refusal::Unknown`] where there is no such module.
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

    /// Removes a module and every version of it; with `purge` what it stored for accounts, too, and that of a module that was removed without it.
    ///
    /// # Errors
    /// [`Refusal::Unknown`] where there is no such module; [`Refusal::Conflict`] for one that the configuration brings.
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
                "the configuration brings module `{name}` with its `source`: disable it, or take it out there first"
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
                "there is no module `{name}`, and nothing that one of this name stored"
            )));
        }
        tracing::info!(module = name, purge, "removed");
        Ok(())
    }

    /// What needs the operator's consent. A new version is compared with the version that serves or, if none does, with the one that was to; a new module needs
    /// consent to its public routes. That a module does not serve at present is reported too.
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
                let mut more = vec!["it does not serve at present, and would".to_owned()];
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

    /// A module within its ceiling.
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

    /// Puts one slot in the place of another.
    async fn put(
        &self,
        surface: &dyn Surface,
        name: &str,
        slot: Slot,
        written: impl Future<Output = Result<(), directory::Error>>,
    ) -> Result<(), Refusal> {
        let mut slots = Slots::clone(&self.slots.load());
        slots.insert(name.to_owned(), slot);
        self.replace(surface, slots, written).await
    }

    /// Puts other slots in the place of those there are: routed together, written down, swapped.
    async fn replace(
        &self,
        surface: &dyn Surface,
        slots: Slots,
        written: impl Future<Output = Result<(), directory::Error>>,
    ) -> Result<(), Refusal> {
        let publish = surface
            .prepare(&serving(&slots))
            .map_err(|why| Refusal::clash(&why))?;
        written.await?;
        publish();
        self.serve(slots);
        Ok(())
    }

    /// Takes these for what serves. Modules that no longer do give up the sandboxes that they keep.
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
            return Err(Refusal::Unusable("there is no component in it".into()));
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
                    "two of the components call themselves `{}`",
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

/// The version of this digest, or of the one that begins so.
fn named<'a>(module: &str, versions: &'a [Version], digest: &str) -> Result<&'a Version, Refusal> {
    let unknown = |why: &str| Err(Refusal::Unknown(format!("module `{module}`: {why}")));
    if digest.len() < SHORTEST_DIGEST {
        return unknown("a version is named by at least 8 digits of its digest");
    }
    let mut found = versions
        .iter()
        .filter(|version| version.digest.starts_with(digest));
    match (found.next(), found.next()) {
        (Some(one), None) => Ok(one),
        (Some(_), Some(_)) => unknown("two versions have digests that begin so"),
        (None, _) => unknown("no version of that digest is kept"),
    }
}

/// The version that served before the current one.
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
        .ok_or_else(|| {
            Refusal::Conflict(format!(
                "there is no version of module `{module}` before this one"
            ))
        })
}
