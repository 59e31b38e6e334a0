//! The threads of a mailbox. The keys of the threads are in the index.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use latchmail_directory::message_index;
use latchmail_search::threads::{ThreadId, Threads};
use latchmail_search::{FolderSet, StoredThreadKeys};

use super::AccountIndex;
use super::content::Content;
use super::document::MessageDocument;
use super::search::CurrentIndex;
use crate::blocking;
use crate::error::Error;
use crate::folder_access::FolderAccess;
use crate::listing::to_usize;
use crate::mail::Mail;
use crate::search::Hit;
use crate::threads::{Thread, ThreadPage};
use crate::types::Address;

/// Maximum number of messages of a thread that are read for its participants.
const PARTICIPANT_MESSAGES: usize = 200;

/// The threads of a mailbox, and the times of arrival of its messages.
pub(super) struct MailboxThreads {
    threads: Threads,
    arrivals: HashMap<u64, i64>,
    /// `true` if the threads have changed since they were stored.
    is_changed: bool,
}

impl MailboxThreads {
    pub(super) fn new(keys: Vec<StoredThreadKeys>) -> Self {
        let arrivals = keys.iter().map(|stored| (stored.uid, stored.arrival));
        Self {
            is_changed: true,
            arrivals: arrivals.collect(),
            threads: Threads::build(
                keys.into_iter()
                    .map(|stored| (stored.uid, stored.date, stored.keys)),
            ),
        }
    }

    /// Adds new messages and removes others.
    pub(super) fn update(&mut self, new: &[MessageDocument], removed: &[u64]) {
        self.is_changed |= !(new.is_empty() && removed.is_empty());
        self.threads.remove(removed);
        for uid in removed {
            self.arrivals.remove(uid);
        }
        for message in new {
            self.arrivals.insert(message.uid, message.arrival);
            self.threads
                .add(message.uid, message.date(), message.thread.clone());
        }
    }

    /// Returns the id of a message's thread. Returns an empty string for an unknown message.
    pub(super) fn id(&self, uid: u64) -> String {
        let thread = self.threads.thread_of(uid);
        thread.map(|thread| thread.to_string()).unwrap_or_default()
    }

    fn arrival(&self, uid: u64) -> i64 {
        self.arrivals.get(&uid).copied().unwrap_or_default()
    }
}

/// The data of a thread before its messages are read.
struct Group {
    id: ThreadId,
    count: u32,
    unread: u32,
    /// The arrival and the number of the newest message.
    newest: (i64, u64),
    /// Whether one of the messages is in the listed folder.
    is_listed: bool,
}

impl Content {
    /// Returns the threads with a message in the folder, or all threads, newest first. Considers only messages in `visible` folders.
    fn groups(&self, visible: &FolderSet, folder: Option<&str>) -> Vec<Group> {
        let state = &self.mailbox.state;
        let listed = folder.and_then(|path| state.folder(path));
        let mut groups: HashMap<ThreadId, Group> = HashMap::new();
        for uid in state.uids() {
            let Some(location) = state.get(uid) else {
                continue;
            };
            if !visible.contains(location.folder) {
                continue;
            }
            let Some(id) = self.threads.threads.thread_of(uid) else {
                continue;
            };
            let group = groups.entry(id).or_insert(Group {
                id,
                count: 0,
                unread: 0,
                newest: (i64::MIN, 0),
                is_listed: false,
            });
            group.count += 1;
            group.unread += u32::from(!is_seen(state.flags(uid).unwrap_or_default()));
            group.newest = group.newest.max((self.threads.arrival(uid), uid));
            group.is_listed |= folder.is_none() || Some(location.folder) == listed;
        }
        let mut groups: Vec<Group> = groups
            .into_values()
            .filter(|group| group.is_listed)
            .collect();
        groups.sort_unstable_by_key(|group| std::cmp::Reverse(group.newest));
        groups
    }

    /// Returns the messages of a thread in `visible` folders, oldest first.
    fn members(&self, visible: &FolderSet, id: ThreadId) -> Vec<u64> {
        let mut members = self.threads.threads.members(id);
        members.retain(|uid| {
            let location = self.mailbox.state.get(*uid);
            location.is_some_and(|location| visible.contains(location.folder))
        });
        members.sort_unstable_by_key(|uid| (self.threads.arrival(*uid), *uid));
        members
    }

    /// Returns the existing messages with these numbers, in the same order.
    fn hits(&self, uids: &[u64]) -> Result<Vec<Hit>, Error> {
        let stored = self.index.summaries(uids);
        let stored = stored.map_err(|error| Error::Internal(error.to_string()))?;
        let mut hits = Vec::with_capacity(uids.len());
        for (uid, stored) in uids.iter().zip(stored) {
            let Some(stored) = stored else { continue };
            if let Some((summary, folder)) = self.summary(*uid, &stored)? {
                hits.push(Hit {
                    summary,
                    folder,
                    snippet: None,
                });
            }
        }
        Ok(hits)
    }

    fn thread(&self, visible: &FolderSet, group: &Group) -> Result<Option<Thread>, Error> {
        let members = self.members(visible, group.id);
        let first = self.hits(&members[..members.len().min(PARTICIPANT_MESSAGES)])?;
        let mut participants: Vec<Address> = Vec::new();
        for sender in first.iter().flat_map(|hit| &hit.summary.from) {
            let is_known = participants
                .iter()
                .any(|known| known.address.eq_ignore_ascii_case(&sender.address));
            if !is_known {
                participants.push(sender.clone());
            }
        }
        let newest = self.hits(&[group.newest.1])?.pop();
        Ok(newest.map(|newest| Thread {
            id: group.id.to_string(),
            subject: first
                .first()
                .map(|oldest| oldest.summary.subject.clone())
                .unwrap_or_default(),
            count: group.count,
            unread: group.unread,
            participants,
            newest,
        }))
    }
}

fn is_seen(flags: &str) -> bool {
    flags
        .split_whitespace()
        .any(|flag| flag.eq_ignore_ascii_case("\\Seen"))
}

impl Mail {
    /// Returns the threads of messages from the open index of an account. Returns `None` if the index is not open.
    pub(crate) async fn open_threads(
        &self,
        account: &str,
        uids: &[u64],
    ) -> Option<HashMap<u64, u64>> {
        let index = self.indexes()?.open(account)?;
        let content = index.content.read().await;
        let threads = &content.as_ref()?.threads.threads;
        let with_thread = |uid: &u64| Some((*uid, threads.thread_of(*uid)?.0));
        Some(uids.iter().filter_map(with_thread).collect())
    }

    /// Stores the merged threads of an open index in the directory, for listings while the index is closed.
    pub(super) async fn store_threads(&self, index: &AccountIndex) -> Result<(), Error> {
        {
            let mut content = index.content.write().await;
            let Some(content) = &mut *content else {
                return Ok(());
            };
            if !std::mem::take(&mut content.threads.is_changed) {
                return Ok(());
            }
        }
        let content = Arc::clone(&index.content).read_owned().await;
        let merged = blocking::run(move || {
            let content = content.as_ref();
            let merged = content.map(|content| content.threads.threads.merged());
            let merged = merged.into_iter().flatten();
            merged.map(|(uid, thread)| (uid, thread.0)).collect()
        });
        let merged: Vec<_> = merged.await.map_err(Error::Internal)?;
        let stored = message_index::set_merged_threads(self.db(), &index.account, merged).await;
        if stored.is_err()
            && let Some(content) = &mut *index.content.write().await
        {
            content.threads.is_changed = true;
        }
        Ok(stored?)
    }

    /// Returns a page of the threads that the caller can read.
    pub(crate) async fn list_threads(
        &self,
        index: CurrentIndex,
        access: &FolderAccess,
        folder: Option<String>,
        offset: u32,
        limit: u32,
    ) -> Result<ThreadPage, Error> {
        let visible = index.folders(access, |_| true);
        blocking::run(move || {
            let content = index.content()?;
            let groups = content.groups(&visible, folder.as_deref());
            let mut threads = Vec::new();
            for group in groups.iter().skip(to_usize(offset)).take(to_usize(limit)) {
                threads.extend(content.thread(&visible, group)?);
            }
            Ok(ThreadPage {
                threads,
                total: u32::try_from(groups.len()).unwrap_or(u32::MAX),
            })
        })
        .await
        .map_err(Error::Internal)?
    }

    /// Returns the messages of a thread that the caller can read, oldest first. Returns `None` if there is no such thread.
    pub(crate) async fn thread_messages(
        &self,
        index: CurrentIndex,
        access: &FolderAccess,
        id: String,
    ) -> Result<Option<Vec<Hit>>, Error> {
        let visible = index.folders(access, |_| true);
        blocking::run(move || {
            let content = index.content()?;
            let Some(id) = content.threads.threads.find(&id) else {
                return Ok(None);
            };
            let hits = content.hits(&content.members(&visible, id))?;
            Ok((!hits.is_empty()).then_some(hits))
        })
        .await
        .map_err(Error::Internal)?
    }
}
