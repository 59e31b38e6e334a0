//! Updates the folders in the message index from the mail server's list of folders.

use std::collections::HashMap;

use latchmail_directory::message_index::{IndexedFolder, ListedFolder};
use latchmail_imap::Opened;
use latchmail_imap::list::{FolderStatus, Listed, MODSEQS, POSITIONS};

use super::Folders;
use crate::access::Access;
use crate::cache::FolderKey;
use crate::connections::retry::retry_read;
use crate::error::Error;

/// A folder in the mail server's list, with its current state.
#[derive(Clone, Debug)]
pub(crate) struct FolderState {
    pub(crate) path: String,
    pub(crate) opened: Opened,
    /// The mail server's id of the folder, if the server has folder ids.
    pub(crate) object_id: Option<String>,
    /// The HIGHESTMODSEQ. `None` if HIGHESTMODSEQ was not requested, or if the server has no
    /// QRESYNC.
    pub(crate) highest_modseq: Option<u64>,
}

impl FolderState {
    pub(crate) fn new(path: String, object_id: Option<String>, status: FolderStatus) -> Self {
        Self {
            path,
            object_id,
            highest_modseq: status.highest_modseq,
            opened: Opened {
                exists: status.messages,
                uid_validity: status.uid_validity,
                uid_next: status.uid_next,
            },
        }
    }

    /// Returns the key of the folder in caches.
    pub(crate) fn key(&self, account: &str) -> FolderKey {
        FolderKey::new(account, &self.path, self.opened.uid_validity)
    }

    fn listed(&self) -> ListedFolder<'_> {
        ListedFolder {
            path: &self.path,
            uid_validity: self.opened.uid_validity,
            uid_next: self.opened.uid_next,
            object_id: self.object_id.as_deref(),
        }
    }
}

/// Converts a listed folder. Returns `None` if the folder has no STATUS data ([`POSITIONS`]).
pub(crate) fn folder_state(listed: &Listed) -> Option<FolderState> {
    let (path, object_id) = (listed.path.clone(), listed.object_id.clone());
    Some(FolderState::new(path, object_id, listed.status?))
}

impl Folders {
    /// Lists the selectable folders with their current states.
    pub(crate) async fn states(&self, access: &Access) -> Result<Vec<FolderState>, Error> {
        self.list_states(access, POSITIONS).await
    }

    /// Works like [`Self::states`], but also reads the HIGHESTMODSEQ of each folder.
    pub(crate) async fn states_with_modseqs(
        &self,
        access: &Access,
    ) -> Result<Vec<FolderState>, Error> {
        self.list_states(access, MODSEQS).await
    }

    async fn list_states(&self, access: &Access, items: &str) -> Result<Vec<FolderState>, Error> {
        let mut lease = self.context.connections.lease(access, None).await?;
        let folders = retry_read!(lease, session => session.folders(items));
        Ok(folders.iter().filter_map(folder_state).collect())
    }

    /// Stores the listed folders in the message index. Returns the folders' entries in the message
    /// index, in the order of the list.
    pub(crate) async fn update_index(
        &self,
        access: &Access,
        states: &[FolderState],
    ) -> Result<Vec<IndexedFolder>, Error> {
        let account = &access.account;
        let indexed = self
            .context
            .message_index()
            .existing_folders(account)
            .await?;
        let mut indexed: HashMap<String, IndexedFolder> = indexed
            .into_iter()
            .map(|folder| (folder.path.clone(), folder))
            .collect();
        let listed: Vec<_> = states.iter().map(FolderState::listed).collect();
        if listed.iter().all(|listed| {
            indexed
                .get(listed.path)
                .is_some_and(|known| known.is(listed))
        }) {
            let unchanged = listed
                .iter()
                .filter_map(|listed| indexed.remove(listed.path));
            return Ok(unchanged.collect());
        }
        Ok(self
            .context
            .message_index()
            .update_folders(account, &listed)
            .await?)
    }

    /// Stores all folders of the account in the message index. This function must run before any
    /// message of the account gets a message number. Otherwise, if another client moved a message
    /// to a folder that is not in the message index, the message would not be an arrival (see
    /// [`crate::numbers::reconcile`]).
    pub(crate) async fn ensure_indexed(&self, access: &Access) -> Result<(), Error> {
        let account = &access.account;
        if self.counts.get(account).is_some() {
            return Ok(());
        }
        let (access, _lock) = &self.lock(access).await?;
        if !self.context.message_index().has_folders(account).await? {
            self.update_index(access, &self.states(access).await?)
                .await?;
        }
        // The folder count is unknown at this point, so 0 is cached.
        self.counts.insert(account.clone(), 0);
        Ok(())
    }

    /// Updates the message index for renamed, created and deleted folders.
    pub(crate) async fn refresh(&self, access: &Access) -> Result<(), Error> {
        self.list_and_index_folders(access).await.map(drop)
    }

    /// Returns the UIDVALIDITY of the folder with this id in the mail server's current list.
    /// Returns `None` if the list contains no such folder.
    ///
    /// # Errors
    /// Returns an [`Error`] if the operation fails.
    pub async fn uid_validity(&self, access: &Access, id: &str) -> Result<Option<u32>, Error> {
        let indexed = self.list_and_index_folders(access).await?;
        let found = indexed.iter().find(|folder| folder.public_id() == id);
        Ok(found.map(IndexedFolder::uid_validity))
    }

    async fn list_and_index_folders(&self, access: &Access) -> Result<Vec<IndexedFolder>, Error> {
        let (access, _lock) = &self.lock(access).await?;
        let states = self.states(access).await?;
        self.update_index(access, &states).await
    }
}
