//! What a mailbox holds, as the rest of the service sees it. Plain values: no protocol, no JSON.

use super::download::Download;
use crate::clock::Timestamp;

/// A folder's role (RFC 6154, and `\Inbox`), in the order in which a list shows them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Role {
    /// `\Inbox`
    Inbox,
    /// `\Flagged`
    Flagged,
    /// `\Sent`
    Sent,
    /// `\Drafts`
    Drafts,
    /// `\All`
    All,
    /// `\Archive`
    Archive,
    /// `\Junk`
    Junk,
    /// `\Trash`
    Trash,
}

/// A folder that can be opened.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Folder {
    /// The full path in Unicode; the inbox is `INBOX`.
    pub path: String,
    /// The last segment of the path.
    pub name: String,
    /// What joins the segments; empty where there is no hierarchy.
    pub delimiter: String,
    /// How many messages it holds.
    pub messages: u32,
    /// How many of them are unread.
    pub unseen: u32,
    /// Its role, where the server gives one.
    pub role: Option<Role>,
}

/// A mailbox address of a header (RFC 5322, section 3.4), decoded.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Address {
    /// The display name; empty where there is none.
    pub name: String,
    /// `local@domain`.
    pub address: String,
}

/// A message as a list shows it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Summary {
    /// The service's number for it.
    pub uid: u64,
    /// Its position in its folder, 1 the oldest.
    pub seq: u32,
    /// The From header.
    pub from: Vec<Address>,
    /// The To header.
    pub to: Vec<Address>,
    /// The subject, decoded; empty where there is none.
    pub subject: String,
    /// The Date header; the time of arrival where it is missing or cannot be read.
    pub date: Timestamp,
    /// The IMAP flags and keywords, without `\Recent`.
    pub flags: Vec<String>,
    /// Its size in bytes as it is stored.
    pub size: u64,
    /// At most 256 characters of its text, white space folded.
    pub preview: String,
}

/// A stretch of a folder's messages.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Listing {
    /// Newest first.
    pub messages: Vec<Summary>,
    /// How many messages the folder holds.
    pub total: u32,
}

/// A part of a message that is neither its chosen text nor its chosen HTML.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Attachment {
    /// Counted in the order of the parts, from 0.
    pub index: u32,
    /// Decoded, without path separators or control characters.
    pub filename: String,
    /// The media type, lower case, without parameters.
    pub content_type: String,
    /// The size of its decoded bytes.
    pub size: u64,
}

/// A message in full.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Detail {
    /// What a list shows of it.
    pub summary: Summary,
    /// The Cc header.
    pub cc: Vec<Address>,
    /// The Reply-To header.
    pub reply_to: Vec<Address>,
    /// With its angle brackets; empty where there is none.
    pub message_id: String,
    /// With its angle brackets.
    pub in_reply_to: Option<String>,
    /// With their angle brackets, in order.
    pub references: Vec<String>,
    /// The plain text, where there is such a part: as it was sent, so that `format=flowed` (RFC 3676) is not undone.
    pub text: Option<String>,
    /// The HTML, where there is such a part.
    pub html: Option<String>,
    /// The attachments.
    pub attachments: Vec<Attachment>,
    /// Whether anything was left out because the message exceeds the bounds.
    pub truncated: bool,
}

/// An attachment with its bytes.
#[derive(Debug)]
pub struct AttachmentContent {
    /// What the message says of it.
    pub attachment: Attachment,
    /// Its decoded bytes.
    pub content: Download,
}
