//! From a component's bytes to a module that can be called. First what it says of itself is learnt ([`Loader::examine`]), from an instance that
//! reaches nothing; then it is held against what its operator granted, linked and made ready ([`Loader::load`]).
//!
//! Whatever goes wrong is a sentence that follows the module's name. What serves is not decided here.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::panic::AssertUnwindSafe;
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use bytes::Bytes;
use latchmail_bindings::EverythingPre;
use sha2::{Digest as _, Sha256};
use tokio::sync::{Semaphore, mpsc};
use wasmtime::Engine;
use wasmtime::component::Component;

use super::bounds::{self, CpuTime};
use super::engine::{self, LARGEST_MEMORY_MIB};
use super::health::Health;
use super::idle::Idle;
use super::room::Rooms;
use super::sandbox::{self, Budget, Instance, Sandbox};
use super::{Access, Manifest, Module, contract, convert, linker};
use crate::api::{Call, Services, Settings};
use crate::caller::Origin;
use crate::clock::Clock;
use crate::config::{self, Config};
use crate::error::StartError;
use crate::hexadecimal;
use crate::module_log::ModuleLog;
use crate::turns::Turns;

/// How long a module may take to say what it is.
const DESCRIBE: Duration = Duration::from_secs(5);

/// What it may use for that, where it is not known yet what it may use.
const DESCRIBE_BUDGET: Budget = Budget {
    memory: LARGEST_MEMORY_MIB as usize * 1024 * 1024,
    cpu: DESCRIBE,
    host_calls: 10_000,
    response: 1024 * 1024,
    active_content: false,
};

/// How a component begins, and how a core module does.
const COMPONENT: &[u8] = b"\0asm\x0d\0\x01\0";
const MODULE: &[u8] = b"\0asm\x01\0\0\0";

/// Calls of one account at a time, in all modules together. As many as it may have connections to the mail server by default: more
/// would only wait there.
const SHARE: usize = 8;

/// The largest body of an answer that a module may be given, in MiB: it is in the host's memory as a whole, beside what the sandbox has of it.
const LARGEST_RESPONSE_MIB: u32 = 64;

/// Modules of which compiled versions are remembered.
const MOST_REMEMBERED: usize = 64;

/// Makes modules of components.
#[derive(Debug)]
pub struct Loader {
    engine: Engine,
    services: Services,
    clock: Clock,
    turns: Arc<Turns>,
    rooms: Rooms,
    /// How many sandboxes each module may have, its versions together: while one replaces another both are at work.
    places: Mutex<BTreeMap<String, (u32, Arc<Semaphore>)>>,
    /// The log of each module.
    logs: Mutex<BTreeMap<String, Arc<ModuleLog>>>,
    failing: mpsc::UnboundedSender<Failing>,
    /// What was loaded last of each module: to swap it in again takes no compiling.
    recent: Mutex<BTreeMap<String, VecDeque<Examined>>>,
}

/// A module of which most requests began to trap.
#[derive(Clone, Debug)]
pub struct Failing {
    /// Its name.
    pub module: Arc<str>,
    /// Which version of it.
    pub digest: Arc<str>,
}

/// What a component is told from all others by: SHA-256 of its bytes, 64 hexadecimal digits.
#[must_use]
pub fn digest(component: &[u8]) -> String {
    hexadecimal::lower(&Sha256::digest(component))
}

/// A component that was compiled and said what it is. It may not fit what was granted to it.
#[derive(Clone)]
pub struct Examined {
    /// What it says of itself.
    pub manifest: Manifest,
    /// SHA-256 of its bytes, 64 hexadecimal digits.
    pub digest: Arc<str>,
    /// The interfaces that it imports, with their versions.
    pub imports: Arc<[String]>,
    /// Its bytes.
    pub bytes: Bytes,
    component: Component,
}

impl std::fmt::Debug for Examined {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Examined")
            .field("name", &self.manifest.name)
            .field("digest", &self.digest)
            .finish_non_exhaustive()
    }
}

impl Examined {
    /// The imports that a ceiling does not cover, all of them.
    #[must_use]
    pub fn ungranted(&self, ceiling: &config::Module) -> Vec<String> {
        let covered = |import: &&String| !linker::covered(import, &ceiling.grants);
        self.imports.iter().filter(covered).cloned().collect()
    }
}

impl Loader {
    /// Makes the engine. What is received is told by modules of which most requests began to trap.
    ///
    /// # Errors
    /// A sentence where the engine cannot be made, or names a ceiling that cannot be.
    pub fn new(
        config: &Config,
        services: Services,
        clock: Clock,
    ) -> Result<(Self, mpsc::UnboundedReceiver<Failing>), StartError> {
        for (name, ceiling) in &config.modules {
            check(ceiling).map_err(|reason| {
                StartError::new(format!("module `{name}` cannot be loaded: {reason}"))
            })?;
        }
        if let Some(ceiling) = &config.new_modules {
            check(ceiling).map_err(|reason| StartError::new(format!("`new_modules`: {reason}")))?;
        }
        let rooms = Rooms::new(config);
        let (failing, told) = mpsc::unbounded_channel();
        let loader = Self {
            engine: engine::engine(rooms.size(), &config.cache_dir)?,
            services,
            clock,
            turns: Arc::new(Turns::new(SHARE)),
            rooms,
            places: Mutex::default(),
            logs: Mutex::default(),
            failing,
            recent: Mutex::default(),
        };
        Ok((loader, told))
    }

    /// Compiles a component and asks it what it is, as nobody's request: whatever it imports, it can reach nothing. `ceiling` bounds it, where its name
    /// is known before it says it.
    ///
    /// # Errors
    /// A sentence that follows the component's name.
    pub async fn examine(
        &self,
        bytes: Bytes,
        ceiling: Option<&config::Module>,
    ) -> Result<Examined, String> {
        let digest = digest(&bytes);
        if let Some(examined) = self.recalled(&digest) {
            return Ok(Examined { bytes, ..examined });
        }
        let component = compile(&self.engine, bytes.clone()).await?;
        contract::check(&self.engine, &component)?;
        let imports = linker::imports(&self.engine, &component);
        let pre = linker::whatever_it_imports(&self.engine, &component)?
            .instantiate_pre(&component)
            .and_then(EverythingPre::new)
            .map_err(|e| contract::unlinkable(&e))?;
        let budget = ceiling.map_or(DESCRIBE_BUDGET, Budget::of);
        let said = self.describe(&pre, budget).await?;
        let manifest =
            convert::manifest(said).map_err(|reason| format!("its manifest {reason}"))?;
        Ok(Examined {
            manifest,
            digest: digest.into(),
            imports: imports.into(),
            bytes,
            component,
        })
    }

    /// Makes a module of it, within its ceiling.
    ///
    /// # Errors
    /// A sentence that follows the module's name: what was not granted, which route lies elsewhere, what does not fit.
    pub async fn load(
        &self,
        examined: &Examined,
        ceiling: &config::Module,
    ) -> Result<Module, String> {
        check(ceiling)?;
        let missing = examined.ungranted(ceiling);
        if !missing.is_empty() {
            return Err(format!(
                "it imports what it was not granted: {}",
                missing.join(", ")
            ));
        }
        let manifest = examined.manifest.clone();
        let elsewhere = manifest
            .routes
            .iter()
            .find(|route| !ceiling.paths.iter().any(|own| route.path.starts_with(own)));
        if let Some(route) = elsewhere {
            return Err(format!(
                "it has the route {}, and its paths begin with {}",
                route.path,
                ceiling.paths.join(" or ")
            ));
        }
        let pre = linker::linker(&self.engine, &ceiling.grants)
            .and_then(|linker| linker.instantiate_pre(&examined.component))
            .and_then(EverythingPre::new)
            .map_err(|e| contract::unlinkable(&e))?;
        let room = self.rooms.of_module(&manifest.name);
        let module = Module {
            name: manifest.name.as_str().into(),
            digest: Arc::clone(&examined.digest),
            imports: Arc::clone(&examined.imports),
            engine: self.engine.clone(),
            pre,
            services: self.services.clone(),
            settings: Arc::new(Settings::of(ceiling)?),
            log: self.log(&manifest.name),
            budget: Budget::of(ceiling),
            deadline: ceiling.deadline,
            // There is no more room than at the start, even where it may have more by now.
            places: self.places(&manifest.name, ceiling.concurrency.min(room.size())),
            room: room.clone(),
            idle: Idle::new(ceiling.reuse),
            turns: Arc::clone(&self.turns),
            health: Health::default(),
            failing: self.failing.clone(),
            clock: self.clock.clone(),
            ceiling: ceiling.clone(),
            manifest,
        };
        // Not one of its own: those may all be at work for the version that serves.
        let _seat = self.rooms.spare().seat().await;
        module.stands().await?;
        module.probed().await?;
        self.remember(examined);
        Ok(module)
    }

    /// What was loaded last, where it is still at hand: without its bytes.
    #[must_use]
    pub fn recalled(&self, digest: &str) -> Option<Examined> {
        let recent = self.recent.lock().unwrap_or_else(PoisonError::into_inner);
        let mut all = recent.values().flatten();
        all.find(|examined| &*examined.digest == digest).cloned()
    }

    /// Keeps what was compiled, of each module the two that were loaded last.
    fn remember(&self, examined: &Examined) {
        let mut recent = self.recent.lock().unwrap_or_else(PoisonError::into_inner);
        if recent.len() >= MOST_REMEMBERED {
            recent.clear();
        }
        let of_module = recent.entry(examined.manifest.name.clone()).or_default();
        of_module.retain(|other| other.digest != examined.digest);
        of_module.truncate(1);
        // Its bytes are in the database.
        of_module.push_front(Examined {
            bytes: Bytes::new(),
            ..examined.clone()
        });
    }

    fn places(&self, name: &str, concurrency: u32) -> Arc<Semaphore> {
        let mut places = self.places.lock().unwrap_or_else(PoisonError::into_inner);
        match places.get(name) {
            Some((as_before, places)) if *as_before == concurrency => Arc::clone(places),
            _ => {
                let made = Arc::new(Semaphore::new(concurrency as usize));
                places.insert(name.to_owned(), (concurrency, Arc::clone(&made)));
                made
            }
        }
    }

    /// Returns the log of a module, which all its versions share.
    pub(crate) fn log(&self, name: &str) -> Arc<ModuleLog> {
        let mut logs = self.logs.lock().unwrap_or_else(PoisonError::into_inner);
        let log = logs
            .entry(name.to_owned())
            .or_insert_with(|| Arc::new(ModuleLog::new(self.clock.clone())));
        Arc::clone(log)
    }

    /// Discards the log of a module that was removed.
    pub(crate) fn discard_log(&self, name: &str) {
        let mut logs = self.logs.lock().unwrap_or_else(PoisonError::into_inner);
        logs.remove(name);
    }

    async fn describe(
        &self,
        pre: &EverythingPre<Sandbox>,
        budget: Budget,
    ) -> Result<latchmail_bindings::exports::latchmail::host::module::Manifest, String> {
        let call = Call::new(
            self.services.clone(),
            "new".into(),
            Arc::default(),
            Arc::new(ModuleLog::new(self.clock.clone())),
            None,
            Origin::default(),
        );
        let _seat = self.rooms.spare().seat().await;
        let asked = async {
            let mut cpu = CpuTime::new(budget.cpu);
            let Instance { mut store, guest } = cpu
                .spend(Instance::make(&self.engine, pre, call, budget))
                .await
                .map_err(|e| uninstantiable(&e))?;
            cpu.spend(guest.latchmail_host_module().call_describe(&mut store))
                .await
                .map_err(|e| format!("`describe` trapped: {}", sandbox::trap(&store, &e)))
        };
        tokio::time::timeout(DESCRIBE, asked)
            .await
            .map_err(|_| format!("`describe` took longer than {} s", DESCRIBE.as_secs()))?
    }
}

impl Module {
    /// Makes one sandbox, so that what cannot be made is found before anybody asks.
    async fn stands(&self) -> Result<(), String> {
        self.made().await.map(drop)
    }

    /// A sandbox that serves nobody yet, made within the budget and the deadline of a request.
    pub(super) async fn made(&self) -> Result<Instance, String> {
        let call = self.call(None, Origin::default());
        let mut cpu = CpuTime::new(self.budget.cpu);
        let made = cpu.spend(Instance::make(&self.engine, &self.pre, call, self.budget));
        match tokio::time::timeout(self.deadline, made).await {
            Ok(made) => made.map_err(|e| uninstantiable(&e)),
            Err(_) => Err("no instance of it was made within its deadline".into()),
        }
    }

    /// Asks the route that the configuration names, where it names one, within its deadline.
    async fn probed(&self) -> Result<(), String> {
        let path = &self.ceiling.probe;
        if path.is_empty() {
            return Ok(());
        }
        let route = self.manifest.routes.iter().find(|route| {
            route.path == *path
                && route.method == http::Method::GET
                && route.access == Access::Public
                && !path.contains('{')
        });
        let Some(route) = route else {
            return Err(format!(
                "its `probe` is {path}, and it has no public GET route of that path without named segments"
            ));
        };
        let asked = Box::pin(self.run(route, super::Request::probe(), None));
        match self.in_time(route, asked).await {
            Ok((response, _)) if response.status.is_server_error() => Err(format!(
                "its probe {path} was answered with {}",
                response.status.as_u16()
            )),
            Ok(_) => Ok(()),
            Err(error) => Err(format!("its probe {path} had no answer: {error}")),
        }
    }
}

impl Budget {
    fn of(ceiling: &config::Module) -> Self {
        Self {
            memory: ceiling.memory as usize * 1024 * 1024,
            cpu: ceiling.cpu,
            host_calls: ceiling.host_calls,
            response: ceiling.response as usize * 1024 * 1024,
            active_content: ceiling.active_content,
        }
    }
}

/// Why no instance could be made.
fn uninstantiable(error: &wasmtime::Error) -> String {
    if bounds::no_room(error) {
        "there is no room for a sandbox of it now".into()
    } else {
        contract::uninstantiable(error)
    }
}

/// Whether a ceiling is one that this host can keep to.
fn check(ceiling: &config::Module) -> Result<(), String> {
    let known: BTreeSet<&str> = linker::GRANTABLE.into_iter().collect();
    if let Some(unknown) = ceiling.grants.iter().find(|g| !known.contains(g.as_str())) {
        return Err(format!(
            "its grants name `{unknown}`; there are {}",
            linker::GRANTABLE.join(", ")
        ));
    }
    if ceiling.memory == 0 || ceiling.memory > LARGEST_MEMORY_MIB {
        return Err(format!(
            "its memory is {} MiB; it may be 1 to {LARGEST_MEMORY_MIB}",
            ceiling.memory
        ));
    }
    if !(1..=1000).contains(&ceiling.concurrency) {
        return Err(format!(
            "its concurrency is {}; it may be 1 to 1000",
            ceiling.concurrency
        ));
    }
    if !(1..=LARGEST_RESPONSE_MIB).contains(&ceiling.response) {
        return Err(format!(
            "its response is {} MiB; it may be 1 to {LARGEST_RESPONSE_MIB}",
            ceiling.response
        ));
    }
    Settings::of(ceiling)?;
    Ok(())
}

/// Compiles a component into the cache below `cache_dir`, where a service with the same folder finds it.
///
/// # Errors
/// A sentence: the folder cannot be used, or it is not a component that can be compiled.
pub async fn precompile(cache_dir: &Path, component: Bytes) -> Result<(), StartError> {
    let engine = engine::engine(1, cache_dir)?;
    compile(&engine, component)
        .await
        .map(drop)
        .map_err(StartError::new)
}

/// Compiles on a thread of its own, fenced: the compiler panics once in a thousand times, and that must not end the service.
async fn compile(engine: &Engine, bytes: Bytes) -> Result<Component, String> {
    match bytes.get(..8) {
        Some(COMPONENT) => {}
        Some(MODULE) => {
            return Err(
                "it is a WebAssembly module and no component: in Rust, build it for wasm32-wasip2"
                    .into(),
            );
        }
        _ => return Err("it is no WebAssembly component".into()),
    }
    let engine = engine.clone();
    let compiled = tokio::task::spawn_blocking(move || {
        std::panic::catch_unwind(AssertUnwindSafe(|| Component::new(&engine, bytes)))
    })
    .await;
    match compiled {
        Ok(Ok(Ok(component))) => Ok(component),
        Ok(Ok(Err(e))) => Err(format!("it is not a component that can be compiled: {e:#}")),
        Ok(Err(_)) | Err(_) => Err("the compiler failed on it".into()),
    }
}
