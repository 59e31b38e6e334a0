//! Calls the routes and handlers of a module in unit tests, without a host and without WebAssembly.
//!
//! [`FakeHost`] replaces the host. It stores accounts with mailboxes, aliases and values in memory, and it refuses the same calls as the real host. A test can
//! call a handler with a `FakeHost` directly. [`Service`] serves a complete module with a `FakeHost`: it finds the route, requires the credential and the scope
//! that the route declares, parses the path and the query, and returns the response that a client receives.
//!
//! ```
//! use latchmail_sdk::capability::{Caller, Mailbox, Scope};
//! use latchmail_sdk::testing::{Letter, Service};
//! use latchmail_sdk::{Failure, Module, Reply, Request, Route};
//! use serde_json::json;
//! use utoipa::OpenApi;
//!
//! #[utoipa::path(get, path = "/api/v1/unread", operation_id = "countUnread", responses((status = 200)))]
//! fn count_unread(host: &(impl Caller + Mailbox), _: &Request) -> Result<Reply, Failure> {
//!     let folders = host.list_folders().map_err(|error| Failure::of(error, "Folder not found", host))?;
//!     let unread: u32 = folders.iter().map(|folder| folder.unseen).sum();
//!     Reply::json(&json!({ "unread": unread }))
//! }
//!
//! #[derive(OpenApi)]
//! #[openapi(paths(count_unread))]
//! struct Description;
//!
//! fn module<H: Caller + Mailbox>() -> Module<H> {
//!     Module::new("unread", "1.0.0", Description::openapi)
//!         .route(Route::new("countUnread", count_unread).scoped(Scope::MailRead))
//! }
//!
//! let service = Service::of(module());
//! service.host.deliver(Letter::from("Grace <grace@example.org>").subject("Hello"));
//! assert_eq!(service.get("/api/v1/unread").succeeds(200), json!({ "unread": 1 }));
//!
//! service.host.use_token(&[Scope::MailSend]);
//! service.get("/api/v1/unread").fails(403, "This credential is missing the \"mail:read\" scope");
//! ```
//!
//! The fake host sends nothing over the network, limits neither time nor memory, and has no rate limits. To test how a mail server
//! processes a message, use the real service.
//!
//! Functions panic at the line of the test if the test uses them incorrectly, for example if it reads a response as JSON that is not JSON.
#![allow(
    clippy::panic,
    reason = "tests fail at the line of the invalid request"
)]

mod account;
mod blob_fields;
mod host;
mod letter;
mod manifest;
mod remote;
mod request;
mod response;
mod route;
mod service;
#[cfg(test)]
mod tests;

pub use account::sent::{SentFile, SentMessage};
pub use host::FakeHost;
pub use letter::Letter;
pub use manifest::manifest_error;
pub use request::{json, request};
pub use response::Response;
pub use service::Service;

/// The initial time of a [`FakeHost`]: 2026-11-20T08:00:00Z.
pub const NOW: crate::capability::Timestamp = 1_795_161_600_000;
