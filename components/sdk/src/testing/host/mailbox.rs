//! Mailboxes of the fake host. `mail.rs` contains the data of a mailbox, `folders.rs` the changes
//! of folders, `listing.rs` the listings, `message_changes.rs` the changes of messages, `search.rs`
//! the searches, and `changes.rs` the change log.

use super::mail::{KeptImport, Mail, Stored, changed_message, settable};
use super::message_changes::{change_if, versions};
use super::{FakeHost, Need, changes};
use crate::capability::{
    Attachment, AttachmentContent, AttachmentLink, Blob, Change, ChangeList, ChangesError,
    ConditionalError, CopiedMessage, Detail, DetailWithBlobs, Error, EventFilter, Events,
    FlagAction, Folder, HeaderField, Hit, Import, ImportedMessage, IndexState, Listing, Mailbox,
    MessageDisposal, MessageHeader, MessageQuery, MessageVersion, Page, Quota, RawMessage, Scope,
    Search, SearchError, SearchResult, StreamError, Summary, ThreadList, ThreadMessages,
    ThreadsError, Timestamp,
};
use crate::testing::letter::Letter;
use crate::testing::raw;
use latchmail_shape::codes;

/// Maximum number of messages in one change.
const MAX_UIDS: usize = 1000;
/// Maximum number of messages as summaries in one call.
const MAX_SUMMARIES: usize = 100;
/// Maximum number of messages in full in one call.
const MAX_DETAILS: usize = 20;
/// The time after which the URL of an attachment or an upload expires, in milliseconds.
pub(super) const LINK_LIFETIME: Timestamp = 300_000;
/// Maximum number of messages on a page.
const MAX_PAGE: u32 = 100;

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

    /// Sets the quota of the mailbox of the signed-in account. Initially there is no limit. The
    /// fake host does not enforce the quota.
    #[track_caller]
    pub fn set_mailbox_quota(&self, quota: Quota) {
        self.with_account(|account| account.mail.quota = quota);
    }

    /// Calls `change` with the caller's mailbox and with the `uids` that exist, in ascending order
    /// and without duplicates. Returns these `uids`.
    pub(super) fn change_mail(
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
    /// Stores a message in a folder, and creates the folder if it does not exist. Returns the
    /// message's `uid`.
    pub(super) fn put(&mut self, folder: &str, letter: Letter) -> u64 {
        if !self.has(folder) {
            self.add_folder(folder);
        }
        self.last_uid += 1;
        let (mut detail, files) = letter.build();
        detail.summary.uid = self.last_uid;
        if detail.message_id.is_empty() {
            detail.message_id = format!("<{}@example.test>", self.last_uid);
        }
        let answered = detail.in_reply_to.as_deref();
        let answered = answered.and_then(|id| self.detail(self.with_message_id(id)?));
        detail.summary.thread_id = match answered {
            Some(answered) => answered.summary.thread_id.clone(),
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
            raw: None,
            previous: None,
        });
        self.last_uid
    }

    /// Returns a message.
    pub(super) fn detail(&self, uid: u64) -> Option<&Detail> {
        self.find(uid).ok().map(|found| &found.detail)
    }

    /// Returns the number of a message with this Message-ID.
    pub(super) fn with_message_id(&self, message_id: &str) -> Option<u64> {
        let mut stored = self.stored.iter();
        let found = stored.find(|one| one.detail.message_id == message_id);
        found.map(|one| one.detail.summary.uid)
    }

    /// Returns an attachment of a message with its content.
    pub(super) fn attachment(&self, uid: u64, index: u32) -> Option<(&Attachment, &[u8])> {
        let found = self.find(uid).ok()?;
        let position = usize::try_from(index).ok()?;
        let attachment = found.detail.attachments.get(position)?;
        Some((attachment, found.files.get(position)?))
    }

    /// Returns a message with its current folder and position.
    fn located(&self, uid: u64) -> Result<Detail, Error> {
        let folder = &self.find(uid)?.folder;
        let mut found = self.of(folder);
        let found = found.find(|(summary, _)| summary.uid == uid);
        let (summary, stored) = found.ok_or(Error::NotFound)?;
        Ok(Detail {
            summary,
            folder: folder.clone(),
            version: versions(stored).state,
            ..stored.detail.clone()
        })
    }

    /// Returns the bytes of a message.
    fn raw(&self, uid: u64) -> Result<Vec<u8>, Error> {
        let stored = self.find(uid)?;
        let written = || raw::write(&stored.detail, &stored.files);
        Ok(stored.raw.clone().unwrap_or_else(written))
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

    pub(super) fn find(&self, uid: u64) -> Result<&Stored, Error> {
        let found = self.stored.iter().find(|one| one.detail.summary.uid == uid);
        found.ok_or(Error::NotFound)
    }
}

/// The mailbox of the signed-in account. Moving a message does not change its `uid`. A `uid` is
/// never reused.
impl Mailbox for FakeHost {
    fn list_folders(&self) -> Result<Vec<Folder>, Error> {
        read_mail(self, |error| error, |mail| Ok(mail.listed()))
    }

    fn list_messages(&self, query: &MessageQuery) -> Result<Listing, Error> {
        read_mail(self, |error| error, |mail| mail.list(query))
    }

    fn get_message(&self, uid: u64) -> Result<Detail, Error> {
        read_mail(self, |error| error, |mail| mail.located(uid))
    }

    fn get_attachment(&self, uid: u64, index: u32) -> Result<Option<AttachmentContent>, Error> {
        read_mail(
            self,
            |error| error,
            |mail| {
                let stored = mail.find(uid)?;
                let index = index as usize;
                let attachment = stored.detail.attachments.get(index).cloned();
                let content = stored.files.get(index).cloned().map(Blob::Bytes);
                Ok(attachment
                    .zip(content)
                    .map(|(attachment, content)| AttachmentContent {
                        attachment,
                        content,
                        version: versions(stored).content,
                    }))
            },
        )
    }

    fn create_attachment_link(
        &self,
        uid: u64,
        index: u32,
    ) -> Result<Option<AttachmentLink>, Error> {
        let found = self.get_attachment(uid, index)?;
        let path = format!("/api/v1/mail/messages/{uid}/attachments/{index}");
        Ok(found.map(|found| AttachmentLink {
            attachment: found.attachment,
            url: format!("https://example.test{path}?ticket=lmu_fake"),
            expires_at: self.now() + LINK_LIFETIME,
        }))
    }

    fn search_messages(&self, search: &Search) -> Result<SearchResult, SearchError> {
        read_mail(self, SearchError::Failed, |mail| mail.search(search))
    }

    fn list_threads(&self, folder: Option<&str>, page: Page) -> Result<ThreadList, ThreadsError> {
        read_mail(self, ThreadsError::Failed, |mail| {
            mail.threads(folder, page)
        })
    }

    fn get_thread(&self, id: &str, page: Page) -> Result<ThreadMessages, ThreadsError> {
        read_mail(self, ThreadsError::Failed, |mail| mail.thread(id, page))
    }

    fn list_changes(
        &self,
        since: Option<&str>,
        folder: Option<&str>,
        limit: u32,
    ) -> Result<ChangeList, ChangesError> {
        read_mail(self, ChangesError::Failed, |mail| {
            mail.changes_since(since, folder, limit)
        })
    }

    fn stream_events(
        &self,
        since: Option<&str>,
        filter: &EventFilter,
    ) -> Result<Events, StreamError> {
        let folder = filter.folder.as_deref();
        read_mail(self, StreamError::Failed, |mail| {
            changes::stream(mail, since, folder, &filter.types)
        })
    }

    fn wait_for_changes(
        &self,
        since: &str,
        folder: Option<&str>,
        limit: u32,
        seconds: u32,
    ) -> Result<Events, StreamError> {
        read_mail(self, StreamError::Failed, |mail| {
            changes::wait(mail, since, folder, limit, seconds)
        })
    }

    fn set_flags(
        &self,
        uids: &[u64],
        flags: &[String],
        action: FlagAction,
        if_version: Option<&str>,
    ) -> Result<Vec<u64>, ConditionalError> {
        change_if(self, uids, if_version, |mail, known| {
            mail.set_flags(known, flags, action)
        })
    }

    fn move_messages(
        &self,
        uids: &[u64],
        destination: &str,
        if_version: Option<&str>,
    ) -> Result<Vec<u64>, ConditionalError> {
        change_if(self, uids, if_version, |mail, known| {
            mail.move_to(known, destination)
        })
    }

    fn delete_messages(
        &self,
        uids: &[u64],
        if_version: Option<&str>,
    ) -> Result<Vec<u64>, ConditionalError> {
        change_if(self, uids, if_version, |mail, known| {
            mail.delete(known);
            Ok(())
        })
    }

    fn get_version(&self, uid: u64) -> Result<MessageVersion, Error> {
        read_mail(self, |error| error, |mail| Ok(versions(mail.find(uid)?)))
    }

    fn trash_messages(
        &self,
        uids: &[u64],
        if_version: Option<&str>,
    ) -> Result<Vec<u64>, ConditionalError> {
        change_if(self, uids, if_version, Mail::trash)
    }

    fn restore_messages(&self, uids: &[u64]) -> Result<Vec<u64>, Error> {
        let mut restored = Vec::new();
        self.change_mail(uids, |mail, known| {
            restored = mail.restore(known)?;
            Ok(())
        })?;
        Ok(restored)
    }

    fn copy_messages(&self, uids: &[u64], destination: &str) -> Result<Vec<CopiedMessage>, Error> {
        let mut copies = Vec::new();
        self.change_mail(uids, |mail, known| {
            copies = mail.copy_to(known, destination)?;
            Ok(())
        })?;
        Ok(copies)
    }

    fn create_folder(&self, path: &str) -> Result<Folder, Error> {
        change_folders(self, |mail| mail.create_folder(path))
    }

    fn rename_folder(&self, folder: &str, path: &str) -> Result<Folder, Error> {
        change_folders(self, |mail| mail.rename_folder(folder, path))
    }

    fn delete_folder(&self, folder: &str, messages: MessageDisposal) -> Result<(), Error> {
        change_folders(self, |mail| mail.delete_folder(folder, messages))
    }

    fn get_quota(&self) -> Result<Quota, Error> {
        read_mail(self, |error| error, |mail| Ok(mail.quota))
    }

    fn get_raw_message(&self, uid: u64) -> Result<RawMessage, Error> {
        read_mail(
            self,
            |error| error,
            |mail| {
                let stored = mail.find(uid)?;
                Ok(RawMessage {
                    subject: stored.detail.summary.subject.clone(),
                    content: Blob::Bytes(mail.raw(uid)?),
                    version: versions(stored).content,
                })
            },
        )
    }

    fn get_header(&self, uid: u64, names: Option<&[String]>) -> Result<MessageHeader, Error> {
        read_mail(
            self,
            |error| error,
            |mail| {
                raw::check_names(names)?;
                let is_wanted = |field: &HeaderField| {
                    let is_name = |name: &String| name.eq_ignore_ascii_case(&field.name);
                    names.is_none_or(|names| names.iter().any(is_name))
                };
                let fields = raw::fields(&mail.raw(uid)?).into_iter();
                Ok(MessageHeader {
                    fields: fields.filter(is_wanted).collect(),
                    truncated: false,
                })
            },
        )
    }

    fn get_summaries(&self, uids: &[u64]) -> Result<Vec<Hit>, Error> {
        read_mail(
            self,
            |error| error,
            |mail| {
                check_count(uids, MAX_SUMMARIES)?;
                let found = uids.iter().filter_map(|uid| mail.located(*uid).ok());
                let hit = |detail: Detail| Hit {
                    summary: detail.summary,
                    folder: detail.folder,
                    snippet: None,
                };
                Ok(found.map(hit).collect())
            },
        )
    }

    fn get_messages_with_blobs(&self, uids: &[u64]) -> Result<Vec<DetailWithBlobs>, Error> {
        read_mail(self, |error| error, |_| check_count(uids, MAX_DETAILS))?;
        let found = uids.iter().map(|uid| self.get_message_with_blobs(*uid));
        let found = found.filter(|found| !matches!(found, Err(Error::NotFound)));
        found.collect()
    }

    fn import_message(&self, import: Import, key: Option<&str>) -> Result<ImportedMessage, Error> {
        let now = self.now();
        self.allow(Need::Scope(Scope::MailWrite), |account| {
            let mail = &mut account.mail;
            let bytes = import.message.in_memory().unwrap_or_default().to_vec();
            raw::check(&bytes)?;
            let flags: Option<Vec<String>> =
                import.flags.iter().map(|flag| settable(flag)).collect();
            let flags = flags.ok_or_else(|| {
                let text = "The flags contain a flag that clients cannot set";
                Error::invalid(codes::INVALID_FLAG_DATA, text)
            })?;
            if !mail.has(&import.folder) {
                return Err(Error::NotFound);
            }
            let values = format!("{import:?}");
            let mut kept = mail.imports.iter();
            if let Some(kept) = kept.find(|kept| key == Some(kept.key.as_str())) {
                if kept.values != values {
                    let text = "This Idempotency-Key was used for another message";
                    return Err(Error::conflict(codes::IDEMPOTENCY_KEY_REUSED, text));
                }
                return Ok(ImportedMessage {
                    replayed: true,
                    ..kept.imported.clone()
                });
            }
            let letter = raw::read(&bytes).date(import.received_at.unwrap_or(now));
            let letter = flags.iter().fold(letter, |letter, flag| letter.flag(flag));
            let imported = ImportedMessage {
                uid: mail.put(&import.folder, letter),
                folder: import.folder,
                replayed: false,
            };
            if let Some(stored) = mail.stored.last_mut() {
                stored.detail.summary.size = bytes.len() as u64;
                stored.raw = Some(bytes);
            }
            mail.imports.extend(key.map(|key| KeptImport {
                key: key.into(),
                values,
                imported: imported.clone(),
            }));
            Ok(imported)
        })
    }

    fn snooze_message(&self, uid: u64, until: Timestamp) -> Result<(), Error> {
        let now = self.now();
        self.allow(Need::Scope(Scope::MailWrite), |account| {
            account.mail.snooze(uid, until, now)
        })
    }

    fn unsnooze_message(&self, uid: u64) -> Result<(), Error> {
        self.allow(Need::Scope(Scope::MailWrite), |account| {
            account.mail.unsnooze(uid)
        })
    }

    fn get_snooze(&self, uid: u64) -> Result<Option<Timestamp>, Error> {
        read_mail(self, |error| error, |mail| mail.snoozed_until(uid))
    }
}

fn check_count(uids: &[u64], max: usize) -> Result<(), Error> {
    if uids.len() > max {
        let text = format!("At most {max} messages at once");
        return Err(Error::too_large(codes::TOO_MANY_MESSAGES, text));
    }
    Ok(())
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

/// Calls `read` with the caller's mailbox. Fails with an error that `failed` creates if the
/// caller is not allowed to read mail.
fn read_mail<T, E>(
    host: &FakeHost,
    failed: fn(Error) -> E,
    read: impl FnOnce(&Mail) -> Result<T, E>,
) -> Result<T, E> {
    let read = |account: &mut super::Account| Ok(read(&account.mail));
    host.allow(Need::Scope(Scope::MailRead), read)
        .map_err(failed)?
}

/// Calls `change` with the caller's mailbox.
fn change_folders<T>(
    host: &FakeHost,
    change: impl FnOnce(&mut Mail) -> Result<T, Error>,
) -> Result<T, Error> {
    let change = |account: &mut super::Account| change(&mut account.mail);
    host.allow(Need::Scope(Scope::MailWrite), change)
}
