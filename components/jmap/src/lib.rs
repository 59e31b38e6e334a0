//! JMAP (RFC 8620) for mail (RFC 8621) with quotas (RFC 9425).
//!
//! This file lists the routes. `api` processes requests, and `methods` lists the methods, which are
//! in one file for each type. `mime` reads and writes messages. The host authenticates the caller,
//! and its functions check the caller's scopes and grants. The state of the mailbox is the cursor
//! of the host's change log, and the ids of messages, threads and folders are those of the host.
//!
//! There are no push subscriptions. A message is in one mailbox.

mod api;
mod args;
mod blob;
mod changes;
mod context;
mod email;
mod error;
mod ids;
mod limits;
mod methods;
mod mime;
mod push;
mod references;
mod session;
mod set;
#[cfg(test)]
mod tests;

use latchmail_sdk::capability::{
    Aliases, Blobs, Caller, Config, Drafts, Filters, Mailbox, Outbox, Queries, Store,
};
use latchmail_sdk::{Code, Module, Route};
use utoipa::OpenApi;

/// The host capabilities that the module uses.
pub trait Capabilities:
    Aliases + Blobs + Caller + Config + Drafts + Filters + Mailbox + Outbox + Queries + Store
{
}

impl<H: Aliases + Blobs + Caller + Config + Drafts + Filters + Mailbox + Outbox + Queries + Store>
    Capabilities for H
{
}

/// The code of an error of a whole request to the API.
pub(crate) const INVALID_REQUEST: Code = Code::new("invalid_jmap_request");

#[derive(OpenApi)]
#[openapi(
    paths(
        session::discover,
        session::get_session,
        api::call,
        blob::upload,
        blob::download,
        push::event_source
    ),
    tags((name = "JMAP", description = "Mail over JMAP (RFC 8620, RFC 8621)"))
)]
struct Description;

/// Returns the module.
#[must_use]
pub fn module<H: Capabilities>() -> Module<H> {
    let route = |route: Route<H>| route.any_credential().bucket("jmap");
    Module::new("jmap", env!("CARGO_PKG_VERSION"), Description::openapi)
        .code(INVALID_REQUEST)
        .route(route(Route::new("discoverJmap", session::discover)))
        .route(route(Route::new("getJmapSession", session::get_session)))
        .route(
            route(Route::new("callJmap", api::call))
                .takes(limits::MAX_REQUEST)
                .within(120),
        )
        .route(
            route(Route::new("uploadJmapBlob", blob::upload))
                .takes_blob(limits::MAX_UPLOAD)
                .within(120),
        )
        .route(route(Route::new("downloadJmapBlob", blob::download)).within(120))
        .route(route(Route::new("openJmapEventSource", push::event_source)).bucket("events"))
}

latchmail_sdk::export!(module);
