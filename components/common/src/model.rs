//! Folders and messages as JSON.

use latchmail_sdk::capability::{self, Verdict};
use latchmail_sdk::time::iso8601;
use serde::Serialize;
use utoipa::ToSchema;

/// A folder.
#[derive(Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct Folder {
    /// Opaque id, which stays the same as long as the folder exists, even if the folder is renamed.
    #[schema(extensions(("x-latchmail" = json!(true))))]
    pub id: String,
    /// The full path; the inbox is always `INBOX`.
    pub path: String,
    /// The last segment of the path.
    pub name: String,
    /// The separator between the segments of a path.
    pub delimiter: String,
    /// The number of messages in the folder.
    pub messages: u32,
    /// The number of unread messages in the folder.
    pub unseen: u32,
    /// The role of the folder. Absent if the mail server reports none.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false, value_type = Option<SpecialUse>)]
    pub special_use: Option<String>,
}

impl From<capability::Folder> for Folder {
    fn from(folder: capability::Folder) -> Self {
        Self {
            id: folder.id,
            path: folder.path,
            name: folder.name,
            delimiter: folder.delimiter,
            messages: folder.messages,
            unseen: folder.unseen,
            special_use: folder.role,
        }
    }
}

/// Role of a folder (RFC 6154).
#[derive(ToSchema)]
#[expect(dead_code, reason = "used only for the API description")]
enum SpecialUse {
    #[schema(rename = "\\Inbox")]
    Inbox,
    #[schema(rename = "\\Flagged")]
    Flagged,
    #[schema(rename = "\\Sent")]
    Sent,
    #[schema(rename = "\\Drafts")]
    Drafts,
    #[schema(rename = "\\All")]
    All,
    #[schema(rename = "\\Archive")]
    Archive,
    #[schema(rename = "\\Junk")]
    Junk,
    #[schema(rename = "\\Trash")]
    Trash,
}

/// A mailbox address.
#[derive(Serialize, ToSchema)]
pub struct Address {
    /// The display name, or an empty string if there is none.
    pub name: String,
    /// `local@domain`.
    pub address: String,
}

/// Converts addresses of the host to the JSON of the API.
#[must_use]
pub fn addresses(addresses: Vec<capability::Address>) -> Vec<Address> {
    addresses
        .into_iter()
        .map(|a| Address {
            name: a.name,
            address: a.address,
        })
        .collect()
}

/// The fields that a message has both in lists and as a single message.
#[derive(Serialize, ToSchema)]
pub struct Headline {
    /// The number of the message, which is unique in the mailbox and stays the same if the message
    /// is moved.
    #[schema(minimum = 1, maximum = 9_007_199_254_740_991.0)]
    pub uid: u64,
    /// The position in the folder; the oldest message has position 1.
    #[schema(minimum = 1)]
    pub seq: u32,
    /// The senders.
    pub from: Vec<Address>,
    /// The recipients.
    pub to: Vec<Address>,
    /// The subject, or an empty string if there is none.
    pub subject: String,
    /// The date of the message, or the time of arrival if the message has no date.
    #[schema(format = DateTime)]
    pub date: String,
    /// IMAP flags such as `\Seen`, and keywords.
    pub flags: Vec<String>,
    /// The size of the message in bytes.
    pub size: u64,
    /// The opaque id of the message's thread: the same for a message and its replies.
    #[serde(rename = "threadId")]
    #[schema(extensions(("x-latchmail" = json!(true))))]
    pub thread_id: String,
}

/// A message in a list.
#[derive(Serialize, ToSchema)]
pub struct Summary {
    /// The fields that a message has both in lists and as a single message.
    #[serde(flatten)]
    pub headline: Headline,
    /// The beginning of the message's text, at most 256 characters. The preview may contain `<` and
    /// `&`: show it as text, never as HTML.
    pub preview: String,
}

impl From<capability::Summary> for Summary {
    fn from(summary: capability::Summary) -> Self {
        let (headline, preview) = split(summary);
        Self { headline, preview }
    }
}

/// A message of any folder: in a search result or in a thread.
#[derive(Serialize, ToSchema)]
pub struct FoundMessage {
    /// The fields that a message has in every list.
    #[serde(flatten)]
    pub summary: Summary,
    /// The path of the message's folder.
    #[schema(extensions(("x-latchmail" = json!(true))))]
    pub folder: String,
    /// A part of the message's text. Absent if the mail server performed the search, and in
    /// threads.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub snippet: Option<Snippet>,
}

impl From<capability::Hit> for FoundMessage {
    fn from(hit: capability::Hit) -> Self {
        Self {
            summary: hit.summary.into(),
            folder: hit.folder,
            snippet: hit.snippet.map(Snippet::from),
        }
    }
}

/// A part of a message's text, if possible with the words that match the search.
#[derive(Serialize, ToSchema)]
pub struct Snippet {
    /// The text. The text may contain `<` and `&`: show it as text, never as HTML.
    pub text: String,
    /// The matches in `text`, in ascending order. Empty if only other parts of the message match.
    pub matches: Vec<Match>,
}

/// The position of a match.
#[derive(Serialize, ToSchema)]
pub struct Match {
    /// The position of the first character of the match, in Unicode code points from 0.
    pub start: u32,
    /// The position after the last character of the match, in Unicode code points from 0.
    pub end: u32,
}

impl From<capability::Snippet> for Snippet {
    fn from(snippet: capability::Snippet) -> Self {
        let found = |one: capability::Match| Match {
            start: one.start,
            end: one.end,
        };
        Self {
            text: snippet.text,
            matches: snippet.matches.into_iter().map(found).collect(),
        }
    }
}

pub(crate) fn split(summary: capability::Summary) -> (Headline, String) {
    let headline = Headline {
        uid: summary.uid,
        seq: summary.seq,
        from: addresses(summary.from),
        to: addresses(summary.to),
        subject: summary.subject,
        date: iso8601(summary.date),
        flags: summary.flags,
        size: summary.size,
        thread_id: summary.thread_id,
    };
    (headline, summary.preview)
}

/// A part of a message that is neither its text nor its HTML.
#[derive(Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct Attachment {
    /// The index of the attachment, starting at 0. Attachments are in the order of the message's
    /// parts. The index never changes.
    pub index: u32,
    /// The file name.
    pub filename: String,
    /// The media type that the sender declared.
    pub content_type: String,
    /// The size of the decoded content in bytes.
    pub size: u64,
}

/// A message in full.
#[derive(Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct Detail {
    /// The fields that a message has both in lists and as a single message.
    #[serde(flatten)]
    pub headline: Headline,
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
    pub attachments: Vec<Attachment>,
    /// `true` if content was left out because the message exceeds the service's limits. Absent
    /// otherwise.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub truncated: Option<bool>,
    /// Whether the sender is authenticated.
    pub authentication: Authentication,
}

/// The value of `newText`.
#[derive(Debug, PartialEq, Eq, Serialize)]
#[serde(untagged)]
pub enum NewText {
    /// The text. `None` if the message has no text.
    Value(Option<String>),
    /// The field is not serialized with the message. Either the host inserts the text into the
    /// JSON, or the JSON has no such field.
    Separate,
}

impl NewText {
    pub(crate) fn is_separate(&self) -> bool {
        *self == Self::Separate
    }
}

/// The result of the mail server's authentication of the sender.
#[derive(Serialize, ToSchema)]
pub struct Authentication {
    /// The result.
    pub result: AuthenticationResult,
    /// The domain that the result applies to.
    #[schema(required)]
    pub domain: Option<String>,
}

/// The result of authenticating a sender. `pass`: DMARC passed, or an account of this server
/// submitted the message. `fail`: DMARC failed. `none`: the mail server recorded no result, so the
/// sender is unverified.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, ToSchema)]
#[serde(rename_all = "lowercase")]
pub enum AuthenticationResult {
    /// The sender is authenticated.
    Pass,
    /// The sender is probably forged.
    Fail,
    /// The mail server recorded no result.
    None,
}

impl From<capability::Authentication> for Authentication {
    fn from(authentication: capability::Authentication) -> Self {
        Self {
            result: match authentication.verdict {
                Verdict::Pass => AuthenticationResult::Pass,
                Verdict::Fail => AuthenticationResult::Fail,
                Verdict::None => AuthenticationResult::None,
            },
            domain: authentication.domain,
        }
    }
}

impl From<capability::Detail> for Detail {
    fn from(detail: capability::Detail) -> Self {
        let (headline, _) = split(detail.summary);
        Self {
            headline,
            cc: addresses(detail.cc),
            reply_to: addresses(detail.reply_to),
            message_id: detail.message_id,
            in_reply_to: detail.in_reply_to,
            references: detail.references,
            text: detail.text,
            html: detail.html,
            new_text: NewText::Value(detail.new_text),
            attachments: detail
                .attachments
                .into_iter()
                .map(|a| Attachment {
                    index: a.index,
                    filename: a.filename,
                    content_type: a.content_type,
                    size: a.size,
                })
                .collect(),
            truncated: detail.truncated.then_some(true),
            authentication: detail.authentication.into(),
        }
    }
}
