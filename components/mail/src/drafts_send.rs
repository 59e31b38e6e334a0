//! POST `/api/v1/mail/drafts/{id}/send`: sends a draft.

use latchmail_common::sending::drafts::{DraftSendRequest, send_failure};
use latchmail_common::sending::{LaterResult, SendResult, check_key, delivery, options};
use latchmail_sdk::capability::{Caller, Drafts};
use latchmail_sdk::{Failure, Reply, Request};

use crate::drafts::required_version;

/// Send a draft
///
/// Sends the draft as it is in the mailbox, also if a mail client has edited it, and files a copy
/// in Sent. Then the draft disappears. The date is set, and the recipients in Bcc and private
/// header fields of mail clients are removed. If two requests send the draft at the same time, one
/// mail is sent. With `If-Match`, the draft is sent only if it has this version. Needs the scope
/// `mail:read` too.
#[utoipa::path(
    post,
    path = "/api/v1/mail/drafts/{id}/send",
    operation_id = "sendDraft",
    tag = "Mail",
    extensions(("x-latchmail" = json!(true))),
    params(
        ("id" = String, Path, description = "The draft's id"),
        ("If-Match" = Option<String>, Header, description = "The version that the client read, in quotation marks"),
        ("Idempotency-Key" = Option<String>, Header, pattern = "^[!-~]{1,255}$", description = "A unique key that the client chooses for the message, 1 to 255 visible ASCII characters")
    ),
    request_body(content = Option<DraftSendRequest>, description = "Without a body, the draft is sent at once"),
    responses(
        (
            status = 200,
            description = "Sent",
            body = SendResult,
            headers(("Idempotent-Replayed" = Option<String>, description = "`true` if the response repeats an earlier one and nothing was sent now"))
        ),
        (status = 202, description = "The message leaves later, or waits for the approval of the mailbox's owner", body = LaterResult),
        (status = 400, description = "A field of the draft is missing or invalid, with the text of the route that sends a message; a recipient that the mail server rejects", body = latchmail_sdk::Failed),
        (status = 403, description = "`You can only send from your own address or active aliases`, `You do not have permission to send from this domain`; the scope `mail:read` is missing", body = latchmail_sdk::Failed),
        (status = 404, description = "`Draft not found`", body = latchmail_sdk::Failed),
        (status = 409, description = "`The draft is already being sent`; the `Idempotency-Key` was used for another request, or its request is still in progress", body = latchmail_sdk::Failed),
        (status = 412, description = "`The message has changed`", body = latchmail_sdk::Failed),
        (status = 413, description = "`Message exceeds the 25 MB limit`", body = latchmail_sdk::Failed),
        (status = 500, description = "`The message could not be sent`, or it is not known whether the message was sent", body = latchmail_sdk::Failed)
    )
)]
pub(crate) fn send_draft(
    host: &(impl Drafts + Caller),
    request: &Request,
) -> Result<Reply, Failure> {
    let (id, key) = (request.path("id"), request.header("idempotency-key"));
    check_key(key, "Idempotency-Key")?;
    let body = if request.body.is_empty() {
        DraftSendRequest::default()
    } else {
        request.json::<DraftSendRequest>()?
    };
    let options = options(key, body.send_at.as_deref(), body.undo_seconds)?;
    let failed = |error| send_failure(error, host);
    let version = required_version(host, request, id).map_err(failed)?;
    let sent = host.send_draft(id, version.as_deref(), &options);
    let (delivery, replayed) = delivery(sent.map_err(failed)?);
    delivery.reply(replayed)
}
