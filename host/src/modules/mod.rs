//! The sandbox: components compiled, linked with what they were granted, asked what they are, and called once per request.
//!
//! Knows WIT and components; knows neither HTTP connections nor SQL. What a component may call is in [`crate::api`].

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
mod room;
mod sandbox;

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
pub use engine::engine;
pub use health::Counts;
use http::{HeaderMap, StatusCode};
pub use latchmail_bindings::VERSION as CONTRACT;
use latchmail_bindings::{Blob, EverythingPre};
pub use linker::{GRANTABLE, covered as granted};
pub use load::{Examined, Failing, Loader, digest, precompile};
pub use manifest::{Access, BodyForm, Manifest, Route};
use tokio::sync::{Semaphore, mpsc};
use wasmtime::Engine;

use crate::api::{Services, Settings};
use crate::caller::{Caller, Origin};
use crate::clock::Clock;
use crate::config;
use crate::error::Failure;
use crate::module_log::ModuleLog;
use health::Health;
use idle::Idle;
use room::Room;
use sandbox::{Budget, Sandbox};

/// A request on its way into a sandbox: routed, admitted and read.
#[derive(Debug)]
pub struct Request {
    /// The request's id.
    pub id: String,
    /// The path's named segments, decoded, in the path's order.
    pub path: Vec<(String, String)>,
    /// The query's names and values, decoded.
    pub query: Vec<(String, String)>,
    /// All headers; those of use to a module are handed on.
    pub headers: HeaderMap,
    /// The body.
    pub body: Content,
    /// Decoded blob fields.
    pub blobs: Vec<Blob>,
    /// Who asks; none on a public route.
    pub caller: Option<Caller>,
    /// Where it comes from.
    pub origin: Origin,
}

/// A body, in either direction.
#[derive(Debug)]
pub enum Content {
    /// Bytes.
    Bytes(Bytes),
    /// Bytes that a sandbox never held.
    Blob(Blob),
}

/// A module's answer, checked.
#[derive(Debug)]
pub struct Response {
    /// 200 to 599.
    pub status: StatusCode,
    /// Headers that a module may set.
    pub headers: HeaderMap,
    /// The body.
    pub body: Content,
}

/// Why a call had no answer. The detail is for the log.
#[derive(Debug, thiserror::Error)]
pub enum CallError {
    /// The guest trapped, or exhausted its memory or CPU budget.
    #[error("module {module} trapped: {detail}")]
    Trapped {
        /// Which module.
        module: String,
        /// What the sandbox says.
        detail: String,
        /// The functions that were active, the innermost first. Empty if they are not known.
        backtrace: Vec<String>,
    },
    /// The call's deadline passed.
    #[error("module {module} passed its deadline")]
    Deadline {
        /// Which module.
        module: String,
    },
    /// As many sandboxes as may be are at work.
    #[error("module {module} has no free sandbox")]
    Busy {
        /// Which module.
        module: String,
    },
    /// The host ended the call with a response of its own.
    #[error("module {module}: {failure}")]
    Refused {
        /// Which module.
        module: String,
        /// The response.
        failure: Failure,
    },
    /// The guest's answer is not one that may be sent.
    #[error("module {module} answered wrongly: {detail}")]
    Answer {
        /// Which module.
        module: String,
        /// What is wrong with it.
        detail: String,
    },
}

/// A module, loaded and linked. Dropped when the last request that uses it is done.
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
    turns: Arc<crate::turns::Turns>,
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
    /// What it says of itself.
    #[must_use]
    pub fn manifest(&self) -> &Manifest {
        &self.manifest
    }

    /// SHA-256 of its component, 64 hexadecimal digits.
    #[must_use]
    pub fn digest(&self) -> &str {
        &self.digest
    }

    /// The interfaces that it imports, with their versions.
    #[must_use]
    pub fn imports(&self) -> &[String] {
        &self.imports
    }

    /// What it may do and use.
    #[must_use]
    pub fn ceiling(&self) -> &config::Module {
        &self.ceiling
    }

    /// What became of its requests.
    #[must_use]
    pub fn health(&self) -> Counts {
        self.health.counts()
    }
}

impl Request {
    /// One that nobody made.
    fn probe() -> Self {
        Self {
            id: "probe".into(),
            path: Vec::new(),
            query: Vec::new(),
            headers: HeaderMap::new(),
            body: Content::Bytes(Bytes::new()),
            blobs: Vec::new(),
            caller: None,
            origin: Origin::service(),
        }
    }
}
