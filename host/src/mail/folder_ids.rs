//! The ids of folders: the same through every rename, whoever renames. What is shared by an id stays shared, and nothing else comes under it.

use std::sync::Arc;

use super::imap::list::Listed;
use super::index::Seen;
use super::seek::Standing;
use super::{Access, Error, Mail, index, kept};

impl Mail {
    /// The ids of folders as they were just listed, in their order. One that was never seen gets its own.
    pub(super) async fn ids(
        &self,
        access: &Access,
        listed: &[Listed],
    ) -> Result<Vec<Arc<str>>, Error> {
        let standings: Vec<Standing> = listed.iter().filter_map(Standing::of).collect();
        // A guest's rights are judged by the names that are noted, and a folder may have got back one that it had before.
        if access.guest.is_none()
            && let Some(ids) = self.ids_kept(access, &standings)
        {
            return Ok(ids);
        }
        if let Some(ids) = self.ids_noted(access, &standings).await? {
            return Ok(ids);
        }
        let _turn = self.seeking.turn(&access.account).await;
        if index::is_known(&self.db, &access.account).await? {
            self.follow(access, &standings).await?;
            let folders: Vec<Seen<'_>> = standings.iter().map(Standing::seen).collect();
            index::note(&self.db, &access.account, &folders).await?;
        } else {
            self.survey(access, &standings).await?;
        }
        self.ids_noted(access, &standings)
            .await?
            .ok_or_else(|| Error::Internal("a folder could not be noted".into()))
    }

    fn ids_kept(&self, access: &Access, standings: &[Standing]) -> Option<Vec<Arc<str>>> {
        let kept = |standing: &Standing| self.kept.folder_id(named(access, standing));
        standings.iter().map(kept).collect()
    }

    /// The ids that are noted, kept from now on; none where one is missing.
    async fn ids_noted(
        &self,
        access: &Access,
        standings: &[Standing],
    ) -> Result<Option<Vec<Arc<str>>>, Error> {
        let noted = index::noted_folders(&self.db, &access.account).await?;
        let id = |standing: &Standing| {
            let found = noted.iter().find(|noted| standing.is_wholly(noted))?;
            let id: Arc<str> = found.public_id().into();
            self.kept
                .keep_folder_id(named(access, standing), Arc::clone(&id));
            Some(id)
        };
        Ok(standings.iter().map(id).collect())
    }
}

fn named(access: &Access, standing: &Standing) -> kept::Folder {
    let validity = standing.opened.uid_validity;
    kept::Folder::of(&access.account, &standing.path, validity)
}
