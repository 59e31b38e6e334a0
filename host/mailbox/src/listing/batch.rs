//! Reads the summaries of messages by their numbers. The messages can be in different folders. The
//! mail server receives a fixed number of commands for each folder.

use std::collections::HashMap;
use std::sync::Arc;

use latchmail_core::message_number::{MessageNumber, Uid};
use latchmail_imap::{Fetched, MessageRef, Session};

use super::Lister;
use super::messages::{Uncached, with_summaries};
use crate::access::Access;
use crate::cache::FolderKey;
use crate::connections::retry::retry_read;
use crate::error::Error;
use crate::hiding;
use crate::index::results::Hit;
use crate::message::thread_ids::thread_id;
use crate::message::types::Summary;
use crate::numbers::locations::group_by_folder;

/// The messages of a folder. The second value of each entry is the cached summary.
type Found = (Vec<(Fetched, Option<Arc<Summary>>)>, Vec<Uncached>);

impl Lister {
    /// Returns the messages with these numbers, in the order of `numbers`. Omits messages that do
    /// not exist or that the caller is not allowed to read. The snippets are `None`.
    ///
    /// # Errors
    /// Returns [`Error::Unavailable`] if other clients moved a message during every attempt to read
    /// it. Returns another [`Error`] if the operation fails.
    pub async fn by_numbers(
        &self,
        access: &Access,
        numbers: &[MessageNumber],
    ) -> Result<Vec<Hit>, Error> {
        self.folders.ensure_indexed(access).await?;
        let mut hits: HashMap<MessageNumber, Hit> = HashMap::new();
        let mut batches = self.numbers.batch_locations(access, numbers);
        while let Some(locations) = batches.next(&hits).await? {
            for ((path, uid_validity), messages) in group_by_folder(&locations) {
                let summaries = self
                    .summaries_in(access, path, uid_validity, &messages)
                    .await?;
                let hit = |summary: Summary| Hit {
                    summary,
                    folder: path.to_owned(),
                    snippet: None,
                };
                hits.extend(summaries.into_iter().map(|one| (one.number, hit(one))));
            }
        }
        let summaries = hits.values_mut().map(|hit| &mut hit.summary);
        self.index
            .set_merged_threads(&access.account, summaries)
            .await?;
        let mut hits: Vec<Hit> = numbers
            .iter()
            .filter_map(|number| hits.remove(number))
            .collect();
        hiding::in_hits(access, &mut hits);
        Ok(hits)
    }

    /// Returns the summaries of messages in one folder, without merged threads.
    async fn summaries_in(
        &self,
        access: &Access,
        path: &str,
        uid_validity: u32,
        messages: &[(MessageNumber, Uid)],
    ) -> Result<Vec<Summary>, Error> {
        let folder = FolderKey::new(&access.account, path, uid_validity);
        let refs: Vec<MessageRef<'_>> = messages
            .iter()
            .map(|(_, uid)| MessageRef {
                path,
                uid_validity,
                uid: *uid,
            })
            .collect();
        let moves = self.context.cache.moves();
        let mut lease = self.context.connections.lease(access, Some(path)).await?;
        let (found, uncached) = retry_read!(lease, session => read(session, self, folder, &refs));
        drop(lease);
        let numbers: HashMap<Uid, MessageNumber> = messages
            .iter()
            .map(|(number, uid)| (*uid, *number))
            .collect();
        let with_number = |message: Uncached| {
            let number = *numbers.get(&message.uid)?;
            let summary = Summary {
                number,
                thread_id: thread_id(message.thread, number),
                ..message.summary
            };
            Some((message.uid, summary))
        };
        let mut read: HashMap<Uid, Summary> =
            uncached.into_iter().filter_map(with_number).collect();
        self.context
            .cache
            .insert_summaries(folder, read.iter(), moves);
        let summary = |(message, cached): (Fetched, Option<Arc<Summary>>)| {
            let summary = match cached {
                Some(cached) => Summary::clone(&cached),
                // A message without a summary was just expunged.
                None => read.remove(&message.uid)?,
            };
            Some(Summary {
                seq: message.seq,
                flags: message.flags,
                ..summary
            })
        };
        Ok(found.into_iter().filter_map(summary).collect())
    }
}

/// Reads messages of one folder. For messages with a cached summary, reads only the flags.
async fn read(
    session: &mut Session,
    lister: &Lister,
    folder: FolderKey,
    refs: &[MessageRef<'_>],
) -> Result<Found, latchmail_imap::Error> {
    let messages = session.positions_at(refs).await?;
    with_summaries(session, lister, folder, messages).await
}
