//! Selects and sorts messages by the index, without reading their summaries, and counts messages
//! and threads.

use std::cmp::Ordering;
use std::collections::{HashMap, HashSet};
use std::sync::atomic::AtomicBool;

use latchmail_core::message_number::MessageNumber;
use latchmail_search::filter::{Filter, Selected};
use latchmail_search::threads::ThreadId;
use latchmail_search::{Error as IndexError, FolderSet};

use super::SearchIndex;
use super::content::Content;
use super::current_index::CurrentIndex;
use crate::access::Access;
use crate::blocking;
use crate::error::Error;
use crate::folders::rights::FolderAccess;

/// Selects messages.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum MessageFilter {
    /// Selects the messages that all filters select.
    All(Vec<Self>),
    /// Selects the messages that at least one filter selects.
    Any(Vec<Self>),
    /// Selects the messages that no filter selects.
    None(Vec<Self>),
    /// The message is in the folder with this path.
    Folder(String),
    /// A message of the thread has the flag.
    ThreadFlag(String),
    /// All messages of the thread have the flag.
    ThreadFlags(String),
    /// A condition that the index evaluates.
    Condition(Filter),
}

/// The value by which messages are sorted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SortValue {
    /// The time of arrival.
    Arrival,
    /// The date in the header.
    Date,
    /// The size.
    Size,
    /// Whether the message has the flag.
    Flag(String),
    /// Whether a message of the thread has the flag.
    ThreadFlag(String),
    /// Whether all messages of the thread have the flag.
    ThreadFlags(String),
}

/// A key by which messages are sorted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SortKey {
    /// The value.
    pub value: SortValue,
    /// Whether smaller values come first.
    pub ascending: bool,
}

/// The beginning of a page.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Start {
    /// The position in the result. A negative position counts from the end.
    Position(i64),
    /// A position relative to a message.
    Anchor(MessageNumber, i64),
}

/// A query for the numbers of messages.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NumberQuery {
    /// The filter.
    pub filter: MessageFilter,
    /// The keys, the most important one first. Without keys, the newest message is first.
    pub sort: Vec<SortKey>,
    /// Whether the result has only the first message of each thread.
    pub one_per_thread: bool,
    /// The beginning of the page.
    pub start: Start,
    /// The maximum number of messages on the page.
    pub limit: usize,
    /// The messages whose positions are returned.
    pub locate: HashSet<MessageNumber>,
}

/// A page of the numbers of messages.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct NumberPage {
    /// The numbers of the messages on the page.
    pub numbers: Vec<MessageNumber>,
    /// The position of the first message on the page.
    pub position: usize,
    /// The number of messages of the complete result.
    pub total: usize,
    /// The requested positions, ascending.
    pub located: Vec<(MessageNumber, usize)>,
}

/// The data of a message in memory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MessageFacts {
    /// The number of the message.
    pub number: MessageNumber,
    /// The path of the folder.
    pub folder: String,
    /// The public id of the folder.
    pub folder_id: String,
    /// The flags.
    pub flags: Vec<String>,
    /// The time of arrival, in milliseconds since 1970.
    pub received_at: i64,
    /// The size in bytes.
    pub size: u64,
    /// The id of the thread.
    pub thread_id: String,
    /// Whether the message has an attachment.
    pub has_attachment: bool,
}

/// The messages of a thread.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ThreadNumbers {
    /// The current id of the thread.
    pub id: String,
    /// The requested id.
    pub requested: String,
    /// The messages, oldest first.
    pub numbers: Vec<MessageNumber>,
}

/// The numbers of messages and threads in a folder.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FolderCounts {
    /// The public id of the folder.
    pub folder_id: String,
    /// The number of messages.
    pub messages: u32,
    /// The number of messages with neither `\Seen` nor `\Draft`.
    pub unread: u32,
    /// The number of threads with a message in the folder.
    pub threads: u32,
    /// The number of threads with such an unread message in the folder.
    pub unread_threads: u32,
}

/// For each thread of the visible messages, whether a message and whether all messages have a flag.
type ThreadFlags = HashMap<ThreadId, (bool, bool)>;

/// A sort key with its values.
enum Key<'a> {
    Number(fn(&Selected) -> i64),
    Flag(&'a str),
    Numbers(HashSet<MessageNumber>),
}

fn has_flag(flags: &str, flag: &str) -> bool {
    let mut flags = flags.split(' ');
    flags.any(|one| one.eq_ignore_ascii_case(flag))
}

impl Content {
    /// Returns the folder, the flags and the thread of each visible message.
    fn visible<'a>(
        &'a self,
        folders: &'a FolderSet,
    ) -> impl Iterator<Item = (MessageNumber, u16, &'a str)> {
        let state = &self.mailbox.state;
        state.numbers().filter_map(move |number| {
            let folder = state.get(number)?.folder;
            let flags = state.flags(number).unwrap_or_default();
            folders.contains(folder).then_some((number, folder, flags))
        })
    }

    /// Returns the messages whose threads have a flag in one message, or with `all` in all
    /// messages.
    fn with_thread_flag(
        &self,
        folders: &FolderSet,
        flag: &str,
        all: bool,
    ) -> HashSet<MessageNumber> {
        let thread = |number| self.threads.threads.thread_of(number);
        let mut threads = ThreadFlags::new();
        for (number, _, flags) in self.visible(folders) {
            let Some(id) = thread(number) else { continue };
            let has = has_flag(flags, flag);
            let (some, every) = threads.entry(id).or_insert((false, true));
            *some |= has;
            *every &= has;
        }
        let is_selected = |number: &MessageNumber| {
            let flags = thread(*number).and_then(|id| threads.get(&id));
            flags.is_some_and(|(some, every)| if all { *every } else { *some })
        };
        let numbers = self.visible(folders).map(|(number, _, _)| number);
        numbers.filter(is_selected).collect()
    }

    /// Converts a filter to a filter of the index.
    fn resolve(&self, folders: &FolderSet, filter: MessageFilter) -> Filter {
        let all = |filters: Vec<MessageFilter>| {
            let filters = filters.into_iter();
            filters.map(|one| self.resolve(folders, one)).collect()
        };
        match filter {
            MessageFilter::All(filters) => Filter::All(all(filters)),
            MessageFilter::Any(filters) => Filter::Any(all(filters)),
            MessageFilter::None(filters) => Filter::None(all(filters)),
            MessageFilter::Folder(path) => match self.mailbox.state.folder(&path) {
                Some(folder) => Filter::Folder(folder),
                None => Filter::Any(Vec::new()),
            },
            MessageFilter::ThreadFlag(flag) => {
                Filter::Numbers(self.with_thread_flag(folders, &flag, false))
            }
            MessageFilter::ThreadFlags(flag) => {
                Filter::Numbers(self.with_thread_flag(folders, &flag, true))
            }
            MessageFilter::Condition(filter) => filter,
        }
    }

    /// Sorts messages. Equal messages are in the order of their numbers, in the direction of the
    /// first key.
    fn sort(&self, folders: &FolderSet, sort: &[SortKey], selected: &mut [Selected]) {
        let keys: Vec<(Key<'_>, bool)> = sort
            .iter()
            .map(|key| {
                let value = match &key.value {
                    SortValue::Arrival => Key::Number(|one| one.arrival),
                    SortValue::Date => Key::Number(|one| one.date),
                    SortValue::Size => {
                        Key::Number(|one| i64::try_from(one.size).unwrap_or(i64::MAX))
                    }
                    SortValue::Flag(flag) => Key::Flag(flag),
                    SortValue::ThreadFlag(flag) => {
                        Key::Numbers(self.with_thread_flag(folders, flag, false))
                    }
                    SortValue::ThreadFlags(flag) => {
                        Key::Numbers(self.with_thread_flag(folders, flag, true))
                    }
                };
                (value, key.ascending)
            })
            .collect();
        let state = &self.mailbox.state;
        let value = |key: &Key<'_>, one: &Selected| match key {
            Key::Number(value) => value(one),
            Key::Flag(flag) => has_flag(state.flags(one.number).unwrap_or_default(), flag).into(),
            Key::Numbers(numbers) => numbers.contains(&one.number).into(),
        };
        let ascending = sort.first().is_some_and(|key| key.ascending);
        let directed = |order: Ordering, ascending: bool| {
            if ascending { order } else { order.reverse() }
        };
        selected.sort_unstable_by(|a, b| {
            let compare = |(key, ascending): &(Key<'_>, bool)| {
                directed(value(key, a).cmp(&value(key, b)), *ascending)
            };
            let order = keys.iter().map(compare).find(|order| order.is_ne());
            order.unwrap_or_else(|| {
                let by_arrival = if keys.is_empty() {
                    a.arrival.cmp(&b.arrival)
                } else {
                    Ordering::Equal
                };
                directed(by_arrival.then(a.number.cmp(&b.number)), ascending)
            })
        });
    }

    /// Returns the numbers of the selected messages in order.
    fn select(
        &self,
        folders: &FolderSet,
        query: &mut NumberQuery,
        cancelled: &AtomicBool,
    ) -> Result<Vec<MessageNumber>, IndexError> {
        let filter = std::mem::replace(&mut query.filter, MessageFilter::All(Vec::new()));
        let filter = self.resolve(folders, filter);
        let state = &self.mailbox.state;
        let mut selected = self.index.select(state, &filter, folders, cancelled)?;
        self.sort(folders, &query.sort, &mut selected);
        let mut numbers: Vec<MessageNumber> = selected.iter().map(|one| one.number).collect();
        if query.one_per_thread {
            let mut known = HashSet::new();
            numbers.retain(|number| {
                let thread = self.threads.threads.thread_of(*number);
                thread.is_none_or(|thread| known.insert(thread))
            });
        }
        Ok(numbers)
    }

    fn facts(
        &self,
        folders: &FolderSet,
        numbers: &[MessageNumber],
    ) -> Result<Vec<MessageFacts>, IndexError> {
        let attributes = self.index.attributes(numbers)?;
        let state = &self.mailbox.state;
        let facts = numbers
            .iter()
            .zip(attributes)
            .filter_map(|(number, found)| {
                let (attributes, location) = (found?, state.get(*number)?);
                let folder = self.mailbox.folder_at(location.folder)?;
                let flags = state.flags(*number).unwrap_or_default();
                folders.contains(location.folder).then(|| MessageFacts {
                    number: *number,
                    folder: folder.path.clone(),
                    folder_id: folder.public_id.clone(),
                    flags: flags.split_whitespace().map(ToOwned::to_owned).collect(),
                    received_at: self.threads.arrival(*number),
                    size: attributes.size,
                    thread_id: self.threads.id(*number),
                    has_attachment: attributes.has_attachment,
                })
            });
        Ok(facts.collect())
    }

    fn counts(&self, folders: &FolderSet) -> Vec<FolderCounts> {
        let mut counts: HashMap<u16, FolderCounts> = HashMap::new();
        for (position, folder) in self.mailbox.folders() {
            if folders.contains(position) {
                let empty = FolderCounts {
                    folder_id: folder.public_id.clone(),
                    messages: 0,
                    unread: 0,
                    threads: 0,
                    unread_threads: 0,
                };
                counts.insert(position, empty);
            }
        }
        // Whether the messages of a thread in a folder include an unread one.
        let mut threads: HashMap<(ThreadId, u16), bool> = HashMap::new();
        for (number, folder, flags) in self.visible(folders) {
            let is_unread = !has_flag(flags, "\\Seen") && !has_flag(flags, "\\Draft");
            if let Some(counts) = counts.get_mut(&folder) {
                counts.messages += 1;
                counts.unread += u32::from(is_unread);
            }
            if let Some(thread) = self.threads.threads.thread_of(number) {
                *threads.entry((thread, folder)).or_default() |= is_unread;
            }
        }
        for ((_, folder), is_unread) in threads {
            if let Some(counts) = counts.get_mut(&folder) {
                counts.threads += 1;
                counts.unread_threads += u32::from(is_unread);
            }
        }
        counts.into_values().collect()
    }
}

/// Returns the page of a result. Returns `None` if the result does not contain the anchor.
fn page(numbers: Vec<MessageNumber>, query: &NumberQuery) -> Option<NumberPage> {
    let total = numbers.len();
    let signed = |position: usize| i64::try_from(position).unwrap_or(i64::MAX);
    let position = match query.start {
        Start::Position(position) if position < 0 => signed(total).saturating_add(position),
        Start::Position(position) => position,
        Start::Anchor(anchor, offset) => {
            let at = numbers.iter().position(|number| *number == anchor)?;
            signed(at).saturating_add(offset)
        }
    };
    let position = usize::try_from(position.max(0)).unwrap_or(usize::MAX);
    let located = if query.locate.is_empty() {
        Vec::new()
    } else {
        let positions = numbers.iter().copied().zip(0..);
        let is_wanted = |(number, _): &(MessageNumber, usize)| query.locate.contains(number);
        positions.filter(is_wanted).collect()
    };
    let page = numbers.into_iter().skip(position).take(query.limit);
    Some(NumberPage {
        numbers: page.collect(),
        position,
        total,
        located,
    })
}

impl SearchIndex {
    /// Returns a page of the numbers of the messages that a filter selects. Returns `None` if the
    /// result does not contain the anchor.
    pub(crate) async fn query(
        &self,
        access: &Access,
        index: CurrentIndex,
        folder_access: &FolderAccess,
        mut query: NumberQuery,
    ) -> Result<Option<NumberPage>, Error> {
        let folders = index.folders(folder_access, |_| true);
        let found = self.read(access, index, move |content, cancelled| {
            let numbers = content.select(&folders, &mut query, cancelled)?;
            Ok(page(numbers, &query))
        });
        found.await
    }

    /// Returns the data of messages, in the order of `numbers`.
    pub(crate) async fn facts(
        &self,
        access: &Access,
        index: CurrentIndex,
        folder_access: &FolderAccess,
        numbers: Vec<MessageNumber>,
    ) -> Result<Vec<MessageFacts>, Error> {
        let folders = index.folders(folder_access, |_| true);
        let found = self.read(access, index, move |content, _| {
            content.facts(&folders, &numbers)
        });
        found.await
    }

    /// Returns the messages of threads that the caller can read. Skips other ids. Stops after
    /// `limit` messages, and then returns `None`.
    pub(crate) async fn thread_numbers(
        &self,
        access: &Access,
        index: CurrentIndex,
        folder_access: &FolderAccess,
        ids: Vec<String>,
        limit: usize,
    ) -> Result<Option<Vec<ThreadNumbers>>, Error> {
        let folders = index.folders(folder_access, |_| true);
        let found = self.read(access, index, move |content, _| {
            let (mut threads, mut count) = (Vec::with_capacity(ids.len()), 0);
            for requested in ids {
                let Some(id) = content.threads.threads.find(&requested) else {
                    continue;
                };
                let numbers = content.members(&folders, id);
                count += numbers.len();
                if count > limit {
                    return Ok(None);
                }
                if !numbers.is_empty() {
                    threads.push(ThreadNumbers {
                        id: id.to_string(),
                        requested,
                        numbers,
                    });
                }
            }
            Ok(Some(threads))
        });
        found.await
    }

    /// Counts the messages and threads of the folders that the caller can read.
    pub(crate) async fn counts(
        &self,
        access: &Access,
        index: CurrentIndex,
        folder_access: &FolderAccess,
    ) -> Result<Vec<FolderCounts>, Error> {
        let folders = index.folders(folder_access, |_| true);
        let found = self.read(
            access,
            index,
            move |content, _| Ok(content.counts(&folders)),
        );
        found.await
    }

    /// Reads the content of the index on a blocking thread. If the index cannot be read, closes the
    /// index and returns [`Error::IndexNotReady`].
    async fn read<T: Send + 'static>(
        &self,
        access: &Access,
        index: CurrentIndex,
        read: impl FnOnce(&Content, &AtomicBool) -> Result<T, IndexError> + Send + 'static,
    ) -> Result<T, Error> {
        let read = blocking::run_cancellable(move |cancelled| {
            let content = index.content()?;
            Ok::<_, Error>(read(content, cancelled))
        });
        match read.await.map_err(Error::Internal)?? {
            Ok(found) => Ok(found),
            Err(error) => {
                self.close_damaged(access, &error).await;
                Err(Error::IndexNotReady)
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn query(start: Start, limit: usize) -> NumberQuery {
        NumberQuery {
            filter: MessageFilter::All(Vec::new()),
            sort: Vec::new(),
            one_per_thread: false,
            start,
            limit,
            locate: [7, 9, 1].map(MessageNumber).into_iter().collect(),
        }
    }

    #[test]
    fn a_page_begins_at_a_position_or_relative_to_a_message() {
        let numbers = [9, 8, 7].map(MessageNumber).to_vec();
        let numbers_of = |start, limit| {
            let page = page(numbers.clone(), &query(start, limit))?;
            assert_eq!(page.total, 3);
            assert_eq!(page.located, [(MessageNumber(9), 0), (MessageNumber(7), 2)]);
            let found = page.numbers.iter().map(|number| number.0);
            Some((page.position, found.collect::<Vec<_>>()))
        };
        assert_eq!(numbers_of(Start::Position(1), 1), Some((1, vec![8])));
        assert_eq!(numbers_of(Start::Position(-2), 9), Some((1, vec![8, 7])));
        assert_eq!(numbers_of(Start::Position(-9), 1), Some((0, vec![9])));
        assert_eq!(numbers_of(Start::Position(5), 1), Some((5, vec![])));
        let anchor = |offset| Start::Anchor(MessageNumber(8), offset);
        assert_eq!(numbers_of(anchor(0), 0), Some((1, vec![])));
        assert_eq!(numbers_of(anchor(-5), 2), Some((0, vec![9, 8])));
        assert_eq!(
            numbers_of(anchor(i64::MAX), 2).map(|found| found.1),
            Some(vec![])
        );
        assert_eq!(numbers_of(Start::Anchor(MessageNumber(1), 0), 2), None);
    }

    #[test]
    fn flags_are_compared_without_case() {
        assert!(has_flag("\\Seen work", "WORK") && has_flag("\\Seen", "\\seen"));
        assert!(!has_flag("workday", "work") && !has_flag("", "work"));
    }
}
