//! The folders and the messages of an account.

use crate::capability::{
    Attachment, Blob, Detail, Error, FlagAction, Folder, Listing, Page, Role, Summary,
};
use crate::testing::letter::Letter;

/// Maximum number of messages in one change.
const MAX_UIDS: usize = 1000;
/// Maximum number of messages on a page.
const MAX_PAGE: u32 = 100;
/// Maximum length of a search term in bytes.
const MAX_TERM: usize = 1000;

const SEEN: &str = "\\Seen";
const SETTABLE_FLAGS: [&str; 4] = [SEEN, "\\Answered", "\\Flagged", "\\Draft"];

#[derive(Debug)]
pub(crate) struct Messages {
    folders: Vec<(String, Option<Role>)>,
    /// The messages of all folders. The messages of each folder are in the order of their arrival in the folder.
    stored: Vec<Stored>,
    last_uid: u64,
}

#[derive(Debug)]
struct Stored {
    folder: String,
    detail: Detail,
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
        }
    }
}

impl Messages {
    fn has(&self, folder: &str) -> bool {
        self.folders.iter().any(|(path, _)| path == folder)
    }

    /// Creates a folder if it does not exist.
    pub(crate) fn create_folder(&mut self, path: &str) {
        if !self.has(path) {
            self.folders.push((path.into(), None));
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
        self.stored.push(Stored {
            folder: folder.into(),
            detail,
            files,
        });
        self.last_uid
    }

    /// Returns all folders. The folders with a role are first. The other folders are sorted by path.
    pub(crate) fn folders(&self) -> Vec<Folder> {
        let folder = |(path, role): &(String, Option<Role>)| {
            let count = |which: fn(&Summary) -> bool| {
                let found = self.of(path).filter(|(summary, _)| which(summary));
                u32::try_from(found.count()).unwrap_or(u32::MAX)
            };
            Folder {
                // Folders cannot be renamed in the fake host, so the id can contain the path.
                id: format!("id of {path}"),
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
        self.listing(folder, page, |_| true)
    }

    /// Returns a page of the messages in a folder that contain `term`, newest first.
    pub(crate) fn search(&self, folder: &str, term: &str, page: Page) -> Result<Listing, Error> {
        if term.is_empty() || term.len() > MAX_TERM || term.chars().any(char::is_control) {
            return Err(Error::Invalid(format!(
                "The search term must be 1 to {MAX_TERM} bytes without control characters"
            )));
        }
        self.listing(folder, page, |one| has_term(&one.detail, term))
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

    /// Returns an attachment and its content. Returns `None` if the message has no attachment with this index.
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
        self.stored.extend(moved.into_iter().map(|one| Stored {
            folder: folder.into(),
            ..one
        }));
        Ok(known)
    }

    /// Deletes the messages in `uids`. Returns the `uids` that existed.
    pub(crate) fn delete(&mut self, uids: &[u64]) -> Result<Vec<u64>, Error> {
        let known = self.known(uids)?;
        self.stored
            .retain(|one| !known.contains(&one.detail.summary.uid));
        Ok(known)
    }

    /// Returns the messages of a folder with their summaries, oldest first.
    fn of(&self, folder: &str) -> impl Iterator<Item = (Summary, &Stored)> {
        let stored = self.stored.iter().filter(move |one| one.folder == folder);
        stored.zip(1..).map(|(one, seq)| {
            let summary = Summary {
                seq,
                ..one.detail.summary.clone()
            };
            (summary, one)
        })
    }

    fn listing(
        &self,
        folder: &str,
        page: Page,
        which: impl Fn(&Stored) -> bool,
    ) -> Result<Listing, Error> {
        if !(1..=MAX_PAGE).contains(&page.limit) {
            return Err(Error::Invalid(format!("The limit must be 1 to {MAX_PAGE}")));
        }
        if !self.has(folder) {
            return Err(Error::NotFound);
        }
        let mut found: Vec<Summary> = self
            .of(folder)
            .filter(|(_, one)| which(one))
            .map(|(summary, _)| summary)
            .collect();
        let total = u32::try_from(found.len()).unwrap_or(u32::MAX);
        found.reverse();
        let messages = found.into_iter().skip(page.offset as usize);
        Ok(Listing {
            messages: messages.take(page.limit as usize).collect(),
            total,
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

fn has_term(detail: &Detail, term: &str) -> bool {
    let term = term.to_lowercase();
    let has = |text: &str| text.to_lowercase().contains(&term);
    let people = [&detail.summary.from, &detail.summary.to, &detail.cc];
    has(&detail.summary.subject)
        || detail.text.as_deref().is_some_and(has)
        || detail.html.as_deref().is_some_and(has)
        || people
            .into_iter()
            .flatten()
            .any(|person| has(&person.name) || has(&person.address))
}
