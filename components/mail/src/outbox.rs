//! GET `…/mail/outbox`, and GET, PATCH and DELETE `…/mail/outbox/{id}`: messages that leave later.

use latchmail_common::{Address, addresses, sending};
use latchmail_sdk::capability::{Caller, Error, Outbox, OutboxEntry};
use latchmail_sdk::{Failure, Reply, Request, codes, time};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// The error for a message that the caller does not have.
const NO_ENTRY: (latchmail_sdk::Code, &str) =
    (codes::OUTBOX_ENTRY_NOT_FOUND, "Outbox entry not found");

/// The maximum number of messages in a list.
const MAX_LISTED: u32 = 2000;

/// A message in the outbox.
#[derive(Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = OutboxEntry, example = json!({"outboxId": "kq3x7mzv2hjw5t6nbd4ryuoa",
    "state": "scheduled", "sendAt": "2026-12-24T08:00:00.000Z", "subject": "Plan",
    "to": [{"name": "", "address": "bob@example.net"}], "error": null,
    "messageId": "<19b2f0c1a00.5f1d@example.org>", "draftId": null}))]
pub(crate) struct Entry {
    /// The id of the message in the outbox.
    outbox_id: String,
    /// `scheduled`: leaves at `sendAt`. `sending`: the service submits the message. `sent`: the
    /// mail server has accepted the message. `failed`: the message was not sent. `cancelled`.
    /// `unknown`: the message may have been sent.
    #[schema(pattern = "^(?:scheduled|sending|sent|failed|cancelled|unknown)$")]
    state: String,
    /// The time at which the message leaves.
    #[schema(format = DateTime)]
    send_at: String,
    /// The subject.
    subject: String,
    /// The recipients in To.
    to: Vec<Address>,
    /// The reason of the states `failed` and `unknown`, otherwise `null`.
    error: Option<String>,
    /// The Message-ID, with angle brackets.
    message_id: String,
    /// The id of the draft that was sent, or `null`.
    draft_id: Option<String>,
}

impl From<OutboxEntry> for Entry {
    fn from(entry: OutboxEntry) -> Self {
        Self {
            outbox_id: entry.id,
            state: entry.state,
            send_at: time::iso8601(entry.send_at),
            subject: entry.subject,
            to: addresses(entry.to),
            error: entry.error,
            message_id: entry.message_id,
            draft_id: entry.draft,
        }
    }
}

/// The messages in the outbox.
#[derive(Serialize, ToSchema)]
pub(crate) struct OutboxEntries {
    /// First the messages that wait, by their times, then the others, newest outcome first. At most
    /// 2,000.
    entries: Vec<Entry>,
}

/// A new time of a message.
#[derive(Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(example = json!({"sendAt": "2026-12-24T08:00:00Z"}))]
pub(crate) struct RescheduleRequest {
    /// The time at which the message leaves (RFC 3339), at most a year ahead. A time in the past is
    /// the current time.
    #[schema(format = DateTime)]
    send_at: String,
}

/// List the outbox
///
/// Returns the messages that leave later, and for 30 days the messages that were sent or cancelled.
/// A member of a shared mailbox gets only the member's own messages.
#[utoipa::path(
    get,
    path = "/api/v1/mail/outbox",
    operation_id = "listOutbox",
    tag = "Mail",
    extensions(("x-latchmail" = json!(true))),
    responses((status = 200, description = "The messages", body = OutboxEntries))
)]
pub(crate) fn list_outbox(
    host: &(impl Outbox + Caller),
    _request: &Request,
) -> Result<Reply, Failure> {
    let entries = host.list_entries(MAX_LISTED);
    let entries = entries.map_err(|error| failure(error, host))?;
    Reply::json(&OutboxEntries {
        entries: entries.into_iter().map(Entry::from).collect(),
    })
}

/// Get a message in the outbox
#[utoipa::path(
    get,
    path = "/api/v1/mail/outbox/{id}",
    operation_id = "getOutboxEntry",
    tag = "Mail",
    extensions(("x-latchmail" = json!(true))),
    params(("id" = String, Path, description = "The `outboxId` of the message")),
    responses(
        (status = 200, description = "The message", body = Entry),
        (status = 404, description = "`Outbox entry not found`", body = latchmail_sdk::Failed)
    )
)]
pub(crate) fn get_outbox_entry(
    host: &(impl Outbox + Caller),
    request: &Request,
) -> Result<Reply, Failure> {
    let entry = host.get_entry(request.path("id"));
    Reply::json(&Entry::from(entry.map_err(|error| failure(error, host))?))
}

/// Change the time of a message
///
/// Changes the time at which a message leaves, until the service submits the message.
#[utoipa::path(
    patch,
    path = "/api/v1/mail/outbox/{id}",
    operation_id = "rescheduleOutboxEntry",
    tag = "Mail",
    extensions(("x-latchmail" = json!(true))),
    params(("id" = String, Path, description = "The `outboxId` of the message")),
    request_body = RescheduleRequest,
    responses(
        (status = 200, description = "The message", body = Entry),
        (status = 400, description = "`Invalid JSON body`; an invalid time", body = latchmail_sdk::Failed),
        (status = 404, description = "`Outbox entry not found`", body = latchmail_sdk::Failed),
        (status = 409, description = "`Already sent`, `The message is not scheduled any longer`", body = latchmail_sdk::Failed)
    )
)]
pub(crate) fn reschedule_outbox_entry(
    host: &(impl Outbox + Caller),
    request: &Request,
) -> Result<Reply, Failure> {
    let send_at = sending::send_at(&request.json::<RescheduleRequest>()?.send_at)?;
    let entry = host.reschedule_entry(request.path("id"), send_at);
    Reply::json(&Entry::from(entry.map_err(|error| failure(error, host))?))
}

/// Cancel a message
///
/// Cancels a message, until the service submits the message. A draft is in Drafts again.
#[utoipa::path(
    delete,
    path = "/api/v1/mail/outbox/{id}",
    operation_id = "cancelOutboxEntry",
    tag = "Mail",
    extensions(("x-latchmail" = json!(true))),
    params(("id" = String, Path, description = "The `outboxId` of the message")),
    responses(
        (status = 200, description = "Cancelled", body = latchmail_sdk::Succeeded),
        (status = 404, description = "`Outbox entry not found`", body = latchmail_sdk::Failed),
        (status = 409, description = "`Already sent`, `The message is not scheduled any longer`", body = latchmail_sdk::Failed)
    )
)]
pub(crate) fn cancel_outbox_entry(
    host: &(impl Outbox + Caller),
    request: &Request,
) -> Result<Reply, Failure> {
    let cancelled = host.cancel_entry(request.path("id"));
    cancelled.map_err(|error| failure(error, host))?;
    Reply::success()
}

fn failure(error: Error, host: &impl Caller) -> Failure {
    Failure::of(error, NO_ENTRY, host)
}
