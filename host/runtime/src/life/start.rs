//! Decides which modules serve when the service starts, from the database and from new files in the configuration.
//!
//! If a module cannot be loaded, the error is logged and the last version that can be loaded serves. Other modules are not affected.

use std::collections::BTreeSet;
use std::sync::Arc;

use bytes::Bytes;
use latchmail_core::caller::Origin;
use latchmail_core::config;
use latchmail_core::error::StartError;
use latchmail_directory::modules::{Installed, NewVersion};

use super::ceilings::Allowed;
use super::{Life, Refusal, Slot, Slots, Surface, serving};
use crate::api::bounded;
use crate::modules::{Examined, Module, digest};

impl Life {
    /// Loads the modules that should serve and publishes their routes.
    ///
    /// # Errors
    /// The database cannot be read, or the service's own routes conflict.
    pub async fn begin(&self, surface: &dyn Surface) -> Result<(), StartError> {
        let _turn = self.turn.lock().await;
        let failed = |error: latchmail_directory::Error| StartError::new(error.to_string());
        let installed = self.directory.installed_modules().await.map_err(failed)?;
        let allowed = self.ceilings.at_start();
        let names: BTreeSet<&str> = allowed
            .named
            .iter()
            .filter(|(_, ceiling)| ceiling.source.is_some())
            .map(|(name, _)| name.as_str())
            .chain(installed.iter().map(|one| one.module.as_str()))
            .collect();
        let as_installed = |name: &str| installed.iter().find(|one| one.module == name);
        // If the routes of two modules conflict, the module that is already in the database serves.
        let (before, new): (Vec<_>, Vec<_>) = names
            .into_iter()
            .partition(|name| as_installed(name).is_some());
        let mut slots = Slots::new();
        for name in before.into_iter().chain(new) {
            let slot = self
                .first(surface, &slots, allowed, name, as_installed(name))
                .await;
            if let Some(problem) = &slot.problem {
                let problem = bounded(problem);
                tracing::error!(module = name, serves = slot.serving.is_some(), "{problem}");
            }
            slots.insert(name.to_owned(), slot);
        }
        surface.prepare(&serving(&slots))?();
        self.slots.store(Arc::new(slots));
        Ok(())
    }

    /// Returns the entry of a module at the start. If the intended version cannot serve, the entry has the reason.
    async fn first(
        &self,
        surface: &dyn Surface,
        slots: &Slots,
        allowed: &Allowed,
        name: &str,
        installed: Option<&Installed>,
    ) -> Slot {
        let mut slot = Slot {
            serving: None,
            digest: installed.map(|one| one.digest.clone()),
            enabled: installed.is_none_or(|one| one.enabled),
            problem: None,
        };
        let ceiling = match allowed.ceiling(name) {
            Ok(ceiling) => ceiling,
            Err(why) => {
                slot.problem = Some(why.to_string());
                return slot;
            }
        };
        match self.source(surface, slots, name, ceiling, installed).await {
            Ok(Some(module)) => {
                slot.digest = Some(module.digest().to_owned());
                slot.serving = Some(module);
                slot.enabled = true;
                return slot;
            }
            Ok(None) => {}
            Err(why) => slot.problem = Some(why.to_string()),
        }
        if !slot.enabled {
            return slot;
        }
        let Some(installed) = installed else {
            return slot;
        };
        match self
            .last_good(surface, slots, name, ceiling, installed)
            .await
        {
            Ok((module, problem)) => {
                slot.serving = module;
                slot.problem = slot.problem.or(problem);
            }
            Err(why) => slot.problem = Some(why.to_string()),
        }
        slot
    }

    /// Loads and installs the file of `source` if its content is new. A file that was installed before is ignored, so that a version that an
    /// administrator installed later continues to serve. If the module is disabled, the file is ignored as well: an upgrade of a package does not
    /// enable a module.
    async fn source(
        &self,
        surface: &dyn Surface,
        slots: &Slots,
        name: &str,
        ceiling: &config::Module,
        installed: Option<&Installed>,
    ) -> Result<Option<Arc<Module>>, Refusal> {
        let Some(file) = &ceiling.source else {
            return Ok(None);
        };
        if installed.is_some_and(|one| !one.enabled) {
            return Ok(None);
        }
        let bytes = tokio::fs::read(file).await.map_err(|error| {
            Refusal::unusable(name, &format!("{} cannot be read: {error}", file.display()))
        })?;
        let bytes = Bytes::from(bytes);
        let digest = digest(&bytes);
        let serves = installed.is_some_and(|one| one.digest == digest);
        let seen = installed.is_some_and(|one| one.source_digest.as_ref() == Some(&digest));
        if seen && !serves {
            return Ok(None);
        }
        let examined = self.examined(name, bytes, ceiling).await?;
        let module = self.fitting(surface, slots, &examined, ceiling).await?;
        if !seen {
            let new = NewVersion {
                module: name,
                digest: &digest,
                version: &examined.manifest.version,
                component: &examined.bytes,
                source: true,
            };
            let (now, origin) = (self.clock.now(), Origin::service());
            self.directory
                .install_modules(&[new], self.versions, now, &origin)
                .await?;
        }
        Ok(Some(module))
    }

    /// Returns the intended version if it can be loaded, otherwise the latest earlier version that can be loaded and the problem of the intended
    /// one.
    async fn last_good(
        &self,
        surface: &dyn Surface,
        slots: &Slots,
        name: &str,
        ceiling: &config::Module,
        installed: &Installed,
    ) -> Result<(Option<Arc<Module>>, Option<String>), Refusal> {
        let mut versions = self.versions(name).await?;
        versions.retain(|version| version.served.is_some());
        versions.sort_by_key(|version| std::cmp::Reverse(version.served));
        let from = versions.iter().position(|v| v.digest == installed.digest);
        let mut problem = None;
        for version in versions.iter().skip(from.unwrap_or(0)) {
            let loaded = match self.kept(name, &version.digest, ceiling).await {
                Ok(examined) => self.fitting(surface, slots, &examined, ceiling).await,
                Err(why) => Err(why),
            };
            match loaded {
                Ok(module) => return Ok((Some(module), problem)),
                Err(why) => {
                    let why = format!("version {} does not serve: {why}", version.version);
                    problem.get_or_insert(why);
                }
            }
        }
        Ok((None, problem))
    }

    /// Examines a component and checks that its manifest has this name.
    async fn examined(
        &self,
        name: &str,
        bytes: Bytes,
        ceiling: &config::Module,
    ) -> Result<Examined, Refusal> {
        let examined = self
            .loader
            .examine(bytes, Some(ceiling))
            .await
            .map_err(|why| Refusal::unusable(name, &why))?;
        if examined.manifest.name == name {
            Ok(examined)
        } else {
            let why = format!("its manifest has the name `{}`", examined.manifest.name);
            Err(Refusal::unusable(name, &why))
        }
    }

    /// Loads a module within its policy and checks its routes against those of the serving modules.
    async fn fitting(
        &self,
        surface: &dyn Surface,
        slots: &Slots,
        examined: &Examined,
        ceiling: &config::Module,
    ) -> Result<Arc<Module>, Refusal> {
        let module = self.loaded(examined, ceiling).await?;
        let mut together = serving(slots);
        together.push(Arc::clone(&module));
        surface
            .check(&together)
            .map_err(|why| Refusal::clash(&why))?;
        Ok(module)
    }
}
