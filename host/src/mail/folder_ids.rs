//! The ids of folders: the same through every rename, whoever renames. What is shared by an id stays shared, and nothing else comes under it.

use std::sync::Arc;

use super::index::Seen;
use super::{Access, Error, Mail, kept};

impl Mail {
    /// The ids of folders as they were just listed, in their order. One that was never seen gets its own.
    pub(super) async fn ids(
        &self,
        access: &Access,
        standings: &[Seen],
    ) -> Result<Vec<Arc<str>>, Error> {
        // A guest's rights are judged by the names that are noted, and a folder may have got back one that it had before.
        if access.guest.is_none()
            && let Some(ids) = self.ids_kept(access, standings)
        {
            return Ok(ids);
        }
        let noted = self.note(access, standings).await?;
        let ids = standings.iter().zip(noted).map(|(seen, noted)| {
            let id: Arc<str> = noted.public_id().into();
            self.kept
                .keep_folder_id(named(access, seen), Arc::clone(&id));
            id
        });
        Ok(ids.collect())
    }

    fn ids_kept(&self, access: &Access, standings: &[Seen]) -> Option<Vec<Arc<str>>> {
        let kept = |seen: &Seen| self.kept.folder_id(named(access, seen));
        standings.iter().map(kept).collect()
    }
}

fn named(access: &Access, seen: &Seen) -> kept::Folder {
    kept::Folder::of(&access.account, &seen.path, seen.opened.uid_validity)
}
