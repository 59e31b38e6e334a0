//! Reads several messages by their numbers. The messages can be in different folders. One command
//! reads the beginnings of all messages of a folder, and further commands read the larger messages
//! in batches.

use std::collections::HashMap;
use std::sync::Arc;

use latchmail_core::codes;
use latchmail_core::error::Problem;
use latchmail_core::message_number::{MessageNumber, Uid};
use latchmail_directory::message_index::Location;
use latchmail_imap::{Fetched, MessageRef};

use super::Reader;
use super::message::parse_complete;
use crate::access::Access;
use crate::bounds;
use crate::connections::retry::retry_read;
use crate::error::Error;
use crate::hiding;
use crate::message::types::Detail;
use crate::numbers::locations::{group_by_folder, message_ref};

/// The number of bytes that the first command reads of each message.
const BEGINNING: usize = 64 * 1024;

/// Maximum total size of the texts of the messages, in bytes.
const MAX_TEXTS: usize = 8 * 1024 * 1024;

/// The messages that were read.
#[derive(Default)]
struct Batch {
    details: HashMap<MessageNumber, Detail>,
    /// The total size of the texts, in bytes.
    texts: usize,
}

impl Batch {
    /// Adds a message.
    ///
    /// # Errors
    /// Returns [`Error::TooLarge`] if the texts of all messages exceed [`MAX_TEXTS`].
    fn add(&mut self, detail: Detail) -> Result<(), Error> {
        let texts = [&detail.text, &detail.html, &detail.new_text];
        self.texts += texts.into_iter().flatten().map(String::len).sum::<usize>();
        if self.texts > MAX_TEXTS {
            return Err(Error::TooLarge(Problem::new(
                codes::MESSAGE_TOO_LARGE,
                "The messages are too large; request fewer messages at once",
            )));
        }
        self.details.insert(detail.summary.number, detail);
        Ok(())
    }
}

impl Reader {
    /// Returns the messages with these numbers, in the order of `numbers`. Omits messages that do
    /// not exist or that the caller is not allowed to read.
    ///
    /// # Errors
    /// Returns [`Error::TooLarge`] if the texts of the messages have more than 8 MiB in total.
    /// Returns [`Error::Unavailable`] if other clients moved a message during every attempt to read
    /// it. Returns another [`Error`] if the operation fails.
    pub async fn messages(
        &self,
        access: &Access,
        numbers: &[MessageNumber],
    ) -> Result<Vec<Detail>, Error> {
        let mut batch = Batch::default();
        let mut batches = self.numbers.batch_locations(access, numbers);
        while let Some(locations) = batches.next(&batch.details).await? {
            let by_number: HashMap<MessageNumber, &Arc<Location>> = locations
                .iter()
                .map(|(number, location)| (*number, location))
                .collect();
            for messages in group_by_folder(&locations).into_values() {
                let messages: Vec<_> = messages
                    .iter()
                    .filter_map(|(number, _)| Some((*number, *by_number.get(number)?)))
                    .collect();
                self.messages_in(access, &messages, &mut batch).await?;
            }
        }
        let mut details = batch.details;
        let summaries = details.values_mut().map(|detail| &mut detail.summary);
        self.index
            .set_merged_threads(&access.account, summaries)
            .await?;
        let details = numbers.iter().filter_map(|number| details.remove(number));
        let visible = details.filter_map(|detail| hiding::in_detail(access, detail));
        Ok(visible.collect())
    }

    /// Reads messages of one folder.
    async fn messages_in(
        &self,
        access: &Access,
        messages: &[(MessageNumber, &Arc<Location>)],
        batch: &mut Batch,
    ) -> Result<(), Error> {
        let by_uid: HashMap<Uid, (MessageNumber, &Arc<Location>)> = messages
            .iter()
            .map(|(number, location)| (location.imap_uid(), (*number, *location)))
            .collect();
        let refs: Vec<MessageRef<'_>> = messages
            .iter()
            .map(|(_, location)| message_ref(location))
            .collect();
        let mut large: Vec<(usize, MessageRef<'_>)> = Vec::new();
        for message in self.beginnings(access, &refs, BEGINNING).await? {
            let Some((number, location)) = by_uid.get(&message.uid) else {
                continue;
            };
            if message.whole.len() < BEGINNING {
                batch.add(self.parse_whole(access, *number, location, message).await?)?;
            } else {
                let size = bounds::to_usize(message.size).min(bounds::FIRST);
                large.push((size, message_ref(location)));
            }
        }
        let mut remaining = &large[..];
        while !remaining.is_empty() {
            let mut bytes = 0;
            let fits = |(size, _): &&(usize, MessageRef<'_>)| {
                bytes += size;
                bytes <= bounds::LISTING_BATCH
            };
            let count = remaining.iter().take_while(fits).count().max(1);
            let (now, rest) = remaining.split_at(count);
            remaining = rest;
            let refs: Vec<MessageRef<'_>> = now.iter().map(|(_, message)| *message).collect();
            let mib = u32::try_from(bounds::LISTING_BATCH.div_ceil(1024 * 1024));
            let memory = &self.context.message_memory;
            let memory = memory.acquire(mib.unwrap_or(u32::MAX)).await?;
            let mut largest = Vec::new();
            for message in self.beginnings(access, &refs, bounds::FIRST).await? {
                let Some((number, location)) = by_uid.get(&message.uid) else {
                    continue;
                };
                if message.whole.len() < bounds::FIRST {
                    batch.add(self.parse_whole(access, *number, location, message).await?)?;
                } else {
                    largest.push((*number, *location));
                }
            }
            drop(memory);
            // Each of these messages needs commands of its own, because its texts can be anywhere.
            for (number, location) in largest {
                if let Some(detail) = self.message_at(access, number, location).await? {
                    batch.add(detail)?;
                }
            }
        }
        Ok(())
    }

    async fn beginnings(
        &self,
        access: &Access,
        refs: &[MessageRef<'_>],
        bytes: usize,
    ) -> Result<Vec<Fetched>, Error> {
        let path = refs.first().map(|message| message.path);
        let mut lease = self.context.connections.lease(access, path).await?;
        Ok(retry_read!(lease, session => session.beginnings_at(refs, bytes)))
    }

    async fn parse_whole(
        &self,
        access: &Access,
        number: MessageNumber,
        location: &Location,
        message: Fetched,
    ) -> Result<Detail, Error> {
        let trusted = Arc::clone(&self.trusted_results);
        let (mut detail, _) = parse_complete(number, message, trusted).await?;
        self.set_location(access, location, &mut detail).await?;
        Ok(detail)
    }
}
