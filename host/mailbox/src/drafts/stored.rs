//! Reads the content of a draft from its message.

use std::sync::Arc;

use bytes::Bytes;
use latchmail_core::message_number::{MessageNumber, Uid};
use latchmail_core::policy;
use latchmail_imap::{Fetched, MessageRef};
use latchmail_mime::{self as mime, Address, Attachment, Field, Fields, Header, addresses_of};
use latchmail_shape::check_header_field;

use super::Drafts;
use super::id::DraftId;
use super::outgoing::is_private;
use super::result::{Error, internal};
use super::survey::Found;
use crate::access::Access;
use crate::connections::retry::retry_read;
use crate::error::Error as MailboxError;
use crate::message::parts::MessageParts;
use crate::message::version::content_version;
use crate::{blocking, bounds, hiding};

/// The number of bytes that one command reads of each message of a list, and the number of messages
/// of one command.
const BEGINNING: usize = 64 * 1024;
const BATCH: usize = 16;

/// A stored draft.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StoredDraft {
    /// The opaque id.
    pub id: String,
    /// The version, which changes with each replacement.
    pub version: String,
    /// The number of the message.
    pub number: MessageNumber,
    /// The addresses in From. The text of an unfinished address is in the field `address`.
    pub from: Vec<Address>,
    /// The addresses in To.
    pub to: Vec<Address>,
    /// The addresses in Cc.
    pub cc: Vec<Address>,
    /// The addresses in Bcc.
    pub bcc: Vec<Address>,
    /// The addresses in Reply-To.
    pub reply_to: Vec<Address>,
    /// The decoded subject, or empty.
    pub subject: String,
    /// The plain text, with line feeds.
    pub text: Option<String>,
    /// The HTML, with line feeds.
    pub html: Option<String>,
    /// The text of In-Reply-To.
    pub in_reply_to: Option<String>,
    /// The words of References.
    pub references: Vec<String>,
    /// The header fields that a client of the API can set.
    pub headers: Vec<Field>,
    /// The attachments.
    pub attachments: Vec<Attachment>,
    /// `true` if content is missing because the message exceeds a limit.
    pub truncated: bool,
}

impl Drafts {
    /// Reads the drafts at these locations, in the order of `drafts`. Omits messages that no longer
    /// exist.
    pub(super) async fn read(
        &self,
        access: &Access,
        (path, uid_validity): (&str, u32),
        drafts: &[(DraftId, Uid, MessageNumber)],
    ) -> Result<Vec<StoredDraft>, Error> {
        let mut read = Vec::with_capacity(drafts.len());
        for batch in drafts.chunks(BATCH) {
            let at = |uid: Uid| MessageRef {
                path,
                uid_validity,
                uid,
            };
            let refs: Vec<_> = batch.iter().map(|(_, uid, _)| at(*uid)).collect();
            let mut lease = self
                .mail
                .context
                .connections
                .lease(access, Some(path))
                .await?;
            let fetched = retry_read!(lease, session => session.beginnings_at(&refs, BEGINNING));
            drop(lease);
            for (id, uid, number) in batch {
                let found = fetched.iter().find(|message| message.uid == *uid);
                let Some(message) = found else {
                    continue;
                };
                let parts = if message.whole.len() < BEGINNING {
                    MessageParts::of_complete(message.clone())
                } else {
                    match self.read_large(access, at(*uid)).await? {
                        Some(parts) => parts,
                        None => continue,
                    }
                };
                read.push(describe(access, (*id, *number), parts).await?);
            }
        }
        Ok(read)
    }

    /// Reads the header and the texts of a large message.
    async fn read_large(
        &self,
        access: &Access,
        at: MessageRef<'_>,
    ) -> Result<Option<MessageParts>, MailboxError> {
        let context = &self.mail.context;
        let memory = context.message_memory.acquire(bounds::LARGE_MESSAGE_MIB);
        let _memory = memory.await?;
        let mut lease = context.connections.lease(access, Some(at.path)).await?;
        let Some(message) = retry_read!(lease, session => session.message(at)) else {
            return Ok(None);
        };
        if message.whole.len() < bounds::FIRST {
            return Ok(Some(MessageParts::of_complete(message)));
        }
        let session = lease.session().await?;
        Ok(MessageParts::read(session, message, None).await?)
    }
}

/// Describes a draft whose message is in memory.
pub(super) async fn describe_bytes(
    access: &Access,
    id: DraftId,
    number: MessageNumber,
    message: Bytes,
) -> Result<StoredDraft, Error> {
    let message = Fetched {
        whole: message,
        ..Fetched::default()
    };
    describe(access, (id, number), MessageParts::of_complete(message)).await
}

/// Checks that no part of a draft is hidden from the caller, because the caller cannot store a
/// hidden part again.
///
/// # Errors
/// Returns [`MailboxError::Policy`] if a part is hidden. Returns another [`Error`] if the operation
/// fails.
pub(super) async fn require_shown(
    drafts: &Drafts,
    access: &Access,
    found: &Found,
) -> Result<(), Error> {
    if !access.hides_codes() && !access.hides_attachments() {
        return Ok(());
    }
    let (message, _memory) = drafts.read_message(access, found, None).await?;
    let draft = describe_everything(access, found.id, found.number, message).await?;
    if hiding::hides_in_draft(access, &draft) {
        let what = "replacing a draft with parts that it hides";
        return Err(MailboxError::Policy(policy::denied(what)).into());
    }
    Ok(())
}

/// Checks that no part of a message is hidden from the caller, who wants to send the message as it
/// is stored. If codes are hidden, the message must have no attachments and no texts that are too
/// long, because they are not searched for codes.
///
/// # Errors
/// Returns [`MailboxError::Policy`] if a part is hidden. Returns another [`Error`] if the operation
/// fails.
pub(super) async fn require_sendable(
    access: &Access,
    number: MessageNumber,
    message: Bytes,
) -> Result<(), Error> {
    if !access.hides_codes() && !access.hides_attachments() {
        return Ok(());
    }
    let id = DraftId::of_number(&access.account, number);
    let stored = describe_everything(access, id, number, message).await?;
    if hiding::hides_in_draft(access, &stored) || !stored.attachments.is_empty() || stored.truncated
    {
        let what = "sending a stored message with parts that it hides";
        return Err(MailboxError::Policy(policy::denied(what)).into());
    }
    Ok(())
}

/// Describes a message in memory, with the parts that are hidden from the caller.
async fn describe_everything(
    access: &Access,
    id: DraftId,
    number: MessageNumber,
    message: Bytes,
) -> Result<StoredDraft, Error> {
    let everything = Access {
        grant: None,
        ..access.clone()
    };
    describe_bytes(&everything, id, number, message).await
}

async fn describe(
    access: &Access,
    (id, number): (DraftId, MessageNumber),
    parts: MessageParts,
) -> Result<StoredDraft, Error> {
    let (size, access) = (parts.message.whole.len(), access.clone());
    // The HTML of a draft is decoded, but not cleaned, so no part is slow.
    blocking::run_text(size, move || {
        let version = content_version(&access.account, number);
        let mut draft = draft(id, version, number, &parts);
        hiding::in_draft(&access, &mut draft);
        draft
    })
    .await
    .map_err(internal)
}

pub(super) fn draft(
    id: DraftId,
    version: String,
    number: MessageNumber,
    parts: &MessageParts,
) -> StoredDraft {
    let structure = Arc::clone(&parts.structure);
    let (head, _) = mime::split(&parts.message.whole);
    let header = Header::of(head, bounds::FIELD);
    let (bcc, bcc_cut) = addresses_of(head, "bcc");
    let fields = Fields::of(head, None);
    let content = mime::content(&structure, &parts.texts);
    let value = |name: &str| {
        let mut values = fields.fields.iter();
        let found = values.find(|field| field.name.eq_ignore_ascii_case(name));
        found.map(|field| field.value.trim().to_owned())
    };
    let has = |name: &str, beginning: &str| {
        let value = value(name).unwrap_or_default().to_ascii_lowercase();
        value.starts_with(beginning)
    };
    // The line end after base64 is not a part of the text.
    let has_line_end =
        !has("Content-Type", "multipart/") && !has("Content-Transfer-Encoding", "base64");
    let text = |text: Option<String>| text.and_then(|text| normalized(&text, has_line_end));
    let references = value("References").unwrap_or_default();
    StoredDraft {
        id: id.to_string(),
        version,
        number,
        from: listed(header.from),
        to: listed(header.to),
        cc: listed(header.cc),
        bcc: listed(bcc),
        reply_to: listed(header.reply_to),
        subject: header.subject,
        text: text(content.text),
        html: text(content.html),
        in_reply_to: value("In-Reply-To").filter(|text| !text.is_empty()),
        references: references.split_whitespace().map(Into::into).collect(),
        truncated: content.truncated || header.truncated || fields.truncated || bcc_cut,
        headers: fields.fields.into_iter().filter(is_additional).collect(),
        attachments: mime::sections(&structure)
            .map(|section| section.attachment)
            .collect(),
    }
}

/// Puts the text of an unfinished address into the field `address`.
fn listed(mut addresses: Vec<Address>) -> Vec<Address> {
    for one in &mut addresses {
        if one.address.is_empty() {
            one.address = std::mem::take(&mut one.name);
        }
    }
    addresses
}

/// Returns `true` if a client of the API can set the field.
fn is_additional(field: &Field) -> bool {
    check_header_field(&field.name, &field.value).is_ok() && !is_private(&field.name)
}

/// Returns a text with line feeds. If `has_line_end` is `true`, removes the last line end, which
/// the message needs and which is not a part of the text.
fn normalized(text: &str, has_line_end: bool) -> Option<String> {
    let mut text = text.replace("\r\n", "\n");
    if has_line_end && text.ends_with('\n') {
        text.pop();
    }
    Some(text).filter(|text| !text.is_empty())
}
