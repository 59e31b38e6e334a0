//! Adds messages to an index and removes them.

use std::borrow::Cow;
use std::collections::HashMap;
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::time::Duration;

use latchmail_core::message_number::MessageNumber;
use tantivy::indexer::IndexWriterOptions;
use tantivy::schema::document::Document as TantivyDocumentTrait;
use tantivy::{IndexWriter, TantivyDocument, Term};

use crate::class::Class;
use crate::error::{Error, guard};
use crate::merging;
use crate::schema::{FIELDS, TextField};
use crate::shared::Shared;
use crate::threads::ThreadKeys;

/// The maximum length of the text of a message that is indexed, in bytes. The rest is ignored.
/// `MAX_HEADER` is the limit for the subject, the addresses and the names of attachments.
const MAX_TEXT: usize = 1 << 20;
const MAX_HEADER: usize = 64 << 10;

/// The length of the text that is stored for snippets, in bytes.
const MAX_STORED: usize = 64 << 10;

/// The maximum size of messages that wait for the indexing thread, in bytes.
const MAX_QUEUED: usize = 4 << 20;

/// If a writer has added more messages than this number, a commit assumes that the caller builds a
/// new index. Then the commit allows more segments, because the caller is expected to call
/// [`Writer::optimize`] later.
const BUILD: u32 = 1000;

/// The limits of the buffer for messages before they are written, in bytes. tantivy sets the
/// minimum.
const BUFFER: std::ops::RangeInclusive<usize> = 15_000_000..=1_000_000_000;

/// A person or a group in an address header field.
#[derive(Clone, Copy, Debug, Default)]
pub struct Participant<'a> {
    /// The display name, or an empty string.
    pub name: &'a str,
    /// The address.
    pub address: &'a str,
}

/// The immutable facts about a message.
#[derive(Clone, Debug, Default)]
pub struct Document<'a> {
    /// The message number.
    pub number: MessageNumber,
    /// The time of arrival, in milliseconds since 1970.
    pub arrival: i64,
    /// The date in the header, in milliseconds since 1970.
    pub date: i64,
    /// The size of the message, in bytes.
    pub size: u64,
    /// The subject.
    pub subject: &'a str,
    /// The participants in From.
    pub from: &'a [Participant<'a>],
    /// The participants in To.
    pub to: &'a [Participant<'a>],
    /// The participants in Cc.
    pub cc: &'a [Participant<'a>],
    /// Whether the message has an attachment.
    pub has_attachment: bool,
    /// Whether the message has a code or a link for signing in.
    pub has_codes: bool,
    /// The names of the attachments.
    pub attachments: &'a [&'a str],
    /// The visible text.
    pub text: &'a str,
    /// The visible text of another form of the message, if that form has words that `text` lacks.
    /// `text` and `other_text` share the limit of 1 MiB for indexed text. No phrase spans `text`
    /// and `other_text`.
    pub other_text: &'a str,
    /// The keys that determine the thread.
    pub thread: ThreadKeys,
    /// Data of the caller that search results contain.
    pub summary: &'a [u8],
}

impl Document<'_> {
    /// Converts the message to a tantivy document. Also returns the approximate size of the
    /// document in bytes. Each part of the message is a separate value, so no phrase spans two
    /// parts.
    fn convert(&self) -> (TantivyDocument, usize) {
        let fields = &*FIELDS;
        let mut document = TantivyDocument::new();
        document.add_u64(fields.number, self.number.0);
        document.add_i64(fields.arrival, self.arrival);
        document.add_i64(fields.date, self.date);
        document.add_u64(fields.size, self.size);
        document.add_bool(fields.has_attachment, self.has_attachment);
        document.add_bool(fields.has_codes, self.has_codes);
        document.add_u64(fields.message_id, self.thread.message_id);
        for &reference in &self.thread.references {
            document.add_u64(fields.references, reference);
        }
        document.add_u64(fields.base_subject, self.thread.base_subject);
        document.add_u64(fields.untagged_subject, self.thread.untagged_subject);
        document.add_bool(fields.is_reply, self.thread.is_reply);
        document.add_bytes(fields.summary, self.summary);
        document.add_text(fields.text, stored_text(self.text, self.other_text));

        let mut size = 1000 + self.summary.len();
        let mut add = |field: TextField, limit: usize, parts: &mut dyn Iterator<Item = &str>| {
            let mut left = limit;
            for part in parts.filter(|part| !part.is_empty()) {
                let part = cut(part, left);
                document.add_text(fields.texts[field as usize], part);
                left -= part.len();
                size += part.len();
            }
        };
        add(
            TextField::Subject,
            MAX_HEADER,
            &mut std::iter::once(self.subject),
        );
        add(TextField::From, MAX_HEADER, &mut participants(self.from));
        let mut to = participants(self.to).chain(participants(self.cc));
        add(TextField::To, MAX_HEADER, &mut to);
        add(
            TextField::Body,
            MAX_HEADER,
            &mut self.attachments.iter().copied(),
        );
        add(
            TextField::Body,
            MAX_TEXT,
            &mut [self.text, self.other_text].into_iter(),
        );
        (document, size)
    }
}

/// Returns the names and addresses of participants.
fn participants<'a>(list: &[Participant<'a>]) -> impl Iterator<Item = &'a str> {
    list.iter()
        .flat_map(|participant| [participant.name, participant.address])
}

/// Returns the beginning of the texts, at most [`MAX_STORED`] bytes. The result ends between words
/// if possible. Otherwise a snippet could show a part of a word as a match.
fn stored_text<'a>(text: &'a str, other_text: &str) -> Cow<'a, str> {
    let mut stored: Cow<'a, str> = cut(text, MAX_STORED + 1).into();
    if stored.len() == text.len() && !other_text.is_empty() {
        let stored = stored.to_mut();
        stored.push_str("\n\n");
        stored.push_str(cut(other_text, MAX_STORED));
    }
    if stored.len() <= MAX_STORED {
        return stored;
    }
    let beginning = cut(&stored, MAX_STORED);
    let is_between = |c: char| Class::of(c) == Class::Separator;
    let end = if stored[beginning.len()..].starts_with(is_between) {
        beginning.len()
    } else {
        beginning.rfind(is_between).unwrap_or(beginning.len())
    };
    match stored {
        Cow::Borrowed(stored) => stored[..end].into(),
        Cow::Owned(mut stored) => {
            stored.truncate(end);
            stored.into()
        }
    }
}

/// Returns the beginning of a text, at most `limit` bytes.
fn cut(text: &str, limit: usize) -> &str {
    &text[..text.floor_char_boundary(limit)]
}

/// Adds messages to an index and removes them. Changes take effect with [`commit`](Self::commit).
/// Dropping a writer discards the changes after the last commit.
///
/// A writer has one thread for indexing. [`add`](Self::add) blocks while too many messages wait for
/// this thread. After an error, the writer must be dropped.
pub struct Writer {
    /// `None` only while the writer is dropped.
    inner: Option<IndexWriter<Queued>>,
    shared: Arc<Shared>,
    queue: Arc<Queue>,
    /// The numbers of the messages in the index and of the messages that were added. The key is a
    /// message number divided by 64. The value has one bit for each of these 64 numbers.
    known: HashMap<u64, u64>,
    /// The number of messages that were added since the writer was created.
    added: u32,
}

impl std::fmt::Debug for Writer {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_struct("Writer").finish_non_exhaustive()
    }
}

impl Writer {
    pub(crate) fn new(shared: Arc<Shared>, memory: usize) -> Result<Self, Error> {
        let options = IndexWriterOptions::builder()
            .num_worker_threads(1)
            .num_merge_threads(1)
            .memory_budget_per_thread(memory.clamp(*BUFFER.start(), *BUFFER.end()))
            .build();
        let writer = shared.run(|| {
            let writer: IndexWriter<Queued> = shared.index.writer_with_options(options)?;
            // This crate starts the merges, so that no merge runs in the background.
            writer.set_merge_policy(Box::new(tantivy::merge_policy::NoMergePolicy));
            Ok(writer)
        })?;
        let mut new = Self {
            inner: Some(writer),
            queue: Arc::default(),
            known: HashMap::new(),
            added: 0,
            shared,
        };
        for number in new.shared.numbers()? {
            new.learn(number);
        }
        Ok(new)
    }

    /// Remembers that the index contains a message. Returns `true` if the message was already
    /// known, or if `known` is full.
    fn learn(&mut self, number: MessageNumber) -> bool {
        let (key, bit) = (number.0 / 64, 1 << (number.0 % 64));
        if self.known.len() >= MAX_KNOWN && !self.known.contains_key(&key) {
            return true;
        }
        let word = self.known.entry(key).or_default();
        let known = *word & bit != 0;
        *word |= bit;
        known
    }

    /// Adds a message, or replaces the message with the same number.
    ///
    /// # Errors
    /// Returns [`Error`] if the index is damaged or cannot be written.
    pub fn add(&mut self, document: &Document<'_>) -> Result<(), Error> {
        let known = self.learn(document.number);
        self.added = self.added.saturating_add(1);
        let (converted, size) = document.convert();
        let queued = Queued {
            document: converted,
            permit: self.queue.acquire(size),
        };
        self.with_writer(|writer| {
            if known {
                writer.delete_term(Term::from_field_u64(FIELDS.number, document.number.0));
            }
            writer.add_document(queued)?;
            Ok(())
        })
    }

    /// Removes a message.
    ///
    /// # Errors
    /// Returns [`Error`] if the index is damaged or cannot be written.
    pub fn remove(&mut self, number: MessageNumber) -> Result<(), Error> {
        self.with_writer(|writer| {
            writer.delete_term(Term::from_field_u64(FIELDS.number, number.0));
            Ok(())
        })
    }

    /// Makes all changes visible to searches. Merges small segments of the index if there are too
    /// many segments.
    ///
    /// # Errors
    /// Returns [`Error`] if the index is damaged or cannot be written.
    pub fn commit(&mut self) -> Result<(), Error> {
        let max = if self.added > BUILD {
            merging::MAX_SEGMENTS_OF_BUILD
        } else {
            merging::MAX_SEGMENTS
        };
        self.with_writer(|writer| {
            writer.commit()?;
            // The loop ends, because each round removes segments or deleted documents.
            while let Some(segments) =
                merging::candidates(&writer.index().searchable_segment_metas()?, max)
            {
                writer.merge(&segments).wait()?;
            }
            Ok(())
        })?;
        self.publish()
    }

    /// Merges all segments if more than a tenth of the messages are not in the largest segment.
    /// Call this method after more than 1,000 messages were added, because [`commit`](Self::commit)
    /// leaves many segments then. A merged index is smaller, and searches are faster.
    ///
    /// # Errors
    /// Returns [`Error`] if the index is damaged or cannot be written.
    pub fn optimize(&mut self) -> Result<(), Error> {
        self.with_writer(|writer| {
            if let Some(segments) = merging::all(&writer.index().searchable_segment_metas()?) {
                writer.merge(&segments).wait()?;
            }
            Ok(())
        })?;
        self.publish()
    }

    /// Makes the last commit visible to searches. Then deletes the files of segments that were
    /// merged. These files can be deleted only after the index has closed the old segments.
    fn publish(&mut self) -> Result<(), Error> {
        self.shared.reload()?;
        self.with_writer(|writer| {
            writer.garbage_collect_files().wait()?;
            Ok(())
        })?;
        self.shared.files.forget_unmapped();
        Ok(())
    }

    fn with_writer<T>(
        &mut self,
        f: impl FnOnce(&mut IndexWriter<Queued>) -> Result<T, Error>,
    ) -> Result<T, Error> {
        let Some(writer) = &mut self.inner else {
            return Err(Error::Locked);
        };
        self.shared.run(|| f(writer))
    }
}

/// The maximum number of elements of [`Writer::known`], to limit the memory if a message number is
/// wrong.
const MAX_KNOWN: usize = 1 << 20;

impl Drop for Writer {
    fn drop(&mut self) {
        let Some(writer) = self.inner.take() else {
            return;
        };
        // Waits until the threads of the writer have ended. Errors do not matter, because the
        // changes after the last commit are discarded.
        let _ = guard(|| Ok(writer.wait_merging_threads()?));
    }
}

/// A message that waits for the indexing thread.
struct Queued {
    document: TantivyDocument,
    permit: Permit,
}

impl TantivyDocumentTrait for Queued {
    type Value<'a> = <TantivyDocument as TantivyDocumentTrait>::Value<'a>;
    type FieldsValuesIter<'a> = <TantivyDocument as TantivyDocumentTrait>::FieldsValuesIter<'a>;

    fn iter_fields_and_values(&self) -> Self::FieldsValuesIter<'_> {
        self.document.iter_fields_and_values()
    }

    fn into_tantivy_document(self) -> TantivyDocument {
        drop(self.permit);
        self.document
    }
}

/// Limits the size of the messages that wait for the indexing thread. tantivy limits only their
/// number.
#[derive(Default)]
struct Queue {
    size: Mutex<usize>,
    released: Condvar,
}

impl Queue {
    /// Waits until the queue has space, but at most 10 seconds. If the indexing thread has ended,
    /// the queue stays full, and tantivy rejects the message later.
    fn acquire(self: &Arc<Self>, size: usize) -> Permit {
        let queued = self.size.lock().unwrap_or_else(PoisonError::into_inner);
        let full = |queued: &mut usize| *queued > MAX_QUEUED;
        let waited = self
            .released
            .wait_timeout_while(queued, Duration::from_secs(10), full);
        let (mut queued, _) = waited.unwrap_or_else(PoisonError::into_inner);
        *queued += size;
        Permit {
            queue: Arc::clone(self),
            size,
        }
    }
}

/// The space of a message in the queue.
struct Permit {
    queue: Arc<Queue>,
    size: usize,
}

impl Drop for Permit {
    fn drop(&mut self) {
        *self
            .queue
            .size
            .lock()
            .unwrap_or_else(PoisonError::into_inner) -= self.size;
        self.queue.released.notify_one();
    }
}
