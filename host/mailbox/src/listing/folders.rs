//! Lists the folders of a mailbox.

use std::collections::HashMap;
use std::sync::Arc;

use latchmail_core::permissions::Right;
use latchmail_imap::list::COUNTS;

use super::Lister;
use crate::access::Access;
use crate::connections::retry::retry_read;
use crate::error::Error;
use crate::folders::roles::{Folder, to_folders};
use crate::folders::states::folder_state;

impl Lister {
    /// Returns all selectable folders with their ids. First come the folders with a role, in the
    /// order of [`crate::Role`]. The other folders follow in the order of their paths.
    ///
    /// # Errors
    /// Returns an [`Error`] if the operation fails.
    pub async fn folders(&self, access: &Access) -> Result<Vec<(Folder, Arc<str>)>, Error> {
        if let Some(member) = &access.member
            && !member.grants.over_some_folder().hold(Right::MailRead)
        {
            return Err(Error::Denied(Right::MailRead));
        }
        let mut lease = self.context.connections.lease(access, None).await?;
        let mut listed = retry_read!(lease, session => session.folders(COUNTS));
        drop(lease);
        let states: Vec<_> = listed.iter().filter_map(folder_state).collect();
        let ids = self.folders.ids(access, &states).await?;
        self.numbers
            .reconcile_if_copies_lost(access, &states)
            .await?;
        let mut ids: HashMap<String, Arc<str>> = listed
            .iter()
            .map(|folder| folder.path.clone())
            .zip(ids)
            .collect();
        // A member's rights refer to the folder paths in the message index. `Folders::ids` has
        // updated these paths.
        let folder_access = self.folders.usable_by(access).await?;
        listed.retain(|folder| {
            let uid_validity = folder.status.map_or(0, |status| status.uid_validity);
            folder_access.can_read(&folder.path, uid_validity)
        });
        let folders = to_folders(listed).into_iter();
        Ok(folders
            .filter_map(|folder| Some((ids.remove(&folder.path)?, folder)))
            .map(|(id, folder)| (folder, id))
            .collect())
    }
}
