//! Composes and sends replies and forwards. The host composes the draft, and the request can
//! replace its fields.

use latchmail_sdk::capability::{Blob, Caller, Compose, Draft, Outbox};
use latchmail_sdk::{Failure, Object};
use serde::Deserialize;
use utoipa::ToSchema;

use crate::message_ids::MessageIds;
use crate::reading::NO_MESSAGE;
use crate::recipients::Recipients;
use crate::sending::{self, AttachmentForms, Delivery, MessageFields, SendAttachment, SendHeader};

/// A reply or a forward. All fields are optional. A field replaces the value that the service sets,
/// except `text` and `html`, which are above the quotation.
#[derive(Default, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(example = json!({"text": "Thank you, Friday is fine.", "locale": "en"}))]
pub struct ComposeRequest {
    /// The language of the line above the quotation, and of the names of header fields in a
    /// forward: a language tag. `en`, `de`, `fr`, `es`, `it` and `pt` are supported. Other tags
    /// stand for `en`, which is the default.
    #[serde(default)]
    #[schema(example = "de")]
    pub locale: Option<String>,
    /// The plain text above the quotation. If the message has HTML and the field `html` is absent,
    /// the HTML also begins with this text.
    #[serde(default)]
    pub text: Option<String>,
    /// The HTML above the quotation. If the field `text` is absent, the plain text also begins with
    /// the text of this HTML.
    #[serde(default)]
    pub html: Option<String>,
    /// The account's address or one of its active aliases, without a name. The default is the
    /// address that received the original, if the account may send from it.
    #[serde(default)]
    #[schema(min_length = 1)]
    pub from: Option<String>,
    /// The display name of the sender, at most 255 characters without control characters.
    #[serde(default)]
    #[schema(max_length = 255, pattern = r"^[^\u0000-\u001f\u007f-\u009f]*$")]
    pub from_name: Option<String>,
    /// The addresses for replies (`Reply-To`), at most 50.
    #[serde(default)]
    pub reply_to: Option<Recipients>,
    /// The recipients. A forward needs this field.
    #[serde(default)]
    pub to: Option<Recipients>,
    /// The recipients of a copy (`Cc`).
    #[serde(default)]
    pub cc: Option<Recipients>,
    /// The recipients that other recipients do not see (`Bcc`).
    #[serde(default)]
    pub bcc: Option<Recipients>,
    /// The subject, at most 998 characters on one line. The default is the subject of the original
    /// with the prefix `Re:` or `Fwd:`.
    #[serde(default)]
    #[schema(
        max_length = 998,
        pattern = r"^[^\u0000-\u0008\u000a-\u001f\u007f-\u009f]*$"
    )]
    pub subject: Option<String>,
    /// The Message-ID of the message that this message replies to, with angle brackets.
    #[serde(default)]
    #[schema(max_length = 985, pattern = "^ *(?:<[!-;=?-~]+> *)?$")]
    pub in_reply_to: Option<String>,
    /// The Message-IDs of the conversation, oldest first.
    #[serde(default)]
    pub references: Option<MessageIds>,
    /// Additional header fields, at most 50.
    #[serde(default)]
    #[schema(max_items = 50, value_type = Option<Vec<SendHeader>>)]
    pub headers: Option<Vec<Object<SendHeader>>>,
    /// The attachments, at most 20. They replace the attachments of a forwarded message. Pictures
    /// that the HTML of the quotation shows are always part of the message.
    #[serde(default)]
    #[schema(max_items = 20, value_type = Option<Vec<AttachmentForms>>)]
    pub attachments: Option<Vec<Object<SendAttachment>>>,
    /// For a forward: whether the original is attached as a complete message (`message/rfc822`).
    /// The text then has no quotation.
    #[serde(default)]
    pub as_attachment: Option<bool>,
    /// The time at which the message leaves, as for sending.
    #[serde(default)]
    #[schema(format = DateTime)]
    pub send_at: Option<String>,
    /// The number of seconds in which the message can be cancelled, as for sending.
    #[serde(default)]
    #[schema(minimum = 0, maximum = 120)]
    pub undo_seconds: Option<u32>,
}

/// A message about another message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    /// A reply to the author.
    Reply,
    /// A reply to the author and to all recipients.
    ReplyAll,
    /// A forward with the text and the files of the original.
    Forward,
    /// A forward with the original as an attached file.
    ForwardAsAttachment,
}

impl Mode {
    /// Returns the mode with this name in requests. Returns `None` for an unknown name.
    #[must_use]
    pub fn named(name: &str) -> Option<Self> {
        match name {
            "reply" => Some(Self::Reply),
            "replyAll" => Some(Self::ReplyAll),
            "forward" => Some(Self::Forward),
            "forwardAsAttachment" => Some(Self::ForwardAsAttachment),
            _ => None,
        }
    }

    /// Returns the name of the mode in the contract.
    fn name(self) -> &'static str {
        match self {
            Self::Reply => "reply",
            Self::ReplyAll => "reply-all",
            Self::Forward => "forward",
            Self::ForwardAsAttachment => "forward-as-attachment",
        }
    }
}

/// Returns the draft of a message about the message with this number. The fields of a request are
/// merged into the draft with [`MessageFields::draft`].
///
/// # Errors
/// Returns 404 if the message does not exist, and 403 if the caller may not read messages.
pub fn composed(
    host: &(impl Compose + Caller),
    mode: Mode,
    uid: u64,
    locale: Option<&str>,
) -> Result<Draft, Failure> {
    let composed = host.compose(mode.name(), uid, locale);
    composed.map_err(|error| Failure::of(error, NO_MESSAGE, host))
}

/// Composes and sends a message about the message with this number. `key` and `take` are as for
/// [`sending::send`].
///
/// # Errors
/// Returns 404 if the message does not exist. The other errors are those of [`sending::send`].
pub fn send(
    host: &(impl Compose + Outbox + Caller),
    (mode, uid): (Mode, u64),
    body: ComposeRequest,
    key: Option<&str>,
    take: impl Fn(usize) -> Option<Blob>,
) -> Result<(Delivery, bool), Failure> {
    sending::check_key(key, "Idempotency-Key")?;
    let mode = match mode {
        Mode::Forward if body.as_attachment == Some(true) => Mode::ForwardAsAttachment,
        mode => mode,
    };
    let options = sending::options(key, body.send_at.as_deref(), body.undo_seconds)?;
    let draft = composed(host, mode, uid, body.locale.as_deref())?;
    let draft = MessageFields::from(body).draft(Some(draft), &take)?;
    sending::submit(host, draft, &options)
}

impl From<ComposeRequest> for MessageFields {
    fn from(body: ComposeRequest) -> Self {
        Self {
            from: body.from,
            from_name: body.from_name,
            reply_to: body.reply_to,
            to: body.to,
            cc: body.cc,
            bcc: body.bcc,
            subject: body.subject,
            text: body.text,
            html: body.html,
            in_reply_to: body.in_reply_to,
            references: body.references,
            headers: body.headers,
            attachments: body.attachments,
        }
    }
}
