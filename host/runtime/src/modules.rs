//! The sandbox. This module compiles components, links the components with the granted interfaces,
//! and reads the manifests. It calls components for requests.
//!
//! This module does not depend on HTTP connections or on SQL. The host functions are in
//! [`crate::api`].

mod cache;
mod call;
mod call_handler;
mod comparison;
mod compile;
mod contract;
mod convert;
mod engine;
mod error;
mod functions;
mod handlers;
mod headers;
mod health;
mod idle;
mod json_string;
mod limits;
mod linked;
mod linker;
mod load;
mod manifest;
mod message;
mod module;
mod module_metrics;
mod mount;
mod policy;
mod recording;
mod replay;
mod sandbox;
mod sandbox_permits;
mod schedule;
#[cfg(any(test, feature = "testing"))]
pub mod testing;
mod wasi_http;

pub(crate) use comparison::{Differences, Kind as DifferenceKind};
pub use compile::precompile;
pub use engine::engine;
pub use error::CallError;
pub use handlers::{EventSubscription, HandlerOutcome, Subscriptions, Timer, Trigger};
pub use health::{Counts, Failing};
pub use latchmail_bindings::VERSION as CONTRACT;
pub use linker::{GRANTABLE, is_granted};
pub use load::{Examined, Loader, digest, name_of_file};
pub use manifest::{Accepts, Access, BodyForm, Manifest, Requirement, Route};
pub use message::{Content, Request, Response, Verified};
pub use module::Module;
pub(crate) use module::set_metrics as set_module_metrics;
pub use module_metrics::{AllUsage, Usage};
pub use mount::Mount;
pub(crate) use recording::RecordedRequest;
pub use schedule::{Cron, Schedule};
