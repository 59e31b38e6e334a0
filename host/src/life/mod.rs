//! The life of modules: which there are, which version of each serves, and every change of that while the service runs.
//!
//! A change is prepared whole before anything is touched: compiled, held against what was granted, linked, tried, routed together with everything
//! else; then it is written to the database, and one pointer is swapped. Where any of it fails all is as it was. The configuration is the ceiling, and read anew at
//! every change; the database says what serves, and keeps the components.
//!
//! What a component may do is in [`crate::modules`], who may change modules in [`crate::http::admin`].

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
use tokio::sync::{Mutex, mpsc};

use crate::api::Services;
use crate::clock::Clock;
use crate::config::{self, Breaker, Config};
use crate::directory::modules::Version;
use crate::directory::{self, Directory};
use crate::error::StartError;
use crate::module_log::Entry;
use crate::modules::{Examined, Failing, Loader, Module};
use ceilings::Ceilings;
pub use refusal::Refusal;

/// Where the routes of modules come together with the service's own.
pub trait Surface: Send + Sync {
    /// Checks whether these modules and the service go together.
    ///
    /// # Errors
    /// A sentence that names both sides of whatever does not go together.
    fn check(&self, modules: &[Arc<Module>]) -> Result<(), StartError>;

    /// Makes the table of routes that these modules and the service have together. What is returned puts it in the place of the one before.
    ///
    /// # Errors
    /// A sentence that names both sides of whatever does not go together.
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
    /// Versions of a module that are kept.
    versions: u32,
    slots: ArcSwap<Slots>,
    /// One change at a time.
    turn: Mutex<()>,
}

type Slots = BTreeMap<String, Slot>;

/// What there is of one module.
#[derive(Clone, Debug)]
struct Slot {
    /// What serves.
    serving: Option<Arc<Module>>,
    /// The digest of what is to serve; none where nothing could ever be installed.
    digest: Option<String>,
    /// Whether it is to serve.
    enabled: bool,
    /// Why it does not serve, or not in the version that it is to.
    problem: Option<String>,
}

impl Life {
    /// No module serves yet. What is received is told by modules of which most requests began to trap.
    ///
    /// # Errors
    /// A sentence where the configuration has a ceiling that cannot be kept to.
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

    /// The modules that serve.
    #[must_use]
    pub fn serving(&self) -> Vec<Arc<Module>> {
        serving(&self.slots.load())
    }

    /// What is to become of a module of which most requests began to trap, where that version still serves. It is reported in any case.
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
            "most of its requests fail; the last: {}",
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

    /// A version that is kept, compiled and asked what it is.
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
                "there is no version {digest} of module `{name}` any more"
            )));
        };
        self.loader
            .examine(Bytes::from(component), Some(ceiling))
            .await
            .map_err(|why| Refusal::unusable(name, &why))
    }

    async fn versions(&self, name: &str) -> Result<Vec<Version>, directory::Error> {
        self.directory.module_versions(name).await
    }
}

fn serving(slots: &Slots) -> Vec<Arc<Module>> {
    slots
        .values()
        .filter_map(|slot| slot.serving.clone())
        .collect()
}
