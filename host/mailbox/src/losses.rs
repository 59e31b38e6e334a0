//! Detects messages that no folder has any more and that have copies. Otherwise a copy that is moved later would get the number of the lost message.
//!
//! A folder cannot have lost a message while its number of messages grows by as many as UIDNEXT, and a listing returns both. If a folder may have lost a
//! message and has messages with copies, the index is reconciled.

use latchmail_directory::message_index::{self, IndexedMessage};
use latchmail_imap::Opened;

use super::places::spot_of;
use super::reconcile::Seen;
use super::{Access, Error, Mail, kept};

impl Mail {
    /// Reconciles the index if the folder that was just opened may have lost a message with copies.
    pub(crate) async fn notice(
        &self,
        access: &Access,
        path: &str,
        opened: Opened,
    ) -> Result<(), Error> {
        let folder = kept::Folder::of(&access.account, path, opened.uid_validity);
        if self.kept.lost_nothing(folder, opened) {
            return Ok(());
        }
        let with_copies = message_index::copied_folders(&self.db, &access.account).await?;
        if with_copies.iter().any(|copied| copied == path) {
            return self.seek(access).await;
        }
        self.kept.keep_counts(folder, opened);
        Ok(())
    }

    /// Reconciles the index if any folder of the account may have lost a message with copies.
    pub(crate) async fn notice_all(
        &self,
        access: &Access,
        standings: &[Seen],
    ) -> Result<(), Error> {
        let account = &access.account;
        // The number differs after a deletion, unless a new folder was also created, and nothing is cached about a new folder.
        let as_many = self.kept.acquainted(account) == Some(standings.len());
        if as_many
            && standings
                .iter()
                .all(|seen| self.lost_nothing(account, seen))
        {
            return Ok(());
        }
        let with_copies = message_index::copied_folders(&self.db, account).await?;
        if !with_copies
            .iter()
            .all(|path| self.has_all(account, standings, path))
        {
            return self.seek(access).await;
        }
        self.keep_counts(account, standings);
        Ok(())
    }

    /// Returns `true` if the folder is listed and cannot have lost a message.
    fn has_all(&self, account: &str, standings: &[Seen], path: &str) -> bool {
        standings
            .iter()
            .any(|seen| seen.path == path && self.lost_nothing(account, seen))
    }

    fn lost_nothing(&self, account: &str, seen: &Seen) -> bool {
        let folder = kept::Folder::of(account, &seen.path, seen.opened.uid_validity);
        self.kept.lost_nothing(folder, seen.opened)
    }

    pub(crate) fn keep_counts(&self, account: &str, standings: &[Seen]) {
        for Seen { path, opened, .. } in standings {
            let folder = kept::Folder::of(account, path, opened.uid_validity);
            self.kept.keep_counts(folder, *opened);
        }
        self.kept.acquaint(account, standings.len());
    }

    /// Removes messages that no folder has from the index.
    pub(crate) async fn lose(
        &self,
        account: &str,
        messages: Vec<IndexedMessage>,
    ) -> Result<(), Error> {
        message_index::remove_lost(&self.db, account, &messages).await?;
        for message in messages {
            let spot = spot_of(&message.location);
            let folder = kept::Folder::of(account, spot.path, spot.uid_validity);
            self.kept.forget_summary(folder, spot.uid);
            self.kept.forget_place(account, message.number());
        }
        Ok(())
    }

    /// Returns the messages with copies that are no longer at their stored location.
    pub(crate) async fn copies_gone(
        &self,
        access: &Access,
        standings: &[Seen],
    ) -> Result<Vec<IndexedMessage>, Error> {
        let account = &access.account;
        let mut gone = Vec::new();
        for path in message_index::copied_folders(&self.db, account).await? {
            if !self.has_all(account, standings, &path) {
                let copies = message_index::copies_in(&self.db, account, &path).await?;
                gone.extend(self.gone(access, copies).await?);
            }
        }
        Ok(gone)
    }
}
