//! A mailbox in memory. Each folder has its messages in order of arrival.

use super::host::{FakeHost, Need};
use super::letter::Letter;
use crate::capability::{
    Attachment, Blob, Detail, Error, FlagAction, Folder, Listing, Mailbox, Page, Role, Scope,
    Summary,
};

/// Maximum number of messages of one change.
const MOST_UIDS: usize = 1000;
/// Maximum size of a page, and maximum length of a search term in bytes.
const LONGEST_PAGE: u32 = 100;
const LONGEST_TERM: usize = 1000;

const SEEN: &str = "\\Seen";
const MAY_BE_SET: [&str; 4] = [SEEN, "\\Answered", "\\Flagged", "\\Draft"];

/// The folders and the messages of an account.
#[derive(Debug)]
pub(super) struct Messages {
    folders: Vec<(String, Option<Role>)>,
    stored: Vec<Stored>,
    last_uid: u64,
}

#[derive(Debug)]
struct Stored {
    folder: String,
    detail: Detail,
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

    pub(super) fn put(&mut self, folder: &str, letter: Letter) -> u64 {
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

    /// Returns the messages of a folder as listed, oldest first.
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
        if !(1..=LONGEST_PAGE).contains(&page.limit) {
            return Err(Error::Invalid(format!(
                "The limit must be 1 to {LONGEST_PAGE}"
            )));
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

    /// Returns the `uids` that exist.
    fn known(&self, uids: &[u64]) -> Result<Vec<u64>, Error> {
        if uids.len() > MOST_UIDS {
            return Err(Error::TooLarge(format!(
                "At most {MOST_UIDS} messages at once"
            )));
        }
        let mut known: Vec<u64> = uids.to_vec();
        known.sort_unstable();
        known.dedup();
        known.retain(|uid| self.find(*uid).is_ok());
        Ok(known)
    }
}

fn may_be_set(flag: &str) -> bool {
    if flag.starts_with('\\') {
        return MAY_BE_SET
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

impl FakeHost {
    /// Delivers a message to the inbox of the signed-in account and returns its `uid`.
    ///
    /// # Panics
    /// Panics if no account is signed in.
    #[track_caller]
    pub fn deliver(&self, letter: Letter) -> u64 {
        self.file("INBOX", letter)
    }

    /// Puts a message into a folder of the signed-in account and returns its `uid`. Creates the folder if it does not exist.
    ///
    /// # Panics
    /// Panics if no account is signed in.
    #[track_caller]
    pub fn file(&self, folder: &str, letter: Letter) -> u64 {
        self.with_account(|account| {
            if !account.mail.has(folder) {
                account.mail.folders.push((folder.into(), None));
            }
            account.mail.put(folder, letter)
        })
    }
}

/// The mailbox of the signed-in account. A message keeps its `uid` when it is moved. A `uid` is never reused.
impl Mailbox for FakeHost {
    fn list_folders(&self) -> Result<Vec<Folder>, Error> {
        self.allow(Need::Scope(Scope::MailRead), |account| {
            let mail = &account.mail;
            let folder = |(path, role): &(String, Option<Role>)| {
                let count = |which: fn(&Summary) -> bool| {
                    let found = mail.of(path).filter(|(summary, _)| which(summary));
                    u32::try_from(found.count()).unwrap_or(u32::MAX)
                };
                Folder {
                    // Folders are never renamed here, so a path can be used as an id.
                    id: format!("id of {path}"),
                    path: path.clone(),
                    name: path.rsplit('/').next().unwrap_or(path).into(),
                    delimiter: "/".into(),
                    messages: count(|_| true),
                    unseen: count(|summary| summary.flags.iter().all(|flag| flag != SEEN)),
                    role: *role,
                }
            };
            let mut folders: Vec<Folder> = mail.folders.iter().map(folder).collect();
            folders.sort_by_key(|folder| (folder.role.is_none(), folder.role, folder.path.clone()));
            Ok(folders)
        })
    }

    fn list_messages(&self, folder: &str, page: Page) -> Result<Listing, Error> {
        self.allow(Need::Scope(Scope::MailRead), |account| {
            account.mail.listing(folder, page, |_| true)
        })
    }

    fn get_message(&self, uid: u64) -> Result<Detail, Error> {
        self.allow(Need::Scope(Scope::MailRead), |account| {
            let folder = &account.mail.find(uid)?.folder;
            let found = account.mail.of(folder).find(|(one, _)| one.uid == uid);
            let (summary, stored) = found.ok_or(Error::NotFound)?;
            Ok(Detail {
                summary,
                ..stored.detail.clone()
            })
        })
    }

    fn get_attachment(&self, uid: u64, index: u32) -> Result<Option<(Attachment, Blob)>, Error> {
        self.allow(Need::Scope(Scope::MailRead), |account| {
            let stored = account.mail.find(uid)?;
            let index = index as usize;
            let attachment = stored.detail.attachments.get(index).cloned();
            let bytes = stored.files.get(index).cloned().map(Blob::Bytes);
            Ok(attachment.zip(bytes))
        })
    }

    fn search_messages(&self, folder: &str, term: &str, page: Page) -> Result<Listing, Error> {
        self.allow(Need::Scope(Scope::MailRead), |account| {
            if term.is_empty() || term.len() > LONGEST_TERM || term.chars().any(char::is_control) {
                return Err(Error::Invalid(format!(
                    "The search term must be 1 to {LONGEST_TERM} bytes without control characters"
                )));
            }
            let mail = &account.mail;
            mail.listing(folder, page, |one| has_term(&one.detail, term))
        })
    }

    fn set_flags(
        &self,
        uids: &[u64],
        flags: &[String],
        action: FlagAction,
    ) -> Result<Vec<u64>, Error> {
        self.allow(Need::Scope(Scope::MailWrite), |account| {
            let known = account.mail.known(uids)?;
            if flags.is_empty() || !flags.iter().all(|flag| may_be_set(flag)) {
                return Err(Error::Invalid(
                    "The flags are empty or contain a flag that clients cannot set".into(),
                ));
            }
            for one in &mut account.mail.stored {
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
        })
    }

    fn move_messages(&self, uids: &[u64], destination: &str) -> Result<Vec<u64>, Error> {
        self.allow(Need::Scope(Scope::MailWrite), |account| {
            let known = account.mail.known(uids)?;
            if !account.mail.has(destination) {
                return Err(Error::NotFound);
            }
            let elsewhere = |one: &mut Stored| {
                known.contains(&one.detail.summary.uid) && one.folder != destination
            };
            let mail = &mut account.mail;
            let moved: Vec<Stored> = mail.stored.extract_if(.., elsewhere).collect();
            mail.stored.extend(moved.into_iter().map(|one| Stored {
                folder: destination.into(),
                ..one
            }));
            Ok(known)
        })
    }

    fn delete_messages(&self, uids: &[u64]) -> Result<Vec<u64>, Error> {
        self.allow(Need::Scope(Scope::MailWrite), |account| {
            let known = account.mail.known(uids)?;
            let mail = &mut account.mail;
            mail.stored
                .retain(|one| !known.contains(&one.detail.summary.uid));
            Ok(known)
        })
    }
}
