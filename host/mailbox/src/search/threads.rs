//! Lists threads and the messages of a thread.

use latchmail_search::threads::ThreadId;

use super::Searcher;
use crate::access::Access;
use crate::error::Error;
use crate::folders::path::normalize_path;
use crate::folders::states::FolderState;
use crate::index::results::{IndexStatus, ThreadMessages, ThreadPage};

impl Searcher {
    /// Returns the threads with a message in the folder, or all threads without a folder. Returns
    /// `None` if the folder does not exist.
    ///
    /// # Errors
    /// Returns [`Error::IndexNotReady`] if the search index is disabled or being built. Returns
    /// another [`Error`] if the operation fails.
    pub async fn threads(
        &self,
        access: &Access,
        folder: Option<&str>,
        offset: u32,
        limit: u32,
    ) -> Result<Option<ThreadPage>, Error> {
        let folder = folder.map(normalize_path);
        let (folder_access, folders, _) = self.readable_folders(access).await?;
        if let Some(path) = folder {
            let is_readable = |folder: &FolderState| {
                let uid_validity = folder.opened.uid_validity;
                folder.path == path && folder_access.can_read(path, uid_validity)
            };
            if !folders.iter().any(is_readable) {
                return Ok(None);
            }
        }
        let index = self.index.current(access, &folders, true).await;
        let index = index.map_err(not_ready)?;
        let folder = folder.map(ToOwned::to_owned);
        let page = self
            .index
            .threads(index, &folder_access, folder, offset, limit);
        Ok(Some(page.await?))
    }

    /// Returns at most `limit` messages of a thread, oldest first. Skips the newest `offset`
    /// messages. Returns `None` if the thread does not exist.
    ///
    /// # Errors
    /// Returns [`Error::IndexNotReady`] if the search index is disabled or being built. Returns
    /// another [`Error`] if the operation fails.
    pub async fn thread(
        &self,
        access: &Access,
        id: &str,
        offset: u32,
        limit: u32,
    ) -> Result<Option<ThreadMessages>, Error> {
        if id.parse::<ThreadId>().is_err() {
            return Ok(None);
        }
        let (folder_access, folders, _) = self.readable_folders(access).await?;
        let index = self.index.current(access, &folders, true).await;
        let index = index.map_err(not_ready)?;
        self.index
            .thread_messages(index, &folder_access, id.to_owned(), offset, limit)
            .await
    }
}

pub(super) fn not_ready(_: IndexStatus) -> Error {
    Error::IndexNotReady
}
