//! POST `…/messages/{uid}/reply`, `…/reply-all` and `…/forward`: compose and send a message about a
//! message.

use latchmail_common::composing::{self, ComposeRequest, Mode};
use latchmail_common::reading;
use latchmail_common::sending::{LaterResult, SendResult};
use latchmail_sdk::capability::{Caller, Compose, Outbox};
use latchmail_sdk::{Failure, Reply, Request};

/// Reply to a message
///
/// Sends a reply to the author of the message: to the addresses in `Reply-To`, or to the sender. A
/// reply to a message of the account goes to the recipients of that message. The service sets the
/// sender, the subject, the references and the quotation, and then the flag `\Answered` of the
/// message. `Idempotency-Key` works as for sending. Needs the scope `mail:read` too.
#[utoipa::path(
    post,
    path = "/api/v1/mail/messages/{uid}/reply",
    operation_id = "replyToMessage",
    tag = "Mail",
    extensions(("x-latchmail" = json!(true))),
    params(
        ("uid" = u64, Path, minimum = 1, exclusive_maximum = 18_446_744_073_709_551_616.0, description = "The message's number"),
        ("Idempotency-Key" = Option<String>, Header, pattern = "^[!-~]{1,255}$", description = "A unique key that the client chooses for the message, 1 to 255 visible ASCII characters")
    ),
    request_body = ComposeRequest,
    responses(
        (
            status = 200,
            description = "Sent",
            body = SendResult,
            headers(("Idempotent-Replayed" = Option<String>, description = "`true` if the response repeats an earlier one and nothing was sent now"))
        ),
        (status = 202, description = "The message leaves later, or waits for the approval of the mailbox's owner", body = LaterResult),
        (status = 400, description = "`Invalid message UID`, `Invalid JSON body`; an invalid field; too many recipients; a recipient that the mail server rejects", body = latchmail_sdk::Failed),
        (status = 403, description = "`You can only send from your own address or active aliases`; a token without the scope `mail:read`", body = latchmail_sdk::Failed),
        (status = 404, description = "`Message not found`, `Upload not found`, `Attachment not found`", body = latchmail_sdk::Failed),
        (status = 409, description = "The `Idempotency-Key` was used for another request, or its request is still in progress", body = latchmail_sdk::Failed),
        (status = 413, description = "`Message exceeds the 25 MB limit`", body = latchmail_sdk::Failed),
        (status = 500, description = "`The message could not be sent`, or it is not known whether the message was sent", body = latchmail_sdk::Failed)
    )
)]
pub(crate) fn reply(
    host: &(impl Compose + Outbox + Caller),
    request: &Request,
) -> Result<Reply, Failure> {
    send(host, request, Mode::Reply)
}

/// Reply to all
///
/// As a reply to the author, and also to all recipients of the message and to its mailing list, or
/// to the addresses in `Mail-Followup-To` only.
#[utoipa::path(
    post,
    path = "/api/v1/mail/messages/{uid}/reply-all",
    operation_id = "replyToAll",
    tag = "Mail",
    extensions(("x-latchmail" = json!(true))),
    params(
        ("uid" = u64, Path, minimum = 1, exclusive_maximum = 18_446_744_073_709_551_616.0, description = "The message's number"),
        ("Idempotency-Key" = Option<String>, Header, pattern = "^[!-~]{1,255}$", description = "A unique key that the client chooses for the message, 1 to 255 visible ASCII characters")
    ),
    request_body = ComposeRequest,
    responses(
        (
            status = 200,
            description = "Sent",
            body = SendResult,
            headers(("Idempotent-Replayed" = Option<String>, description = "`true` if the response repeats an earlier one and nothing was sent now"))
        ),
        (status = 202, description = "The message leaves later, or waits for the approval of the mailbox's owner", body = LaterResult),
        (status = 400, description = "As for a reply", body = latchmail_sdk::Failed),
        (status = 403, description = "As for a reply", body = latchmail_sdk::Failed),
        (status = 404, description = "As for a reply", body = latchmail_sdk::Failed),
        (status = 409, description = "As for a reply", body = latchmail_sdk::Failed),
        (status = 413, description = "`Message exceeds the 25 MB limit`", body = latchmail_sdk::Failed),
        (status = 500, description = "As for a reply", body = latchmail_sdk::Failed)
    )
)]
pub(crate) fn reply_all(
    host: &(impl Compose + Outbox + Caller),
    request: &Request,
) -> Result<Reply, Failure> {
    send(host, request, Mode::ReplyAll)
}

/// Forward a message
///
/// Sends the text and the files of the message to the recipients in the request, and then sets the
/// flag `$Forwarded` of the message. With `asAttachment`, the complete message is attached instead.
#[utoipa::path(
    post,
    path = "/api/v1/mail/messages/{uid}/forward",
    operation_id = "forwardMessage",
    tag = "Mail",
    extensions(("x-latchmail" = json!(true))),
    params(
        ("uid" = u64, Path, minimum = 1, exclusive_maximum = 18_446_744_073_709_551_616.0, description = "The message's number"),
        ("Idempotency-Key" = Option<String>, Header, pattern = "^[!-~]{1,255}$", description = "A unique key that the client chooses for the message, 1 to 255 visible ASCII characters")
    ),
    request_body = ComposeRequest,
    responses(
        (
            status = 200,
            description = "Sent",
            body = SendResult,
            headers(("Idempotent-Replayed" = Option<String>, description = "`true` if the response repeats an earlier one and nothing was sent now"))
        ),
        (status = 202, description = "The message leaves later, or waits for the approval of the mailbox's owner", body = LaterResult),
        (status = 400, description = "`to must name at least one recipient`; as for a reply", body = latchmail_sdk::Failed),
        (status = 403, description = "As for a reply", body = latchmail_sdk::Failed),
        (status = 404, description = "As for a reply", body = latchmail_sdk::Failed),
        (status = 409, description = "As for a reply", body = latchmail_sdk::Failed),
        (status = 413, description = "`Message exceeds the 25 MB limit`", body = latchmail_sdk::Failed),
        (status = 500, description = "As for a reply", body = latchmail_sdk::Failed)
    )
)]
pub(crate) fn forward(
    host: &(impl Compose + Outbox + Caller),
    request: &Request,
) -> Result<Reply, Failure> {
    send(host, request, Mode::Forward)
}

fn send(
    host: &(impl Compose + Outbox + Caller),
    request: &Request,
    mode: Mode,
) -> Result<Reply, Failure> {
    let uid = reading::uid(request.path_number("uid"))?;
    let key = request.header("idempotency-key");
    let take = |index| request.take_blob(index);
    let body = request.json::<ComposeRequest>()?;
    let (delivery, replayed) = composing::send(host, (mode, uid), body, key, take)?;
    delivery.reply(replayed)
}

#[cfg(test)]
mod tests;
