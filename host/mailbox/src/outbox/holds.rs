//! Holds messages that the policy of a grant does not allow, until the owner decides.
//!
//! A held message is complete: the recipients and the bytes, with all attachments, are those that
//! leave after an approval. The hash binds the owner's decision to them. [`crate::holds`] has the
//! owner's side.

use std::time::Duration;

use bytes::Bytes;
use latchmail_core::clock::Timestamp;
use latchmail_core::hexadecimal;
use latchmail_core::metrics;
use latchmail_core::sealing::Purpose;
use latchmail_core::secrets;
use latchmail_directory::jobs::Lease;
use latchmail_directory::outbox::holds::{Hold, NewHold};
use latchmail_directory::outbox::{Entry, Limits, Part};
use latchmail_imap::Fetched;
use latchmail_mime as mime;
use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};

use super::envelope::EnvelopeAddress;
use super::later::{LaterMessage, SealedEntry};
use super::result::Error;
use super::sealed::RowKey;
use super::send::Outbox;
use crate::access::Access;
use crate::blocking;
use crate::message::parts::MessageParts;

/// The time after which a message is rejected.
const LIFETIME: Duration = Duration::from_hours(24);
/// Maximum number and total size of the held messages of an account.
const LIMITS: Limits = Limits {
    entries: 100,
    bytes: 100 * 1024 * 1024,
};
/// Maximum number of attachments that a list names. The bytes of a message bound the names.
const MAX_FILES: usize = 100;
/// The name of the encrypted list of attachments.
const FILES: &str = "files";

/// An attachment of a held message.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct HeldFile {
    /// The decoded file name.
    pub filename: String,
    /// The media type.
    pub content_type: String,
    /// The size in bytes.
    pub size: u64,
}

/// The recipients and the texts of a held message.
#[derive(Debug)]
pub(crate) struct HeldDetails {
    pub(crate) from: String,
    /// The recipients of the envelope.
    pub(crate) recipients: Vec<String>,
    pub(crate) subject: String,
    /// The name and the address of each recipient in To.
    pub(crate) to: Vec<(String, String)>,
    pub(crate) files: Vec<HeldFile>,
}

/// Stores a complete message until the owner decides. After an approval, the message leaves at
/// `send_at`, or at once. Returns the id of the hold.
///
/// # Errors
/// Returns [`Error::OutboxFull`] if the account has the maximum number or size of held
/// messages. Returns another [`Error`] if the operation fails. Nothing is held in that case.
pub(crate) async fn hold(
    outbox: &Outbox,
    access: &Access,
    message: LaterMessage,
    send_at: Option<Timestamp>,
    reason: &'static str,
) -> Result<String, Error> {
    let Some(grant) = &access.grant else {
        return Err(Error::Internal("only messages of grants are held".into()));
    };
    let now = outbox.jobs.now().await?;
    let message_id = message.message_id.clone();
    let hash = hash(
        message.envelope.from.as_str(),
        message.envelope.to.iter().map(EnvelopeAddress::as_str),
        &message.message,
    );
    let files = files(message.message.clone()).await?;
    let sealed = SealedEntry::seal(outbox, access, message).await?;
    let new = SealedHold::new(outbox, &sealed.key, &files)?;
    let hold = new.hold((&grant.id, &grant.app_password_id), reason, &hash, now);
    let entry = sealed.entry(access, &message_id, send_at.unwrap_or(now));
    let entries = outbox.entries();
    if !entries
        .add_held(entry, &sealed.chunks, hold, LIMITS)
        .await?
    {
        return Err(Error::OutboxFull);
    }
    log_held(outbox, &access.account, &sealed.id, reason);
    Ok(sealed.id)
}

/// Returns the id of the hold of the message with this Message-ID.
///
/// # Errors
/// Returns an [`Error`] if the database fails.
pub(crate) async fn held_before(
    outbox: &Outbox,
    account: &str,
    message_id: &str,
) -> Result<Option<String>, Error> {
    Ok(outbox
        .entries()
        .hold_of_message(account, message_id)
        .await?)
}

/// Holds a scheduled message, because the policy no longer allows it. `grant` has the id of the
/// grant and the id of its app password. Returns `false`, and changes nothing, if the host has
/// lost the lease, if the entry is not scheduled, or if the account has the maximum number of
/// holds.
///
/// # Errors
/// Returns an [`Error`] if the database fails.
pub(crate) async fn hold_entry(
    outbox: &Outbox,
    lease: &Lease,
    entry: &Entry,
    grant: (&str, &str),
    reason: &'static str,
) -> Result<bool, Error> {
    let Some(message) = outbox.read_part(entry, Part::Message).await? else {
        return Ok(false);
    };
    let hash = hash_of(outbox, entry, &message)?;
    let files = files(message).await?;
    let now = outbox.jobs.now().await?;
    let new = SealedHold::new(outbox, &outbox.entry_key(entry)?, &files)?;
    let hold = new.hold(grant, reason, &hash, now);
    let entries = outbox.entries();
    let is_held = entries.hold_scheduled(lease, entry, hold, LIMITS.entries);
    let is_held = is_held.await?;
    if is_held {
        log_held(outbox, &entry.account, &entry.id, reason);
    }
    Ok(is_held)
}

/// Wakes the job of a new hold.
fn log_held(outbox: &Outbox, account: &str, entry: &str, reason: &str) {
    outbox.jobs.wake();
    metrics::HOLDS.increment(["created"]);
    tracing::info!(account, entry, reason, "a policy holds a message");
}

/// Returns the hash of a stored message, its sender and its recipients.
pub(crate) fn hash_of(outbox: &Outbox, entry: &Entry, message: &Bytes) -> Result<String, Error> {
    let details = outbox.details(entry)?;
    let recipients = details.recipients.iter().map(String::as_str);
    Ok(hash(&details.from, recipients, message))
}

/// Decrypts the details of a hold.
pub(crate) fn held_details(outbox: &Outbox, hold: &Hold) -> Result<HeldDetails, Error> {
    let details = outbox.details(&hold.entry)?;
    let files = outbox
        .entry_key(&hold.entry)?
        .open_value(FILES, &hold.sealed_files)?;
    let files = serde_json::from_slice(&files);
    Ok(HeldDetails {
        from: details.from,
        recipients: details.recipients,
        subject: details.subject,
        to: details.to,
        files: files.map_err(|error| Error::Internal(error.to_string()))?,
    })
}

/// The encrypted values of a new hold.
struct SealedHold {
    job: String,
    sealed_payload: Vec<u8>,
    sealed_files: Vec<u8>,
}

impl SealedHold {
    fn new(outbox: &Outbox, key: &RowKey, files: &[HeldFile]) -> Result<Self, Error> {
        let job = secrets::id()?;
        let files = serde_json::to_vec(files);
        let files = files.map_err(|error| Error::Internal(error.to_string()))?;
        let service_keys = &outbox.service_keys;
        Ok(Self {
            sealed_payload: service_keys.seal_bytes(Purpose::Job, &job, b"")?,
            sealed_files: key.seal(FILES, &files)?,
            job,
        })
    }

    fn hold<'h>(
        &'h self,
        (grant, app_password): (&'h str, &'h str),
        reason: &'h str,
        hash: &'h str,
        now: Timestamp,
    ) -> NewHold<'h> {
        NewHold {
            grant,
            app_password,
            reason,
            hash,
            now,
            expires_at: now.plus(LIFETIME),
            sealed_files: &self.sealed_files,
            job: &self.job,
            sealed_payload: &self.sealed_payload,
        }
    }
}

/// Returns the hash that binds a decision to a message: its sender, its recipients in their order,
/// and its bytes. No address contains NUL.
fn hash<'a>(from: &str, recipients: impl Iterator<Item = &'a str>, message: &[u8]) -> String {
    let mut hash = Sha256::new();
    hash.update(b"latchmail v1 hold\0");
    hash.update(from);
    for recipient in recipients {
        hash.update(b"\0");
        hash.update(recipient);
    }
    hash.update(b"\0\0");
    hash.update(message);
    hexadecimal::lower(&hash.finalize())
}

/// Returns the attachments of a message, at most [`MAX_FILES`].
pub(crate) async fn files(message: Bytes) -> Result<Vec<HeldFile>, Error> {
    let size = message.len();
    let parse = move || {
        let parts = MessageParts::of_complete(Fetched {
            whole: message,
            ..Fetched::default()
        });
        let attachments = mime::sections(&parts.structure).map(|section| section.attachment);
        let file = |attachment: mime::Attachment| HeldFile {
            filename: attachment.filename,
            content_type: attachment.content_type,
            size: attachment.size,
        };
        attachments.take(MAX_FILES).map(file).collect()
    };
    let parsed = blocking::run_text(size, parse).await;
    parsed.map_err(Error::Internal)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_hash_changes_with_the_sender_each_recipient_and_each_byte() {
        let hashed = |from, to: &[&str], message: &[u8]| hash(from, to.iter().copied(), message);
        let original = hashed("a@x", &["b@x", "c@x"], b"message");
        assert_eq!(original.len(), 64);
        for other in [
            hashed("b@x", &["b@x", "c@x"], b"message"),
            hashed("a@x", &["b@x"], b"message"),
            hashed("a@x", &["c@x", "b@x"], b"message"),
            hashed("a@x", &["b@x", "c@x", "d@x"], b"message"),
            hashed("a@x", &["b@x", "c@x"], b"Message"),
        ] {
            assert_ne!(other, original);
        }
    }
}
