//! Validates and sends a message. The host composes and transmits the message, and files a copy in
//! Sent.

mod attachments;
pub mod drafts;
mod fields;
mod headers;

use latchmail_sdk::capability::{
    Blob, Caller, Draft, Error, Outbox, Problem, SendError, SendOptions, Sent, Timestamp,
};
use latchmail_sdk::{Failure, Object, Reply, codes, time};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::message_ids::MessageIds;
use crate::recipients::Recipients;

pub(crate) use attachments::AttachmentForms;
pub use attachments::{FileReference, SendAttachment, Sources, is_media_type, is_name};
pub use fields::MessageFields;

/// The maximum number of recipients of a message in `to`, `cc` and `bcc` together.
const MAX_RECIPIENTS: usize = 50;
/// The maximum number of attachments of a message.
const MAX_ATTACHMENTS: usize = 20;
/// The maximum length of a subject, in characters.
const MAX_SUBJECT: usize = 998;
/// The maximum length of the name of a sender or of a file, in characters.
const MAX_NAME: usize = 255;
/// The maximum number of seconds to undo a send.
const MAX_UNDO: u32 = 120;
/// The maximum length of an `Idempotency-Key`, in bytes.
const MAX_KEY: usize = 255;
/// The state of a message that waits for the owner's approval.
const HELD: &str = "held";

/// A message to be sent.
#[derive(Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct SendRequest {
    /// The account's address or one of its active aliases, without a name.
    #[schema(min_length = 1)]
    pub from: String,
    /// The display name of the sender, at most 255 characters without control characters.
    // An addition of Latchmail.
    #[serde(default)]
    #[schema(
        max_length = 255,
        pattern = r"^[^\u0000-\u001f\u007f-\u009f]*$",
        extensions(("x-latchmail" = json!(true)))
    )]
    pub from_name: Option<String>,
    /// The addresses for replies (`Reply-To`), at most 50: addresses separated by commas, each with
    /// or without a name, or an array of such strings.
    #[serde(default)]
    #[schema(extensions(("x-latchmail" = json!(true))))]
    pub reply_to: Recipients,
    /// The recipients: addresses separated by commas, each with or without a name
    /// (`Name <address>`), or an array of such strings.
    pub to: Recipients,
    /// The recipients of a copy (`Cc`).
    #[serde(default)]
    pub cc: Recipients,
    /// The recipients that other recipients do not see (`Bcc`).
    #[serde(default)]
    pub bcc: Recipients,
    /// The subject, at most 998 characters on one line.
    #[schema(
        max_length = 998,
        pattern = r"^[^\u0000-\u0008\u000a-\u001f\u007f-\u009f]*$"
    )]
    pub subject: String,
    /// The plain text.
    #[serde(default)]
    pub text: Option<String>,
    /// The HTML. A message may have both plain text and HTML.
    #[serde(default)]
    pub html: Option<String>,
    /// The Message-ID of the message that this message replies to, with angle brackets.
    #[serde(default)]
    #[schema(max_length = 985, pattern = "^ *(?:<[!-;=?-~]+> *)?$")]
    pub in_reply_to: Option<String>,
    /// The Message-IDs of the conversation, oldest first: one string with Message-IDs separated by
    /// spaces, or an array like `references` of a message.
    #[serde(default)]
    pub references: Option<MessageIds>,
    /// Additional header fields, at most 50. Only fields whose names begin with `X-` can be
    /// repeated.
    #[serde(default)]
    #[schema(
        max_items = 50,
        value_type = Option<Vec<SendHeader>>,
        extensions(("x-latchmail" = json!(true)))
    )]
    pub headers: Option<Vec<Object<SendHeader>>>,
    /// The attachments, at most 20.
    #[serde(default)]
    #[schema(max_items = 20)]
    #[schema(value_type = Option<Vec<AttachmentForms>>)]
    pub attachments: Option<Vec<Object<SendAttachment>>>,
    /// The time at which the message leaves (RFC 3339), at most a year ahead. A time in the past is
    /// the current time. The response is 202.
    #[serde(default)]
    #[schema(format = DateTime, extensions(("x-latchmail" = json!(true))))]
    pub send_at: Option<String>,
    /// The number of seconds in which the message can be cancelled. The message leaves after this
    /// time, or at `sendAt` if that is later. The response is 202.
    #[serde(default)]
    #[schema(minimum = 0, maximum = 120, extensions(("x-latchmail" = json!(true))))]
    pub undo_seconds: Option<u32>,
}

/// An additional header field.
#[derive(Deserialize, ToSchema)]
pub struct SendHeader {
    /// The name: `X-…`, `List-…`, `Auto-Submitted`, `Importance` or `Precedence`, at most 70
    /// characters. Names with which mail servers record results, such as `X-Spam-Status`, are not
    /// allowed.
    #[schema(
        max_length = 70,
        pattern = "^(?:[Xx]-[A-Za-z0-9_-]+|[Ll][Ii][Ss][Tt]-[A-Za-z0-9_-]+|Auto-Submitted|Importance|Precedence)$"
    )]
    pub name: String,
    /// The value on one line, 1 to 900 characters without control characters. The values of
    /// `Auto-Submitted`, `Importance` and `Precedence` consist of ASCII characters.
    #[schema(
        min_length = 1,
        max_length = 900,
        pattern = r"^[^\u0000-\u001f\u007f-\u009f]+$"
    )]
    pub value: String,
}

/// A message that was sent.
#[derive(Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct SendResult {
    /// The Message-ID of the sent message, with angle brackets.
    pub message_id: String,
    /// The folder with the copy. Absent if no copy was filed.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub saved_to: Option<String>,
}

/// A message that leaves later.
#[derive(Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(example = json!({"outboxId": "kq3x7mzv2hjw5t6nbd4ryuoa", "sendAt": "2026-12-24T08:00:00.000Z"}))]
pub struct ScheduledResult {
    /// The id of the message in the outbox.
    pub outbox_id: String,
    /// The time at which the message leaves.
    #[schema(format = DateTime)]
    pub send_at: String,
}

/// A message that waits for the approval of the mailbox's owner, because the policy of the
/// credential does not allow it.
#[derive(Clone, Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(example = json!({"holdId": "kq3x7mzv2hjw5t6nbd4ryuoa", "status": "pending"}))]
pub struct HoldResult {
    /// The id of the hold.
    pub hold_id: String,
    /// Always `pending`.
    pub status: &'static str,
}

/// The body of responses with the status 202, for the API description.
#[derive(ToSchema)]
#[serde(untagged)]
pub enum LaterResult {
    /// The message leaves later.
    Scheduled(ScheduledResult),
    /// The message waits for the approval of the mailbox's owner.
    Held(HoldResult),
}

/// The result of sending a message.
pub enum Delivery {
    /// The message was sent.
    Sent(SendResult),
    /// The message leaves later.
    Scheduled(ScheduledResult),
    /// The message waits for the owner's approval.
    Held(HoldResult),
}

impl Delivery {
    /// Returns the response: 200 for a message that was sent, 202 for a message that leaves later
    /// or that waits for the owner's approval.
    /// `replayed` states that an earlier request has sent or scheduled the message.
    ///
    /// # Errors
    /// Returns 500 if the response cannot be serialized.
    pub fn reply(&self, replayed: bool) -> Result<Reply, Failure> {
        let reply = match self {
            Self::Sent(sent) => Reply::json(sent)?,
            Self::Scheduled(scheduled) => Reply::with_status(202, scheduled)?,
            Self::Held(held) => Reply::with_status(202, held)?,
        };
        Ok(if replayed {
            reply.with("idempotent-replayed", "true")
        } else {
            reply
        })
    }
}

/// Returns the time that a client gives.
///
/// # Errors
/// Returns 400 if the text is not a time in the format of RFC 3339.
pub fn send_at(text: &str) -> Result<Timestamp, Failure> {
    time::rfc3339(text).ok_or(Failure::bad_request(
        codes::INVALID_SEND_TIME,
        "sendAt must be a time in the format of RFC 3339",
    ))
}

/// Returns the options of a send.
///
/// # Errors
/// Returns 400 if a time is invalid.
pub fn options(
    key: Option<&str>,
    time: Option<&str>,
    undo_seconds: Option<u32>,
) -> Result<SendOptions, Failure> {
    if undo_seconds.is_some_and(|seconds| seconds > MAX_UNDO) {
        return Err(Failure::bad_request(
            codes::INVALID_SEND_TIME,
            "undoSeconds must be 0 to 120",
        ));
    }
    Ok(SendOptions {
        key: key.map(Into::into),
        send_at: time.map(send_at).transpose()?,
        undo_seconds,
    })
}

/// Checks the format of an idempotency key. The error message contains `field`, which is the name
/// of the field with the key.
///
/// # Errors
/// Returns 400 if the format is invalid.
pub fn check_key(key: Option<&str>, field: &str) -> Result<(), Failure> {
    let is_valid =
        |key: &str| (1..=MAX_KEY).contains(&key.len()) && key.bytes().all(|b| b.is_ascii_graphic());
    if key.is_none_or(is_valid) {
        return Ok(());
    }
    Err(Failure::bad_request(
        codes::INVALID_IDEMPOTENCY_KEY,
        format!("{field} must be 1 to 255 visible ASCII characters"),
    ))
}

/// Sends a message, or schedules a message with a time. `key` is the idempotency key. `take`
/// returns the content of the attachment whose field `content` has the given index. The second
/// returned value is `true` if an earlier call with the same key already sent the message. In this
/// case, the current call sends nothing.
///
/// # Errors
/// Returns 400 for invalid input. Returns 403 if the caller is not allowed to send from the address
/// in `from`, or is not allowed to read the source of an attachment. Returns 404 if the source of
/// an attachment does not exist. Returns 409 if an earlier call used the same key for a different
/// message. Returns 413 if the message is too large. Returns 500 if it is unknown whether the
/// message was sent.
pub fn send(
    host: &(impl Outbox + Caller),
    body: SendRequest,
    key: Option<&str>,
    take: impl Fn(usize) -> Option<Blob>,
) -> Result<(Delivery, bool), Failure> {
    check_key(key, "Idempotency-Key")?;
    let options = options(key, body.send_at.as_deref(), body.undo_seconds)?;
    let draft = MessageFields::from(body).draft(None, &take)?;
    submit(host, draft, &options)
}

/// Sends a draft that [`MessageFields::draft`] returned. The result and the errors are those of
/// [`send`].
pub(crate) fn submit(
    host: &(impl Outbox + Caller),
    draft: Draft,
    options: &SendOptions,
) -> Result<(Delivery, bool), Failure> {
    let sources = Sources::of(&draft);
    let sent = host.send(draft, options).map_err(|error| match error {
        SendError::FileNotFound(index) => sources.missing(index),
        SendError::Failed(Error::TooLarge(problem)) => too_large(&problem),
        SendError::Failed(Error::OutcomeUnknown) => outcome_unknown(),
        SendError::Failed(other) => Failure::of(other, (codes::NOT_FOUND, "Not found"), host)
            .failing(codes::SEND_FAILED, "The message could not be sent"),
    })?;
    Ok(delivery(sent))
}

/// Returns the failure of a message that exceeds a limit.
fn too_large(problem: &Problem) -> Failure {
    if problem.code == codes::OUTBOX_FULL.as_str() {
        return Failure::new(413, codes::OUTBOX_FULL, "The outbox of the account is full");
    }
    Failure::new(
        413,
        codes::MESSAGE_TOO_LARGE,
        "Message exceeds the 25 MB limit",
    )
}

/// Returns the failure of a message that may have been sent.
fn outcome_unknown() -> Failure {
    Failure::new(
        500,
        codes::OUTCOME_UNKNOWN,
        "The message may have been sent; check the Sent folder before you send it again",
    )
}

/// Returns the result for the client, and whether an earlier request has sent the message.
#[must_use]
pub fn delivery(sent: Sent) -> (Delivery, bool) {
    let delivery = match (sent.entry, sent.send_at) {
        (hold_id, _) if sent.state == HELD => Delivery::Held(HoldResult {
            hold_id: hold_id.unwrap_or_default(),
            status: "pending",
        }),
        (Some(outbox_id), Some(send_at)) => Delivery::Scheduled(ScheduledResult {
            outbox_id,
            send_at: time::iso8601(send_at),
        }),
        _ => Delivery::Sent(SendResult {
            message_id: sent.message_id,
            saved_to: sent.saved_to,
        }),
    };
    (delivery, sent.replayed)
}
