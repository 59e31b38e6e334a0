//! Calls the routes and handlers of a module in unit tests, without a host and without WebAssembly.
//!
//! [`FakeHost`] replaces the real host. A `FakeHost` stores accounts, aliases and values in memory.
//! The folder `components/sdk/scenarios` of Latchmail's repository lists calls and their results.
//! The real host and the fake host run the same list. A test can call a handler directly with a
//! `FakeHost`. [`Service`] is a complete module with a `FakeHost`. A `Service` finds the route,
//! checks the credential and the scope, and parses the path and the query. The test receives the
//! same response as a client.
//!
//! ```
//! use latchmail_sdk::capability::{Caller, Mailbox, Scope};
//! use latchmail_sdk::testing::{Letter, Service};
//! use latchmail_sdk::{Failure, Module, Reply, Request, Route, codes};
//! use serde_json::json;
//! use utoipa::OpenApi;
//!
//! #[utoipa::path(
//!     get, path = "/api/v1/unread", operation_id = "countUnread", responses((status = 200))
//! )]
//! fn count_unread(host: &(impl Caller + Mailbox), _: &Request) -> Result<Reply, Failure> {
//!     let missing = (codes::FOLDER_NOT_FOUND, "Folder not found");
//!     let folders = host
//!         .list_folders()
//!         .map_err(|error| Failure::of(error, missing, host))?;
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
//! The fake host sends nothing over the network. The fake host has no limits on time, memory or
//! request rate. To test how a mail server processes a message, use the real service.
//!
//! Functions panic at the line of the test if the test uses them incorrectly. For example, reading
//! a response as JSON panics if the response is not JSON.
#![allow(
    clippy::panic,
    reason = "tests fail at the line of the invalid request"
)]

mod blob_fields;
mod host;
mod letter;
mod manifest;
mod raw;
mod request;
mod response;
mod route;
mod service;
#[cfg(test)]
mod tests;

pub use host::{
    FakeHost, SentFile, SentMessage, activate_other_script, fail_callbacks, forget_filters,
    forward_code, hold_messages, put_grant, put_module, refuse_actions, set_delivery,
    set_grant_policy, set_webhook_deliveries, use_handler,
};
pub use letter::Letter;
pub use manifest::manifest_error;
pub use request::{json, request};
pub use response::Response;
pub use service::Service;

/// Returns an event of this type with these details, for the handlers of a module.
#[must_use]
pub fn event(kind: &str, data: &serde_json::Value) -> crate::Event {
    crate::Event {
        id: "event-1".into(),
        kind: kind.into(),
        time: NOW,
        data: data.to_string(),
    }
}

/// The initial time of a [`FakeHost`]: 2026-11-20T08:00:00Z.
pub const NOW: crate::capability::Timestamp = 1_795_161_600_000;

/// Returns the failure with this status and text, and with the code that the bundled modules use
/// for the text. A test compares the failure of a handler with the result, and so checks the code
/// too.
///
/// # Panics
/// Panics if [`crate::codes`] has no such text.
#[must_use]
#[track_caller]
pub fn failure(status: u16, text: &str) -> crate::Failure {
    let known = latchmail_shape::codes::of_response(status, text);
    let code = known.map(|known| known.code.clone());
    let code =
        code.unwrap_or_else(|| panic!("no code has the status {status} and the text {text:?}"));
    crate::Failure::new(status, code, text.to_owned())
}
