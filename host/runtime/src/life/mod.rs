//! The module manager: knows all modules and their serving versions, and changes them while the service runs.
//!
//! A change is prepared completely first: the component is compiled, checked against its policy, linked, tested, and routed together with everything
//! else. Then the change is written to the database and one pointer is swapped. If a step fails, nothing changes. The configuration sets the policies
//! and is read again at every change. The database records which versions serve and stores the components.
//!
//! The sandbox is in [`crate::modules`]. The authorization of administrators is in [`latchmail_http::admin`].

mod breaker;
mod ceilings;
mod change;
mod consent;
mod refusal;
pub mod report;
mod start;

use std::collections::BTreeMap;
use std::sync::Arc;

use arc_swap::ArcSwap;
use bytes::Bytes;
use latchmail_core::clock::Clock;
use latchmail_core::config::{self, Breaker, Config};
use latchmail_core::error::StartError;
use latchmail_directory::Directory;
use latchmail_directory::modules::Version;
use tokio::sync::{Mutex, mpsc};

use crate::api::Services;
use crate::module_log::Entry;
use crate::modules::{Examined, Failing, Loader, Module};
use ceilings::Ceilings;
pub use refusal::Refusal;

/// The router, which combines the routes of modules with those of the service.
pub trait Surface: Send + Sync {
    /// Checks that the routes of these modules and of the service do not conflict.
    ///
    /// # Errors
    /// A sentence that names both conflicting routes.
    fn check(&self, modules: &[Arc<Module>]) -> Result<(), StartError>;

    /// Makes the route table of these modules and the service. Calling the returned function replaces the current table.
    ///
    /// # Errors
    /// A sentence that names both conflicting routes.
    fn prepare<'a>(
        &'a self,
        modules: &[Arc<Module>],
    ) -> Result<Box<dyn FnOnce() + Send + 'a>, StartError>;
}

/// The modules of a service.
#[derive(Debug)]
pub struct Life {
    loader: Loader,
    directory: Directory,
    clock: Clock,
    ceilings: Ceilings,
    /// The number of versions that are kept of each module.
    versions: u32,
    slots: ArcSwap<Slots>,
    /// Held by a change, so that changes run one at a time.
    turn: Mutex<()>,
}

type Slots = BTreeMap<String, Slot>;

/// The state of one module.
#[derive(Clone, Debug)]
struct Slot {
    /// The serving version.
    serving: Option<Arc<Module>>,
    /// The digest of the version that should serve. `None` if no version has been installed.
    digest: Option<String>,
    /// Whether the module should serve.
    enabled: bool,
    /// Why the intended version does not serve.
    problem: Option<String>,
}

impl Life {
    /// Makes a manager without serving modules. The returned channel receives a message when most of the latest requests of a module failed.
    ///
    /// # Errors
    /// The configuration has an invalid policy, or the engine cannot be made.
    pub fn new(
        config: &Config,
        services: Services,
        directory: Directory,
        clock: Clock,
    ) -> Result<(Self, mpsc::UnboundedReceiver<Failing>), StartError> {
        let (loader, failing) = Loader::new(config, services, clock.clone())?;
        let life = Self {
            loader,
            directory,
            clock,
            ceilings: Ceilings::new(config),
            versions: config.admin.versions.max(2),
            slots: ArcSwap::default(),
            turn: Mutex::default(),
        };
        Ok((life, failing))
    }

    /// Returns the serving modules.
    #[must_use]
    pub fn serving(&self) -> Vec<Arc<Module>> {
        serving(&self.slots.load())
    }

    /// Logs that a module is failing and returns the action of its policy. Returns `None` if the failing version no longer serves.
    #[must_use]
    pub fn failing(&self, told: &Failing) -> Option<Breaker> {
        let slots = self.slots.load();
        let module = slots.get(&*told.module)?.serving.as_ref()?;
        if module.digest() != &*told.digest {
            return None;
        }
        let last = module.health().last.map(|(_, what)| what);
        tracing::error!(
            module = &*told.module,
            digest = &*told.digest,
            "most of the latest requests of a module failed; last error: {}",
            last.unwrap_or_default()
        );
        Some(module.ceiling().breaker)
    }

    /// Returns the recent log entries of a module, or those of one request.
    ///
    /// # Errors
    /// Returns [`Refusal::Unknown`] if there is no such module.
    pub fn log(&self, name: &str, request: Option<&str>) -> Result<Vec<Entry>, Refusal> {
        self.slot(name)?;
        Ok(self.loader.log(name).read(request))
    }

    /// Returns a kept version, compiled and examined.
    async fn kept(
        &self,
        name: &str,
        digest: &str,
        ceiling: &config::Module,
    ) -> Result<Examined, Refusal> {
        if let Some(examined) = self.loader.recalled(digest) {
            return Ok(examined);
        }
        let component = self.directory.module_component(name, digest).await?;
        let Some(component) = component else {
            return Err(Refusal::Unknown(format!(
                "version {digest} of module `{name}` no longer exists"
            )));
        };
        self.loader
            .examine(Bytes::from(component), Some(ceiling))
            .await
            .map_err(|why| Refusal::unusable(name, &why))
    }

    async fn versions(&self, name: &str) -> Result<Vec<Version>, latchmail_directory::Error> {
        self.directory.module_versions(name).await
    }
}

fn serving(slots: &Slots) -> Vec<Arc<Module>> {
    slots
        .values()
        .filter_map(|slot| slot.serving.clone())
        .collect()
}
