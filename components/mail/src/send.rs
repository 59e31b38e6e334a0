//! POST `/api/v1/mail/send`: a message is checked, sent, and filed in Sent.

use latchmail_common::sending::{self, SendRequest, SendResult};
use latchmail_sdk::capability::{Caller, Outbox};
use latchmail_sdk::{Failure, Reply, Request};

/// Send a message
///
/// The message goes to everybody or, where the mail server refuses one, to nobody. A copy is filed in Sent. With an `Idempotency-Key` the same request
/// within 24 hours is answered as the first was, with `Idempotent-Replayed: true`, and sends nothing.
#[utoipa::path(
    post,
    path = "/api/v1/mail/send",
    operation_id = "sendMessage",
    tag = "Mail",
    params(
        ("Idempotency-Key" = Option<String>, Header, pattern = "^[!-~]{1,255}$", description = "The client's own name for this very sending, 1 to 255 visible ASCII characters")
    ),
    request_body = SendRequest,
    responses(
        (
            status = 200,
            description = "Sent",
            body = SendResult,
            headers(("Idempotent-Replayed" = Option<String>, description = "`true` where this answer was given before and nothing was sent now"))
        ),
        (status = 400, description = "`Invalid JSON body`; a field that will not do; too many recipients; a recipient that the mail server refuses", body = latchmail_sdk::Failed),
        (status = 403, description = "`You can only send from your own address or active aliases`, `You do not have permission to send from this domain`", body = latchmail_sdk::Failed),
        (status = 409, description = "The `Idempotency-Key` came with another request before, or that one is being served", body = latchmail_sdk::Failed),
        (status = 413, description = "`Message exceeds the 25 MB limit`", body = latchmail_sdk::Failed),
        (status = 500, description = "`Could not verify the sender address`; it is not known whether the message was sent", body = latchmail_sdk::Failed)
    )
)]
pub(crate) fn send_message(
    host: &(impl Outbox + Caller),
    request: &Request,
) -> Result<Reply, Failure> {
    let key = request.header("idempotency-key");
    let take = |index| request.take_blob(index);
    let (sent, replayed) = sending::send(host, request.json::<SendRequest>()?, key, take)?;
    let reply = Reply::json(&sent)?;
    Ok(if replayed {
        reply.with("idempotent-replayed", "true")
    } else {
        reply
    })
}

#[cfg(test)]
mod tests;
