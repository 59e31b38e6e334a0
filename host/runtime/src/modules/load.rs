//! The module loader: makes a callable module from the bytes of a component. [`Loader::examine`] reads the manifest from an instance that has no
//! access to user data. [`Loader::load`] checks the component against its policy, links it and tests it.
//!
//! Each error is a sentence that follows the name of the module. This module does not decide which modules serve requests.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::panic::AssertUnwindSafe;
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use bytes::Bytes;
use latchmail_bindings::EverythingPre;
use latchmail_core::account_permits::AccountPermits;
use latchmail_core::caller::Origin;
use latchmail_core::clock::Clock;
use latchmail_core::config::{self, Config};
use latchmail_core::error::StartError;
use latchmail_core::hexadecimal;
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
use crate::module_log::ModuleLog;

/// The maximum duration of `describe`.
const DESCRIBE: Duration = Duration::from_secs(5);

/// The budget of `describe` if the policy of the component is not known yet.
const DESCRIBE_BUDGET: Budget = Budget {
    memory: LARGEST_MEMORY_MIB as usize * 1024 * 1024,
    cpu: DESCRIBE,
    host_calls: 10_000,
    response: 1024 * 1024,
    active_content: false,
};

/// The first bytes of a component and of a core module.
const COMPONENT: &[u8] = b"\0asm\x0d\0\x01\0";
const MODULE: &[u8] = b"\0asm\x01\0\0\0";

/// The maximum number of concurrent calls of one account, in all modules together. It equals the default number of connections of one account to the
/// mail server: more calls would only wait for a connection.
const SHARE: usize = 8;

/// The maximum response body that a policy can allow, in MiB. The host holds the whole body in memory, in addition to the copy in the sandbox.
const LARGEST_RESPONSE_MIB: u32 = 64;

/// The maximum number of modules whose compiled versions are cached.
const MOST_REMEMBERED: usize = 64;

/// Makes modules from components.
#[derive(Debug)]
pub struct Loader {
    engine: Engine,
    services: Services,
    clock: Clock,
    permits: Arc<AccountPermits>,
    rooms: Rooms,
    /// The sandbox permits of each module. All versions of a module share them, because two versions run while one replaces the other.
    places: Mutex<BTreeMap<String, (u32, Arc<Semaphore>)>>,
    /// The log of each module.
    logs: Mutex<BTreeMap<String, Arc<ModuleLog>>>,
    failing: mpsc::UnboundedSender<Failing>,
    /// The versions of each module that were loaded last. Loading one of them again needs no compilation.
    recent: Mutex<BTreeMap<String, VecDeque<Examined>>>,
}

/// The notification that most of the latest requests of a module failed.
#[derive(Clone, Debug)]
pub struct Failing {
    /// The name of the module.
    pub module: Arc<str>,
    /// The digest of its version.
    pub digest: Arc<str>,
}

/// Returns the identifier of a component: the SHA-256 digest of its bytes as 64 hexadecimal digits.
#[must_use]
pub fn digest(component: &[u8]) -> String {
    hexadecimal::lower(&Sha256::digest(component))
}

/// A compiled component and its manifest. Its imports are not yet checked against its grants.
#[derive(Clone)]
pub struct Examined {
    /// The manifest.
    pub manifest: Manifest,
    /// The SHA-256 digest of the bytes, as 64 hexadecimal digits.
    pub digest: Arc<str>,
    /// The imported interfaces, with their versions.
    pub imports: Arc<[String]>,
    /// The bytes of the component. Empty if the component was read from the cache.
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
    /// Returns all imports that a policy does not cover.
    #[must_use]
    pub fn ungranted(&self, ceiling: &config::Module) -> Vec<String> {
        let covered = |import: &&String| !linker::covered(import, &ceiling.grants);
        self.imports.iter().filter(covered).cloned().collect()
    }
}

impl Loader {
    /// Makes the engine. The returned channel receives a message when most of the latest requests of a module failed.
    ///
    /// # Errors
    /// The engine cannot be made, or a policy in the configuration is invalid.
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
            permits: Arc::new(AccountPermits::new(SHARE)),
            rooms,
            places: Mutex::default(),
            logs: Mutex::default(),
            failing,
            recent: Mutex::default(),
        };
        Ok((loader, told))
    }

    /// Compiles a component and calls its `describe` function, without a caller: none of its imports has access to user data. `ceiling` is the
    /// policy of the component, if its name is already known.
    ///
    /// # Errors
    /// A sentence that follows the name of the component.
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

    /// Makes a module from a component, within its policy.
    ///
    /// # Errors
    /// A sentence that follows the name of the module: an import that is not granted, a route outside the allowed paths, or a component that does
    /// not fit the host.
    pub async fn load(
        &self,
        examined: &Examined,
        ceiling: &config::Module,
    ) -> Result<Module, String> {
        check(ceiling)?;
        let missing = examined.ungranted(ceiling);
        if !missing.is_empty() {
            return Err(format!(
                "it imports interfaces that are not granted: {}",
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
                "its route {} is outside its allowed paths, which start with {}",
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
            // The pool keeps the size that it had at the start, even if the configuration was reloaded with a higher concurrency.
            places: self.places(&manifest.name, ceiling.concurrency.min(room.size())),
            room: room.clone(),
            idle: Idle::new(ceiling.reuse),
            permits: Arc::clone(&self.permits),
            health: Health::default(),
            failing: self.failing.clone(),
            clock: self.clock.clone(),
            ceiling: ceiling.clone(),
            manifest,
        };
        // The permit comes from the spare pool, because the current version of the module may use all permits of the module.
        let _seat = self.rooms.spare().seat().await;
        module.stands().await?;
        module.probed().await?;
        self.remember(examined);
        Ok(module)
    }

    /// Returns the cached component with this digest, without its bytes.
    #[must_use]
    pub fn recalled(&self, digest: &str) -> Option<Examined> {
        let recent = self.recent.lock().unwrap_or_else(PoisonError::into_inner);
        let mut all = recent.values().flatten();
        all.find(|examined| &*examined.digest == digest).cloned()
    }

    /// Caches a compiled component. The cache holds two versions of each module.
    fn remember(&self, examined: &Examined) {
        let mut recent = self.recent.lock().unwrap_or_else(PoisonError::into_inner);
        if recent.len() >= MOST_REMEMBERED {
            recent.clear();
        }
        let of_module = recent.entry(examined.manifest.name.clone()).or_default();
        of_module.retain(|other| other.digest != examined.digest);
        of_module.truncate(1);
        // The database has the bytes.
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
    /// Makes one sandbox, so that an error is found before the first request.
    async fn stands(&self) -> Result<(), String> {
        self.made().await.map(drop)
    }

    /// Makes a sandbox without a request, within the CPU budget and the deadline of a request.
    pub(super) async fn made(&self) -> Result<Instance, String> {
        let call = self.call(None, Origin::default());
        let mut cpu = CpuTime::new(self.budget.cpu);
        let made = cpu.spend(Instance::make(&self.engine, &self.pre, call, self.budget));
        match tokio::time::timeout(self.deadline, made).await {
            Ok(made) => made.map_err(|e| uninstantiable(&e)),
            Err(_) => Err("it was not instantiated within its deadline".into()),
        }
    }

    /// Calls the route in `probe`, if the policy has one, within its deadline.
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
                "its `probe` is {path}, but it has no public GET route with that path and without named segments"
            ));
        };
        let asked = Box::pin(self.run(route, super::Request::probe(), None));
        match self.in_time(route, asked).await {
            Ok((response, _)) if response.status.is_server_error() => Err(format!(
                "its probe {path} returned status {}",
                response.status.as_u16()
            )),
            Ok(_) => Ok(()),
            Err(error) => Err(format!("its probe {path} failed: {error}")),
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

/// Returns the reason of a failed instantiation.
fn uninstantiable(error: &wasmtime::Error) -> String {
    if bounds::no_room(error) {
        "the sandbox pool is full".into()
    } else {
        contract::uninstantiable(error)
    }
}

/// Checks that the host supports a policy.
fn check(ceiling: &config::Module) -> Result<(), String> {
    let known: BTreeSet<&str> = linker::GRANTABLE.into_iter().collect();
    if let Some(unknown) = ceiling.grants.iter().find(|g| !known.contains(g.as_str())) {
        return Err(format!(
            "its grants contain the unknown interface `{unknown}`; the known ones are {}",
            linker::GRANTABLE.join(", ")
        ));
    }
    if ceiling.memory == 0 || ceiling.memory > LARGEST_MEMORY_MIB {
        return Err(format!(
            "its memory is {} MiB; the allowed range is 1 to {LARGEST_MEMORY_MIB}",
            ceiling.memory
        ));
    }
    if !(1..=1000).contains(&ceiling.concurrency) {
        return Err(format!(
            "its concurrency is {}; the allowed range is 1 to 1000",
            ceiling.concurrency
        ));
    }
    if !(1..=LARGEST_RESPONSE_MIB).contains(&ceiling.response) {
        return Err(format!(
            "its response is {} MiB; the allowed range is 1 to {LARGEST_RESPONSE_MIB}",
            ceiling.response
        ));
    }
    Settings::of(ceiling)?;
    Ok(())
}

/// Compiles a component into the cache in `cache_dir`. A service with the same folder uses the compiled code.
///
/// # Errors
/// The folder cannot be used, or the component cannot be compiled.
pub async fn precompile(cache_dir: &Path, component: Bytes) -> Result<(), StartError> {
    let engine = engine::engine(1, cache_dir)?;
    compile(&engine, component)
        .await
        .map(drop)
        .map_err(StartError::new)
}

/// Compiles on a separate thread and catches panics: the compiler panics on rare inputs, and that must not end the service.
async fn compile(engine: &Engine, bytes: Bytes) -> Result<Component, String> {
    match bytes.get(..8) {
        Some(COMPONENT) => {}
        Some(MODULE) => {
            return Err(
                "it is a core WebAssembly module, not a component; in Rust, build it for wasm32-wasip2"
                    .into(),
            );
        }
        _ => return Err("it is not a WebAssembly component".into()),
    }
    let engine = engine.clone();
    let compiled = tokio::task::spawn_blocking(move || {
        std::panic::catch_unwind(AssertUnwindSafe(|| Component::new(&engine, bytes)))
    })
    .await;
    match compiled {
        Ok(Ok(Ok(component))) => Ok(component),
        Ok(Ok(Err(e))) => Err(format!("it cannot be compiled: {e:#}")),
        Ok(Err(_)) | Err(_) => Err("the compiler panicked".into()),
    }
}
