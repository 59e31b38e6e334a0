//! A loaded module.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use latchmail_core::account_permits::AccountPermits;
use latchmail_core::caller::{Caller, Origin, Scope};
use latchmail_core::clock::Clock;
use latchmail_core::config;
use latchmail_core::metrics::{MODULE_FAILING, SANDBOXES_IDLE};
use tokio::sync::{Semaphore, mpsc};
use wasmtime::Engine;

use super::health::{Counts, Failing, Health};
use super::idle::IdleSandboxes;
use super::linked::Linked;
use super::manifest::Manifest;
use super::module_metrics::ModuleMetrics;
use super::recording::Recorder;
use super::sandbox::{Budget, Sandbox};
use super::sandbox_permits::PermitGroup;
use crate::api::{Call, Services, Settings};
use crate::module_log::ModuleLog;

/// A loaded and linked module. The value is dropped after the last request of this version.
pub struct Module {
    pub(super) manifest: Manifest,
    pub(super) name: Arc<str>,
    pub(super) digest: Arc<str>,
    pub(super) imports: Arc<[String]>,
    pub(super) policy: config::Module,
    pub(super) engine: Engine,
    pub(super) linked: Linked<Sandbox>,
    pub(super) services: Services,
    pub(super) settings: Arc<Settings>,
    pub(super) log: Arc<ModuleLog>,
    pub(super) budget: Budget,
    pub(super) deadline: Duration,
    /// The permits that limit the concurrent calls of this module.
    pub(super) call_permits: Arc<Semaphore>,
    /// The permits that limit the concurrent calls of each account, in all modules together.
    pub(super) account_permits: Arc<AccountPermits>,
    /// The permits that limit the sandboxes of this module. Several modules can share these
    /// permits.
    pub(super) sandbox_permits: PermitGroup,
    pub(super) handlers: HandlerLimits,
    pub(super) idle: IdleSandboxes,
    pub(super) health: Health,
    pub(super) recorder: Recorder,
    pub(super) metrics: Arc<ModuleMetrics>,
    pub(super) failing: mpsc::UnboundedSender<Failing>,
    pub(super) clock: Clock,
}

/// The limits of the handlers of a module. They are separate from the limits of requests, so that
/// handlers do not delay requests.
pub(super) struct HandlerLimits {
    pub(super) budget: Budget,
    pub(super) deadline: Duration,
    /// The permits that limit the concurrent calls of this version of the module.
    pub(super) call_permits: Arc<Semaphore>,
    /// The permits that limit the sandboxes of the handlers of all modules.
    pub(super) sandbox_permits: PermitGroup,
}

impl fmt::Debug for Module {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Module")
            .field("name", &self.name)
            .finish_non_exhaustive()
    }
}

impl Module {
    /// Returns the manifest.
    #[must_use]
    pub fn manifest(&self) -> &Manifest {
        &self.manifest
    }

    /// Returns the SHA-256 digest of the component as 64 hexadecimal digits.
    #[must_use]
    pub fn digest(&self) -> &str {
        &self.digest
    }

    /// Returns the names of the imported interfaces, with their versions.
    #[must_use]
    pub fn imports(&self) -> &[String] {
        &self.imports
    }

    /// Returns the policy of the module: its grants and limits.
    #[must_use]
    pub fn policy(&self) -> &config::Module {
        &self.policy
    }

    /// Returns the scopes that the operator granted to the handlers of the module, in canonical
    /// order.
    #[must_use]
    pub fn handler_scopes(&self) -> Vec<Scope> {
        Scope::read_list(&self.policy.scopes.join(" "))
    }

    /// Returns the counts of the results of the module's requests.
    #[must_use]
    pub fn health(&self) -> Counts {
        self.health.counts()
    }

    /// Drops the idle sandboxes of the module, and releases their permits. After this call, no
    /// sandbox becomes idle. Running requests finish normally.
    pub fn retire(&self) {
        self.idle.close();
    }

    pub(super) fn new_call(&self, caller: Option<Caller>, origin: Origin) -> Call {
        Call::new(
            self.services.clone(),
            Arc::clone(&self.name),
            Arc::clone(&self.settings),
            Arc::clone(&self.log),
            caller,
            origin,
        )
    }
}

/// Sets the metrics that are read at each scrape, for the modules that handle requests.
pub(crate) fn set_metrics<'m>(serving: impl Iterator<Item = &'m Module>) {
    SANDBOXES_IDLE.clear();
    MODULE_FAILING.clear();
    for module in serving {
        let labels = [&*module.name, module.manifest.version.as_str()];
        SANDBOXES_IDLE.set(labels, module.idle.count());
        MODULE_FAILING.set(labels, i64::from(module.health().failing));
    }
}
