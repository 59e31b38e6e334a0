//! The routes of webhooks: URLs to which the service sends the events of a mailbox.
//!
//! This file lists the routes. The host checks URLs, types and folders, stores webhooks, and sends
//! and signs events.

mod deliveries;
mod model;
#[cfg(test)]
mod tests;
mod webhooks;

use latchmail_sdk::capability::{Caller, Error, Scope, Webhooks};
use latchmail_sdk::{Code, Failure, Module, Route, codes};
use utoipa::OpenApi;

/// Maximum size of a request body, in bytes.
const SMALL: u32 = 16 * 1024;
/// The error for a webhook that the caller does not manage.
const NO_WEBHOOK: (Code, &str) = (codes::WEBHOOK_NOT_FOUND, "Webhook not found");

#[derive(OpenApi)]
#[openapi(
    paths(
        webhooks::create_webhook,
        webhooks::list_webhooks,
        webhooks::get_webhook,
        webhooks::update_webhook,
        webhooks::delete_webhook,
        webhooks::rotate_webhook_secret,
        deliveries::test_webhook,
        deliveries::list_webhook_deliveries,
        deliveries::replay_webhook_delivery
    ),
    tags((name = "Webhooks", description = "URLs that receive the events of a mailbox"))
)]
struct Description;

/// Returns the module.
#[must_use]
pub fn module<H: Webhooks + Caller>() -> Module<H> {
    let route = |route: Route<H>| {
        let route = route.scoped(Scope::MailRead).with_oauth();
        route.bucket("webhooks")
    };
    Module::new("webhooks", env!("CARGO_PKG_VERSION"), Description::openapi)
        .route(route(Route::new("createWebhook", webhooks::create_webhook)).takes(SMALL))
        .route(route(Route::new("listWebhooks", webhooks::list_webhooks)))
        .route(route(Route::new("getWebhook", webhooks::get_webhook)))
        .route(route(Route::new("updateWebhook", webhooks::update_webhook)).takes(SMALL))
        .route(route(Route::new("deleteWebhook", webhooks::delete_webhook)))
        .route(route(Route::new(
            "rotateWebhookSecret",
            webhooks::rotate_webhook_secret,
        )))
        .route(route(Route::new("testWebhook", deliveries::test_webhook)))
        .route(route(Route::new(
            "listWebhookDeliveries",
            deliveries::list_webhook_deliveries,
        )))
        .route(route(Route::new(
            "replayWebhookDelivery",
            deliveries::replay_webhook_delivery,
        )))
}

fn failure(error: Error, host: &impl Caller) -> Failure {
    Failure::of(error, NO_WEBHOOK, host)
}

/// Converts an error of a function that checks the folder of a webhook.
fn folder_failure(error: Error, host: &impl Caller) -> Failure {
    let missing = (codes::FOLDER_NOT_FOUND, "Folder not found");
    Failure::of(error, missing, host)
}

latchmail_sdk::export!(module);
