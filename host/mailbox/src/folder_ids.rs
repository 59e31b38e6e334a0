//! Assigns folder ids. An id stays with its folder if the folder is renamed, and is never assigned again, because grants of shared folders refer to ids.

use std::sync::Arc;

use crate::access::Access;
use crate::cache::FolderKey;
use crate::error::Error;
use crate::folder_index::FolderState;
use crate::mail::Mail;

impl Mail {
    /// Returns the ids of the listed folders in the same order. A new folder gets a new id.
    pub(crate) async fn folder_ids(
        &self,
        access: &Access,
        states: &[FolderState],
    ) -> Result<Vec<Arc<str>>, Error> {
        // Do not use the cache for members. Their rights depend on the stored paths, and these may be outdated because a folder may have been renamed back to
        // an earlier path.
        if access.member.is_none()
            && let Some(ids) = self.cached_folder_ids(access, states)
        {
            return Ok(ids);
        }
        let indexed = self.index_folders(access, states).await?;
        let ids = states.iter().zip(indexed).map(|(state, indexed)| {
            let id: Arc<str> = indexed.public_id().into();
            self.cache
                .insert_folder_id(folder_key(access, state), Arc::clone(&id));
            id
        });
        Ok(ids.collect())
    }

    fn cached_folder_ids(&self, access: &Access, states: &[FolderState]) -> Option<Vec<Arc<str>>> {
        let cached = |state: &FolderState| self.cache.folder_id(folder_key(access, state));
        states.iter().map(cached).collect()
    }
}

fn folder_key(access: &Access, state: &FolderState) -> FolderKey {
    FolderKey::new(&access.account, &state.path, state.opened.uid_validity)
}
