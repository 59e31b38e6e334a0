//! POST `/api/v1/webhooks/{id}/test`, GET `/api/v1/webhooks/{id}/deliveries`, and POST
//! `/api/v1/webhooks/{id}/deliveries/{delivery}/replay`.

use latchmail_sdk::capability::{Caller, Webhooks};
use latchmail_sdk::{Failure, Reply, Request, codes};

use crate::failure;
use crate::model::{Deliveries, Delivery};

/// The default and the maximum number of deliveries in a list.
const DEFAULT_LIMIT: u32 = 50;
const MAX_LIMIT: u32 = 100;

/// Send a test event
///
/// Sends an event of the type `webhook.test` once, and returns the outcome. A failure does not
/// count towards the failures of the webhook.
#[utoipa::path(
    post,
    path = "/api/v1/webhooks/{id}/test",
    operation_id = "testWebhook",
    tag = "Webhooks",
    extensions(("x-latchmail" = json!(true))),
    params(("id" = String, Path, description = "The id of the webhook")),
    responses(
        (status = 200, description = "The outcome, which may be a failure", body = Delivery),
        (status = 404, description = "`Webhook not found`", body = latchmail_sdk::Failed)
    )
)]
pub(crate) fn test_webhook(
    host: &(impl Webhooks + Caller),
    request: &Request,
) -> Result<Reply, Failure> {
    let sent = host.test_webhook(request.path("id"));
    Reply::json(&Delivery::from(sent.map_err(|error| failure(error, host))?))
}

/// List deliveries
///
/// Returns the newest events of a webhook with the outcomes of the attempts. Deliveries are kept
/// for 30 days, at most 1,000 for each webhook.
#[utoipa::path(
    get,
    path = "/api/v1/webhooks/{id}/deliveries",
    operation_id = "listWebhookDeliveries",
    tag = "Webhooks",
    extensions(("x-latchmail" = json!(true))),
    params(
        ("id" = String, Path, description = "The id of the webhook"),
        ("limit" = Option<u32>, Query, minimum = 1, maximum = 100, description = "The maximum number of deliveries; 50 if absent")
    ),
    responses(
        (status = 200, description = "The deliveries", body = Deliveries),
        (status = 400, description = "`limit must be 1 to 100`", body = latchmail_sdk::Failed),
        (status = 404, description = "`Webhook not found`", body = latchmail_sdk::Failed)
    )
)]
pub(crate) fn list_webhook_deliveries(
    host: &(impl Webhooks + Caller),
    request: &Request,
) -> Result<Reply, Failure> {
    let complaint = || (codes::INVALID_FIELD, "limit must be 1 to 100");
    let limit = request.query_number("limit", DEFAULT_LIMIT, complaint())?;
    if limit == 0 || limit > MAX_LIMIT {
        let (code, text) = complaint();
        return Err(Failure::bad_request(code, text));
    }
    let listed = host.webhook_deliveries(request.path("id"), limit);
    let listed = listed.map_err(|error| failure(error, host))?;
    Reply::json(&Deliveries {
        deliveries: listed.into_iter().map(Delivery::from).collect(),
    })
}

/// Send an event again
///
/// The event has the same id and the same body as before. It is sent before newer events.
#[utoipa::path(
    post,
    path = "/api/v1/webhooks/{id}/deliveries/{delivery}/replay",
    operation_id = "replayWebhookDelivery",
    tag = "Webhooks",
    extensions(("x-latchmail" = json!(true))),
    params(
        ("id" = String, Path, description = "The id of the webhook"),
        ("delivery" = String, Path, description = "The id of the delivery")
    ),
    responses(
        (status = 202, description = "The delivery, which is pending", body = Delivery),
        (status = 404, description = "`Webhook not found`, `Delivery not found`", body = latchmail_sdk::Failed),
        (status = 409, description = "`The delivery is pending`, `The webhook is disabled`", body = latchmail_sdk::Failed)
    )
)]
pub(crate) fn replay_webhook_delivery(
    host: &(impl Webhooks + Caller),
    request: &Request,
) -> Result<Reply, Failure> {
    let id = request.path("id");
    host.get_webhook(id).map_err(|error| failure(error, host))?;
    let replayed = host.replay_delivery(id, request.path("delivery"));
    let missing = (codes::WEBHOOK_DELIVERY_NOT_FOUND, "Delivery not found");
    let replayed = replayed.map_err(|error| Failure::of(error, missing, host))?;
    Reply::with_status(202, &Delivery::from(replayed))
}
