//! Messages that are nowhere any more and of which there are copies: their numbers must not return when a copy is moved.
//!
//! What a listing says anyway tells whether a folder may have lost a message: as long as it has grown by as many messages as UIDs were given, it has
//! not. If it may have, and it has messages with copies, they are looked for.

use super::imap::Opened;
use super::index::{self, Rival, Seen};
use super::{Access, Error, Mail, kept};

impl Mail {
    /// Looks for messages that are lost if the folder that was just opened may have lost one that has copies.
    pub(super) async fn notice(
        &self,
        access: &Access,
        path: &str,
        opened: Opened,
    ) -> Result<(), Error> {
        let folder = kept::Folder::of(&access.account, path, opened.uid_validity);
        if self.kept.lost_nothing(folder, opened) {
            return Ok(());
        }
        let with_copies = index::copied_folders(&self.db, &access.account).await?;
        if with_copies.iter().any(|copied| copied == path) {
            return self.seek(access).await;
        }
        self.kept.keep_counts(folder, opened);
        Ok(())
    }

    /// The same of all folders of the account.
    pub(super) async fn notice_all(
        &self,
        access: &Access,
        standings: &[Seen],
    ) -> Result<(), Error> {
        let account = &access.account;
        // If one was deleted there are fewer, or one is new, of which nothing is known.
        let as_many = self.kept.acquainted(account) == Some(standings.len());
        if as_many
            && standings
                .iter()
                .all(|seen| self.lost_nothing(account, seen))
        {
            return Ok(());
        }
        let with_copies = index::copied_folders(&self.db, account).await?;
        if !with_copies
            .iter()
            .all(|path| self.has_all(account, standings, path))
        {
            return self.seek(access).await;
        }
        self.keep_counts(account, standings);
        Ok(())
    }

    /// Whether a folder is listed and cannot have lost a message.
    fn has_all(&self, account: &str, standings: &[Seen], path: &str) -> bool {
        standings
            .iter()
            .any(|seen| seen.path == path && self.lost_nothing(account, seen))
    }

    fn lost_nothing(&self, account: &str, seen: &Seen) -> bool {
        let folder = kept::Folder::of(account, &seen.path, seen.opened.uid_validity);
        self.kept.lost_nothing(folder, seen.opened)
    }

    pub(super) fn keep_counts(&self, account: &str, standings: &[Seen]) {
        for Seen { path, opened, .. } in standings {
            let folder = kept::Folder::of(account, path, opened.uid_validity);
            self.kept.keep_counts(folder, *opened);
        }
        self.kept.acquaint(account, standings.len());
    }

    /// Removes messages from the index that are nowhere.
    pub(super) async fn lose(&self, account: &str, messages: Vec<Rival>) -> Result<(), Error> {
        index::lose(&self.db, account, &messages).await?;
        for message in messages {
            let spot = message.placed.place.spot();
            let folder = kept::Folder::of(account, spot.path, spot.uid_validity);
            self.kept.forget_summary(folder, spot.uid);
            self.kept.forget_place(account, message.number());
        }
        Ok(())
    }

    /// The messages with copies that are not where they are noted.
    pub(super) async fn copies_gone(
        &self,
        access: &Access,
        standings: &[Seen],
    ) -> Result<Vec<Rival>, Error> {
        let account = &access.account;
        let mut gone = Vec::new();
        for path in index::copied_folders(&self.db, account).await? {
            if !self.has_all(account, standings, &path) {
                let copies = index::copies_in(&self.db, account, &path).await?;
                gone.extend(self.gone(access, copies).await?);
            }
        }
        Ok(gone)
    }
}
