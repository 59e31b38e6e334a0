//! The folders and the messages of an account.

use super::change_log::ChangeLog;
use crate::capability::{
    Attachment, Blob, Change, ChangedFolder, ChangedMessage, DeletedMessage, Detail, Error,
    FlagAction, Folder, IndexState, Listing, MovedMessage, Page, Role, Summary,
};
use crate::testing::letter::Letter;

/// Maximum number of messages in one change.
const MAX_UIDS: usize = 1000;
/// Maximum number of messages on a page.
const MAX_PAGE: u32 = 100;

const SEEN: &str = "\\Seen";
const SETTABLE_FLAGS: [&str; 4] = [SEEN, "\\Answered", "\\Flagged", "\\Draft"];

#[derive(Debug)]
pub(crate) struct Messages {
    folders: Vec<(String, Option<Role>)>,
    /// The messages of all folders. The messages of each folder are in the order of their arrival
    /// in the folder.
    stored: Vec<Stored>,
    last_uid: u64,
    pub(crate) log: ChangeLog,
    /// The state of the search index.
    pub(crate) index: IndexState,
}

#[derive(Debug)]
pub(super) struct Stored {
    pub(super) folder: String,
    pub(super) detail: Detail,
    /// The content of each attachment.
    files: Vec<Vec<u8>>,
}

impl Default for Messages {
    fn default() -> Self {
        let folder = |(path, role): (&str, Role)| (path.to_owned(), Some(role));
        let folders = [
            ("INBOX", Role::Inbox),
            ("Sent", Role::Sent),
            ("Drafts", Role::Drafts),
            ("Archive", Role::Archive),
            ("Junk", Role::Junk),
            ("Trash", Role::Trash),
        ];
        Self {
            folders: folders.map(folder).into(),
            stored: Vec::new(),
            last_uid: 0,
            log: ChangeLog::default(),
            index: IndexState::Ready,
        }
    }
}

impl Messages {
    pub(crate) fn has(&self, folder: &str) -> bool {
        self.paths().any(|(path, _)| path == folder)
    }

    /// Returns the paths and the roles of all folders.
    pub(super) fn paths(&self) -> impl Iterator<Item = (&str, Option<Role>)> {
        let folders = self.folders.iter();
        folders.map(|(path, role)| (path.as_str(), *role))
    }

    /// Creates a folder if it does not exist.
    pub(crate) fn create_folder(&mut self, path: &str) {
        if !self.has(path) {
            self.folders.push((path.into(), None));
            self.log.add(Change::FolderCreated(ChangedFolder {
                folder: path.into(),
                id: folder_id(path),
            }));
        }
    }

    /// Stores a message in a folder and returns its `uid`.
    pub(crate) fn put(&mut self, folder: &str, letter: Letter) -> u64 {
        self.last_uid += 1;
        let (mut detail, files) = letter.build();
        detail.summary.uid = self.last_uid;
        if detail.message_id.is_empty() {
            detail.message_id = format!("<{}@example.test>", self.last_uid);
        }
        let answered = self
            .stored
            .iter()
            .find(|one| detail.in_reply_to.as_ref() == Some(&one.detail.message_id));
        detail.summary.thread_id = match answered {
            Some(one) => one.detail.summary.thread_id.clone(),
            None => format!("thread{}", self.last_uid),
        };
        self.log
            .add(Change::Created(changed_message(folder, &detail)));
        self.stored.push(Stored {
            folder: folder.into(),
            detail,
            files,
        });
        self.last_uid
    }

    /// Returns all folders. The folders with a role are first. The other folders are sorted by
    /// path.
    pub(crate) fn folders(&self) -> Vec<Folder> {
        let folder = |(path, role): &(String, Option<Role>)| {
            let count = |which: fn(&Summary) -> bool| {
                let found = self.of(path).filter(|(summary, _)| which(summary));
                u32::try_from(found.count()).unwrap_or(u32::MAX)
            };
            Folder {
                id: folder_id(path),
                path: path.clone(),
                name: path.rsplit('/').next().unwrap_or(path).into(),
                delimiter: "/".into(),
                messages: count(|_| true),
                unseen: count(|summary| summary.flags.iter().all(|flag| flag != SEEN)),
                role: *role,
            }
        };
        let mut folders: Vec<Folder> = self.folders.iter().map(folder).collect();
        folders.sort_by_key(|folder| (folder.role.is_none(), folder.role, folder.path.clone()));
        folders
    }

    /// Returns a page of the messages in a folder, newest first.
    pub(crate) fn page(&self, folder: &str, page: Page) -> Result<Listing, Error> {
        check_page(page)?;
        if !self.has(folder) {
            return Err(Error::NotFound);
        }
        let mut messages: Vec<Summary> = self.of(folder).map(|(summary, _)| summary).collect();
        messages.reverse();
        let (messages, total) = paged(messages, page);
        Ok(Listing { messages, total })
    }

    pub(crate) fn message(&self, uid: u64) -> Result<Detail, Error> {
        let folder = &self.find(uid)?.folder;
        let found = self.of(folder).find(|(one, _)| one.uid == uid);
        let (summary, stored) = found.ok_or(Error::NotFound)?;
        Ok(Detail {
            summary,
            ..stored.detail.clone()
        })
    }

    /// Returns an attachment and its content. Returns `None` if the message has no attachment with
    /// this index.
    pub(crate) fn attachment(
        &self,
        uid: u64,
        index: u32,
    ) -> Result<Option<(Attachment, Blob)>, Error> {
        let stored = self.find(uid)?;
        let index = index as usize;
        let attachment = stored.detail.attachments.get(index).cloned();
        let content = stored.files.get(index).cloned().map(Blob::Bytes);
        Ok(attachment.zip(content))
    }

    /// Adds or removes flags of the messages in `uids`. Returns the `uids` that exist.
    pub(crate) fn set_flags(
        &mut self,
        uids: &[u64],
        flags: &[String],
        action: FlagAction,
    ) -> Result<Vec<u64>, Error> {
        let known = self.known(uids)?;
        if flags.is_empty() || !flags.iter().all(|flag| is_settable(flag)) {
            return Err(Error::Invalid(
                "The flags are empty or contain a flag that clients cannot set".into(),
            ));
        }
        for one in &mut self.stored {
            let summary = &mut one.detail.summary;
            if !known.contains(&summary.uid) {
                continue;
            }
            summary.flags.retain(|flag| !flags.contains(flag));
            if action == FlagAction::Add {
                summary.flags.extend_from_slice(flags);
            }
            self.log
                .add(Change::Flags(changed_message(&one.folder, &one.detail)));
        }
        Ok(known)
    }

    /// Moves the messages in `uids` to another folder. Returns the `uids` that exist.
    pub(crate) fn move_to(&mut self, uids: &[u64], folder: &str) -> Result<Vec<u64>, Error> {
        let known = self.known(uids)?;
        if !self.has(folder) {
            return Err(Error::NotFound);
        }
        let is_moved =
            |one: &mut Stored| known.contains(&one.detail.summary.uid) && one.folder != folder;
        let moved: Vec<Stored> = self.stored.extract_if(.., is_moved).collect();
        for one in &moved {
            self.log.add(Change::Moved(MovedMessage {
                message: changed_message(folder, &one.detail),
                from: one.folder.clone(),
            }));
        }
        self.stored.extend(moved.into_iter().map(|one| Stored {
            folder: folder.into(),
            ..one
        }));
        Ok(known)
    }

    /// Deletes the messages in `uids`. Returns the `uids` that existed.
    pub(crate) fn delete(&mut self, uids: &[u64]) -> Result<Vec<u64>, Error> {
        let known = self.known(uids)?;
        let is_deleted = |one: &mut Stored| known.contains(&one.detail.summary.uid);
        for one in self.stored.extract_if(.., is_deleted) {
            self.log.add(Change::Deleted(DeletedMessage {
                uid: one.detail.summary.uid,
                folder: one.folder,
            }));
        }
        Ok(known)
    }

    /// Returns the messages of a folder with their summaries, oldest first.
    pub(super) fn of(&self, folder: &str) -> impl Iterator<Item = (Summary, &Stored)> {
        let stored = self.stored.iter().filter(move |one| one.folder == folder);
        stored.zip(1..).map(|(one, seq)| {
            let summary = Summary {
                seq,
                ..one.detail.summary.clone()
            };
            (summary, one)
        })
    }

    fn find(&self, uid: u64) -> Result<&Stored, Error> {
        let found = self.stored.iter().find(|one| one.detail.summary.uid == uid);
        found.ok_or(Error::NotFound)
    }

    /// Returns the `uids` that exist, in ascending order and without duplicates.
    fn known(&self, uids: &[u64]) -> Result<Vec<u64>, Error> {
        if uids.len() > MAX_UIDS {
            return Err(Error::TooLarge(format!(
                "At most {MAX_UIDS} messages at once"
            )));
        }
        let mut known: Vec<u64> = uids.to_vec();
        known.sort_unstable();
        known.dedup();
        known.retain(|uid| self.find(*uid).is_ok());
        Ok(known)
    }
}

/// Returns whether clients can set the flag.
fn is_settable(flag: &str) -> bool {
    if flag.starts_with('\\') {
        return SETTABLE_FLAGS
            .iter()
            .any(|known| known.eq_ignore_ascii_case(flag));
    }
    let atom = |byte: u8| (0x21..0x7f).contains(&byte) && !b"(){%*\"\\]".contains(&byte);
    !flag.is_empty() && flag.len() <= 100 && flag.bytes().all(atom)
}

/// Checks the limit of a page.
pub(super) fn check_page(page: Page) -> Result<(), Error> {
    if (1..=MAX_PAGE).contains(&page.limit) {
        Ok(())
    } else {
        Err(Error::Invalid(format!("The limit must be 1 to {MAX_PAGE}")))
    }
}

/// Returns the entries on a page, and the number of all entries.
pub(super) fn paged<T>(all: Vec<T>, page: Page) -> (Vec<T>, u32) {
    let total = u32::try_from(all.len()).unwrap_or(u32::MAX);
    let entries = all.into_iter().skip(page.offset as usize);
    (entries.take(page.limit as usize).collect(), total)
}

/// Returns the id of a folder. Folders cannot be renamed in the fake host, so the id can contain
/// the path.
fn folder_id(path: &str) -> String {
    format!("id of {path}")
}

fn changed_message(folder: &str, detail: &Detail) -> ChangedMessage {
    ChangedMessage {
        uid: detail.summary.uid,
        folder: folder.into(),
        flags: detail.summary.flags.clone(),
    }
}
