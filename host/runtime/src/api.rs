//! The host functions that components can call. Each file contains one interface of the WIT
//! package. A host function only checks the caller's rights, converts values, and calls a service
//! of the host.
//!
//! All host functions are methods of [`Call`], which contains the caller of the request. So a
//! module cannot choose the account. Components call them through [`taped`], which can record the
//! results.

mod aliases;
mod ambient;
mod blobs;
mod call;
mod caller;
mod compose;
mod config;
mod convert;
mod credentials;
mod deliveries;
mod domains;
mod drafts;
mod filters;
mod host_call;
mod http_client;
mod log;
mod mailbox;
mod modules;
mod outbox;
mod outgoing_http;
mod problem;
mod profile;
mod queries;
mod recorder;
mod services;
mod session;
mod settings;
mod store;
mod streams;
mod subscriptions;
mod tape;
mod taped;
mod teams;
mod webhooks;

pub(crate) use ambient::Ambient;
pub use call::Call;
pub(crate) use call::{JsonString, MAX_HANDLES};
pub(crate) use outgoing_http::OutgoingHttp;
pub(crate) use recorder::Preview;
pub use recorder::Recorder;
pub use services::Services;
pub use settings::Settings;
pub(crate) use tape::{Charge, MissingCall, Pool, RecordedCalls, Recording, Replay, Tape};
pub(crate) use taped::{HasTaped, Taped};
