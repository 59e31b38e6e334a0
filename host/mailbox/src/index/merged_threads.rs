//! The ids of threads that the search index has merged with other threads. The id of a thread that
//! was not merged is computed from the header of a message ([`crate::message::thread_ids`]).

use std::collections::HashMap;
use std::sync::Arc;

use latchmail_core::message_number::MessageNumber;
use latchmail_imap::{Fetched, MessageRef};
use latchmail_search::threads::ThreadId;

use super::SearchIndex;
use super::indexes::AccountIndex;
use crate::blocking;
use crate::error::Error;
use crate::message::thread_ids::unmerged_thread;
use crate::message::types::Summary;
use crate::message::version::state_version;

impl SearchIndex {
    /// Replaces the thread ids of messages whose threads were merged with other threads.
    pub(crate) async fn set_merged_threads<'a>(
        &self,
        account: &str,
        summaries: impl IntoIterator<Item = &'a mut Summary>,
    ) -> Result<(), Error> {
        let mut summaries: Vec<&mut Summary> = summaries.into_iter().collect();
        let numbers: Vec<MessageNumber> = summaries.iter().map(|summary| summary.number).collect();
        let threads = self.threads_of(account, &numbers).await?;
        for summary in &mut summaries {
            if let Some(thread) = threads.get(&summary.number) {
                summary.thread_id = ThreadId(*thread).to_string();
            }
        }
        Ok(())
    }

    /// Returns the version of a message's state. `message` contains the flags of the message and
    /// the header fields that determine its thread.
    pub(crate) async fn state_version(
        &self,
        account: &str,
        number: MessageNumber,
        at: MessageRef<'_>,
        message: &Fetched,
    ) -> Result<String, Error> {
        let merged = self.merged_thread(account, number).await?;
        let thread = merged.unwrap_or_else(|| unmerged_thread(&message.header, number));
        let (flags, thread) = (&message.flags, thread.to_string());
        Ok(state_version(account, number, at, flags, &thread))
    }

    /// Returns the thread of a message. Returns `None` if the thread was not merged with another
    /// thread, unless the index is open.
    pub(crate) async fn merged_thread(
        &self,
        account: &str,
        number: MessageNumber,
    ) -> Result<Option<ThreadId>, Error> {
        let threads = self.threads_of(account, &[number]).await?;
        Ok(threads.get(&number).copied().map(ThreadId))
    }

    /// Returns the threads of messages. Omits messages whose threads were not merged, unless the
    /// index is open.
    async fn threads_of(
        &self,
        account: &str,
        numbers: &[MessageNumber],
    ) -> Result<HashMap<MessageNumber, u64>, Error> {
        match self.open_threads(account, numbers).await {
            Some(threads) => Ok(threads),
            None => self.stored_threads(account, numbers).await,
        }
    }

    async fn stored_threads(
        &self,
        account: &str,
        numbers: &[MessageNumber],
    ) -> Result<HashMap<MessageNumber, u64>, Error> {
        if self.indexes.as_ref().is_none()
            || !self
                .context
                .directory
                .message_index
                .has_merged_threads(account)
                .await?
        {
            return Ok(HashMap::new());
        }
        Ok(self
            .context
            .message_index()
            .merged_threads(account, numbers)
            .await?)
    }

    /// Returns the threads of messages from the open index of an account. Returns `None` if the
    /// index is not open.
    pub(crate) async fn open_threads(
        &self,
        account: &str,
        numbers: &[MessageNumber],
    ) -> Option<HashMap<MessageNumber, u64>> {
        let index = self.indexes.as_ref()?.open(account)?;
        let content = index.content.read().await;
        let threads = &content.as_ref()?.threads.threads;
        let with_thread = |number: &MessageNumber| Some((*number, threads.thread_of(*number)?.0));
        Some(numbers.iter().filter_map(with_thread).collect())
    }

    /// Stores the merged threads of an open index in the database. Listings use the stored threads
    /// while the index is closed.
    pub(super) async fn store_threads(&self, index: &AccountIndex) -> Result<(), Error> {
        {
            let mut content = index.content.write().await;
            let Some(content) = &mut *content else {
                return Ok(());
            };
            if !std::mem::take(&mut content.threads.is_changed) {
                return Ok(());
            }
        }
        let content = Arc::clone(&index.content).read_owned().await;
        let merged = blocking::run(move || {
            let content = content.as_ref();
            let merged = content.map(|content| content.threads.threads.merged());
            let merged = merged.into_iter().flatten();
            merged.map(|(number, thread)| (number, thread.0)).collect()
        });
        let merged: Vec<_> = merged.await.map_err(Error::Internal)?;
        let stored = self
            .context
            .message_index()
            .set_merged_threads(&index.account, merged)
            .await;
        if stored.is_err()
            && let Some(content) = &mut *index.content.write().await
        {
            content.threads.is_changed = true;
        }
        Ok(stored?)
    }
}
