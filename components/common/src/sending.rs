//! Validates and sends a message. The host composes and transmits the message, and files a copy in
//! Sent.

use latchmail_sdk::capability::{Blob, Caller, Draft, Error, File, Outbox};
use latchmail_sdk::{Failure, Object, codes};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::message_ids::{self, MessageIds};
use crate::recipients::{self, Recipients};

/// The maximum number of recipients of a message in `to`, `cc` and `bcc` together.
const MAX_RECIPIENTS: usize = 50;
/// The maximum number of attachments of a message.
const MAX_ATTACHMENTS: usize = 20;
/// The maximum length of a subject, in characters.
const MAX_SUBJECT: usize = 998;
/// The maximum length of an `Idempotency-Key`, in bytes.
const MAX_KEY: usize = 255;

/// A message to be sent.
#[derive(Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct SendRequest {
    /// The account's address or one of its active aliases, without a name.
    #[schema(min_length = 1)]
    pub from: String,
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
    /// The attachments, at most 20.
    #[serde(default)]
    #[schema(max_items = 20)]
    #[schema(value_type = Option<Vec<SendAttachment>>)]
    pub attachments: Option<Vec<Object<SendAttachment>>>,
}

/// An attached file.
#[derive(Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct SendAttachment {
    /// The file name, 1 to 255 characters without control characters.
    #[schema(
        min_length = 1,
        max_length = 255,
        pattern = r"^[^\u0000-\u001f\u007f-\u009f]*$"
    )]
    pub filename: String,
    /// The media type without parameters. If the media type is absent, it is
    /// `application/octet-stream`.
    #[serde(default)]
    #[schema(
        pattern = "^(?:(?![Mm][Uu][Ll][Tt][Ii][Pp][Aa][Rr][Tt]/)[A-Za-z0-9][A-Za-z0-9!#$&^_.+-]{0,126}/[A-Za-z0-9][A-Za-z0-9!#$&^_.+-]{0,126})?$"
    )]
    pub content_type: Option<String>,
    /// The content of the file, in standard base64.
    // The host decodes the content, and replaces the content in the body with an index for `take`.
    #[schema(
        value_type = String,
        content_encoding = "base64",
        pattern = "^(?:[A-Za-z0-9+/]{4})*(?:[A-Za-z0-9+/][AQgw]==|[A-Za-z0-9+/]{2}[AEIMQUYcgkosw048]=)?$"
    )]
    pub content: usize,
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

/// Sends a message. `key` is the idempotency key. `take` returns the content of the attachment
/// whose field `content` has the given index. The second returned value is `true` if an earlier
/// call with the same key already sent the message. In this case, the current call sends nothing.
///
/// # Errors
/// Returns 400 for invalid input. Returns 403 if the caller is not allowed to send from the address
/// in `from`. Returns 409 if an earlier call used the same key for a different message. Returns 413
/// if the message is too large. Returns 500 if it is unknown whether the message was sent.
pub fn send(
    host: &(impl Outbox + Caller),
    body: SendRequest,
    key: Option<&str>,
    take: impl Fn(usize) -> Option<Blob>,
) -> Result<(SendResult, bool), Failure> {
    check_key(key, "Idempotency-Key")?;
    let draft = draft(body, &take)?;
    let sent = host.send(draft, key).map_err(|error| match error {
        Error::TooLarge(_) => Failure::new(
            413,
            codes::MESSAGE_TOO_LARGE,
            "Message exceeds the 25 MB limit",
        ),
        Error::OutcomeUnknown => Failure::new(
            500,
            codes::OUTCOME_UNKNOWN,
            "The message may have been sent; check the Sent folder before you send it again",
        ),
        other => Failure::of(other, (codes::NOT_FOUND, "Not found"), host)
            .failing(codes::SEND_FAILED, "The message could not be sent"),
    })?;
    let result = SendResult {
        message_id: sent.message_id,
        saved_to: sent.saved_to,
    };
    Ok((result, sent.replayed))
}

fn draft(body: SendRequest, take: &impl Fn(usize) -> Option<Blob>) -> Result<Draft, Failure> {
    let attachments = body.attachments.unwrap_or_default();
    if attachments.len() > MAX_ATTACHMENTS {
        return Err(Failure::bad_request(
            codes::TOO_MANY_ATTACHMENTS,
            "attachments must be at most 20 files",
        ));
    }
    if body.subject.contains(['\r', '\n']) {
        return Err(Failure::bad_request(
            codes::INVALID_SUBJECT,
            "subject must not have line breaks",
        ));
    }
    if body.subject.chars().any(|c| c.is_control() && c != '\t') {
        return Err(Failure::bad_request(
            codes::INVALID_SUBJECT,
            "subject must not have control characters",
        ));
    }
    if body.subject.chars().count() > MAX_SUBJECT {
        return Err(Failure::bad_request(
            codes::INVALID_SUBJECT,
            "subject must be at most 998 characters",
        ));
    }
    let to = body.to.addresses("to", MAX_RECIPIENTS)?;
    let cc = body.cc.addresses("cc", MAX_RECIPIENTS)?;
    let bcc = body.bcc.addresses("bcc", MAX_RECIPIENTS)?;
    if to.is_empty() {
        return Err(Failure::bad_request(
            codes::INVALID_RECIPIENT,
            "to must name at least one recipient",
        ));
    }
    if to.len() + cc.len() + bcc.len() > MAX_RECIPIENTS {
        return Err(Failure::bad_request(
            codes::TOO_MANY_RECIPIENTS,
            "Too many recipients (max 50 across to, cc and bcc)",
        ));
    }
    let in_reply_to = body
        .in_reply_to
        .as_deref()
        .unwrap_or_default()
        .trim_matches(' ');
    if !in_reply_to.is_empty() && !message_ids::is_id(in_reply_to) {
        return Err(Failure::bad_request(
            codes::INVALID_MESSAGE_ID,
            "inReplyTo must be one Message-ID in angle brackets",
        ));
    }
    Ok(Draft {
        from: sender(&body.from)?,
        to,
        cc,
        bcc,
        subject: body.subject,
        text: body.text,
        html: body.html,
        in_reply_to: (!in_reply_to.is_empty()).then(|| in_reply_to.to_owned()),
        references: body.references.unwrap_or_default().ids("references")?,
        files: attachments
            .into_iter()
            .enumerate()
            .map(|(index, Object(attachment))| file(index, attachment, take))
            .collect::<Result<_, _>>()?,
    })
}

/// Returns the address in `from`. Returns 400 if the text is not one address without a display
/// name.
fn sender(from: &str) -> Result<String, Failure> {
    let bare = recipients::read(from, 1)
        .filter(|all| all.len() == 1)
        .and_then(|mut all| all.pop())
        .filter(|one| one.address == from);
    bare.map(|one| one.address).ok_or(Failure::bad_request(
        codes::INVALID_SENDER,
        "from must be one mail address without a name",
    ))
}

fn file(
    index: usize,
    attachment: SendAttachment,
    take: &impl Fn(usize) -> Option<Blob>,
) -> Result<File, Failure> {
    let of = |field: &str, what: &str| {
        Failure::bad_request(
            codes::INVALID_ATTACHMENT,
            format!("attachments[{index}].{field} must {what}"),
        )
    };
    let name = &attachment.filename;
    if name.is_empty() || name.chars().count() > 255 || name.chars().any(char::is_control) {
        return Err(of(
            "filename",
            "be 1 to 255 characters without control characters",
        ));
    }
    let content_type = match attachment.content_type.as_deref() {
        None | Some("") => "application/octet-stream",
        Some(given) if is_media_type(given) => given,
        Some(_) => return Err(of("contentType", "be a media type without parameters")),
    };
    Ok(File {
        content_type: content_type.to_ascii_lowercase(),
        content: take(attachment.content).ok_or_else(|| of("content", "be standard base64"))?,
        filename: attachment.filename,
    })
}

/// Returns whether a text is a media type without parameters, such as `image/png` (RFC 6838,
/// section 4.2). Returns `false` for `multipart` types.
fn is_media_type(text: &str) -> bool {
    let Some((kind, subtype)) = text.split_once('/') else {
        return false;
    };
    let is_name = |name: &str| {
        (1..=127).contains(&name.len())
            && name.starts_with(|c: char| c.is_ascii_alphanumeric())
            && name
                .bytes()
                .all(|b| b.is_ascii_alphanumeric() || b"!#$&-^_.+".contains(&b))
    };
    is_name(kind) && is_name(subtype) && !kind.eq_ignore_ascii_case("multipart")
}
