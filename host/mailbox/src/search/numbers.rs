//! Queries for the numbers of messages, which only the search index can answer.

use latchmail_core::message_number::MessageNumber;

use super::Searcher;
use super::threads::not_ready;
use crate::access::Access;
use crate::error::Error;
use crate::folders::rights::FolderAccess;
use crate::index::CurrentIndex;
use crate::index::selection::{FolderCounts, MessageFacts, NumberPage, NumberQuery, ThreadNumbers};

impl Searcher {
    /// Returns a page of the numbers of the messages that a filter selects. Returns `None` if the
    /// result does not contain the anchor.
    ///
    /// # Errors
    /// Returns [`Error::IndexNotReady`] if the search index is disabled or being built. Returns
    /// another [`Error`] if the operation fails.
    pub async fn query(
        &self,
        access: &Access,
        query: NumberQuery,
    ) -> Result<Option<NumberPage>, Error> {
        let (index, folders) = self.complete_index(access).await?;
        self.index.query(access, index, &folders, query).await
    }

    /// Returns the data of messages, in the order of `numbers`. Skips numbers without a message
    /// that the caller can read.
    ///
    /// # Errors
    /// Returns the errors of [`Searcher::query`].
    pub async fn facts(
        &self,
        access: &Access,
        numbers: Vec<MessageNumber>,
    ) -> Result<Vec<MessageFacts>, Error> {
        let (index, folders) = self.complete_index(access).await?;
        self.index.facts(access, index, &folders, numbers).await
    }

    /// Returns the messages of threads. Skips ids without a thread that the caller can read.
    /// Returns `None` if the threads have more than `limit` messages.
    ///
    /// # Errors
    /// Returns the errors of [`Searcher::query`].
    pub async fn thread_numbers(
        &self,
        access: &Access,
        ids: Vec<String>,
        limit: usize,
    ) -> Result<Option<Vec<ThreadNumbers>>, Error> {
        let (index, folders) = self.complete_index(access).await?;
        let threads = self
            .index
            .thread_numbers(access, index, &folders, ids, limit);
        threads.await
    }

    /// Counts the messages and threads of all folders that the caller can read.
    ///
    /// # Errors
    /// Returns the errors of [`Searcher::query`].
    pub async fn counts(&self, access: &Access) -> Result<Vec<FolderCounts>, Error> {
        let (index, folders) = self.complete_index(access).await?;
        self.index.counts(access, index, &folders).await
    }

    /// Returns the current index of the complete mailbox, and the folders that the caller can read.
    async fn complete_index(&self, access: &Access) -> Result<(CurrentIndex, FolderAccess), Error> {
        let (folder_access, folders, _) = self.readable_folders(access).await?;
        let index = self.index.current(access, &folders, true).await;
        Ok((index.map_err(not_ready)?, folder_access))
    }
}
