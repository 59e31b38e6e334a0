//! Finds and creates the folder for drafts, and checks the rights of members on this folder.

use std::sync::Arc;

use latchmail_core::permissions::Right;
use latchmail_imap::list::POSITIONS;

use super::Drafts;
use crate::access::Access;
use crate::connections::retry::retry_read;
use crate::error::{Error, FolderConflict};
use crate::folders::rights::Decision;
use crate::folders::roles::{DRAFTS_NAME, drafts_folder, to_folders};

impl Drafts {
    /// Returns the path of the folder for drafts. Returns `None` if there is no such folder, or if
    /// the member must not learn that it exists.
    ///
    /// # Errors
    /// Returns [`Error::Denied`] if the member does not have one of the rights on the folder.
    pub(super) async fn folder(
        &self,
        access: &Access,
        rights: &[Right],
    ) -> Result<Option<Arc<str>>, Error> {
        let folders = &self.mail.folders;
        folders.ensure_indexed(access).await?;
        let cached = self.folders.get(&access.account);
        let path = match cached {
            Some(path) => path,
            None => match self.look_up(access).await? {
                Some(path) => path,
                None => return Ok(None),
            },
        };
        if access.is_limited() {
            // The rights refer to the ids of folders. Therefore update their paths first.
            folders.refresh(access).await?;
            for right in rights {
                let usable = folders.usable_by(access).await?;
                if usable.require_path(&path, *right)?.is_none() {
                    return Ok(None);
                }
            }
        }
        Ok(Some(path))
    }

    /// Returns the path of the folder for drafts. Creates the folder if it does not exist.
    pub(super) async fn existing_folder(
        &self,
        access: &Access,
        right: Right,
    ) -> Result<Arc<str>, Error> {
        if let Some(path) = self.folder(access, &[right]).await? {
            return Ok(path);
        }
        if access.is_limited()
            && let Some(path) = self.look_up(access).await?
        {
            access.require_open(&path)?;
            return Err(Error::Denied(right));
        }
        let changing = &self.mail.changing;
        let created = changing.create_folder(access, DRAFTS_NAME).await;
        match created {
            Ok(_) | Err(Error::Folder(FolderConflict::Exists)) => {}
            // Some servers permit folders only below the inbox.
            Err(Error::Rejected(_) | Error::InvalidFolderPath) => {
                let path = format!("INBOX/{DRAFTS_NAME}");
                changing.create_folder(access, &path).await?;
            }
            Err(error) => return Err(error),
        }
        let path = self.folder(access, &[right]).await?;
        path.ok_or_else(|| Error::Internal("there is no folder for drafts".into()))
    }

    /// Forgets the path of the folder, because the folder does not exist.
    pub(super) fn forget_folder(&self, account: &str) {
        self.folders.remove(account);
    }

    async fn look_up(&self, access: &Access) -> Result<Option<Arc<str>>, Error> {
        let mut lease = self.mail.context.connections.lease(access, None).await?;
        let listed = retry_read!(lease, session => session.folders(POSITIONS));
        let Some(folder) = drafts_folder(to_folders(listed)) else {
            return Ok(None);
        };
        let path: Arc<str> = folder.path.into();
        self.folders
            .insert(access.account.clone(), Arc::clone(&path));
        Ok(Some(path))
    }

    /// Returns `true` if the caller has all `rights` on the folder with this UIDVALIDITY.
    pub(super) async fn authorize(
        &self,
        access: &Access,
        (path, uid_validity): (&str, u32),
        rights: &[Right],
    ) -> Result<bool, Error> {
        if !access.is_limited() {
            return Ok(true);
        }
        let usable = self.mail.folders.usable_by(access).await?;
        let is_allowed = |right: &Right| {
            let decision = usable.authorize(path, uid_validity, *right);
            decision == Decision::Allowed
        };
        Ok(rights.iter().all(is_allowed))
    }
}
