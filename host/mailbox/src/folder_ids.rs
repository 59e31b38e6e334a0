//! Assigns folder ids. An id stays with its folder through every rename and is never reused, because grants of shared folders refer to it.

use std::sync::Arc;

use super::reconcile::Seen;
use super::{Access, Error, Mail, kept};

impl Mail {
    /// Returns the ids of the folders that were just listed, in the same order. A new folder gets a new id.
    pub(crate) async fn ids(
        &self,
        access: &Access,
        standings: &[Seen],
    ) -> Result<Vec<Arc<str>>, Error> {
        // For members, the stored paths must be up to date: their rights depend on them, and a folder may have returned to an earlier path.
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
