//! Lists the threads of a mailbox. The threads are computed from keys in the search index.

use std::collections::{HashMap, HashSet};

use latchmail_core::message_number::MessageNumber;
use latchmail_search::FolderSet;
use latchmail_search::threads::ThreadId;

use super::SearchIndex;
use super::content::Content;
use super::current_index::CurrentIndex;
use super::document::stored_senders;
use super::results::Hit;
use super::results::{Thread, ThreadMessages, ThreadPage};
use crate::blocking;
use crate::bounds::to_usize;
use crate::error::Error;
use crate::folders::rights::FolderAccess;
use crate::message::types::Address;

/// Maximum number of messages of a thread that are read for its participants.
const PARTICIPANT_MESSAGES: usize = 200;

/// The number of messages that are read at a time for the participants of a thread.
const PARTICIPANT_BATCH: usize = 50;

/// Maximum number of participants of a thread, and maximum number of senders of one message that
/// are read.
const MAX_PARTICIPANTS: usize = 50;

/// Maximum size of the participants of a thread, in bytes. A page of 100 threads must fit into a
/// sandbox's memory.
const PARTICIPANT_BYTES: usize = 16 * 1024;

/// The data of a thread before its messages are read.
struct Group {
    id: ThreadId,
    count: u32,
    unread: u32,
    /// The arrival time in milliseconds since 1970, and the message number of the newest message.
    newest: (i64, MessageNumber),
    /// Whether one of the messages is in the listed folder. `true` if all folders are listed.
    is_listed: bool,
}

/// The senders of a thread's messages, without duplicates.
#[derive(Default)]
struct Participants {
    list: Vec<Address>,
    /// The addresses of `list` in lower case.
    known: HashSet<String>,
    /// The size of `list`, in bytes.
    bytes: usize,
}

impl Participants {
    /// Adds a sender. Returns `false` if the list is full.
    fn add(&mut self, sender: Address) -> bool {
        if !self.known.insert(sender.address.to_ascii_lowercase()) {
            return true;
        }
        self.bytes += sender.name.len() + sender.address.len();
        if self.bytes > PARTICIPANT_BYTES {
            return false;
        }
        self.list.push(sender);
        self.list.len() < MAX_PARTICIPANTS
    }
}

impl Content {
    /// Returns the threads with a message in `folder`, newest first. Returns all threads if
    /// `folder` is `None`. Considers only messages in `visible` folders.
    fn groups(&self, visible: &FolderSet, folder: Option<&str>) -> Vec<Group> {
        let state = &self.mailbox.state;
        let listed = folder.and_then(|path| state.folder(path));
        let mut groups: HashMap<ThreadId, Group> = HashMap::new();
        for number in state.numbers() {
            let Some(location) = state.get(number) else {
                continue;
            };
            if !visible.contains(location.folder) {
                continue;
            }
            let Some(id) = self.threads.threads.thread_of(number) else {
                continue;
            };
            let group = groups.entry(id).or_insert(Group {
                id,
                count: 0,
                unread: 0,
                newest: (i64::MIN, number),
                is_listed: false,
            });
            group.count += 1;
            group.unread += u32::from(!is_seen(state.flags(number).unwrap_or_default()));
            group.newest = group.newest.max((self.threads.arrival(number), number));
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
    pub(super) fn members(&self, visible: &FolderSet, id: ThreadId) -> Vec<MessageNumber> {
        let mut members = self.threads.threads.members(id);
        members.retain(|number| {
            let location = self.mailbox.state.get(*number);
            location.is_some_and(|location| visible.contains(location.folder))
        });
        members.sort_unstable_by_key(|number| (self.threads.arrival(*number), *number));
        members
    }

    /// Returns the existing messages with these numbers, in the same order.
    fn hits(&self, numbers: &[MessageNumber]) -> Result<Vec<Hit>, Error> {
        let stored = self.index.summaries(numbers);
        let stored = stored.map_err(|error| Error::Internal(error.to_string()))?;
        let mut hits = Vec::with_capacity(numbers.len());
        for (number, stored) in numbers.iter().zip(stored) {
            let Some(stored) = stored else { continue };
            if let Some((summary, folder)) = self.summary(*number, &stored)? {
                hits.push(Hit {
                    summary,
                    folder,
                    snippet: None,
                });
            }
        }
        Ok(hits)
    }

    /// Returns at most `limit` messages of a thread, oldest first. Skips the newest `offset`
    /// messages. Returns `None` if the thread has no message in `visible` folders.
    fn thread_messages(
        &self,
        visible: &FolderSet,
        id: ThreadId,
        offset: usize,
        limit: usize,
    ) -> Result<Option<ThreadMessages>, Error> {
        let members = self.members(visible, id);
        if members.is_empty() {
            return Ok(None);
        }
        let end = members.len().saturating_sub(offset);
        let page = &members[end.saturating_sub(limit)..end];
        Ok(Some(ThreadMessages {
            id: id.to_string(),
            messages: self.hits(page)?,
            total: u32::try_from(members.len()).unwrap_or(u32::MAX),
        }))
    }

    fn thread(&self, visible: &FolderSet, group: &Group) -> Result<Option<Thread>, Error> {
        let members = self.members(visible, group.id);
        let oldest = self.hits(&members[..members.len().min(1)])?.pop();
        let newest = self.hits(&[group.newest.1])?.pop();
        let Some(newest) = newest else {
            return Ok(None);
        };
        Ok(Some(Thread {
            id: group.id.to_string(),
            subject: oldest
                .map(|oldest| oldest.summary.subject)
                .unwrap_or_default(),
            count: group.count,
            unread: group.unread,
            participants: self.participants(&members)?,
            newest,
        }))
    }

    /// Returns the senders of messages, in the order of their first message. Stops reading messages
    /// as soon as the list is full.
    fn participants(&self, members: &[MessageNumber]) -> Result<Vec<Address>, Error> {
        let mut participants = Participants::default();
        let members = &members[..members.len().min(PARTICIPANT_MESSAGES)];
        for batch in members.chunks(PARTICIPANT_BATCH) {
            let stored = self.index.summaries(batch);
            let stored = stored.map_err(|error| Error::Internal(error.to_string()))?;
            for stored in stored.into_iter().flatten() {
                for sender in stored_senders(&stored)?.into_iter().take(MAX_PARTICIPANTS) {
                    if !participants.add(sender) {
                        return Ok(participants.list);
                    }
                }
            }
        }
        Ok(participants.list)
    }
}

fn is_seen(flags: &str) -> bool {
    flags
        .split_whitespace()
        .any(|flag| flag.eq_ignore_ascii_case("\\Seen"))
}

impl SearchIndex {
    /// Returns a page of the threads that the caller can read.
    pub(crate) async fn threads(
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

    /// Returns the numbers of the messages with this Message-ID in folders that the caller can
    /// read.
    pub(crate) fn with_message_id(
        index: &CurrentIndex,
        access: &FolderAccess,
        message_id: &str,
    ) -> Result<Vec<MessageNumber>, Error> {
        let visible = index.folders(access, |_| true);
        let content = index.content()?;
        let mut found = content.threads.threads.with_message_id(message_id);
        found.retain(|number| {
            let location = content.mailbox.state.get(*number);
            location.is_some_and(|location| visible.contains(location.folder))
        });
        Ok(found)
    }

    /// Returns a page of those messages of a thread that the caller can read. Returns `None` if the
    /// caller can read no message of the thread. Reads only the messages on the page.
    pub(crate) async fn thread_messages(
        &self,
        index: CurrentIndex,
        access: &FolderAccess,
        id: String,
        offset: u32,
        limit: u32,
    ) -> Result<Option<ThreadMessages>, Error> {
        let visible = index.folders(access, |_| true);
        blocking::run(move || {
            let content = index.content()?;
            let Some(id) = content.threads.threads.find(&id) else {
                return Ok(None);
            };
            content.thread_messages(&visible, id, to_usize(offset), to_usize(limit))
        })
        .await
        .map_err(Error::Internal)?
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use bytes::Bytes;
    use latchmail_core::clock::Timestamp;
    use latchmail_core::message_number::Uid;
    use latchmail_directory::message_index::{Replica, ReplicaFolder, ReplicaMessage};
    use latchmail_imap::Fetched;
    use latchmail_search::Index;
    use tempfile::TempDir;

    use super::super::content::Mailbox;
    use super::super::document::MessageDocument;
    use super::super::mailbox_threads::MailboxThreads;
    use super::*;
    use crate::message::parts::MessageParts;

    /// Returns an open index with these messages in the folder `INBOX`. Their numbers start at 1.
    fn content(messages: &[String]) -> (TempDir, Content) {
        let folder = tempfile::tempdir().unwrap();
        let index = Index::open(folder.path()).unwrap();
        let mut writer = index.writer(16 * 1024 * 1024).unwrap();
        let mut listed = Vec::new();
        for (uid, message) in (1..).zip(messages) {
            let fetched = Fetched {
                uid: Uid(uid),
                internal_date: Some(Timestamp::from_millis(i64::from(uid))),
                whole: Bytes::from(message.clone()),
                ..Fetched::default()
            };
            let number = MessageNumber(uid.into());
            let document = MessageDocument::new(number, &MessageParts::of_complete(fetched));
            document
                .with_document(|document| writer.add(document))
                .unwrap()
                .unwrap();
            listed.push(ReplicaMessage {
                number,
                folder: 0,
                imap_uid: Uid(uid),
                flags: "".into(),
            });
        }
        writer.commit().unwrap();
        let inbox = ReplicaFolder {
            id: "1".into(),
            public_id: "1".into(),
            path: "INBOX".into(),
            uid_validity: 1,
            uid_next: 1,
            highest_modseq: Some(1),
        };
        let content = Content {
            mailbox: Mailbox::new(&Replica {
                version: 1,
                folders: vec![inbox],
                messages: listed,
            }),
            threads: MailboxThreads::new(index.thread_keys().unwrap()),
            index: Arc::new(index),
            unindexed: std::collections::BTreeSet::new(),
            verified: std::time::Instant::now(),
        };
        (folder, content)
    }

    /// Returns a message that belongs to the thread `root`.
    fn letter(root: &str, number: usize, from: &str) -> String {
        format!(
            "From: {from}\r\nSubject: Alert\r\nMessage-ID: <{number}@{root}>\r\n\
             References: <{root}@{root}>\r\n\r\nText\r\n"
        )
    }

    fn inbox() -> FolderSet {
        std::iter::once(0).collect()
    }

    #[test]
    fn only_the_messages_on_a_page_of_a_thread_are_read() {
        const MESSAGES: usize = 1_000;
        let messages: Vec<String> = (0..MESSAGES)
            .map(|number| letter("a", number, "Bo <bo@example.org>"))
            .collect();
        let (_folder, content) = content(&messages);
        let id = content.threads.threads.thread_of(MessageNumber(1)).unwrap();
        let numbers = |offset, limit| -> Vec<u64> {
            let page = content.thread_messages(&inbox(), id, offset, limit);
            let page = page.unwrap().unwrap();
            assert_eq!((page.id, page.total), (id.to_string(), 1_000));
            page.messages
                .iter()
                .map(|hit| hit.summary.number.0)
                .collect()
        };
        assert_eq!(numbers(0, 100), (901..=1_000).collect::<Vec<u64>>());
        assert_eq!(numbers(950, 50), (1..=50).collect::<Vec<u64>>());
        assert_eq!(numbers(970, 50), (1..=30).collect::<Vec<u64>>());
        assert_eq!(numbers(1_000, 50), [0; 0]);
        assert_eq!(numbers(usize::MAX, 50), [0; 0]);
        let hidden = content.thread_messages(&FolderSet::default(), id, 0, 50);
        assert_eq!(hidden.unwrap(), None);
    }

    #[test]
    fn a_thread_in_a_list_has_a_limited_number_of_participants() {
        // Each message has as many senders as fit into the limit of a header field.
        let senders = |message: usize| {
            let senders = (0..150).map(|n| format!("s{n}m{message}@example.org"));
            senders.collect::<Vec<_>>().join(",\r\n ")
        };
        let long = |message: usize| {
            let name = "x".repeat(1_000);
            format!("{name} <s{message}@example.org>")
        };
        let mut messages: Vec<String> = (0..200).map(|n| letter("a", n, &senders(n))).collect();
        messages.extend((0..60).map(|n| letter("b", n, &long(n))));
        messages.extend(["Bo <bo@x>", "Al <al@x>", "BO <Bo@X>"].map(|from| letter("c", 0, from)));
        let (_folder, content) = content(&messages);
        let groups = content.groups(&inbox(), None);
        let threads: HashMap<String, Thread> = groups
            .iter()
            .map(|group| content.thread(&inbox(), group).unwrap().unwrap())
            .map(|thread| (thread.id.clone(), thread))
            .collect();
        let thread = |number| &threads[&content.threads.id(MessageNumber(number))];
        let many = &thread(1).participants;
        assert_eq!((thread(1).count, many.len()), (200, MAX_PARTICIPANTS));
        assert_eq!(many[0].address, "s0m0@example.org");
        let bytes = |thread: &Thread| {
            let sizes = thread.participants.iter();
            sizes
                .map(|one| one.name.len() + one.address.len())
                .sum::<usize>()
        };
        let large = thread(201);
        assert_eq!((large.count, large.participants.len()), (60, 16));
        assert!(bytes(large) <= PARTICIPANT_BYTES);
        let few: Vec<&str> = thread(261)
            .participants
            .iter()
            .map(|one| one.name.as_str())
            .collect();
        assert_eq!(few, ["Bo", "Al"]);
    }
}
