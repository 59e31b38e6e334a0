//! Mailboxes of the fake host.

use super::{FakeHost, Need};
use crate::capability::{
    Attachment, Blob, ChangeList, ChangesError, Detail, Error, FlagAction, Folder, IndexState,
    Listing, Mailbox, Page, Scope, Search, SearchError, SearchResult, ThreadList, ThreadMessages,
    ThreadsError,
};
use crate::testing::account::messages::Messages;
use crate::testing::letter::Letter;

impl FakeHost {
    /// Delivers a message to the inbox of the signed-in account and returns its `uid`.
    ///
    /// # Panics
    /// Panics if no account is signed in.
    #[track_caller]
    pub fn deliver(&self, letter: Letter) -> u64 {
        self.file("INBOX", letter)
    }

    /// Puts a message into a folder of the signed-in account and returns its `uid`. Creates the
    /// folder if it does not exist.
    ///
    /// # Panics
    /// Panics if no account is signed in.
    #[track_caller]
    pub fn file(&self, folder: &str, letter: Letter) -> u64 {
        self.with_account(|account| {
            account.mail.create_folder(folder);
            account.mail.put(folder, letter)
        })
    }

    /// Sets the state of the search index of the signed-in account. Initially the index is ready.
    ///
    /// # Panics
    /// Panics if no account is signed in.
    #[track_caller]
    pub fn set_index(&self, state: IndexState) {
        self.with_account(|account| account.mail.index = state);
    }

    /// Calls `read` with the caller's mailbox. Fails with an error that `failed` creates if the
    /// caller is not allowed to read mail.
    fn read_mail<T, E>(
        &self,
        failed: fn(Error) -> E,
        read: impl FnOnce(&Messages) -> Result<T, E>,
    ) -> Result<T, E> {
        self.allow(Need::Scope(Scope::MailRead), |account| {
            Ok(read(&account.mail))
        })
        .map_err(failed)?
    }
}

/// The mailbox of the signed-in account. Moving a message does not change its `uid`. A `uid` is
/// never reused.
impl Mailbox for FakeHost {
    fn list_folders(&self) -> Result<Vec<Folder>, Error> {
        self.allow(Need::Scope(Scope::MailRead), |account| {
            Ok(account.mail.folders())
        })
    }

    fn list_messages(&self, folder: &str, page: Page) -> Result<Listing, Error> {
        self.allow(Need::Scope(Scope::MailRead), |account| {
            account.mail.page(folder, page)
        })
    }

    fn get_message(&self, uid: u64) -> Result<Detail, Error> {
        self.allow(Need::Scope(Scope::MailRead), |account| {
            account.mail.message(uid)
        })
    }

    fn get_attachment(&self, uid: u64, index: u32) -> Result<Option<(Attachment, Blob)>, Error> {
        self.allow(Need::Scope(Scope::MailRead), |account| {
            account.mail.attachment(uid, index)
        })
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
            if folder.is_some_and(|folder| !mail.has(folder)) {
                return Err(ChangesError::Failed(Error::NotFound));
            }
            mail.log.since(since, folder, limit)
        })
    }

    fn set_flags(
        &self,
        uids: &[u64],
        flags: &[String],
        action: FlagAction,
    ) -> Result<Vec<u64>, Error> {
        self.allow(Need::Scope(Scope::MailWrite), |account| {
            account.mail.set_flags(uids, flags, action)
        })
    }

    fn move_messages(&self, uids: &[u64], destination: &str) -> Result<Vec<u64>, Error> {
        self.allow(Need::Scope(Scope::MailWrite), |account| {
            account.mail.move_to(uids, destination)
        })
    }

    fn delete_messages(&self, uids: &[u64]) -> Result<Vec<u64>, Error> {
        self.allow(Need::Scope(Scope::MailWrite), |account| {
            account.mail.delete(uids)
        })
    }
}
