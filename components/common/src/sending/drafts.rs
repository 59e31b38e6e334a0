//! Drafts as JSON. A draft has the fields of a message to send, all of which are optional. What is
//! unfinished or invalid is stored and refused when the draft is sent.

use latchmail_sdk::capability::{
    Address, Attachment, Blob, Caller, Compose, Draft, DraftError, Error, StoredDraft,
};
use latchmail_sdk::{Failure, Object, codes};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::attachments::{self, AttachmentForms, SendAttachment, Sources};
use super::fields::{check_subject, is_picture};
use super::{SendHeader, headers, outcome_unknown, too_large};
use crate::composing::{self, Mode};
use crate::message_ids::MessageIds;
use crate::quotation;
use crate::recipients::{self, Recipients};

/// The maximum number of attachments of a draft, as of a message to send.
const MAX_ATTACHMENTS: usize = 20;

/// The code and the text of the failure for a draft that does not exist.
pub const NO_DRAFT: (latchmail_sdk::Code, &str) = (codes::DRAFT_NOT_FOUND, "Draft not found");

/// A draft to store: a message that may be incomplete. An address can be any text on one line.
#[derive(Default, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(example = json!({"from": "ada@latchmail.test", "to": "bob@latchmail.test", "subject": "Offer",
    "text": "Dear Bob,\n"}))]
pub struct DraftRequest {
    /// `reply`, `replyAll`, `forward` or `forwardAsAttachment`: the service composes the draft from
    /// the message `uid`. The given fields replace those of the composed draft, except `text` and
    /// `html`, which are above the quotation. Only for a new draft.
    #[serde(default)]
    pub mode: Option<String>,
    /// The number of the message that the draft answers or forwards. Required with `mode`.
    #[serde(default)]
    #[schema(minimum = 1)]
    pub uid: Option<u64>,
    /// The language of the line above the quotation, as for a reply.
    #[serde(default)]
    pub locale: Option<String>,
    /// The sender's address.
    #[serde(default)]
    pub from: Option<String>,
    /// The display name of the sender.
    #[serde(default)]
    pub from_name: Option<String>,
    /// The addresses for replies (`Reply-To`).
    #[serde(default)]
    pub reply_to: Recipients,
    /// The recipients.
    #[serde(default)]
    pub to: Recipients,
    /// The recipients of a copy (`Cc`).
    #[serde(default)]
    pub cc: Recipients,
    /// The recipients that other recipients do not see (`Bcc`). The stored draft contains them.
    #[serde(default)]
    pub bcc: Recipients,
    /// The subject on one line.
    #[serde(default)]
    pub subject: Option<String>,
    /// The plain text.
    #[serde(default)]
    pub text: Option<String>,
    /// The HTML.
    #[serde(default)]
    pub html: Option<String>,
    /// The Message-ID of the message that this message replies to, with angle brackets.
    #[serde(default)]
    pub in_reply_to: Option<String>,
    /// The Message-IDs of the conversation, oldest first.
    #[serde(default)]
    pub references: Option<MessageIds>,
    /// Additional header fields, at most 50, as of a message to send.
    #[serde(default)]
    #[schema(max_items = 50, value_type = Option<Vec<SendHeader>>)]
    pub headers: Option<Vec<Object<SendHeader>>>,
    /// The attachments, at most 20. An attachment of the stored draft is kept with its `uid` and
    /// `index`.
    #[serde(default)]
    #[schema(max_items = 20)]
    #[schema(value_type = Option<Vec<AttachmentForms>>)]
    pub attachments: Option<Vec<Object<SendAttachment>>>,
}

/// When a draft is sent.
#[derive(Default, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(example = json!({"undoSeconds": 30}))]
pub struct DraftSendRequest {
    /// The time at which the message leaves, as for sending.
    #[serde(default)]
    #[schema(format = DateTime)]
    pub send_at: Option<String>,
    /// The number of seconds in which the message can be cancelled, as for sending.
    #[serde(default)]
    #[schema(minimum = 0, maximum = 120)]
    pub undo_seconds: Option<u32>,
}

/// The id and the version of a stored draft.
#[derive(Serialize, ToSchema)]
pub struct DraftHead {
    /// The opaque id, which stays the same if the draft is replaced.
    pub id: String,
    /// The version for `If-Match`, which changes with each replacement.
    pub version: String,
    /// The number of the draft's message, which changes with each replacement.
    #[schema(minimum = 1)]
    pub uid: u64,
}

/// The content of a stored draft, in the form in which a client can store it again.
#[derive(Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct DraftContent {
    /// The sender's address. Absent if there is none.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub from: Option<String>,
    /// The display name of the sender. Absent if there is none.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub from_name: Option<String>,
    /// The addresses for replies.
    pub reply_to: Vec<String>,
    /// The recipients, each as `address` or `Name <address>`. An unfinished address is returned as
    /// it was stored.
    pub to: Vec<String>,
    /// The recipients of a copy.
    pub cc: Vec<String>,
    /// The recipients that other recipients do not see.
    pub bcc: Vec<String>,
    /// The subject, or an empty string.
    pub subject: String,
    /// The plain text, with line feeds. Absent if there is none.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub text: Option<String>,
    /// The HTML, with line feeds. Absent if there is none. A mail client can have written the HTML:
    /// treat it as hostile.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub html: Option<String>,
    /// The Message-ID of the message that this message replies to. Absent if there is none.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub in_reply_to: Option<String>,
    /// The Message-IDs of the conversation.
    pub references: Vec<String>,
    /// Additional header fields, without private fields of mail clients.
    pub headers: Vec<DraftField>,
    /// The attachments.
    pub attachments: Vec<DraftAttachment>,
    /// `true` if the text, the HTML or a header field is longer than the response can show. Absent
    /// otherwise. A client must not store such a draft again, because it would lose the rest.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    #[schema(required = false)]
    pub truncated: bool,
}

/// An additional header field of a draft.
#[derive(Serialize, ToSchema)]
pub struct DraftField {
    /// The name.
    pub name: String,
    /// The value.
    pub value: String,
}

/// An attachment of a stored draft, as a reference that a message to send accepts.
#[derive(Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct DraftAttachment {
    /// The number of the draft's message.
    pub uid: u64,
    /// The index of the attachment.
    pub index: u32,
    /// The file name.
    pub filename: String,
    /// The media type.
    pub content_type: String,
    /// The size in bytes.
    pub size: u64,
    /// The Content-ID without angle brackets. Absent if there is none.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub content_id: Option<String>,
    /// Whether the file is shown with the text.
    pub inline: bool,
}

/// The parts of a draft for a response: the object, and the nested object with its texts.
pub type Parts = (DraftHead, (DraftContent, Vec<(&'static str, Blob)>));

/// Returns the parts of a stored draft for a response.
#[must_use]
pub fn parts(stored: StoredDraft) -> Parts {
    let uid = stored.uid;
    let attachment = |one: Attachment| DraftAttachment {
        uid,
        index: one.index,
        filename: one.filename,
        content_type: one.content_type,
        size: one.size,
        content_id: one.content_id,
        inline: one.disposition == "inline",
    };
    let mut from = stored.from.into_iter();
    let (from_name, from) = match from.next() {
        Some(one) => (Some(one.name), Some(one.address)),
        None => (None, None),
    };
    let texts = [("text", stored.text), ("html", stored.html)];
    let texts = texts.into_iter();
    let texts = texts.filter_map(|(name, text)| Some((name, text?)));
    let content = DraftContent {
        from,
        from_name: from_name.filter(|name| !name.is_empty()),
        reply_to: mailboxes(stored.reply_to),
        to: mailboxes(stored.to),
        cc: mailboxes(stored.cc),
        bcc: mailboxes(stored.bcc),
        subject: stored.subject,
        text: None,
        html: None,
        in_reply_to: stored.in_reply_to,
        references: stored.references,
        headers: stored
            .headers
            .into_iter()
            .map(|field| DraftField {
                name: field.name,
                value: field.value,
            })
            .collect(),
        attachments: stored.attachments.into_iter().map(attachment).collect(),
        truncated: stored.truncated,
    };
    let head = DraftHead {
        id: stored.id,
        version: stored.version,
        uid,
    };
    (head, (content, texts.collect()))
}

/// Returns the texts of addresses, from which a message to send reads the same addresses.
fn mailboxes(addresses: Vec<Address>) -> Vec<String> {
    let is_special = |c: char| "()<>[]:;@\\,.\"".contains(c);
    let text = |one: Address| match (one.name.as_str(), one.address.as_str()) {
        ("", address) => address.to_owned(),
        (name, "") => name.to_owned(),
        (name, address) if name.contains(is_special) => {
            let quoted = name.replace('\\', "\\\\").replace('"', "\\\"");
            format!("\"{quoted}\" <{address}>")
        }
        (name, address) => format!("{name} <{address}>"),
    };
    addresses.into_iter().map(text).collect()
}

/// Returns the draft about a message that a request asks for. Returns `None` if the request has no
/// mode.
///
/// # Errors
/// Returns 400 if the mode or the number is invalid, and 404 if the message does not exist.
pub fn composed(
    host: &(impl Compose + Caller),
    body: &DraftRequest,
) -> Result<Option<Draft>, Failure> {
    let Some(mode) = &body.mode else {
        return Ok(None);
    };
    let mode = Mode::named(mode).ok_or(Failure::bad_request(
        codes::INVALID_DRAFT,
        "mode must be reply, replyAll, forward or forwardAsAttachment",
    ))?;
    let uid = body.uid.ok_or(Failure::bad_request(
        codes::INVALID_MESSAGE_UID,
        "Invalid message UID",
    ))?;
    composing::composed(host, mode, uid, body.locale.as_deref()).map(Some)
}

/// Converts a request to the draft that the host stores. The given fields replace those of
/// `composed`, except the texts, which are above its quotation. `take` returns the content of the
/// attachment whose field `content` has the given index.
///
/// # Errors
/// Returns 400 if a value cannot be stored.
pub fn draft(
    body: DraftRequest,
    composed: Option<Draft>,
    take: &impl Fn(usize) -> Option<Blob>,
) -> Result<Draft, Failure> {
    let given = given(body, take)?;
    let Some(composed) = composed else {
        return Ok(given);
    };
    let list = |given: Vec<Address>, composed| if given.is_empty() { composed } else { given };
    let quoted = (composed.text, composed.html);
    let (text, html) = quotation::above(given.text, given.html, quoted);
    let files = if given.files.is_empty() {
        composed.files
    } else {
        let pictures = composed.files.into_iter().filter(is_picture);
        pictures.chain(given.files).collect()
    };
    Ok(Draft {
        from: given.from.or(composed.from),
        to: list(given.to, composed.to),
        cc: list(given.cc, composed.cc),
        bcc: list(given.bcc, composed.bcc),
        reply_to: list(given.reply_to, composed.reply_to),
        subject: if given.subject.is_empty() {
            composed.subject
        } else {
            given.subject
        },
        text,
        html,
        in_reply_to: given.in_reply_to.or(composed.in_reply_to),
        references: if given.references.is_empty() {
            composed.references
        } else {
            given.references
        },
        headers: if given.headers.is_empty() {
            composed.headers
        } else {
            given.headers
        },
        files,
        original: composed.original,
    })
}

fn given(body: DraftRequest, take: &impl Fn(usize) -> Option<Blob>) -> Result<Draft, Failure> {
    let attachments = body.attachments.unwrap_or_default();
    if attachments.len() > MAX_ATTACHMENTS {
        return Err(Failure::bad_request(
            codes::TOO_MANY_ATTACHMENTS,
            "attachments must be at most 20 files",
        ));
    }
    let subject = body.subject.unwrap_or_default();
    check_subject(&subject)?;
    let in_reply_to = body.in_reply_to.unwrap_or_default();
    let in_reply_to = in_reply_to.trim();
    Ok(Draft {
        from: sender(body.from, body.from_name),
        to: body.to.unfinished(),
        cc: body.cc.unfinished(),
        bcc: body.bcc.unfinished(),
        reply_to: body.reply_to.unfinished(),
        subject,
        text: body.text.filter(|text| !text.is_empty()),
        html: body.html.filter(|html| !html.is_empty()),
        in_reply_to: (!in_reply_to.is_empty()).then(|| in_reply_to.to_owned()),
        references: body.references.unwrap_or_default().words(),
        headers: headers::headers(body.headers.unwrap_or_default())?,
        files: attachments::files(Vec::new(), attachments, take)?,
        original: None,
    })
}

fn sender(from: Option<String>, name: Option<String>) -> Option<Address> {
    let from = from.unwrap_or_default();
    let from = from.trim();
    let name = name.unwrap_or_default();
    let name = name.trim();
    if from.is_empty() && name.is_empty() {
        return None;
    }
    let read = recipients::read(from, 1).unwrap_or_default();
    if let [one] = &read[..] {
        return Some(Address {
            name: if name.is_empty() { &one.name } else { name }.to_owned(),
            address: one.address.clone(),
        });
    }
    Some(Address {
        name: name.to_owned(),
        address: from.to_owned(),
    })
}

/// Converts an error of the host to a failure. `sources` are the sources of the files of the draft.
pub fn failure(error: DraftError, sources: &Sources, host: &impl Caller) -> Failure {
    match error {
        DraftError::VersionMismatch => {
            Failure::new(412, codes::MESSAGE_CHANGED, "The message has changed")
        }
        DraftError::FileNotFound(index) => sources.missing(index),
        DraftError::Unfinished(field) => unfinished(&field),
        DraftError::Failed(Error::TooLarge(problem)) => too_large(&problem),
        DraftError::Failed(error) => Failure::of(error, NO_DRAFT, host),
    }
}

/// Converts an error of sending a draft to a failure.
pub fn send_failure(error: DraftError, host: &impl Caller) -> Failure {
    if let DraftError::Failed(Error::OutcomeUnknown) = error {
        return outcome_unknown();
    }
    failure(error, &Sources::default(), host)
        .failing(codes::SEND_FAILED, "The message could not be sent")
}

/// Returns the failure of a draft that cannot be sent, with the texts for a message to send.
fn unfinished(field: &str) -> Failure {
    let recipient = |text| Failure::bad_request(codes::INVALID_RECIPIENT, text);
    let message_id = |text| Failure::bad_request(codes::INVALID_MESSAGE_ID, text);
    match field {
        "from" => Failure::bad_request(
            codes::INVALID_SENDER,
            "from must be one mail address without a name",
        ),
        "to" => recipient("to must name at least one recipient"),
        "cc" => recipient("cc must contain only mail addresses"),
        "bcc" => recipient("bcc must contain only mail addresses"),
        "reply-to" => recipient("replyTo must contain only mail addresses"),
        "recipients" => Failure::bad_request(
            codes::TOO_MANY_RECIPIENTS,
            "Too many recipients (max 50 across to, cc and bcc)",
        ),
        "subject" => Failure::bad_request(
            codes::INVALID_SUBJECT,
            "subject must be at most 998 characters",
        ),
        "references" => {
            message_id("references must be Message-IDs in angle brackets, separated by spaces")
        }
        "in-reply-to" => message_id("inReplyTo must be one Message-ID in angle brackets"),
        _ => Failure::bad_request(codes::INVALID_DRAFT, "Invalid draft"),
    }
}
