//! Reads all messages of a folder for an export, in the order of their UIDs and in batches.
//!
//! The owner of the mailbox is the only caller, so this module checks no rights of members.

use std::collections::HashMap;

use bytes::Bytes;
use latchmail_core::clock::Timestamp;
use latchmail_core::message_number::{MessageNumber, Uid};
use latchmail_imap::{MessageRef, Opened, uids_between};
use tokio::io::{AsyncWrite, AsyncWriteExt as _};

use super::Reader;
use crate::access::Access;
use crate::bounds;
use crate::connections::retry::retry_read;
use crate::error::Error;
use crate::message::identity::{Identity, identity};

/// Maximum number of messages of a batch.
const BATCH: usize = 64;
/// The number of bytes that one command reads of each message of a batch. A batch needs at most 4
/// MiB of memory.
const BEGINNING: usize = 64 * 1024;
/// The memory of a batch, in MiB: the replies of the mail server and the messages.
const BATCH_MIB: u32 = 8;
/// The number of UIDs that the first SEARCH covers. UIDs can have large gaps, so the number doubles
/// while a SEARCH finds no message.
const WINDOW: u32 = 1000;

/// A message of a folder.
#[derive(Clone, Debug)]
pub struct ExportedMessage {
    /// The IMAP UID.
    pub uid: Uid,
    /// The number of the message. `None` if another client moved or removed the message.
    pub number: Option<MessageNumber>,
    /// Flags and keywords, without `\Recent`.
    pub flags: Vec<String>,
    /// The arrival time.
    pub received_at: Option<Timestamp>,
    /// The bytes. `None` if the message has 64 KiB or more: then [`Reader::export_content`] reads
    /// the bytes.
    pub content: Option<Bytes>,
}

/// The next messages of a folder.
#[derive(Clone, Debug)]
pub struct ExportBatch {
    /// The UIDVALIDITY of the folder.
    pub uid_validity: u32,
    /// The messages, in ascending order of their UIDs.
    pub messages: Vec<ExportedMessage>,
    /// The UID at which the next batch begins. `None` if the folder has no further messages.
    pub next: Option<u32>,
}

impl Reader {
    /// Returns the messages of the folder `path` from the UID `from` upwards, at most 64. Omits
    /// messages that disappear while they are read. Returns `None` if the folder does not exist.
    ///
    /// # Errors
    /// Returns an [`Error`] if the operation fails.
    pub async fn export_batch(
        &self,
        access: &Access,
        path: &str,
        from: u32,
    ) -> Result<Option<ExportBatch>, Error> {
        let Some((opened, mut uids, end)) = self.next_uids(access, path, from).await? else {
            return Ok(None);
        };
        let mut batch = ExportBatch {
            uid_validity: opened.uid_validity,
            messages: Vec::new(),
            next: end,
        };
        if uids.len() > BATCH {
            batch.next = uids.get(BATCH).map(|uid| uid.0);
            uids.truncate(BATCH);
        }
        if uids.is_empty() {
            return Ok(Some(batch));
        }
        let refs: Vec<MessageRef<'_>> = uids
            .iter()
            .map(|uid| MessageRef {
                path,
                uid_validity: opened.uid_validity,
                uid: *uid,
            })
            .collect();
        let numbers = self.export_numbers(access, path, opened, &refs).await?;
        let _memory = self.context.message_memory.acquire(BATCH_MIB).await?;
        let mut lease = self.context.connections.lease(access, Some(path)).await?;
        let fetched = retry_read!(lease, session => session.beginnings_at(&refs, BEGINNING));
        batch.messages = fetched
            .into_iter()
            .filter(|message| uids.binary_search(&message.uid).is_ok())
            .map(|message| ExportedMessage {
                uid: message.uid,
                number: numbers.get(&message.uid).copied(),
                flags: message.flags,
                received_at: message.internal_date,
                content: (message.whole.len() < BEGINNING).then_some(message.whole),
            })
            .collect();
        batch.messages.sort_unstable_by_key(|message| message.uid);
        Ok(Some(batch))
    }

    /// Writes the bytes of a message to `output`, as they arrive from the mail server. Returns
    /// `false` if the message does not exist. In that case, and after an error, `output` can have
    /// received a part of the message.
    ///
    /// # Errors
    /// Returns an [`Error`] if the operation fails, or if `output` fails.
    pub async fn export_content(
        &self,
        access: &Access,
        path: &str,
        (uid_validity, uid): (u32, Uid),
        output: &mut (dyn AsyncWrite + Send + Unpin),
    ) -> Result<bool, Error> {
        let at = MessageRef {
            path,
            uid_validity,
            uid,
        };
        let failed = |error: std::io::Error| Error::Internal(error.to_string());
        let range = 0..bounds::MESSAGE;
        let mut lease = self.context.connections.lease(access, Some(path)).await?;
        let started = retry_read!(lease, session => session.start_stream_at(at, &range));
        if let Some(mut remaining) = started {
            let session = lease.current_session()?;
            while remaining > 0 {
                let bytes = session.next_bytes().await?;
                remaining = remaining.saturating_sub(bytes.len());
                output.write_all(&bytes).await.map_err(failed)?;
            }
            return Ok(true);
        }
        // The stream cannot start, although the message can exist.
        let mut start = 0;
        while start < bounds::MESSAGE {
            let piece = start..start + bounds::FIRST;
            let bytes = retry_read!(lease, session => session.read_range_at(at, &piece));
            let Some(bytes) = bytes else {
                return Ok(false);
            };
            output.write_all(&bytes).await.map_err(failed)?;
            start += bytes.len();
            if bytes.len() < piece.len() {
                return Ok(true);
            }
        }
        Ok(true)
    }

    /// Returns the state of the folder, the next UIDs, and the UID after the searched range.
    async fn next_uids(
        &self,
        access: &Access,
        path: &str,
        mut from: u32,
    ) -> Result<Option<(Opened, Vec<Uid>, Option<u32>)>, Error> {
        let mut lease = self.context.connections.lease(access, Some(path)).await?;
        let mut window = WINDOW;
        loop {
            let to = from.saturating_add(window - 1);
            let range = (from, to);
            let found = retry_read!(lease, session => uids_between(session, path, range));
            let Some((opened, mut uids)) = found else {
                return Ok(None);
            };
            uids.retain(|uid| (from..=to).contains(&uid.0));
            let is_last = to == u32::MAX || (opened.uid_next > 0 && to >= opened.uid_next - 1);
            if !uids.is_empty() || is_last || opened.exists == 0 {
                let end = (!is_last && opened.exists > 0).then(|| to.saturating_add(1));
                return Ok(Some((opened, uids, end)));
            }
            from = to.saturating_add(1);
            window = window.saturating_mul(2);
        }
    }

    /// Returns the numbers of messages, and assigns numbers to messages without a number.
    async fn export_numbers(
        &self,
        access: &Access,
        path: &str,
        opened: Opened,
        refs: &[MessageRef<'_>],
    ) -> Result<HashMap<Uid, MessageNumber>, Error> {
        let mut lease = self.context.connections.lease(access, Some(path)).await?;
        let fetched = retry_read!(lease, session => session.identities_at(refs));
        drop(lease);
        let identities: Vec<(Uid, Identity)> = fetched
            .unwrap_or_default()
            .iter()
            .map(|message| (message.uid, identity(message)))
            .collect();
        self.numbers
            .of_messages(access, path, opened, &identities)
            .await
    }
}
