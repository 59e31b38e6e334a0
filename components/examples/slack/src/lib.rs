//! An example of a module: a bridge to Slack. The owner of a mailbox sets the URL of an incoming
//! webhook, and the module posts each message that arrives in the inbox. It works with every
//! service that has webhooks compatible with those of Slack, for example Mattermost.
//!
//! This file lists the routes and the events. The operator lists the hosts of the webhooks.

mod new_mail;
mod slack;
mod webhook;

use latchmail_sdk::capability::{Caller, HttpClient, Mailbox, Store};
use latchmail_sdk::{Handlers, Module, Route};
use utoipa::OpenApi;

/// The maximum size of a request body, in bytes.
const SMALL: u32 = 16 * 1024;

#[derive(OpenApi)]
#[openapi(
    paths(webhook::set_slack_webhook, webhook::delete_slack_webhook),
    tags((name = "Slack", description = "New mail in Slack"))
)]
struct Description;

/// Returns the module.
#[must_use]
pub fn module<H: Caller + HttpClient + Store>() -> Module<H> {
    Module::new("slack", env!("CARGO_PKG_VERSION"), Description::openapi)
        .code(webhook::REFUSED)
        .route(Route::new("setSlackWebhook", webhook::set_slack_webhook).takes(SMALL))
        .route(Route::new(
            "deleteSlackWebhook",
            webhook::delete_slack_webhook,
        ))
}

/// Returns the handlers.
#[must_use]
pub fn handlers<H: HttpClient + Mailbox + Store>() -> Handlers<H> {
    Handlers::new()
        .events(&["message.created"], Some("\\Inbox"))
        .on_event(new_mail::on_event)
}

latchmail_sdk::export!(module);
latchmail_sdk::export_handlers!(handlers);
