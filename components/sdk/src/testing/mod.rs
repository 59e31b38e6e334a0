//! A module's routes and handlers in plain unit tests, without a host and without WebAssembly.
//!
//! [`FakeHost`] answers in the host's place: it has accounts with mailboxes, aliases and stored values, all in memory, and refuses what the real
//! one would refuse. A handler can be called with it directly. [`Service`] serves a whole module with it: it finds the route, asks for the
//! credential and the scope that the route declares, reads the path and the query, and hands over the answer as a client sees it.
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
//!         .route(Route::get("/api/v1/unread", "countUnread", count_unread).scoped(Scope::MailRead))
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
//! What it does not do: it sends nothing anywhere, limits neither time nor memory, and counts no requests. What a mail server makes of a message
//! is for a test against the real service.
//!
//! A test that asks for what there is not (an answer that is not JSON, a message for nobody) panics, at the line of the test.
#![allow(
    clippy::panic,
    reason = "a test that asks for what there is not fails there"
)]

mod account;
mod addresses;
mod answer;
mod blob_fields;
mod credentials;
mod host;
mod letter;
mod mailbox;
mod manifest;
mod outbox;
mod route;
mod service;
mod store;
mod teams;
#[cfg(test)]
mod tests;
mod web;

pub use answer::Answer;
pub use host::FakeHost;
pub use letter::Letter;
pub use manifest::misfit;
pub use outbox::{SentFile, SentMessage};
pub use service::Service;

/// 2026-11-20T08:00:00Z: when everything happens in a [`FakeHost`] until it is told otherwise.
pub const NOW: crate::capability::Timestamp = 1_795_161_600_000;
