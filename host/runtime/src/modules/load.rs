//! The module loader. It creates a callable module from the bytes of a component, in two steps.
//! [`Loader::examine`] reads the manifest from an instance without access to user data.
//! [`Loader::load`] checks the component against its policy, links the component and tests it.
//!
//! Each error is a phrase that follows the name of the module. The loader does not decide which
//! modules serve requests.

use std::collections::{BTreeMap, VecDeque};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use bytes::Bytes;
use latchmail_bindings::exports::latchmail::host::module as wit;
use latchmail_bindings::handlers::exports::latchmail::host::handlers::SubscriptionSet;
use latchmail_core::account_permits::AccountPermits;
use latchmail_core::caller::Origin;
use latchmail_core::clock::Clock;
use latchmail_core::config::{self, Config};
use latchmail_core::error::StartError;
use latchmail_core::hexadecimal;
use latchmail_shape::is_module_name;
use sha2::{Digest as _, Sha256};
use tokio::sync::{OwnedSemaphorePermit, Semaphore, mpsc};
use wasmtime::Engine;
use wasmtime::component::Component;

use super::compile::compile;
use super::engine::{self, MAX_MEMORY_MIB};
use super::health::{Failing, Health};
use super::idle::IdleSandboxes;
use super::limits::{self, CpuTime};
use super::linked::{Exports, Linked};
use super::manifest::{Access, Manifest};
use super::message::Request;
use super::module::{HandlerLimits, Module};
use super::module_metrics::ModuleMetrics;
use super::mount::{self, Mount};
use super::recording::Recorder;
use super::sandbox::{self, Budget, Instance, Sandbox};
use super::sandbox_permits::SandboxPermits;
use super::{contract, convert, handlers, linker, policy};
use crate::api::{Call, Services, Settings};
use crate::module_log::ModuleLog;

/// The maximum duration of `describe` and `subscriptions` together.
const DESCRIBE_TIMEOUT: Duration = Duration::from_secs(5);

/// The limits of a call to `describe` for a component whose policy is unknown. The policy is
/// unknown before the manifest is read, because the manifest contains the name of the module.
const DESCRIBE_BUDGET: Budget = Budget {
    memory: MAX_MEMORY_MIB as usize * 1024 * 1024,
    cpu: DESCRIBE_TIMEOUT,
    host_calls: 10_000,
    response: 1024 * 1024,
    active_content: false,
    pauses: false,
};

/// The maximum number of concurrent calls of one account, in all modules together. It equals the
/// default number of connections of one account to the mail server. Additional calls would only
/// wait for a connection.
const MAX_ACCOUNT_CALLS: usize = 8;

/// The maximum number of modules in the cache of compiled components.
const MAX_CACHED_MODULES: usize = 64;

/// The module loader.
#[derive(Debug)]
pub struct Loader {
    engine: Engine,
    /// The folder of the engine's cache.
    cache_dir: PathBuf,
    services: Services,
    clock: Clock,
    account_permits: Arc<AccountPermits>,
    sandbox_permits: SandboxPermits,
    /// The limits of handlers.
    handlers: config::Handlers,
    /// The call permits of each module, and the number of these permits. All versions of a module
    /// share the permits, because requests to the old version can finish while the new version
    /// already handles requests.
    call_permits: Mutex<BTreeMap<String, (u32, Arc<Semaphore>)>>,
    /// The log of each module, by module name.
    logs: Mutex<BTreeMap<String, Arc<ModuleLog>>>,
    failing: mpsc::UnboundedSender<Failing>,
    /// The last two loaded versions of each module. Loading a cached version needs no compilation.
    cache: Mutex<BTreeMap<String, VecDeque<Examined>>>,
}

/// Returns the SHA-256 digest of a component as 64 hexadecimal digits.
#[must_use]
pub fn digest(component: &[u8]) -> String {
    hexadecimal::lower(&Sha256::digest(component))
}

/// Returns the name that a component without a manifest gets at its installation from this file:
/// the name of the file without its extension, with hyphens instead of underscores.
#[must_use]
pub fn name_of_file(file: &Path) -> Option<String> {
    let stem = file.file_stem()?.to_str()?;
    Some(stem.replace('_', "-"))
}

/// A compiled component and its manifest. The imports are not checked against the grants.
#[derive(Clone)]
pub struct Examined {
    /// The manifest.
    pub manifest: Manifest,
    /// The SHA-256 digest of the component's bytes, as 64 hexadecimal digits.
    pub digest: Arc<str>,
    /// The imported interfaces, with their versions. Without the interfaces of `wasi:http` for a
    /// mounted component, because every mounted component can use them.
    pub imports: Arc<[String]>,
    /// The bytes of the component. Empty in the result of [`Loader::cached`].
    pub bytes: Bytes,
    component: Component,
    exports: Exports,
    /// The mount of a standard component.
    mount: Option<Mount>,
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
    /// Sets the name of a component that does not export `module`, because such a component has no
    /// manifest with a name. If it is mounted, also sets its routes, which depend on the name. Has
    /// no effect on other components. The error is a phrase that follows the name of the component.
    pub(crate) fn named(mut self, name: Option<&str>) -> Result<Self, String> {
        if self.exports.module {
            return Ok(self);
        }
        let name = name.ok_or("it has no manifest, so its installation needs a name")?;
        if !is_module_name(name) {
            return Err(format!(
                "its name is {name:?}; a name has 1 to 32 lower-case letters, digits and hyphens"
            ));
        }
        name.clone_into(&mut self.manifest.name);
        if let Some(mount) = &self.mount {
            (self.manifest.routes, self.manifest.description) = mount.routes(name)?;
        }
        Ok(self)
    }

    /// Returns the imports that a module with this policy cannot use. A module can use an import if
    /// the policy grants the import or if every module can use the import.
    #[must_use]
    pub fn ungranted(&self, policy: &config::Module) -> Vec<String> {
        let is_missing = |import: &&String| !linker::is_granted(import, &policy.grants);
        self.imports.iter().filter(is_missing).cloned().collect()
    }
}

impl Loader {
    /// Creates the engine and the permits. The returned channel receives a message when most of the
    /// latest requests of a module have failed.
    ///
    /// # Errors
    /// Returns an error if the engine cannot be created, or if a policy in the configuration is
    /// invalid.
    pub fn new(
        config: &Config,
        services: Services,
        clock: Clock,
    ) -> Result<(Self, mpsc::UnboundedReceiver<Failing>), StartError> {
        for (name, policy) in &config.modules {
            policy::check(policy).map_err(|reason| {
                StartError::new(format!("module `{name}` cannot be loaded: {reason}"))
            })?;
        }
        if let Some(policy) = &config.new_modules {
            policy::check(policy)
                .map_err(|reason| StartError::new(format!("`new_modules`: {reason}")))?;
        }
        policy::check_handlers(&config.handlers)
            .map_err(|reason| StartError::new(format!("`handlers`: {reason}")))?;
        let sandbox_permits = SandboxPermits::new(config);
        let (failing, failing_receiver) = mpsc::unbounded_channel();
        let loader = Self {
            engine: engine::engine(sandbox_permits.size(), &config.cache_dir)?,
            cache_dir: config.cache_dir.clone(),
            services,
            clock,
            account_permits: Arc::new(AccountPermits::new(MAX_ACCOUNT_CALLS)),
            sandbox_permits,
            handlers: config.handlers.clone(),
            call_permits: Mutex::default(),
            logs: Mutex::default(),
            failing,
            cache: Mutex::default(),
        };
        Ok((loader, failing_receiver))
    }

    /// Compiles a component and calls its functions `describe` and `subscriptions`. These calls
    /// have no caller, so host functions give no access to user data. `policy` is the policy of the
    /// module, or `None` if the module's name is unknown. `name` is the name of a component that
    /// has no manifest.
    ///
    /// # Errors
    /// Returns an error if the component cannot be compiled, if the call of a function fails, or if
    /// the component has no name. The error is a phrase that follows the name of the component.
    pub async fn examine(
        &self,
        bytes: Bytes,
        policy: Option<&config::Module>,
        name: Option<&str>,
    ) -> Result<Examined, String> {
        let digest = digest(&bytes);
        if let Some(examined) = self.cached(&digest) {
            return Examined { bytes, ..examined }.named(name);
        }
        // Without a policy, an administrator installs the component. The service then often
        // compiles many versions of it. The other components are in the engine's cache, except at
        // the first start.
        let functions = policy.is_none().then_some(self.cache_dir.as_path());
        let component = compile(&self.engine, bytes.clone(), functions).await?;
        let mount = Mount::read(&bytes)?;
        let exports = contract::check(&self.engine, &component, mount.is_some())?;
        let mut imports = linker::imports(&self.engine, &component);
        if mount.is_some() {
            imports.retain(|import| !mount::is_provided(import));
        }
        let all = linker::linker_with_all(&self.engine, &imports)?;
        let linked = Linked::new(all, &component, exports, mount.as_ref())
            .map_err(|error| contract::link_error(&error))?;
        let budget = policy.map_or(DESCRIBE_BUDGET, policy::budget);
        let (manifest, handlers) = self.describe(&linked, budget).await?;
        let handlers = handlers.map(handlers::subscriptions).transpose()?;
        let manifest = match manifest {
            Some(manifest) => Manifest {
                handlers,
                ..convert::manifest(manifest).map_err(|reason| format!("its manifest {reason}"))?
            },
            None => Manifest::unnamed(handlers),
        };
        let examined = Examined {
            manifest,
            digest: digest.into(),
            imports: imports.into(),
            bytes,
            component,
            exports,
            mount,
        };
        examined.named(name)
    }

    /// Creates a module from a component and its policy, and tests the module.
    ///
    /// # Errors
    /// Returns an error if an import is not granted, or if a route is outside the allowed paths.
    /// Also returns an error if the component does not match the contract, or if a test fails. The
    /// error is a phrase that follows the name of the module.
    pub async fn load(
        &self,
        examined: &Examined,
        policy: &config::Module,
    ) -> Result<Module, String> {
        policy::check(policy)?;
        let missing = examined.ungranted(policy);
        if !missing.is_empty() {
            return Err(format!(
                "it imports interfaces that are not granted: {}",
                missing.join(", ")
            ));
        }
        let manifest = examined.manifest.clone();
        let outside = manifest.routes.iter().find(|route| {
            !policy
                .paths
                .iter()
                .any(|prefix| route.path.starts_with(prefix))
        });
        if let Some(route) = outside {
            return Err(format!(
                "its route {} is outside its allowed paths, which start with {}",
                route.path,
                policy.paths.join(" or ")
            ));
        }
        let mount = examined.mount.as_ref();
        let linked = linker::linker(&self.engine, &policy.grants)
            .and_then(|linker| Linked::new(linker, &examined.component, examined.exports, mount))
            .map_err(|error| contract::link_error(&error))?;
        let sandbox_permits = self.sandbox_permits.of_module(&manifest.name);
        let module = Module {
            name: manifest.name.as_str().into(),
            digest: Arc::clone(&examined.digest),
            imports: Arc::clone(&examined.imports),
            engine: self.engine.clone(),
            linked,
            services: self.services.clone(),
            settings: Arc::new(Settings::of(policy)?),
            log: self.log(&manifest.name),
            budget: policy::budget(policy),
            deadline: policy.deadline,
            // The number of sandbox permits is fixed at the start of the service. A reloaded
            // configuration with a higher concurrency does not add permits.
            call_permits: self.call_permits(
                &manifest.name,
                policy.concurrency.min(sandbox_permits.size()),
            ),
            account_permits: Arc::clone(&self.account_permits),
            sandbox_permits: sandbox_permits.clone(),
            handlers: HandlerLimits {
                budget: Budget {
                    cpu: self.handlers.cpu,
                    pauses: true,
                    ..policy::budget(policy)
                },
                deadline: self.handlers.deadline,
                call_permits: Arc::new(Semaphore::new(
                    self.handlers.concurrency_per_module as usize,
                )),
                sandbox_permits: self.sandbox_permits.handlers().clone(),
            },
            idle: IdleSandboxes::new(policy.reuse),
            health: Health::default(),
            recorder: Recorder::default(),
            metrics: Arc::new(ModuleMetrics::new(&manifest.name, &manifest.version)),
            failing: self.failing.clone(),
            clock: self.clock.clone(),
            policy: policy.clone(),
            manifest,
        };
        // The test uses a spare permit, because the current version of the module can use all
        // permits of the module.
        let _permit = self.sandbox_permits.spare().acquire().await;
        module.check_instantiation().await?;
        module.check_probe().await?;
        self.add_to_cache(examined);
        Ok(module)
    }

    /// Returns the component with this digest from the cache, without its bytes.
    #[must_use]
    pub fn cached(&self, digest: &str) -> Option<Examined> {
        let cache = self.cache.lock().unwrap_or_else(PoisonError::into_inner);
        let mut all = cache.values().flatten();
        all.find(|examined| &*examined.digest == digest).cloned()
    }

    /// Adds a compiled component to the cache. The cache contains at most two versions of each
    /// module.
    fn add_to_cache(&self, examined: &Examined) {
        let mut cache = self.cache.lock().unwrap_or_else(PoisonError::into_inner);
        if cache.len() >= MAX_CACHED_MODULES {
            cache.clear();
        }
        let of_module = cache.entry(examined.manifest.name.clone()).or_default();
        of_module.retain(|other| other.digest != examined.digest);
        of_module.truncate(1);
        // The database stores the bytes, so the cache does not need them.
        of_module.push_front(Examined {
            bytes: Bytes::new(),
            ..examined.clone()
        });
    }

    /// Returns the call permits of a module. Creates new permits if `concurrency` has changed.
    fn call_permits(&self, name: &str, concurrency: u32) -> Arc<Semaphore> {
        let mut modules = self
            .call_permits
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        match modules.get(name) {
            Some((number, permits)) if *number == concurrency => Arc::clone(permits),
            _ => {
                let permits = Arc::new(Semaphore::new(concurrency as usize));
                modules.insert(name.to_owned(), (concurrency, Arc::clone(&permits)));
                permits
            }
        }
    }

    /// Waits for a spare permit, with which a sandbox can be created that serves no client.
    pub(crate) async fn spare_permit(&self) -> Option<OwnedSemaphorePermit> {
        self.sandbox_permits.spare().acquire().await
    }

    /// Returns the log of a module. All versions of the module share the log.
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

    /// Calls `describe` and `subscriptions`, if the component exports them.
    async fn describe(
        &self,
        linked: &Linked<Sandbox>,
        budget: Budget,
    ) -> Result<(Option<wit::Manifest>, Option<SubscriptionSet>), String> {
        let call = Call::new(
            self.services.clone(),
            "new".into(),
            Arc::default(),
            Arc::new(ModuleLog::new(self.clock.clone())),
            None,
            Origin::default(),
        );
        let _permit = self.sandbox_permits.spare().acquire().await;
        let described = async {
            let mut cpu = CpuTime::new(budget.cpu);
            let Instance { mut store, guest } = cpu
                .spend(Instance::new(&self.engine, linked, call, budget, None))
                .await
                .map_err(|error| instantiation_error(&error))?;
            let mut manifest = None;
            if let Some(module) = guest.module() {
                let called = cpu.spend(module.call_describe(&mut store)).await;
                manifest = Some(called.map_err(|error| {
                    let reason = sandbox::trap_reason(&store, &error);
                    format!("`describe` trapped: {reason}")
                })?);
            }
            let mut subscriptions = None;
            if let Some(handlers) = guest.handlers() {
                let called = cpu.spend(handlers.call_subscriptions(&mut store)).await;
                subscriptions = Some(called.map_err(|error| {
                    let reason = sandbox::trap_reason(&store, &error);
                    format!("`subscriptions` trapped: {reason}")
                })?);
            }
            Ok((manifest, subscriptions))
        };
        tokio::time::timeout(DESCRIBE_TIMEOUT, described)
            .await
            .map_err(|_| {
                let seconds = DESCRIBE_TIMEOUT.as_secs();
                format!("`describe` or `subscriptions` took longer than {seconds} s")
            })?
    }
}

impl Module {
    /// Creates one sandbox, so that an error is found before the first request.
    async fn check_instantiation(&self) -> Result<(), String> {
        self.instantiate().await.map(drop)
    }

    /// Creates a sandbox without a request, within the CPU limit and the deadline of the module.
    pub(super) async fn instantiate(&self) -> Result<Instance, String> {
        let call = self.new_call(None, Origin::default());
        let mut cpu = CpuTime::new(self.budget.cpu).counted_in(&self.metrics.cpu);
        let metrics = Some(Arc::clone(&self.metrics));
        let instance = Instance::new(&self.engine, &self.linked, call, self.budget, metrics);
        let instance = cpu.spend(instance);
        match tokio::time::timeout(self.deadline, instance).await {
            Ok(instance) => instance.map_err(|error| instantiation_error(&error)),
            Err(_) => Err(format!(
                "creating an instance took longer than the module's deadline of {} s",
                self.deadline.as_secs_f64()
            )),
        }
    }

    /// Calls the route in the policy's setting `probe` within the route's deadline. Does nothing if
    /// the setting is empty.
    async fn check_probe(&self) -> Result<(), String> {
        let path = &self.policy.probe;
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
        let call = Box::pin(self.run(route, Request::probe(), None, None));
        match self.with_deadline(route, call).await {
            Ok((response, _)) if response.status.is_server_error() => Err(format!(
                "its probe {path} returned status {}",
                response.status.as_u16()
            )),
            Ok(_) => Ok(()),
            Err(error) => Err(format!("its probe {path} failed: {error}")),
        }
    }
}

/// Returns the reason why an instantiation failed.
fn instantiation_error(error: &wasmtime::Error) -> String {
    if limits::is_pool_full(error) {
        "the sandbox pool is full".into()
    } else {
        contract::instantiation_error(error)
    }
}
