//! Sends drafts. The bytes of the draft are sent as they are in the mailbox, also if a mail client
//! wrote them.
//!
//! Records in the database make sure that each message is sent once, also by two hosts: one record
//! for the message, and one record for the idempotency key of the client.

use std::sync::Arc;

use bytes::{Bytes, BytesMut};
use latchmail_core::codes;
use latchmail_core::error::Problem;
use latchmail_core::hexadecimal;
use latchmail_core::message_number::MessageNumber;
use latchmail_core::permissions::Right;
use latchmail_directory::sendings::{Key, RETENTION};
use latchmail_imap::{Fetched, MessageRef};
use sha2::{Digest as _, Sha256};

use super::outgoing::{check, rewrite};
use super::result::Error;
use super::store::{check_version, forget_message};
use super::survey::Found;
use super::{Drafts, original};
use crate::Address;
use crate::access::Access;
use crate::connections::retry::retry_read;
use crate::error::log_failure;
use crate::idempotency::stored_key;
use crate::outbox::draft::MAX_MESSAGE;
use crate::outbox::envelope::{Envelope, Reports};
use crate::outbox::memory::MemoryPermit;
use crate::outbox::{
    DraftOrigin, Error as OutboxError, LaterMessage, Scheduled, SendOptions, Sent, UploadResult,
    store_copy,
};
use crate::{blocking, bounds};

/// Maximum number of bytes that one command reads of a draft.
const CHUNK: usize = 1024 * 1024;

/// The records of a send.
struct Records {
    /// The record for the message.
    message: Key,
    /// The record for the client's idempotency key.
    client: Option<Key>,
    fingerprint: [u8; 32],
    options: SendOptions,
}

/// A finished draft.
struct Outgoing {
    /// The id of the draft.
    draft: String,
    /// The complete draft.
    message: Bytes,
    envelope: Envelope,
    message_id: String,
    subject: String,
    /// The recipients in To.
    to: Vec<Address>,
}

/// How the message of a draft left.
enum Transferred {
    /// The message was sent.
    Sent(Box<UploadResult>),
    /// The message leaves later.
    Later(Scheduled),
}

impl Drafts {
    /// Sends a draft, if it has the version `if_version`, and removes it. With a time in
    /// `options`, stores the message until that time. Returns `None` if the draft does not exist.
    ///
    /// # Errors
    /// Returns [`Error::Unfinished`] if the draft cannot be sent yet. Returns
    /// [`Error::VersionMismatch`] if the draft has another version. Returns another [`Error`] if
    /// the operation fails.
    pub async fn send(
        self: &Arc<Self>,
        access: &Access,
        id: &str,
        if_version: Option<String>,
        options: SendOptions,
    ) -> Result<Option<Sent>, Error> {
        let client = options.key.as_deref().map(|key| stored_key(access, key));
        let (drafts, access, id) = (Arc::clone(self), access.clone(), id.to_owned());
        self.run(async move {
            let sent = drafts.send_now(&access, &id, if_version.as_deref(), (client, options));
            let sent = Box::pin(sent).await?;
            let Some(mut sent) = sent else {
                return Ok(None);
            };
            // Do not return the folder to a member who must not learn that the folder exists.
            if let Some(path) = &sent.saved_to
                && !drafts.mail.folders.can_see(&access, path).await?
            {
                sent.saved_to = None;
            }
            Ok(Some(sent))
        })
        .await
    }

    async fn send_now(
        &self,
        access: &Access,
        id: &str,
        if_version: Option<&str>,
        (client, options): (Option<Key>, SendOptions),
    ) -> Result<Option<Sent>, Error> {
        let fingerprint: [u8; 32] = Sha256::new()
            .chain_update(b"draft\0")
            .chain_update(id)
            .finalize()
            .into();
        let fingerprint = options.add_to_fingerprint(fingerprint);
        if let Some(key) = &client
            && let Some(sent) = self.earlier(key, &fingerprint, &options).await?
        {
            return Ok(Some(sent));
        }
        let rights = [Right::MailRead, Right::MailWrite];
        let Some(mut found) = self.find(access, id, &rights, Some(CHUNK)).await? else {
            return Ok(None);
        };
        check_version(access, &found, if_version)?;
        let records = Records {
            message: message_key(access, found.number),
            client,
            fingerprint,
            options,
        };
        let first = found.survey.message.take();
        let sent = self.send_found(access, id, (&found, first), &records);
        let sent = sent.await?;
        // A draft that this request has passed to the mail server is removed already.
        if sent.replayed || sent.scheduled.is_some() {
            self.remove_sent(access, &found).await;
        }
        Ok(Some(sent))
    }

    async fn send_found(
        &self,
        access: &Access,
        id: &str,
        (found, first): (&Found, Option<Fetched>),
        records: &Records,
    ) -> Result<Sent, Error> {
        let (message, _memory) = self.read_message(access, found, first).await?;
        let finished = check(&message)?;
        let sender = self
            .outbox
            .check_sender(access.clone(), &finished.from)
            .await?;
        let mut to = Vec::new();
        for recipient in finished.recipients {
            if !to.contains(&recipient.address) {
                to.push(recipient.address);
            }
        }
        let envelope = Envelope {
            from: sender.address,
            to,
            reports: Reports::Default,
        };
        let message_id = match finished.message_id {
            Some(message_id) => message_id,
            None => self.outbox.new_message_id(envelope.from.domain())?,
        };
        let outgoing = Outgoing {
            draft: id.to_owned(),
            message,
            envelope,
            message_id,
            subject: finished.subject,
            to: finished.to,
        };
        self.send_once(access, found, outgoing, records).await
    }

    /// Sends a message, unless an earlier request has sent it. Removes the draft if this request
    /// has passed the message to the mail server.
    async fn send_once(
        &self,
        access: &Access,
        found: &Found,
        outgoing: Outgoing,
        records: &Records,
    ) -> Result<Sent, Error> {
        let message_id = &*outgoing.message_id.clone();
        let (outbox, sendings) = (&self.outbox, &self.directory.sendings);
        let client = records.client.as_ref();
        let _client = client.map(|key| outbox.keys.start(key)).transpose()?;
        let in_use = outbox.keys.start(&records.message);
        let _message = in_use.map_err(|_| being_sent())?;
        let (fingerprint, now) = (&records.fingerprint[..], self.clock.now());
        for key in [Some(&records.message), client].into_iter().flatten() {
            let process = outbox.keys.process();
            let begun = sendings.begin(key, fingerprint, process, message_id, now);
            let Some(earlier) = begun.await? else {
                continue;
            };
            if key != &records.message {
                log_failure(sendings.release(&records.message).await);
                return Ok(outbox.earlier_result(key, earlier, fingerprint).await?);
            }
            let result = outbox.earlier_result(key, earlier, fingerprint).await;
            return Err(match result {
                Ok(sent) => return Ok(sent),
                Err(OutboxError::Conflict(_)) => being_sent(),
                Err(error) => {
                    // The person can look for the message, and then send the draft again.
                    log_failure(sendings.release(key).await);
                    error.into()
                }
            });
        }
        let original = original::of_message(&outgoing.message);
        let delivered = Box::pin(self.transfer(access, outgoing, &records.options)).await;
        let keys = [Some(&records.message), client].into_iter().flatten();
        let keys: Vec<&Key> = keys.collect();
        match delivered {
            Ok(Transferred::Later(scheduled)) => {
                for key in keys {
                    log_failure(sendings.sent(key).await);
                }
                Ok(Sent {
                    message_id: message_id.to_owned(),
                    saved_to: None,
                    replayed: false,
                    scheduled: Some(scheduled),
                })
            }
            Ok(Transferred::Sent(copy)) => {
                // The last line of the copy is written before the removal sends a command. So the
                // mail server stores the copy even if this process ends during the removal.
                let (saved_to, (), ()) = tokio::join!(
                    self.file_copy(*copy, &keys),
                    outbox.mark_original(access, original),
                    Box::pin(self.remove_sent(access, found)),
                );
                Ok(Sent {
                    message_id: message_id.to_owned(),
                    saved_to,
                    replayed: false,
                    scheduled: None,
                })
            }
            Err(error) => {
                // After an unknown outcome, the person can send the draft again, but a repeated
                // request with the same key sends nothing.
                let is_unknown = matches!(error, OutboxError::Unknown(_));
                for key in keys {
                    log_failure(if is_unknown && key != &records.message {
                        sendings.set_unknown(key).await
                    } else {
                        sendings.release(key).await
                    });
                }
                Err(error.into())
            }
        }
    }

    /// Stores the copy of a sent message, and records for each key that the message was sent and
    /// where the copy is. Returns the path of the copy's folder.
    async fn file_copy(&self, copy: UploadResult, keys: &[&Key]) -> Option<String> {
        let sendings = &self.directory.sendings;
        let recorded = async {
            for key in keys {
                log_failure(sendings.sent(key).await);
            }
        };
        let (saved_to, ()) = tokio::join!(store_copy(copy), recorded);
        if let Some(folder) = &saved_to {
            for key in keys {
                log_failure(sendings.sent_copy_filed(key, folder).await);
            }
        }
        saved_to
    }

    /// Submits the message of a draft, or stores the message until its time.
    async fn transfer(
        &self,
        access: &Access,
        outgoing: Outgoing,
        options: &SendOptions,
    ) -> Result<Transferred, OutboxError> {
        let (outbox, now) = (&self.outbox, self.clock.now());
        let (message, id) = (outgoing.message.clone(), outgoing.message_id.clone());
        let written = async {
            let size = message.len();
            let rewritten = blocking::run_text(size, move || rewrite(&message, &id, now)).await;
            rewritten.map_err(OutboxError::Internal)
        };
        if !options.is_later() {
            let written = async { Ok((written.await?, ())) };
            let (envelope, message_id) = (&outgoing.envelope, &outgoing.message_id);
            let copy = outbox
                .deliver(access, envelope, message_id, written, true)
                .await?;
            return Ok(Transferred::Sent(Box::new(copy)));
        }
        let send_at = outbox.departure(options).await?;
        let to = outgoing.to.into_iter();
        let later = LaterMessage {
            message: written.await?,
            envelope: outgoing.envelope,
            message_id: outgoing.message_id,
            subject: outgoing.subject,
            to: to.map(|one| (one.name, one.address)).collect(),
            original: original::of_message(&outgoing.message),
            draft: Some(DraftOrigin {
                id: outgoing.draft,
                message: outgoing.message,
            }),
            has_copy: true,
        };
        let scheduled = outbox.schedule(access, later, send_at).await?;
        Ok(Transferred::Later(scheduled))
    }

    /// Returns the result of an earlier request with the client's key.
    async fn earlier(
        &self,
        key: &Key,
        fingerprint: &[u8],
        options: &SendOptions,
    ) -> Result<Option<Sent>, Error> {
        let Some(earlier) = self.directory.sendings.find(key).await? else {
            return Ok(None);
        };
        if self.clock.now().since(earlier.begun_at()) >= RETENTION {
            return Ok(None);
        }
        if earlier.is_begun() {
            // A request of this process is in progress.
            let _in_use = self.outbox.keys.start(key)?;
        }
        if options.is_later()
            && earlier.fingerprint == fingerprint
            && let Some(sent) = self
                .outbox
                .scheduled_before(key, &earlier.message_id)
                .await?
        {
            return Ok(Some(sent));
        }
        let result = self.outbox.earlier_result(key, earlier, fingerprint);
        Ok(Some(result.await?))
    }

    /// Removes a draft that was sent. A failure is logged, because the draft was sent. If the draft
    /// is sent again, the record of the message returns the first result.
    ///
    /// Does not wait until the message index has changed. A read of the message by its number finds
    /// that the message is gone, as after a removal by another client.
    async fn remove_sent(&self, access: &Access, found: &Found) {
        let removed = async {
            let (access, _lock) = &self.mail.changing.lock(access).await?;
            let uids = found.entry.uids();
            self.expunge(access, found.survey.location(), &uids).await
        };
        let removed = match removed.await {
            Ok(removed) => removed,
            Err(error) => {
                tracing::warn!(%error, "failed to remove a draft that was sent");
                return;
            }
        };
        let (number, uid) = (found.number, found.entry.uid);
        if !removed.contains(&uid) {
            return;
        }
        let (context, account) = (Arc::clone(&self.mail.context), access.account.clone());
        let (path, uid_validity) = (
            Arc::clone(&found.survey.path),
            found.survey.opened.uid_validity,
        );
        self.tasks.spawn(async move {
            let at = MessageRef {
                path: &path,
                uid_validity,
                uid,
            };
            forget_message(&context, &account, (number, at)).await;
        });
    }

    /// Reads the complete message of a draft. `first` is its beginning, if it was read already.
    /// Returns the message, and the permit for its memory.
    async fn read_message(
        &self,
        access: &Access,
        found: &Found,
        first: Option<Fetched>,
    ) -> Result<(Bytes, MemoryPermit), Error> {
        let (at, path) = (found.message(), found.survey.location().0);
        let connections = &self.mail.context.connections;
        let first = if let Some(first) = first {
            first
        } else {
            let mut lease = connections.lease(access, Some(path)).await?;
            let first = retry_read!(lease, session => session.beginnings_at(&[at], CHUNK));
            let first = first.into_iter().find(|message| message.uid == at.uid);
            // Another client has removed the message since it was found.
            first.ok_or(Error::VersionMismatch)?
        };
        let size = bounds::to_usize(first.size).max(first.whole.len());
        if size > MAX_MESSAGE {
            return Err(OutboxError::TooLarge.into());
        }
        let memory = self.outbox.acquire_memory(access, size).await?;
        if first.whole.len() < CHUNK {
            return Ok((first.whole, memory));
        }
        let mut message = BytesMut::from(&first.whole[..]);
        let mut lease = connections.lease(access, Some(path)).await?;
        loop {
            let range = message.len()..message.len() + CHUNK;
            let read = retry_read!(lease, session => session.read_range_at(at, &range));
            let bytes = read.ok_or(Error::VersionMismatch)?;
            message.extend_from_slice(&bytes);
            if bytes.len() < CHUNK {
                return Ok((message.freeze(), memory));
            }
            if message.len() > MAX_MESSAGE {
                return Err(OutboxError::TooLarge.into());
            }
        }
    }
}

/// Returns the key of the record for a message. Members and the owner have the same key.
fn message_key(access: &Access, number: MessageNumber) -> Key {
    let hash = Sha256::new()
        .chain_update(b"draft\0")
        .chain_update(number.0.to_be_bytes());
    Key {
        account: access.account.clone(),
        hash: hexadecimal::lower(&hash.finalize()),
    }
}

fn being_sent() -> Error {
    let text = "The draft is already being sent";
    OutboxError::Conflict(Problem::new(codes::DRAFT_BEING_SENT, text)).into()
}
