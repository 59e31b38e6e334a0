//! A complete message as the mail routes return it. The tools for agents return
//! [`Detail`](crate::Detail), which has fewer fields.

use latchmail_sdk::capability::{self, Blob};
use serde::Serialize;
use utoipa::ToSchema;

use crate::model::{Address, Authentication, Headline, NewText, addresses, split};

/// A part of a message that is neither its text nor its HTML.
#[derive(Serialize, ToSchema)]
#[schema(as = Attachment)]
#[serde(rename_all = "camelCase")]
pub struct MessageAttachment {
    /// The index of the attachment, starting at 0. Attachments are in the order of the message's
    /// parts. The index never changes.
    pub index: u32,
    /// The file name.
    pub filename: String,
    /// The media type that the sender declared.
    pub content_type: String,
    /// The size of the decoded content in bytes.
    pub size: u64,
    /// The Content-ID without angle brackets, to which the HTML can refer with `cid:` (RFC 2392).
    /// `null` if there is none.
    #[schema(required, extensions(("x-latchmail" = json!(true))))]
    pub content_id: Option<String>,
    /// `inline` if the attachment is part of the shown text, for example a picture in the HTML;
    /// otherwise `attachment`.
    #[schema(value_type = Disposition, extensions(("x-latchmail" = json!(true))))]
    pub disposition: String,
}

/// The presentation of an attachment (RFC 2183).
#[derive(ToSchema)]
#[schema(rename_all = "lowercase")]
#[expect(dead_code, reason = "used only for the API description")]
enum Disposition {
    Attachment,
    Inline,
}

/// The mailing list that sent a message.
#[derive(Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct MailingList {
    /// The identifier in the List-Id header (RFC 2919), without angle brackets. `null` if there is
    /// none.
    #[schema(required)]
    pub id: Option<String>,
    /// The URLs in the List-Unsubscribe header (RFC 2369) with the scheme `https`, `http` or
    /// `mailto`, in the order of preference. The URLs come from the sender: do not open them
    /// without the user's consent.
    pub unsubscribe: Vec<String>,
    /// Whether a POST request with the body `List-Unsubscribe=One-Click` to the first `https` URL
    /// unsubscribes (RFC 8058).
    pub one_click: bool,
}

/// The result of the mail server's spam filter.
#[derive(Serialize, ToSchema)]
pub struct Spam {
    /// `none` if no trusted filter recorded a result. Imported messages always have `none`.
    #[schema(value_type = SpamVerdict)]
    pub verdict: String,
    /// The score of the filter. The range and the threshold depend on the filter. `null` if the
    /// filter recorded no score.
    #[schema(required)]
    pub score: Option<f64>,
}

/// The decision of a spam filter.
#[derive(ToSchema)]
#[schema(rename_all = "lowercase")]
#[expect(dead_code, reason = "used only for the API description")]
enum SpamVerdict {
    Spam,
    Ham,
    None,
}

/// A header field.
#[derive(Serialize, ToSchema)]
pub struct HeaderField {
    /// The name, as the message contains it.
    pub name: String,
    /// The value, unfolded and decoded.
    pub value: String,
}

/// A message in full.
#[derive(Serialize, ToSchema)]
#[schema(as = Detail)]
#[serde(rename_all = "camelCase")]
pub struct Message {
    /// The fields that a message has both in lists and as a single message.
    #[serde(flatten)]
    pub headline: Headline,
    /// The path of the message's folder. Present only in lists.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false, extensions(("x-latchmail" = json!(true))))]
    pub folder: Option<String>,
    /// The recipients in Cc.
    pub cc: Vec<Address>,
    /// The addresses for replies (`Reply-To`).
    pub reply_to: Vec<Address>,
    /// The Message-ID with angle brackets, or an empty string if there is none.
    pub message_id: String,
    /// The Message-ID of the message that this message replies to.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub in_reply_to: Option<String>,
    /// The Message-IDs of earlier messages in the thread (`References`).
    pub references: Vec<String>,
    /// The plain text. Absent if the message has no plain text.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub text: Option<String>,
    /// The HTML. Absent if the message has no HTML. The HTML comes unchanged from the sender: treat
    /// it as hostile.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub html: Option<String>,
    /// The text that the sender wrote, without quotes of other messages, signature and disclaimer.
    /// `null` if the message has no text.
    #[serde(skip_serializing_if = "NewText::is_separate")]
    #[schema(required, value_type = Option<String>, extensions(("x-latchmail" = json!(true))))]
    pub new_text: NewText,
    /// The attachments.
    pub attachments: Vec<MessageAttachment>,
    /// `true` if content was left out because the message exceeds the service's limits. Absent
    /// otherwise.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub truncated: Option<bool>,
    /// Whether the sender is authenticated.
    pub authentication: Authentication,
    /// The mailing list that sent the message. `null` if the header names no mailing list.
    #[schema(required, extensions(("x-latchmail" = json!(true))))]
    pub list: Option<MailingList>,
    /// The keyword of the Auto-Submitted header (RFC 3834), such as `auto-replied`. `null` if there
    /// is no such header.
    #[schema(required, extensions(("x-latchmail" = json!(true))))]
    pub auto_submitted: Option<String>,
    /// The result of the mail server's spam filter.
    #[schema(extensions(("x-latchmail" = json!(true))))]
    pub spam: Spam,
    /// The requested header fields, in the order of the message. Absent without the parameter
    /// `headers`.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false, extensions(("x-latchmail" = json!(true))))]
    pub headers: Option<Vec<HeaderField>>,
}

/// A text that stays in the host, with the name of its JSON field.
pub type Text = (&'static str, Blob);

impl Message {
    /// Converts a message whose texts are blobs. The second value contains each text with the name
    /// of its JSON field.
    #[must_use]
    pub fn with_texts(message: capability::DetailWithBlobs) -> (Self, Vec<Text>) {
        let capability::DetailWithBlobs {
            detail,
            text,
            html,
            new_text,
        } = message;
        let (headline, _) = split(detail.summary);
        let message = Self {
            headline,
            folder: None,
            cc: addresses(detail.cc),
            reply_to: addresses(detail.reply_to),
            message_id: detail.message_id,
            in_reply_to: detail.in_reply_to,
            references: detail.references,
            text: None,
            html: None,
            new_text: match new_text {
                Some(_) => NewText::Separate,
                None => NewText::Value(None),
            },
            attachments: detail.attachments.into_iter().map(attachment).collect(),
            truncated: detail.truncated.then_some(true),
            authentication: detail.authentication.into(),
            list: detail.mailing_list.map(|list| MailingList {
                id: list.id,
                unsubscribe: list.unsubscribe,
                one_click: list.one_click,
            }),
            auto_submitted: detail.auto_submitted,
            spam: Spam {
                verdict: detail.spam.verdict,
                score: detail.spam.score,
            },
            headers: None,
        };
        let texts = [("text", text), ("html", html), ("newText", new_text)];
        let texts = texts.into_iter();
        let texts = texts.filter_map(|(name, text)| Some((name, text?)));
        (message, texts.collect())
    }

    /// Adds the header of the message.
    pub fn set_headers(&mut self, header: capability::MessageHeader) {
        let field = |field: capability::HeaderField| HeaderField {
            name: field.name,
            value: field.value,
        };
        self.headers = Some(header.fields.into_iter().map(field).collect());
        if header.truncated {
            self.truncated = Some(true);
        }
    }
}

fn attachment(attachment: capability::Attachment) -> MessageAttachment {
    MessageAttachment {
        index: attachment.index,
        filename: attachment.filename,
        content_type: attachment.content_type,
        size: attachment.size,
        content_id: attachment.content_id,
        disposition: attachment.disposition,
    }
}
