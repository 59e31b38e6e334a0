//! Runs searches in the search index.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use latchmail_core::message_number::MessageNumber;
use latchmail_search::{FolderSet, Order, Query, Search};
use tokio::sync::OwnedRwLockReadGuard;

use super::SearchIndex;
use super::content::Content;
use super::document::stored_summary;
use super::indexes::{AccountIndex, Indexes};
use super::results::{Hit, IndexStatus, SearchRequest, SearchResult};
use super::update::{MAX_FOREGROUND, Update};
use crate::access::Access;
use crate::blocking;
use crate::bounds::to_usize;
use crate::error::Error;
use crate::folders::rights::FolderAccess;
use crate::folders::states::FolderState;
use crate::message::types::Summary;

/// An index whose content is current. The content does not change while this value exists.
pub(crate) struct CurrentIndex(OwnedRwLockReadGuard<Option<Content>>);

impl SearchIndex {
    /// Updates the search index of the account if necessary. Returns the index if the index is
    /// complete and current. Otherwise returns the status of the index. `folders` are the folders
    /// that the request uses, with their states on the mail server at the time of the request.
    /// `all` is `true` if `folders` contains all folders of the mailbox.
    pub(crate) async fn current(
        &self,
        access: &Access,
        folders: &[FolderState],
        all: bool,
    ) -> Result<CurrentIndex, IndexStatus> {
        let Some(indexes) = self.indexes.as_ref() else {
            return Err(IndexStatus::Off);
        };
        let index = indexes.account(&access.account);
        if let Some(status) = index.paused() {
            indexes.count_fallback();
            return Err(status);
        }
        match self.updated_index(indexes, &index, folders, all).await {
            Ok(true) => {
                let content = Arc::clone(&index.content).read_owned().await;
                if content.is_some() {
                    return Ok(CurrentIndex(content));
                }
            }
            Ok(false) => {}
            Err(error) => {
                tracing::warn!(
                    account = access.account,
                    %error,
                    "the search index cannot be updated"
                );
            }
        }
        indexes.count_fallback();
        Err(IndexStatus::Building)
    }

    /// Updates the search index if necessary. Returns `false` if the index must be built in the
    /// background.
    async fn updated_index(
        &self,
        indexes: &Indexes,
        index: &Arc<AccountIndex>,
        folders: &[FolderState],
        all: bool,
    ) -> Result<bool, Error> {
        if index.is_queued.load(Ordering::SeqCst) {
            return Ok(false);
        }
        if let Some(content) = &*index.content.read().await {
            let mailbox = &content.mailbox;
            let is_current = if all {
                mailbox.is_current(folders)
            } else {
                folders.iter().all(|folder| mailbox.is_current_in(folder))
            };
            if is_current {
                return Ok(true);
            }
        } else if !self
            .context
            .directory
            .message_index
            .is_synced(&index.account)
            .await?
        {
            indexes.build(index);
            return Ok(false);
        }
        let updated = self.update_index(index, MAX_FOREGROUND).await?;
        if updated != Update::Current {
            indexes.build(index);
        }
        Ok(updated == Update::Current)
    }

    /// Runs a search in the index. Returns `None` if the index cannot be read. In this case, the
    /// index is closed, deleted if its files are damaged, and opened or built again in the
    /// background.
    pub(crate) async fn search(
        &self,
        access: &Access,
        index: CurrentIndex,
        query: Query,
        folders: FolderSet,
        request: SearchRequest<'_>,
    ) -> Result<Option<SearchResult>, Error> {
        let order = if request.folder.is_some() {
            Order::Folder
        } else {
            Order::Arrival
        };
        let sort = request.sort;
        let (offset, limit) = (to_usize(request.offset), to_usize(request.limit));
        let found = blocking::run_cancellable(move |cancelled| {
            let content = index.content()?;
            let found = content.index.search(
                &content.mailbox.state,
                &Search {
                    query: &query,
                    folders: &folders,
                    sort,
                    order,
                    offset,
                    limit,
                    cancelled,
                },
            );
            let found = match found {
                Ok(found) => found,
                Err(error) => return Ok(Err(error)),
            };
            let mut hits = Vec::with_capacity(found.hits.len());
            for hit in found.hits {
                let summary = content.summary(hit.number, &hit.summary)?;
                if let Some((summary, folder)) = summary {
                    hits.push(Hit {
                        summary,
                        folder,
                        snippet: Some(hit.snippet),
                    });
                }
            }
            Ok(Ok(SearchResult {
                hits,
                total: found.total,
                index: IndexStatus::Ready,
            }))
        });
        let found: Result<_, Error> = found.await.map_err(Error::Internal)?;
        match found? {
            Ok(result) => Ok(Some(result)),
            Err(error) => {
                self.close_damaged(access, &error).await;
                Ok(None)
            }
        }
    }

    /// Closes an index that cannot be read, and opens or builds it again in the background.
    pub(super) async fn close_damaged(&self, access: &Access, error: &latchmail_search::Error) {
        if let Some(indexes) = self.indexes.as_ref() {
            let account = indexes.account(&access.account);
            self.close_index(&account, error).await;
            indexes.count_fallback();
            indexes.build(&account);
        }
    }
}

impl CurrentIndex {
    pub(super) fn content(&self) -> Result<&Content, Error> {
        self.0
            .as_ref()
            .ok_or_else(|| Error::Internal("the search index is closed".into()))
    }

    /// Returns the folders that the caller can read and that satisfy `is_searched`.
    pub(crate) fn folders(
        &self,
        folder_access: &FolderAccess,
        is_searched: impl Fn(&str) -> bool,
    ) -> FolderSet {
        let Some(content) = &*self.0 else {
            return FolderSet::default();
        };
        let folders = content.mailbox.folders();
        folders
            .filter(|(_, folder)| {
                folder_access.can_read(&folder.path, folder.uid_validity)
                    && is_searched(&folder.path)
            })
            .map(|(position, _)| position)
            .collect()
    }
}

impl Content {
    /// Returns the summary of a message with its current flags, and the path of its folder.
    /// `stored` is the summary in the index. Returns `None` if the message no longer exists.
    pub(super) fn summary(
        &self,
        number: MessageNumber,
        stored: &[u8],
    ) -> Result<Option<(Summary, String)>, Error> {
        let state = &self.mailbox.state;
        let Some(location) = state.get(number) else {
            return Ok(None);
        };
        let folder = state.path(location.folder).unwrap_or_default().to_owned();
        let flags = state.flags(number).unwrap_or_default();
        let summary = stored_summary(number, stored)?;
        Ok(Some((
            Summary {
                seq: state.seq(location.folder, location.imap_uid),
                flags: flags.split_whitespace().map(ToOwned::to_owned).collect(),
                thread_id: self.threads.id(number),
                ..summary
            },
            folder,
        )))
    }
}
