//! Folders and messages as JSON (specification, section 2).

use latchmail_sdk::capability::{self, Role};
use latchmail_sdk::time::iso8601;
use serde::Serialize;
use utoipa::ToSchema;

/// A folder.
#[derive(Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Folder {
    /// The full path; the inbox is always `INBOX`.
    path: String,
    /// The last segment of the path.
    name: String,
    /// What joins the segments of a path.
    delimiter: String,
    /// How many messages it holds.
    messages: u32,
    /// How many of them are unread.
    unseen: u32,
    /// Its role, where the mail server gives one.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    special_use: Option<&'static str>,
}

impl From<capability::Folder> for Folder {
    fn from(folder: capability::Folder) -> Self {
        Self {
            path: folder.path,
            name: folder.name,
            delimiter: folder.delimiter,
            messages: folder.messages,
            unseen: folder.unseen,
            special_use: folder.role.map(special_use),
        }
    }
}

fn special_use(role: Role) -> &'static str {
    match role {
        Role::Inbox => "\\Inbox",
        Role::Flagged => "\\Flagged",
        Role::Sent => "\\Sent",
        Role::Drafts => "\\Drafts",
        Role::All => "\\All",
        Role::Archive => "\\Archive",
        Role::Junk => "\\Junk",
        Role::Trash => "\\Trash",
    }
}

/// A mailbox address.
#[derive(Serialize, ToSchema)]
pub(crate) struct Address {
    /// The display name; empty where there is none.
    name: String,
    /// `local@domain`.
    address: String,
}

fn addresses(addresses: Vec<capability::Address>) -> Vec<Address> {
    addresses
        .into_iter()
        .map(|a| Address {
            name: a.name,
            address: a.address,
        })
        .collect()
}

/// What lists and single messages have in common.
#[derive(Serialize, ToSchema)]
pub(crate) struct Headline {
    /// Names the message across the whole mailbox; the same wherever it moves.
    #[schema(minimum = 1)]
    uid: u64,
    /// Its position in its folder, 1 the oldest.
    #[schema(minimum = 1)]
    seq: u32,
    /// The senders.
    from: Vec<Address>,
    /// The recipients.
    to: Vec<Address>,
    /// The subject; empty where there is none.
    subject: String,
    /// When it was written; when it arrived where that is not told.
    #[schema(format = DateTime)]
    date: String,
    /// IMAP flags such as `\Seen`, and keywords.
    flags: Vec<String>,
    /// Its size in bytes.
    size: u64,
}

/// A message as a list shows it.
#[derive(Serialize, ToSchema)]
pub(crate) struct Summary {
    #[serde(flatten)]
    headline: Headline,
    /// The beginning of the sender's text, at most 256 characters. May contain `<` and `&`: show it as text, never as HTML.
    preview: String,
}

impl From<capability::Summary> for Summary {
    fn from(summary: capability::Summary) -> Self {
        let (headline, preview) = split(summary);
        Self { headline, preview }
    }
}

fn split(summary: capability::Summary) -> (Headline, String) {
    let headline = Headline {
        uid: summary.uid,
        seq: summary.seq,
        from: addresses(summary.from),
        to: addresses(summary.to),
        subject: summary.subject,
        date: iso8601(summary.date),
        flags: summary.flags,
        size: summary.size,
    };
    (headline, summary.preview)
}

/// A part of a message that is neither its text nor its HTML.
#[derive(Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Attachment {
    /// Counted in the order of the message's parts, from 0; never changes.
    index: u32,
    /// Its file name.
    filename: String,
    /// Its media type, as the sender declared it.
    content_type: String,
    /// The size of its decoded bytes.
    size: u64,
}

/// A message in full.
#[derive(Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Detail {
    #[serde(flatten)]
    headline: Headline,
    /// The recipients of copies.
    cc: Vec<Address>,
    /// Where answers are wanted.
    reply_to: Vec<Address>,
    /// The Message-ID, angle brackets included; empty where there is none.
    message_id: String,
    /// The Message-ID that this answers.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    in_reply_to: Option<String>,
    /// The Message-IDs of the thread so far.
    references: Vec<String>,
    /// The plain text, where the message has such a part.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    text: Option<String>,
    /// The HTML, where the message has such a part. The sender's own: treat it as hostile.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    html: Option<String>,
    /// The attachments.
    attachments: Vec<Attachment>,
    /// `true` where something was left out because the message exceeds the service's bounds; absent otherwise.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    truncated: Option<bool>,
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
        }
    }
}
