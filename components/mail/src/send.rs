//! POST `/api/v1/mail/send`: validates and sends a message and files a copy in Sent.

use latchmail_common::sending::{self, LaterResult, SendRequest, SendResult};
use latchmail_sdk::capability::{Caller, Outbox};
use latchmail_sdk::{Failure, Reply, Request};

/// Send a message
///
/// Sends the message to all recipients and files a copy in Sent. If the mail server rejects a
/// recipient, the message is not sent to any recipient. If the same request is repeated with the
/// same `Idempotency-Key` within 24 hours, nothing is sent. The response is then the first
/// response, with the header `Idempotent-Replayed: true`.
///
/// With `sendAt` or `undoSeconds`, the complete message is stored and leaves at its time, also if
/// the credential has ended by then.
#[utoipa::path(
    post,
    path = "/api/v1/mail/send",
    operation_id = "sendMessage",
    tag = "Mail",
    params(
        ("Idempotency-Key" = Option<String>, Header, pattern = "^[!-~]{1,255}$", description = "A unique key that the client chooses for the message, 1 to 255 visible ASCII characters")
    ),
    request_body = SendRequest,
    responses(
        (
            status = 200,
            description = "Sent",
            body = SendResult,
            headers(("Idempotent-Replayed" = Option<String>, description = "`true` if the response repeats an earlier one and nothing was sent now"))
        ),
        (status = 202, description = "The message leaves later, or waits for the approval of the mailbox's owner", body = LaterResult),
        (status = 400, description = "`Invalid JSON body`; an invalid field; a header field that is not allowed; too many recipients; a recipient that the mail server rejects", body = latchmail_sdk::Failed),
        (status = 403, description = "`You can only send from your own address or active aliases`, `You do not have permission to send from this domain`; an attachment of a message without the scope `mail:read`", body = latchmail_sdk::Failed),
        (status = 404, description = "`Upload not found`, `Attachment not found`, `Message not found`", body = latchmail_sdk::Failed),
        (status = 409, description = "The `Idempotency-Key` was used for another request, or its request is still in progress", body = latchmail_sdk::Failed),
        (status = 413, description = "`Message exceeds the 25 MB limit`, `The outbox of the account is full`", body = latchmail_sdk::Failed),
        (status = 500, description = "`The message could not be sent`, or it is not known whether the message was sent", body = latchmail_sdk::Failed)
    )
)]
pub(crate) fn send_message(
    host: &(impl Outbox + Caller),
    request: &Request,
) -> Result<Reply, Failure> {
    let key = request.header("idempotency-key");
    let take = |index| request.take_blob(index);
    let (delivery, replayed) = sending::send(host, request.json::<SendRequest>()?, key, take)?;
    delivery.reply(replayed)
}

#[cfg(test)]
mod tests;
