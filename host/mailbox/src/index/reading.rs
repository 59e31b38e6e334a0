//! Reads messages from the mail server, and converts the messages to documents of the search index.

use std::collections::{BTreeMap, HashMap};
use std::time::Instant;

use latchmail_core::message_number::Uid;
use latchmail_imap::MessageRef;

use super::SearchIndex;
use super::document::MessageDocument;
use super::indexes::AccountIndex;
use super::update::{IndexError, Missing};
use crate::access::Access;
use crate::connections::retry::retry_read;
use crate::error::Error;
use crate::message::parts::MessageParts;
use crate::{blocking, bounds};

/// The number of bytes that the first command reads of each message.
const BEGINNING: usize = 64 * 1024;

impl SearchIndex {
    /// Reads messages and converts the messages to documents. Omits messages that the mail server
    /// fails to return, and records these messages as unreadable.
    pub(super) async fn read_documents(
        &self,
        account: &AccountIndex,
        access: &Access,
        batch: &[Missing],
    ) -> Result<Vec<MessageDocument>, IndexError> {
        let mut folders: BTreeMap<(&str, u32), Vec<&Missing>> = BTreeMap::new();
        for missing in batch {
            let folder = folders.entry((&*missing.path, missing.uid_validity));
            folder.or_default().push(missing);
        }
        let mut documents = Vec::with_capacity(batch.len());
        for of_folder in folders.values() {
            let mut parts = vec![&of_folder[..]];
            while let Some(part) = parts.pop() {
                let error = match self.read_folder_documents(access, part).await {
                    Ok(read) => {
                        documents.extend(read);
                        continue;
                    }
                    Err(error) => error,
                };
                // If the mail server can open the folder, the mail server failed to return one of
                // the messages in `part`.
                let is_caused_by_message = error.may_be_caused_by_message()
                    && self.can_open(access, part).await.unwrap_or(false);
                if !is_caused_by_message {
                    return Err(error);
                }
                if let [message] = part {
                    let attempts = account.unreadable().add(message.number, Instant::now());
                    tracing::warn!(
                        account = account.account,
                        uid = message.number.0,
                        attempts,
                        %error,
                        "the search index omits a message that the mail server fails to return"
                    );
                } else {
                    let (first, second) = part.split_at(part.len() / 2);
                    parts.extend([second, first]);
                }
            }
        }
        Ok(documents)
    }

    /// Returns `true` if the mail server can open the folder of these messages.
    async fn can_open(&self, access: &Access, messages: &[&Missing]) -> Result<bool, Error> {
        let Some(first) = messages.first() else {
            return Ok(false);
        };
        let (path, uid_validity) = (&*first.path, first.uid_validity);
        let mut lease = self.context.connections.lease(access, Some(path)).await?;
        let existing =
            retry_read!(lease, session => session.existing(path, uid_validity, &[Uid(1)]));
        Ok(existing.is_some())
    }

    /// Reads messages of one folder and converts the messages to documents.
    async fn read_folder_documents(
        &self,
        access: &Access,
        messages: &[&Missing],
    ) -> Result<Vec<MessageDocument>, IndexError> {
        let Some(first) = messages.first() else {
            return Ok(Vec::new());
        };
        let mut documents = Vec::with_capacity(messages.len());
        let mut large = Vec::new();
        let refs: Vec<MessageRef<'_>> = messages.iter().map(|m| m.message_ref()).collect();
        let mut lease = self
            .context
            .connections
            .lease(access, Some(&*first.path))
            .await?;
        let fetched = retry_read!(lease, session => session.beginnings_at(&refs, BEGINNING));
        drop(lease);
        let by_imap_uid: HashMap<Uid, &Missing> =
            messages.iter().map(|m| (m.imap_uid, *m)).collect();
        for message in fetched {
            let Some(missing) = by_imap_uid.get(&message.uid) else {
                continue;
            };
            if message.whole.len() >= BEGINNING {
                large.push(*missing);
                continue;
            }
            let (number, work) = (missing.number, message.whole.len());
            let document = blocking::run_sized(work, move || {
                MessageDocument::new(number, &MessageParts::of_complete(message))
            });
            documents.push(document.await.map_err(IndexError::Internal)?);
        }
        for missing in large {
            let mut lease = self
                .context
                .connections
                .lease(access, Some(&*missing.path))
                .await?;
            let memory = self
                .context
                .message_memory
                .acquire(bounds::LARGE_MESSAGE_MIB)
                .await?;
            let at = missing.message_ref();
            let whole = retry_read!(lease, session => session.message(at));
            let Some(whole) = whole else { continue };
            let session = lease.session().await?;
            let parts = MessageParts::read(session, whole, None).await?;
            drop(lease);
            let Some(parts) = parts else { continue };
            let number = missing.number;
            let document = blocking::run(move || {
                let document = MessageDocument::new(number, &parts);
                drop(memory);
                document
            });
            documents.push(document.await.map_err(IndexError::Internal)?);
        }
        Ok(documents)
    }
}
