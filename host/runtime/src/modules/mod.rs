//! The sandbox: compiles components, links them with the granted interfaces, reads their manifests and calls one per request.
//!
//! This module knows WIT and components. It knows neither HTTP connections nor SQL. The interfaces that a component can call are in [`crate::api`].

mod bounds;
mod cache;
mod call;
mod contract;
mod convert;
mod engine;
mod headers;
mod health;
mod idle;
mod linker;
mod load;
mod manifest;
mod message;
mod room;
mod sandbox;
#[cfg(any(test, feature = "testing"))]
pub mod testing;

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use latchmail_bindings::EverythingPre;
pub use latchmail_bindings::VERSION as CONTRACT;
use latchmail_core::clock::Clock;
use latchmail_core::config;
use latchmail_core::error::Failure;
use tokio::sync::{Semaphore, mpsc};
use wasmtime::Engine;

use crate::api::{Services, Settings};
use crate::module_log::ModuleLog;
pub use engine::engine;
pub use health::Counts;
use health::Health;
use idle::Idle;
pub use linker::{GRANTABLE, covered as granted};
pub use load::{Examined, Failing, Loader, digest, precompile};
pub use manifest::{Access, BodyForm, Manifest, Route};
pub use message::{Content, Request, Response};
use room::Room;
use sandbox::{Budget, Sandbox};

/// An error of a call without a response. The detail is for the log.
#[derive(Debug, thiserror::Error)]
pub enum CallError {
    /// The guest trapped, or exhausted its memory or CPU budget.
    #[error("module {module} trapped: {detail}")]
    Trapped {
        /// The name of the module.
        module: String,
        /// The reason of the trap.
        detail: String,
        /// The functions that were active, the innermost first. Empty if they are not known.
        backtrace: Vec<String>,
    },
    /// The call's deadline passed.
    #[error("module {module} passed its deadline")]
    Deadline {
        /// The name of the module.
        module: String,
    },
    /// All sandboxes of the module are in use.
    #[error("module {module} has no free sandbox")]
    Busy {
        /// The name of the module.
        module: String,
    },
    /// The host ended the call with a response of its own.
    #[error("module {module}: {failure}")]
    Refused {
        /// The name of the module.
        module: String,
        /// The response.
        failure: Failure,
    },
    /// The host cannot send the response of the guest.
    #[error("module {module} returned an invalid response: {detail}")]
    Answer {
        /// The name of the module.
        module: String,
        /// The reason.
        detail: String,
    },
}

/// A loaded and linked module. It is dropped after the last request that uses it.
pub struct Module {
    manifest: Manifest,
    name: Arc<str>,
    digest: Arc<str>,
    imports: Arc<[String]>,
    ceiling: config::Module,
    engine: Engine,
    pre: EverythingPre<Sandbox>,
    services: Services,
    settings: Arc<Settings>,
    log: Arc<ModuleLog>,
    budget: Budget,
    deadline: Duration,
    places: Arc<Semaphore>,
    room: Room,
    idle: Idle,
    permits: Arc<latchmail_core::account_permits::AccountPermits>,
    health: Health,
    failing: mpsc::UnboundedSender<Failing>,
    clock: Clock,
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
    pub fn ceiling(&self) -> &config::Module {
        &self.ceiling
    }

    /// Returns the counts of the results of its requests.
    #[must_use]
    pub fn health(&self) -> Counts {
        self.health.counts()
    }
}
