//! Assigns folder ids. A renamed folder has the same id. An id is never used for another folder,
//! because grants of shared folders refer to ids.

use std::sync::Arc;

use super::Folders;
use crate::access::Access;
use crate::error::Error;
use crate::folders::states::FolderState;

impl Folders {
    /// Returns the ids of the listed folders in the order of the list. Assigns a new id to a new
    /// folder.
    pub(crate) async fn ids(
        &self,
        access: &Access,
        states: &[FolderState],
    ) -> Result<Vec<Arc<str>>, Error> {
        // Do not use the cache for limited callers, because their rights depend on the folder paths
        // in the message index. If a folder was renamed, these paths are outdated until
        // `update_index` runs.
        if !access.is_limited()
            && let Some(ids) = self.cached_folder_ids(access, states)
        {
            return Ok(ids);
        }
        let indexed = self.update_index(access, states).await?;
        let ids = states.iter().zip(indexed).map(|(state, indexed)| {
            let id: Arc<str> = indexed.public_id().into();
            self.ids.insert(state.key(&access.account), Arc::clone(&id));
            id
        });
        Ok(ids.collect())
    }

    fn cached_folder_ids(&self, access: &Access, states: &[FolderState]) -> Option<Vec<Arc<str>>> {
        let cached = |state: &FolderState| {
            let id = self.ids.get(&state.key(&access.account));
            self.id_lookups.count(id)
        };
        states.iter().map(cached).collect()
    }
}
