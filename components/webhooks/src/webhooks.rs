//! POST and GET `/api/v1/webhooks`, GET, PATCH and DELETE `/api/v1/webhooks/{id}`, and POST
//! `/api/v1/webhooks/{id}/rotate`.

use latchmail_sdk::capability::{self, Caller};
use latchmail_sdk::{Failure, Reply, Request};

use crate::model::{
    CreatedWebhook, Webhook, WebhookChange, WebhookRequest, WebhookSecret, Webhooks,
};
use crate::{failure, folder_failure};

/// Create a webhook
///
/// The service sends the events of the mailbox to the URL, from the next change on, one after the
/// other. The webhook has the rights of the credential that creates it, and ends with this
/// credential: the webhook of a web session ends when the user signs out. An account can have 20
/// webhooks.
#[utoipa::path(
    post,
    path = "/api/v1/webhooks",
    operation_id = "createWebhook",
    tag = "Webhooks",
    extensions(("x-latchmail" = json!(true))),
    request_body = WebhookRequest,
    responses(
        (status = 201, description = "The webhook with its secret", body = CreatedWebhook),
        (status = 400, description = "A text that names the invalid field", body = latchmail_sdk::Failed),
        (status = 404, description = "`Folder not found`", body = latchmail_sdk::Failed),
        (status = 409, description = "`An account can have at most 20 webhooks`", body = latchmail_sdk::Failed)
    )
)]
pub(crate) fn create_webhook(
    host: &(impl capability::Webhooks + Caller),
    request: &Request,
) -> Result<Reply, Failure> {
    let settings = request.json::<WebhookRequest>()?.into_settings();
    let created = host.create_webhook(&settings);
    let created = created.map_err(|error| folder_failure(error, host))?;
    let body = CreatedWebhook {
        webhook: created.webhook.into(),
        secret: created.secret,
    };
    let reply = Reply::with_status(201, &body)?;
    Ok(reply.with("cache-control", "private, no-store"))
}

/// List webhooks
///
/// A session of the mailbox's owner lists all webhooks of the mailbox, a session of a member lists
/// the member's webhooks, and a token lists its own webhooks.
#[utoipa::path(
    get,
    path = "/api/v1/webhooks",
    operation_id = "listWebhooks",
    tag = "Webhooks",
    extensions(("x-latchmail" = json!(true))),
    responses((status = 200, description = "The webhooks", body = Webhooks))
)]
pub(crate) fn list_webhooks(
    host: &(impl capability::Webhooks + Caller),
    _request: &Request,
) -> Result<Reply, Failure> {
    let listed = host.list_webhooks().map_err(|error| failure(error, host))?;
    Reply::json(&Webhooks {
        webhooks: listed.into_iter().map(Webhook::from).collect(),
    })
}

/// Get a webhook
#[utoipa::path(
    get,
    path = "/api/v1/webhooks/{id}",
    operation_id = "getWebhook",
    tag = "Webhooks",
    extensions(("x-latchmail" = json!(true))),
    params(("id" = String, Path, description = "The id of the webhook")),
    responses(
        (status = 200, description = "The webhook", body = Webhook),
        (status = 404, description = "`Webhook not found`", body = latchmail_sdk::Failed)
    )
)]
pub(crate) fn get_webhook(
    host: &(impl capability::Webhooks + Caller),
    request: &Request,
) -> Result<Reply, Failure> {
    let webhook = host.get_webhook(request.path("id"));
    Reply::json(&Webhook::from(
        webhook.map_err(|error| failure(error, host))?,
    ))
}

/// Change a webhook
#[utoipa::path(
    patch,
    path = "/api/v1/webhooks/{id}",
    operation_id = "updateWebhook",
    tag = "Webhooks",
    extensions(("x-latchmail" = json!(true))),
    params(("id" = String, Path, description = "The id of the webhook")),
    request_body = WebhookChange,
    responses(
        (status = 200, description = "The webhook", body = Webhook),
        (status = 400, description = "A text that names the invalid field", body = latchmail_sdk::Failed),
        (status = 404, description = "`Webhook not found`, `Folder not found`", body = latchmail_sdk::Failed),
        (status = 409, description = "`The webhook is being changed by another request`", body = latchmail_sdk::Failed)
    )
)]
pub(crate) fn update_webhook(
    host: &(impl capability::Webhooks + Caller),
    request: &Request,
) -> Result<Reply, Failure> {
    let change: WebhookChange = request.json()?;
    let id = request.path("id");
    // With an unknown folder, the host returns the same error as for an unknown webhook.
    host.get_webhook(id).map_err(|error| failure(error, host))?;
    let changed = host.change_webhook(id, &change.into());
    let changed = changed.map_err(|error| folder_failure(error, host))?;
    Reply::json(&Webhook::from(changed))
}

/// Delete a webhook
///
/// Deletes the webhook with its deliveries. A request to the receiver that is running at the moment
/// is cancelled within about a second.
#[utoipa::path(
    delete,
    path = "/api/v1/webhooks/{id}",
    operation_id = "deleteWebhook",
    tag = "Webhooks",
    extensions(("x-latchmail" = json!(true))),
    params(("id" = String, Path, description = "The id of the webhook")),
    responses(
        (status = 200, description = "Deleted", body = latchmail_sdk::Succeeded),
        (status = 404, description = "`Webhook not found`", body = latchmail_sdk::Failed)
    )
)]
pub(crate) fn delete_webhook(
    host: &(impl capability::Webhooks + Caller),
    request: &Request,
) -> Result<Reply, Failure> {
    let deleted = host.delete_webhook(request.path("id"));
    deleted.map_err(|error| failure(error, host))?;
    Reply::success()
}

/// Replace the secret of a webhook
///
/// For 24 hours, events have two signatures: with the new and with the previous secret.
#[utoipa::path(
    post,
    path = "/api/v1/webhooks/{id}/rotate",
    operation_id = "rotateWebhookSecret",
    tag = "Webhooks",
    extensions(("x-latchmail" = json!(true))),
    params(("id" = String, Path, description = "The id of the webhook")),
    responses(
        (status = 200, description = "The new secret", body = WebhookSecret),
        (status = 404, description = "`Webhook not found`", body = latchmail_sdk::Failed)
    )
)]
pub(crate) fn rotate_webhook_secret(
    host: &(impl capability::Webhooks + Caller),
    request: &Request,
) -> Result<Reply, Failure> {
    let secret = host.rotate_webhook(request.path("id"));
    let secret = secret.map_err(|error| failure(error, host))?;
    let reply = Reply::json(&WebhookSecret { secret })?;
    Ok(reply.with("cache-control", "private, no-store"))
}
