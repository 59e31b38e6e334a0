//! Mailboxes of the fake host. `search.rs` contains the searches, and `changes.rs` the change log.

use super::{FakeHost, Need};
use crate::capability::{
    Attachment, Blob, Change, ChangeList, ChangedFolder, ChangedMessage, ChangesError,
    DeletedMessage, Detail, Error, FlagAction, Folder, IndexState, Listing, Mailbox, MessageQuery,
    MovedMessage, Page, PageStart, Role, Scope, Search, SearchError, SearchResult, Summary,
    ThreadList, ThreadMessages, ThreadsError,
};
use crate::testing::letter::Letter;
use latchmail_shape::codes;

/// Maximum number of messages in one change.
const MAX_UIDS: usize = 1000;
/// The error text for a cursor that is malformed, or belongs to another folder or other filters.
const INVALID_CURSOR: &str = "Invalid cursor";
/// Maximum number of messages on a page.
const MAX_PAGE: u32 = 100;

const SEEN: &str = "\\Seen";
const FLAGGED: &str = "\\Flagged";
/// The roles of folders, in the order of the contract.
const ROLES: [&str; 8] = [
    "\\Inbox",
    "\\Flagged",
    "\\Sent",
    "\\Drafts",
    "\\All",
    "\\Archive",
    "\\Junk",
    "\\Trash",
];
const SETTABLE_FLAGS: [&str; 4] = [SEEN, "\\Answered", "\\Flagged", "\\Draft"];

/// The folders and the messages of an account.
#[derive(Debug)]
pub(super) struct Mail {
    folders: Vec<(String, Option<&'static str>)>,
    /// The messages of all folders. The messages of each folder are in the order of their arrival
    /// in the folder.
    stored: Vec<Stored>,
    last_uid: u64,
    /// The number of the last arrival of a message in a folder.
    last_arrival: u64,
    /// All changes, oldest first.
    pub(super) changes: Vec<Change>,
    /// The state of the search index.
    pub(super) index: IndexState,
}

/// A message in a folder.
#[derive(Debug)]
pub(super) struct Stored {
    pub(super) folder: String,
    pub(super) detail: Detail,
    /// The number of the message's arrival in its folder. Later arrivals have higher numbers.
    arrival: u64,
    /// The content of each attachment.
    files: Vec<Vec<u8>>,
}

impl Default for Mail {
    fn default() -> Self {
        let folder = |(path, role): (&str, &'static str)| (path.to_owned(), Some(role));
        let folders = [
            ("INBOX", "\\Inbox"),
            ("Sent", "\\Sent"),
            ("Drafts", "\\Drafts"),
            ("Archive", "\\Archive"),
            ("Junk", "\\Junk"),
            ("Trash", "\\Trash"),
        ];
        Self {
            folders: folders.map(folder).into(),
            stored: Vec::new(),
            last_uid: 0,
            last_arrival: 0,
            changes: Vec::new(),
            index: IndexState::Ready,
        }
    }
}

impl FakeHost {
    /// Delivers a message to the inbox of the signed-in account and returns its `uid`.
    #[track_caller]
    pub fn deliver(&self, letter: Letter) -> u64 {
        self.file("INBOX", letter)
    }

    /// Puts a message into a folder of the signed-in account and returns its `uid`. Creates the
    /// folder if it does not exist.
    #[track_caller]
    pub fn file(&self, folder: &str, letter: Letter) -> u64 {
        self.with_account(|account| account.mail.put(folder, letter))
    }

    /// Sets the state of the search index of the signed-in account. Initially the index is ready.
    #[track_caller]
    pub fn set_index(&self, state: IndexState) {
        self.with_account(|account| account.mail.index = state);
    }

    /// Calls `read` with the caller's mailbox. Fails with an error that `failed` creates if the
    /// caller is not allowed to read mail.
    fn read_mail<T, E>(
        &self,
        failed: fn(Error) -> E,
        read: impl FnOnce(&Mail) -> Result<T, E>,
    ) -> Result<T, E> {
        let read = |account: &mut super::Account| Ok(read(&account.mail));
        self.allow(Need::Scope(Scope::MailRead), read)
            .map_err(failed)?
    }

    /// Calls `change` with the caller's mailbox and with the `uids` that exist, in ascending order
    /// and without duplicates. Returns these `uids`.
    fn change_mail(
        &self,
        uids: &[u64],
        change: impl FnOnce(&mut Mail, &[u64]) -> Result<(), Error>,
    ) -> Result<Vec<u64>, Error> {
        self.allow(Need::Scope(Scope::MailWrite), |account| {
            if uids.len() > MAX_UIDS {
                let text = format!("At most {MAX_UIDS} messages at once");
                return Err(Error::too_large(codes::TOO_MANY_MESSAGES, text));
            }
            let mut known = uids.to_vec();
            known.sort_unstable();
            known.dedup();
            known.retain(|uid| account.mail.find(*uid).is_ok());
            change(&mut account.mail, &known)?;
            Ok(known)
        })
    }
}

impl Mail {
    pub(super) fn has(&self, folder: &str) -> bool {
        self.folders.iter().any(|(path, _)| path == folder)
    }

    /// Returns the paths and the roles of all folders.
    pub(super) fn paths(&self) -> impl Iterator<Item = (&str, Option<&'static str>)> {
        let folders = self.folders.iter();
        folders.map(|(path, role)| (path.as_str(), *role))
    }

    /// Stores a message in a folder, and creates the folder if it does not exist. Returns the
    /// message's `uid`.
    pub(super) fn put(&mut self, folder: &str, letter: Letter) -> u64 {
        if !self.has(folder) {
            self.folders.push((folder.into(), None));
            self.changes.push(Change::FolderCreated(ChangedFolder {
                folder: folder.into(),
                id: folder_id(folder),
            }));
        }
        self.last_uid += 1;
        let (mut detail, files) = letter.build();
        detail.summary.uid = self.last_uid;
        if detail.message_id.is_empty() {
            detail.message_id = format!("<{}@example.test>", self.last_uid);
        }
        let mut stored = self.stored.iter();
        let answered =
            stored.find(|one| detail.in_reply_to.as_ref() == Some(&one.detail.message_id));
        detail.summary.thread_id = match answered {
            Some(one) => one.detail.summary.thread_id.clone(),
            None => format!("thread{}", self.last_uid),
        };
        self.changes
            .push(Change::Created(changed_message(folder, &detail)));
        self.last_arrival += 1;
        self.stored.push(Stored {
            folder: folder.into(),
            detail,
            arrival: self.last_arrival,
            files,
        });
        self.last_uid
    }

    /// Returns a message.
    pub(super) fn detail(&self, uid: u64) -> Option<&Detail> {
        self.find(uid).ok().map(|found| &found.detail)
    }

    /// Returns an attachment of a message with its content.
    pub(super) fn attachment(&self, uid: u64, index: u32) -> Option<(&Attachment, &[u8])> {
        let found = self.find(uid).ok()?;
        let position = usize::try_from(index).ok()?;
        let attachment = found.detail.attachments.get(position)?;
        Some((attachment, found.files.get(position)?))
    }

    fn folder(&self, path: &str, role: Option<&str>) -> Folder {
        let count = |which: fn(&Summary) -> bool| {
            let found = self.of(path).filter(|(summary, _)| which(summary));
            u32::try_from(found.count()).unwrap_or(u32::MAX)
        };
        Folder {
            id: folder_id(path),
            path: path.into(),
            name: path.rsplit('/').next().unwrap_or(path).into(),
            delimiter: "/".into(),
            messages: count(|_| true),
            unseen: count(|summary| !has_flag(summary, SEEN)),
            role: role.map(Role::from),
        }
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

    /// Returns a page of the messages of a folder.
    fn list(&self, query: &MessageQuery) -> Result<Listing, Error> {
        let MessageQuery {
            folder,
            filters,
            start,
            limit,
        } = query;
        check_page(Page {
            offset: 0,
            limit: *limit,
        })?;
        for filter in filters {
            if !["unread", "flagged"].contains(&filter.as_str()) {
                let text = format!("There is no filter {filter:?}");
                return Err(Error::invalid(codes::INVALID_FIELD, text));
            }
        }
        if !self.has(folder) {
            return Err(Error::NotFound);
        }
        let matches = |summary: &Summary| {
            filters.iter().all(|filter| match filter.as_str() {
                "unread" => !has_flag(summary, SEEN),
                _ => has_flag(summary, FLAGGED),
            })
        };
        let matching = self.of(folder).filter(|(summary, _)| matches(summary));
        let mut matching: Vec<(Summary, &Stored)> = matching.collect();
        matching.reverse();
        let total = u32::try_from(matching.len()).unwrap_or(u32::MAX);
        let mut sorted = filters.clone();
        sorted.sort();
        let prefix = format!("{folder} {} ", sorted.join(","));
        let skipped = match start {
            PageStart::Offset(offset) => *offset as usize,
            PageStart::Cursor(cursor) => {
                let after = cursor
                    .strip_prefix(&prefix)
                    .and_then(|text| text.parse().ok());
                let after: u64 =
                    after.ok_or_else(|| Error::invalid(codes::INVALID_CURSOR, INVALID_CURSOR))?;
                let listed = |(_, stored): &&(Summary, &Stored)| stored.arrival >= after;
                matching.iter().take_while(listed).count()
            }
        };
        let rest = matching.get(skipped..).unwrap_or_default();
        let page = &rest[..rest.len().min(*limit as usize)];
        let last = page.last().filter(|_| page.len() < rest.len());
        Ok(Listing {
            messages: page.iter().map(|(summary, _)| summary.clone()).collect(),
            total,
            next: last.map(|(_, stored)| format!("{prefix}{}", stored.arrival)),
        })
    }

    fn find(&self, uid: u64) -> Result<&Stored, Error> {
        let found = self.stored.iter().find(|one| one.detail.summary.uid == uid);
        found.ok_or(Error::NotFound)
    }
}

/// The mailbox of the signed-in account. Moving a message does not change its `uid`. A `uid` is
/// never reused.
impl Mailbox for FakeHost {
    fn list_folders(&self) -> Result<Vec<Folder>, Error> {
        self.read_mail(
            |error| error,
            |mail| {
                let folders = mail.paths().map(|(path, role)| mail.folder(path, role));
                let mut folders: Vec<Folder> = folders.collect();
                folders.sort_by_key(|one| {
                    let rank = one
                        .role
                        .as_ref()
                        .map(|role| ROLES.iter().position(|one| one == role));
                    (rank.is_none(), rank, one.path.clone())
                });
                Ok(folders)
            },
        )
    }

    fn list_messages(&self, query: &MessageQuery) -> Result<Listing, Error> {
        self.read_mail(|error| error, |mail| mail.list(query))
    }

    fn get_message(&self, uid: u64) -> Result<Detail, Error> {
        self.read_mail(
            |error| error,
            |mail| {
                let mut found = mail.of(&mail.find(uid)?.folder);
                let found = found.find(|(summary, _)| summary.uid == uid);
                let (summary, stored) = found.ok_or(Error::NotFound)?;
                Ok(Detail {
                    summary,
                    ..stored.detail.clone()
                })
            },
        )
    }

    fn get_attachment(&self, uid: u64, index: u32) -> Result<Option<(Attachment, Blob)>, Error> {
        self.read_mail(
            |error| error,
            |mail| {
                let stored = mail.find(uid)?;
                let index = index as usize;
                let attachment = stored.detail.attachments.get(index).cloned();
                let content = stored.files.get(index).cloned().map(Blob::Bytes);
                Ok(attachment.zip(content))
            },
        )
    }

    fn search_messages(&self, search: &Search) -> Result<SearchResult, SearchError> {
        self.read_mail(SearchError::Failed, |mail| mail.search(search))
    }

    fn list_threads(&self, folder: Option<&str>, page: Page) -> Result<ThreadList, ThreadsError> {
        self.read_mail(ThreadsError::Failed, |mail| mail.threads(folder, page))
    }

    fn get_thread(&self, id: &str, page: Page) -> Result<ThreadMessages, ThreadsError> {
        self.read_mail(ThreadsError::Failed, |mail| mail.thread(id, page))
    }

    fn list_changes(
        &self,
        since: Option<&str>,
        folder: Option<&str>,
        limit: u32,
    ) -> Result<ChangeList, ChangesError> {
        self.read_mail(ChangesError::Failed, |mail| {
            mail.changes_since(since, folder, limit)
        })
    }

    fn set_flags(
        &self,
        uids: &[u64],
        flags: &[String],
        action: FlagAction,
    ) -> Result<Vec<u64>, Error> {
        self.change_mail(uids, |mail, known| {
            let flags: Option<Vec<String>> = flags.iter().map(|flag| settable(flag)).collect();
            let flags = flags.filter(|flags| !flags.is_empty()).ok_or_else(|| {
                let text = "The flags are empty or contain a flag that clients cannot set";
                Error::invalid(codes::INVALID_FLAG_DATA, text)
            })?;
            for one in &mut mail.stored {
                let summary = &mut one.detail.summary;
                if !known.contains(&summary.uid) {
                    continue;
                }
                if action == FlagAction::Add {
                    let new = flags.iter().filter(|flag| !summary.flags.contains(flag));
                    let new: Vec<String> = new.cloned().collect();
                    summary.flags.extend(new);
                } else {
                    summary.flags.retain(|flag| !flags.contains(flag));
                }
                let changed = changed_message(&one.folder, &one.detail);
                mail.changes.push(Change::Flags(changed));
            }
            Ok(())
        })
    }

    fn move_messages(&self, uids: &[u64], destination: &str) -> Result<Vec<u64>, Error> {
        self.change_mail(uids, |mail, known| {
            if !mail.has(destination) {
                return Err(Error::NotFound);
            }
            let is_moved = |one: &mut Stored| {
                known.contains(&one.detail.summary.uid) && one.folder != destination
            };
            let mut moved: Vec<Stored> = mail.stored.extract_if(.., is_moved).collect();
            for one in &mut moved {
                mail.changes.push(Change::Moved(MovedMessage {
                    message: changed_message(destination, &one.detail),
                    from: std::mem::replace(&mut one.folder, destination.into()),
                }));
                mail.last_arrival += 1;
                one.arrival = mail.last_arrival;
            }
            mail.stored.extend(moved);
            Ok(())
        })
    }

    fn delete_messages(&self, uids: &[u64]) -> Result<Vec<u64>, Error> {
        self.change_mail(uids, |mail, known| {
            let is_deleted = |one: &mut Stored| known.contains(&one.detail.summary.uid);
            let deleted = mail.stored.extract_if(.., is_deleted);
            let deleted = deleted.map(|one| DeletedMessage {
                uid: one.detail.summary.uid,
                folder: one.folder,
            });
            mail.changes.extend(deleted.map(Change::Deleted));
            Ok(())
        })
    }
}

/// Returns the canonical name of a flag. Returns `None` if clients cannot set the flag.
fn settable(flag: &str) -> Option<String> {
    if flag.starts_with('\\') {
        let mut known = SETTABLE_FLAGS.iter();
        let known = known.find(|known| known.eq_ignore_ascii_case(flag));
        return known.map(|known| (*known).into());
    }
    let atom = |byte: u8| (0x21..0x7f).contains(&byte) && !b"(){%*\"\\]".contains(&byte);
    let valid = !flag.is_empty() && flag.len() <= 100 && flag.bytes().all(atom);
    valid.then(|| flag.into())
}

fn has_flag(summary: &Summary, flag: &str) -> bool {
    summary.flags.iter().any(|one| one == flag)
}

/// Checks the limit of a page.
pub(super) fn check_page(page: Page) -> Result<(), Error> {
    if (1..=MAX_PAGE).contains(&page.limit) {
        return Ok(());
    }
    let text = format!("limit must be between 1 and {MAX_PAGE}");
    Err(Error::invalid(codes::INVALID_PAGING_PARAMETERS, text))
}

/// Returns the entries on a page, and the number of all entries.
pub(super) fn paged<T>(all: Vec<T>, page: Page) -> (Vec<T>, u32) {
    let total = u32::try_from(all.len()).unwrap_or(u32::MAX);
    let entries = all.into_iter().skip(page.offset as usize);
    (entries.take(page.limit as usize).collect(), total)
}

/// Returns the id of a folder. Folders cannot be renamed in the fake host, so the path identifies a
/// folder permanently.
pub(super) fn folder_id(path: &str) -> String {
    format!("id of {path}")
}

fn changed_message(folder: &str, detail: &Detail) -> ChangedMessage {
    ChangedMessage {
        uid: detail.summary.uid,
        folder: folder.into(),
        flags: detail.summary.flags.clone(),
    }
}
