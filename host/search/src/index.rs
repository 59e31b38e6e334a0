//! The index of one mailbox.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use latchmail_core::message_number::MessageNumber;
use tantivy::TantivyDocument;
use tantivy::schema::Value as _;

use crate::docs::{BLOCK, Docs};
use crate::error::{Error, guard};
use crate::matching::{Check, Plan};
use crate::query::Query;
use crate::ranking::{Ranked, Selection, scores};
use crate::schema::FIELDS;
use crate::segment::Segment;
use crate::shared::{Shared, verify};
use crate::snippet::{Highlighter, Snippet};
use crate::state::{FolderSet, MailboxState};
use crate::threads::ThreadKeys;
use crate::writer::Writer;

/// How search results are sorted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Sort {
    /// Newest first. [`Order`] defines which message is newer.
    #[default]
    Newest,
    /// Best match first. Equal matches are newest first.
    Relevance,
}

/// What "newest first" means.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Order {
    /// The highest IMAP UID first. This order is only for a search in one folder, because UIDs of
    /// different folders are not comparable.
    Folder,
    /// The latest time of arrival first. Messages with the same time are sorted by message number,
    /// highest first.
    Arrival,
}

/// A search.
#[derive(Clone, Debug)]
pub struct Search<'a> {
    /// The query.
    pub query: &'a Query,
    /// The folders to search.
    pub folders: &'a FolderSet,
    /// How to sort the result.
    pub sort: Sort,
    /// What "newest first" means.
    pub order: Order,
    /// The number of messages to skip.
    pub offset: usize,
    /// The maximum number of messages.
    pub limit: usize,
    /// If another thread sets the value to `true`, the search ends soon with [`Error::Cancelled`].
    pub cancelled: &'a AtomicBool,
}

/// A page of a search result.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Found {
    /// The number of messages on all pages.
    pub total: u32,
    /// The messages on the page, in the requested order.
    pub hits: Vec<Hit>,
}

/// A message in a search result.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Hit {
    /// The message number.
    pub number: MessageNumber,
    /// The data that the caller gave in [`Document::summary`](crate::Document::summary).
    pub summary: Vec<u8>,
    /// The part of the text with the matches, or the beginning of the text if only other parts of
    /// the message match.
    pub snippet: Snippet,
}

/// The thread keys of a message in the index.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StoredThreadKeys {
    /// The message number.
    pub number: MessageNumber,
    /// The time of arrival, in milliseconds since 1970.
    pub arrival: i64,
    /// The date in the header, in milliseconds since 1970.
    pub date: i64,
    /// The keys.
    pub keys: ThreadKeys,
}

/// The size of an index on the disk, in bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Size {
    /// The size without the stored texts and summaries.
    pub index: u64,
    /// The size of the stored texts and summaries.
    pub stored: u64,
}

/// The index of one mailbox. A search reads the last commit before the search.
///
/// An index without a [`Writer`] starts no threads. Its files are memory-mapped.
#[derive(Debug)]
pub struct Index {
    pub(crate) shared: Arc<Shared>,
}

impl Index {
    /// Opens the index in a folder. Creates the folder and the index if they do not exist. Verifies
    /// the checksums of all files.
    ///
    /// The folder must contain no other files, because the creation of an index deletes all files
    /// in the folder.
    ///
    /// # Errors
    /// Returns [`Error`] if the index is damaged or cannot be read.
    pub fn open(folder: &Path) -> Result<Self, Error> {
        guard(|| {
            Ok(Self {
                shared: Arc::new(Shared::open(folder)?),
            })
        })
    }

    /// Verifies the checksums of all files.
    ///
    /// # Errors
    /// Returns [`Error`] if the index is damaged or cannot be read.
    pub fn verify(&self) -> Result<(), Error> {
        self.shared.run(|| verify(&self.shared.index))
    }

    /// Creates a writer. Only one writer can exist. `memory` is the size of the buffer for messages
    /// that are not written yet, in bytes. The minimum is 15 MB: smaller values are increased.
    ///
    /// # Errors
    /// Returns [`Error`] if the index is damaged or cannot be read, or if another writer exists.
    pub fn writer(&self, memory: usize) -> Result<Writer, Error> {
        Writer::new(Arc::clone(&self.shared), memory)
    }

    /// Returns the message numbers in the index, in any order.
    ///
    /// # Errors
    /// Returns [`Error`] if the index is damaged or cannot be read.
    pub fn numbers(&self) -> Result<Vec<MessageNumber>, Error> {
        self.shared.numbers()
    }

    /// Returns the thread keys of all messages in the index, in any order.
    ///
    /// # Errors
    /// Returns [`Error`] if the index is damaged or cannot be read.
    pub fn thread_keys(&self) -> Result<Vec<StoredThreadKeys>, Error> {
        self.shared.run(|| {
            let mut all = Vec::new();
            for segment in &*self.shared.segments() {
                segment.alive().for_each(|doc| {
                    let keys = ThreadKeys {
                        message_id: segment.message_id.get_val(doc),
                        references: segment.references.values_for_doc(doc).collect(),
                        base_subject: segment.base_subject.get_val(doc),
                        untagged_subject: segment.untagged_subject.get_val(doc),
                        is_reply: segment.is_reply.get_val(doc),
                    };
                    let (arrival, date) = (segment.arrival.get_val(doc), segment.date.get_val(doc));
                    all.push(StoredThreadKeys {
                        number: MessageNumber(segment.number.get_val(doc)),
                        arrival,
                        date,
                        keys,
                    });
                });
            }
            Ok(all)
        })
    }

    /// Searches the messages that are in the index and in `state`.
    ///
    /// # Errors
    /// Returns [`Error`] if the index is damaged or cannot be read.
    pub fn search(&self, state: &MailboxState, search: &Search<'_>) -> Result<Found, Error> {
        self.shared
            .run(|| find(&self.shared.segments(), state, search))
    }

    /// Returns the summaries of messages, in the order of `numbers`. `None` stands for a message
    /// that is not in the index.
    ///
    /// # Errors
    /// Returns [`Error`] if the index is damaged or cannot be read.
    pub fn summaries(&self, numbers: &[MessageNumber]) -> Result<Vec<Option<Vec<u8>>>, Error> {
        self.shared.run(|| {
            let mut summaries = vec![None; numbers.len()];
            for segment in &*self.shared.segments() {
                let store = segment.reader.get_store_reader(1)?;
                let index = segment.reader.inverted_index(FIELDS.number)?;
                for (&number, summary) in numbers.iter().zip(&mut summaries) {
                    let term = tantivy::Term::from_field_u64(FIELDS.number, number.0);
                    let option = tantivy::schema::IndexRecordOption::Basic;
                    let Some(postings) = index.read_block_postings(&term, option)? else {
                        continue;
                    };
                    // If a message was replaced, the segment can also contain a deleted document
                    // with the same message number.
                    let alive = postings
                        .docs()
                        .iter()
                        .find(|&&doc| !segment.reader.is_deleted(doc));
                    if let Some(&doc) = alive {
                        *summary = Some(stored(&store.get(doc)?).0);
                    }
                }
            }
            Ok(summaries)
        })
    }

    /// Returns the size of the index on the disk.
    ///
    /// # Errors
    /// Returns [`Error`] if the index is damaged or cannot be read.
    pub fn size(&self) -> Result<Size, Error> {
        self.shared.run(|| {
            let mut size = Size::default();
            for segment in &*self.shared.segments() {
                let usage = segment.reader.space_usage()?;
                let stored = usage.store().total().get_bytes();
                size.stored += stored;
                size.index += usage.total().get_bytes() - stored;
            }
            Ok(size)
        })
    }

    #[cfg(test)]
    fn files(&self) -> &crate::files::Files {
        &self.shared.files
    }
}

/// Returns the summary and the text of a stored document.
fn stored(document: &TantivyDocument) -> (Vec<u8>, &str) {
    let summary = document
        .get_first(FIELDS.summary)
        .and_then(|value| value.as_bytes());
    let text = document
        .get_first(FIELDS.text)
        .and_then(|value| value.as_str());
    (
        summary.unwrap_or_default().to_vec(),
        text.unwrap_or_default(),
    )
}

/// Searches the messages that are in `segments` and in `state`.
fn find(segments: &[Segment], state: &MailboxState, search: &Search<'_>) -> Result<Found, Error> {
    let plan = Plan::new(search.query, search.folders, state);
    let check = Check(search.cancelled);
    let docs = segments
        .iter()
        .map(|segment| plan.evaluate(segment, state, &check))
        .collect::<Result<Vec<_>, _>>()?;
    let scores = match search.sort {
        Sort::Newest => None,
        Sort::Relevance => {
            let searched = segments.iter();
            let searched: Vec<_> = searched.map(|one| plan.searched(one, state)).collect();
            Some(scores(&plan, segments, &searched, &docs, &check)?)
        }
    };

    let mut selection = Selection::new(search.offset.saturating_add(search.limit));
    let (mut numbers, mut arrivals) = ([0; BLOCK], [0; BLOCK]);
    for (index, (segment, docs)) in segments.iter().zip(&docs).enumerate() {
        docs.for_each_block(|block| {
            segment.number.get_vals(block, &mut numbers[..block.len()]);
            if search.order == Order::Arrival {
                segment
                    .arrival
                    .get_vals(block, &mut arrivals[..block.len()]);
            }
            for ((&doc, number), &arrival) in
                block.iter().zip(numbers.map(MessageNumber)).zip(&arrivals)
            {
                let newest = match search.order {
                    Order::Folder => state
                        .entry(number)
                        .map_or(0, |entry| entry.imap_uid.0.into()),
                    Order::Arrival => arrival,
                };
                // Scores are not negative, so the bit patterns of scores sort in the same order as
                // the scores.
                let score = scores
                    .as_ref()
                    .map_or(0, |scores| scores[index][doc as usize].to_bits());
                selection.add(Ranked {
                    score,
                    newest,
                    number,
                    segment: index,
                    doc,
                });
            }
        });
    }
    let total = docs.iter().map(Docs::len).sum();

    let mut highlighter = Highlighter::new(&plan);
    let mut hits = Vec::new();
    let mut readers: Vec<_> = segments.iter().map(|_| None).collect();
    for ranked in selection.into_sorted().into_iter().skip(search.offset) {
        check.run()?;
        let store = match &mut readers[ranked.segment] {
            Some(store) => store,
            empty => empty.insert(segments[ranked.segment].reader.get_store_reader(1)?),
        };
        let document = store.get(ranked.doc)?;
        let (summary, text) = stored(&document);
        hits.push(Hit {
            number: ranked.number,
            summary,
            snippet: highlighter.snippet(text),
        });
    }
    Ok(Found { total, hits })
}

#[cfg(test)]
mod tests;
