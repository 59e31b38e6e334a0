//! The changes of messages in the fake host, and the versions on which changes can depend.

use std::hash::{DefaultHasher, Hash as _, Hasher as _};

use latchmail_shape::codes;

use super::FakeHost;
use super::mail::{Mail, Stored, changed_message, settable};
use crate::capability::{
    Change, ConditionalError, CopiedMessage, DeletedMessage, Error, FlagAction, MessageVersion,
};

const DELETED: &str = "\\Deleted";
const INBOX: &str = "INBOX";

/// The messages in `known` exist.
impl Mail {
    pub(super) fn set_flags(
        &mut self,
        known: &[u64],
        flags: &[String],
        action: FlagAction,
    ) -> Result<(), Error> {
        let flags: Option<Vec<String>> = flags.iter().map(|flag| settable(flag)).collect();
        let flags = flags.filter(|flags| !flags.is_empty() || action == FlagAction::Replace);
        let flags = flags.ok_or_else(|| {
            let text = "The flags are empty or contain a flag that clients cannot set";
            Error::invalid(codes::INVALID_FLAG_DATA, text)
        })?;
        for one in &mut self.stored {
            let summary = &mut one.detail.summary;
            if !known.contains(&summary.uid) {
                continue;
            }
            match action {
                FlagAction::Add => {}
                FlagAction::Remove => summary.flags.retain(|flag| !flags.contains(flag)),
                FlagAction::Replace => summary.flags.retain(|flag| flag == DELETED),
            }
            if action != FlagAction::Remove {
                let new = flags.iter().filter(|flag| !summary.flags.contains(flag));
                let new: Vec<String> = new.cloned().collect();
                summary.flags.extend(new);
            }
            let changed = changed_message(&one.folder, &one.detail);
            self.changes.push(Change::Flags(changed));
        }
        Ok(())
    }

    pub(super) fn move_to(&mut self, known: &[u64], destination: &str) -> Result<(), Error> {
        if !self.has(destination) {
            return Err(Error::NotFound);
        }
        self.move_where(destination, |one| {
            known.contains(&one.detail.summary.uid) && one.folder != destination
        });
        Ok(())
    }

    pub(super) fn delete(&mut self, known: &[u64]) {
        let is_deleted = |one: &mut Stored| known.contains(&one.detail.summary.uid);
        let deleted = self.stored.extract_if(.., is_deleted);
        let deleted = deleted.map(|one| DeletedMessage {
            uid: one.detail.summary.uid,
            folder: one.folder,
        });
        self.changes.extend(deleted.map(Change::Deleted));
    }

    pub(super) fn trash(&mut self, known: &[u64]) -> Result<(), Error> {
        let trash = self.trash_folder()?;
        self.move_to(known, &trash)
    }

    /// Returns the `uid`s of the restored messages.
    pub(super) fn restore(&mut self, known: &[u64]) -> Result<Vec<u64>, Error> {
        let trash = self.trash_folder()?;
        let in_trash =
            |one: &&Stored| known.contains(&one.detail.summary.uid) && one.folder == trash;
        let found = self.stored.iter().filter(in_trash);
        let mut found: Vec<(u64, Option<String>)> = found
            .map(|one| (one.detail.summary.uid, one.previous.clone()))
            .collect();
        if found.is_empty() && !known.is_empty() {
            let text = "The message is not in Trash";
            return Err(Error::conflict(codes::MESSAGE_NOT_IN_TRASH, text));
        }
        found.sort_unstable();
        for (uid, previous) in &found {
            let previous = previous.as_deref().filter(|path| self.has(path));
            let to = previous.filter(|path| *path != trash).unwrap_or(INBOX);
            self.move_to(&[*uid], to)?;
        }
        Ok(found.into_iter().map(|(uid, _)| uid).collect())
    }

    pub(super) fn copy_to(
        &mut self,
        known: &[u64],
        destination: &str,
    ) -> Result<Vec<CopiedMessage>, Error> {
        if !self.has(destination) {
            return Err(Error::NotFound);
        }
        let mut copies = Vec::new();
        for uid in known {
            let original = self.find(*uid)?;
            let (mut detail, files) = (original.detail.clone(), original.files.clone());
            let raw = original.raw.clone();
            self.last_uid += 1;
            self.last_arrival += 1;
            detail.summary.uid = self.last_uid;
            copies.push(CopiedMessage {
                uid: *uid,
                copy: self.last_uid,
            });
            let created = changed_message(destination, &detail);
            self.changes.push(Change::Created(created));
            self.stored.push(Stored {
                folder: destination.into(),
                detail,
                files,
                raw,
                arrival: self.last_arrival,
                previous: None,
            });
        }
        Ok(copies)
    }

    fn trash_folder(&self) -> Result<String, Error> {
        let found = self.paths().find(|(_, role)| *role == Some("\\Trash"));
        let missing = || Error::conflict(codes::NO_TRASH_FOLDER, "There is no Trash folder");
        found.map(|(path, _)| path.to_owned()).ok_or_else(missing)
    }
}

/// Returns the versions of a message. They are different for different messages of one account.
pub(super) fn versions(stored: &Stored) -> MessageVersion {
    let summary = &stored.detail.summary;
    let mut flags = summary.flags.clone();
    flags.sort_unstable();
    let mut state = DefaultHasher::new();
    (summary.uid, &stored.folder, flags, &summary.thread_id).hash(&mut state);
    MessageVersion {
        state: format!("{:016x}", state.finish()),
        content: format!("content{}", summary.uid),
    }
}

/// Works like [`FakeHost::change_mail`]. With `if_version`, changes the only message in `uids`
/// if it has this version.
pub(super) fn change_if(
    host: &FakeHost,
    uids: &[u64],
    if_version: Option<&str>,
    change: impl FnOnce(&mut Mail, &[u64]) -> Result<(), Error>,
) -> Result<Vec<u64>, ConditionalError> {
    let mut matches = true;
    let changed = host.change_mail(uids, |mail, known| {
        if let Some(expected) = if_version {
            if uids.len() != 1 {
                let text = "if-version needs exactly one message";
                return Err(Error::invalid(codes::INVALID_FIELD, text));
            }
            let found = known.first().map(|uid| mail.find(*uid)).transpose()?;
            matches = found.is_none_or(|found| versions(found).state == expected);
        }
        if matches { change(mail, known) } else { Ok(()) }
    });
    match changed {
        Ok(_) if !matches => Err(ConditionalError::VersionMismatch),
        other => other.map_err(ConditionalError::Failed),
    }
}
