//! Searches messages. A search runs in the search index of the account if the index is complete.
//! Otherwise the search runs on the mail server.

mod numbers;
mod server;
mod threads;

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use latchmail_core::message_number::MessageNumber;
use latchmail_core::permissions::Right;
use latchmail_imap::list::{MODSEQS, Role};
use latchmail_imap::{INBOX, SearchKey};
pub use latchmail_search::filter::{Filter, Part, has_words};
use latchmail_search::{FolderSet, Query};
pub use latchmail_search::{Snippet, Sort};

use crate::access::Access;
use crate::connections::retry::retry_read;
use crate::context::Context;
use crate::error::Error;
use crate::folders::Folders;
use crate::folders::path::normalize_path;
use crate::folders::rights::FolderAccess;
use crate::folders::roles::to_folders;
use crate::folders::states::{FolderState, folder_state};
pub use crate::index::results::{
    Hit, IndexStatus, SearchRequest, SearchResult, Thread, ThreadMessages, ThreadPage,
};
pub use crate::index::selection::{
    FolderCounts, MessageFacts, MessageFilter, NumberPage, NumberQuery, SortKey, SortValue, Start,
    ThreadNumbers,
};
use crate::index::{CurrentIndex, SearchIndex};
use crate::listing::Lister;

/// The names that mail clients give the folders for junk and for deleted mail.
const JUNK_NAMES: [&str; 4] = ["Junk", "Spam", "Junk E-mail", "Junk Email"];
const TRASH_NAMES: [&str; 3] = ["Trash", "Deleted Items", "Deleted Messages"];

/// Maximum number of messages with one Message-ID in a folder.
const MAX_COPIES: u32 = 10;

/// Searches messages and lists threads.
#[derive(Debug)]
pub struct Searcher {
    context: Arc<Context>,
    folders: Arc<Folders>,
    listing: Arc<Lister>,
    index: Arc<SearchIndex>,
}

impl Searcher {
    pub(crate) fn new(
        context: Arc<Context>,
        folders: Arc<Folders>,
        listing: Arc<Lister>,
        index: Arc<SearchIndex>,
    ) -> Self {
        Self {
            context,
            folders,
            listing,
            index,
        }
    }

    /// Searches one folder or all folders. Returns `None` if the folder does not exist.
    ///
    /// # Errors
    /// Returns [`Error::InvalidQuery`] if an operator has an invalid value. Returns another
    /// [`Error`] if the operation fails.
    pub async fn find(
        &self,
        access: &Access,
        request: SearchRequest<'_>,
    ) -> Result<Option<SearchResult>, Error> {
        let query = if request.operators {
            Query::parse(request.query)
        } else {
            Query::plain(request.query)
        };
        let query = query.map_err(|error| Error::InvalidQuery(error.to_string()))?;
        match request.folder {
            Some(folder) => {
                let path = normalize_path(folder);
                self.find_in_folder(access, query, path, request).await
            }
            None => self.find_in_all(access, query, request).await.map(Some),
        }
    }

    async fn find_in_folder(
        &self,
        access: &Access,
        query: Query,
        path: &str,
        request: SearchRequest<'_>,
    ) -> Result<Option<SearchResult>, Error> {
        let Some((folder_access, folder)) = self.readable_folder(access, path).await? else {
            return Ok(None);
        };
        let folders = [folder];
        let served = self.search_current_index(access, &query, request, &folders, |index| {
            index.folders(&folder_access, |searched| searched == path)
        });
        let status = match served.await? {
            Ok(result) => return Ok(Some(result)),
            Err(status) => status,
        };
        self.search_folder_on_server(access, &query, path, request, status)
            .await
    }

    async fn find_in_all(
        &self,
        access: &Access,
        query: Query,
        request: SearchRequest<'_>,
    ) -> Result<SearchResult, Error> {
        let (folder_access, folders, roles) = self.readable_folders(access).await?;
        let named: HashSet<String> = query.named_folders().map(str::to_lowercase).collect();
        let unwanted = UnwantedFolders::new(&roles);
        let is_searched =
            |path: &str| !unwanted.contain(path) || named.contains(&path.to_lowercase());
        let served = self.search_current_index(access, &query, request, &folders, |index| {
            index.folders(&folder_access, is_searched)
        });
        let status = match served.await? {
            Ok(result) => return Ok(result),
            Err(status) => status,
        };
        let paths: Vec<String> = folders
            .into_iter()
            .filter(|folder| {
                folder_access.can_read(&folder.path, folder.opened.uid_validity)
                    && is_searched(&folder.path)
            })
            .map(|folder| folder.path)
            .collect();
        self.search_folders_on_server(access, &query, &paths, request, status)
            .await
    }

    /// Returns the numbers of the messages with this Message-ID, at most [`MAX_COPIES`] of each
    /// folder.
    ///
    /// # Errors
    /// Returns an [`Error`] if the operation fails.
    pub(crate) async fn with_message_id(
        &self,
        access: &Access,
        message_id: &str,
    ) -> Result<Vec<MessageNumber>, Error> {
        let (folder_access, folders, _) = self.readable_folders(access).await?;
        if let Ok(index) = self.index.current(access, &folders, true).await {
            return SearchIndex::with_message_id(&index, &folder_access, message_id);
        }
        let keys = [SearchKey::MessageId(message_id.to_owned())];
        let mut found = Vec::new();
        for folder in folders {
            if folder_access.can_read(&folder.path, folder.opened.uid_validity) {
                let listing = self
                    .listing
                    .search(access, &folder.path, &keys, 0, MAX_COPIES);
                let messages = listing.await?.into_iter().flat_map(|one| one.messages);
                found.extend(messages.map(|message| message.number));
            }
        }
        Ok(found)
    }

    /// Searches the search index of the account. `folders` are the states of the folders that the
    /// request uses. `searched` selects the folders to search. If the search must run on the mail
    /// server, returns the status of the index, which is part of the search result.
    async fn search_current_index(
        &self,
        access: &Access,
        query: &Query,
        request: SearchRequest<'_>,
        folders: &[FolderState],
        searched: impl FnOnce(&CurrentIndex) -> FolderSet,
    ) -> Result<Result<SearchResult, IndexStatus>, Error> {
        let all = request.folder.is_none();
        let index = match self.index.current(access, folders, all).await {
            Ok(index) => index,
            Err(status) => return Ok(Err(status)),
        };
        if query.clauses().is_empty() {
            // The query contains no word. The search index contains only words, so the mail server
            // must search for the characters of the query.
            return Ok(Err(IndexStatus::Ready));
        }
        let searched = searched(&index);
        let found = self
            .index
            .search(access, index, query.clone(), searched, request);
        Ok(found.await?.ok_or(IndexStatus::Building))
    }

    /// Returns the current state of a folder, and the folders that the caller can read. Returns
    /// `None` if the folder does not exist or the caller must not learn that the folder exists.
    pub(crate) async fn readable_folder(
        &self,
        access: &Access,
        path: &str,
    ) -> Result<Option<(FolderAccess, FolderState)>, Error> {
        self.folders.ensure_indexed(access).await?;
        let folder_access = self.folders.require(access, path, Right::MailRead).await?;
        let Some(folder_access) = folder_access else {
            return Ok(None);
        };
        let mut lease = self.context.connections.lease(access, Some(path)).await?;
        let status = retry_read!(lease, session => session.status(path, MODSEQS));
        drop(lease);
        let Some(status) = status else {
            return Ok(None);
        };
        let can_read = folder_access.can_read(path, status.uid_validity);
        let folder = FolderState::new(path.to_owned(), None, status);
        Ok(can_read.then_some((folder_access, folder)))
    }

    /// Returns the current states of all folders, the folders that the caller can read, and the
    /// role of each folder by path.
    pub(crate) async fn readable_folders(
        &self,
        access: &Access,
    ) -> Result<
        (
            FolderAccess,
            Vec<FolderState>,
            HashMap<String, Option<Role>>,
        ),
        Error,
    > {
        if let Some(member) = &access.member
            && !member.grants.over_some_folder().hold(Right::MailRead)
        {
            return Err(Error::Denied(Right::MailRead));
        }
        self.folders.ensure_indexed(access).await?;
        let mut lease = self.context.connections.lease(access, None).await?;
        let listed = retry_read!(lease, session => session.folders(MODSEQS));
        drop(lease);
        let folders: Vec<FolderState> = listed.iter().filter_map(folder_state).collect();
        if access.member.is_some() {
            self.folders.refresh(access).await?;
        }
        let folder_access = self.folders.usable_by(access).await?;
        let roles = to_folders(listed);
        let roles = roles.into_iter().map(|folder| (folder.path, folder.role));
        Ok((folder_access, folders, roles.collect()))
    }
}

/// The folders for junk and deleted mail.
struct UnwantedFolders<'a> {
    /// The paths of the folders with the role Junk or Trash.
    paths: HashSet<&'a str>,
    /// The usual names of junk folders if no folder has the role Junk, and the usual names of trash
    /// folders if no folder has the role Trash.
    names: Vec<&'static str>,
}

impl<'a> UnwantedFolders<'a> {
    /// Selects the folders by their roles. `roles` contains the role of each folder, by path.
    fn new(roles: &'a HashMap<String, Option<Role>>) -> Self {
        let mut unwanted = Self {
            paths: HashSet::new(),
            names: Vec::new(),
        };
        for (role, names) in [(Role::Junk, &JUNK_NAMES[..]), (Role::Trash, &TRASH_NAMES)] {
            let with_role = roles.iter().filter(|(_, other)| **other == Some(role));
            let count = unwanted.paths.len();
            unwanted
                .paths
                .extend(with_role.map(|(path, _)| path.as_str()));
            if unwanted.paths.len() == count {
                unwanted.names.extend(names);
            }
        }
        unwanted
    }

    /// Returns `true` if the folder has the role Junk or Trash, or if the folder has a usual name
    /// for a role that no folder has.
    fn contain(&self, path: &str) -> bool {
        let name = path.strip_prefix(INBOX).map_or(path, |name| {
            name.trim_start_matches(|c: char| !c.is_alphanumeric())
        });
        let is_usual = |usual: &&str| name.eq_ignore_ascii_case(usual);
        self.paths.contains(path) || self.names.iter().any(is_usual)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn junk_and_trash_are_found_by_role_or_by_name() {
        let roles = |folders: &[(&str, Option<Role>)]| -> HashMap<String, Option<Role>> {
            let folders = folders.iter();
            folders
                .map(|(path, role)| ((*path).to_owned(), *role))
                .collect()
        };
        let named = roles(&[
            ("INBOX", Some(Role::Inbox)),
            ("Spam", None),
            ("Trash", None),
        ]);
        let named = UnwantedFolders::new(&named);
        assert!(named.contain("Spam") && named.contain("Trash"));
        assert!(named.contain("INBOX.Trash") && !named.contain("INBOX"));
        let with_role = roles(&[("Old", Some(Role::Trash)), ("Trash", None)]);
        let with_role = UnwantedFolders::new(&with_role);
        assert!(with_role.contain("Old") && !with_role.contain("Trash"));
        assert!(with_role.contain("spam"));
    }
}
