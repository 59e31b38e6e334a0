//! The agent endpoint. The endpoint provides mail and aliases as tools of the Model Context
//! Protocol, over Streamable HTTP.
//!
//! Requests are independent of each other: there are no sessions and no event streams. Each
//! response is one JSON document. The host sends events to the URLs of agents that subscribe. The
//! host authenticates the caller. The caller's scopes determine the available tools.

mod approval;
mod cut;
mod endpoint;
mod events;
mod frame;
mod headers;
mod hidden;
mod methods;
mod origin;
mod other_methods;
mod outcome;
mod parts;
mod revision;
mod rpc;
mod schema;
#[cfg(test)]
mod tests;
mod tools;

use latchmail_sdk::capability::{
    Aliases, Caller, Compose, Config, Drafts, Mailbox, Outbox, Subscriptions,
};
use latchmail_sdk::{Module, Route};
use utoipa::OpenApi;

/// The maximum size of a request body, in bytes. The limit is sufficient for a message without
/// attachments.
const MAX_BODY: u32 = 1024 * 1024;

/// The host capabilities that the endpoint uses.
pub trait Capabilities:
    Aliases + Caller + Compose + Config + Drafts + Mailbox + Outbox + Subscriptions
{
}

impl<H: Aliases + Caller + Compose + Config + Drafts + Mailbox + Outbox + Subscriptions>
    Capabilities for H
{
}

#[derive(OpenApi)]
#[openapi(
    paths(endpoint::post, other_methods::get, other_methods::delete),
    tags((name = "Agents", description = "Mail and aliases as tools of the Model Context Protocol"))
)]
struct Description;

/// Returns the module.
#[must_use]
pub fn module<H: Capabilities>() -> Module<H> {
    let mine = |route: Route<H>| route.oauth().bucket("mcp");
    Module::new("mcp", env!("CARGO_PKG_VERSION"), Description::openapi)
        .route(
            // The tool `send_message` takes as long as the route `sendMessage`, so the deadline is
            // the same.
            mine(Route::new("callAgentEndpoint", endpoint::post))
                .takes(MAX_BODY)
                .within(120),
        )
        .route(mine(Route::new("openAgentStream", other_methods::get)))
        .route(mine(Route::new("endAgentSession", other_methods::delete)))
}

latchmail_sdk::export!(module);
