//! Filters: trees of conditions, which select messages without an order. The caller sorts the
//! messages, because threads and flags are not in the index.

use std::collections::HashSet;
use std::sync::atomic::AtomicBool;

use latchmail_core::message_number::MessageNumber;

use crate::docs::{BLOCK, Docs};
use crate::error::Error;
use crate::index::Index;
use crate::matching::{Check, WordsIn, select};
use crate::schema::{FIELDS, TextField};
use crate::segment::Segment;
use crate::state::{FolderSet, MailboxState};
use crate::words::TermWords;

/// Selects messages.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Filter {
    /// Selects the messages that all filters select.
    All(Vec<Self>),
    /// Selects the messages that at least one filter selects.
    Any(Vec<Self>),
    /// Selects the messages that no filter selects.
    None(Vec<Self>),
    /// The part of the message has the words of the text, adjacent and in this order. A text
    /// without words selects no message ([`has_words`]).
    Words {
        /// The part of the message.
        part: Part,
        /// The text.
        text: String,
    },
    /// The message has an attachment.
    Attachment,
    /// The time of arrival is not before this time, in milliseconds since 1970.
    ArrivedFrom(i64),
    /// The time of arrival is before this time, in milliseconds since 1970.
    ArrivedBefore(i64),
    /// The message has at least this number of bytes.
    MinSize(u64),
    /// The message has fewer than this number of bytes.
    SmallerThan(u64),
    /// The message has the flag or keyword, ignoring case.
    Flag(String),
    /// The message is in the folder with this position in [`MailboxState`].
    Folder(u16),
    /// The message has one of these numbers.
    Numbers(HashSet<MessageNumber>),
}

/// The part of a message in which words are searched.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Part {
    /// All parts that the index contains.
    Any,
    /// Names and addresses in From.
    From,
    /// The subject.
    Subject,
    /// The text, and the names of attachments.
    Body,
}

/// A message that a filter selects.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Selected {
    /// The message number.
    pub number: MessageNumber,
    /// The time of arrival, in milliseconds since 1970.
    pub arrival: i64,
    /// The date in the header, in milliseconds since 1970.
    pub date: i64,
    /// The size in bytes.
    pub size: u64,
}

/// The size of a message, and whether it has an attachment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Attributes {
    /// The size in bytes.
    pub size: u64,
    /// Whether the message has an attachment.
    pub has_attachment: bool,
}

/// Returns whether a text has words that the index can contain.
#[must_use]
pub fn has_words(text: &str) -> bool {
    !TermWords::new(text, false).is_empty()
}

impl Index {
    /// Returns the messages that are in the index, in `state` and in one of the folders, and that
    /// the filter selects, in any order. If another thread sets `cancelled` to `true`, ends soon
    /// with [`Error::Cancelled`].
    ///
    /// # Errors
    /// Returns [`Error`] if the index is damaged or cannot be read.
    pub fn select(
        &self,
        state: &MailboxState,
        filter: &Filter,
        folders: &FolderSet,
        cancelled: &AtomicBool,
    ) -> Result<Vec<Selected>, Error> {
        let check = Check(cancelled);
        self.shared.run(|| {
            let mut selected = Vec::new();
            for segment in &*self.shared.segments() {
                let visible = filter_numbers(segment, &segment.alive(), |number| {
                    let entry = state.entry(number);
                    entry.is_some_and(|entry| folders.contains(entry.folder))
                });
                let docs = filter.evaluate(segment, state, &visible, &check)?;
                add(segment, &docs, &mut selected);
            }
            Ok(selected)
        })
    }

    /// Returns the attributes of messages, in the order of `numbers`. `None` stands for a message
    /// that is not in the index.
    ///
    /// # Errors
    /// Returns [`Error`] if the index is damaged or cannot be read.
    pub fn attributes(&self, numbers: &[MessageNumber]) -> Result<Vec<Option<Attributes>>, Error> {
        self.shared.run(|| {
            let mut found = vec![None; numbers.len()];
            for segment in &*self.shared.segments() {
                let index = segment.reader.inverted_index(FIELDS.number)?;
                for (&number, attributes) in numbers.iter().zip(&mut found) {
                    let term = tantivy::Term::from_field_u64(FIELDS.number, number.0);
                    let option = tantivy::schema::IndexRecordOption::Basic;
                    let Some(postings) = index.read_block_postings(&term, option)? else {
                        continue;
                    };
                    let mut docs = postings.docs().iter();
                    if let Some(&doc) = docs.find(|&&doc| !segment.reader.is_deleted(doc)) {
                        *attributes = Some(Attributes {
                            size: segment.size.get_val(doc),
                            has_attachment: segment.has_attachment.get_val(doc),
                        });
                    }
                }
            }
            Ok(found)
        })
    }
}

impl Part {
    fn fields(self) -> &'static [TextField] {
        match self {
            Self::Any => &TextField::ALL,
            Self::From => &[TextField::From],
            Self::Subject => &[TextField::Subject],
            Self::Body => &[TextField::Body],
        }
    }
}

impl Filter {
    /// Returns the documents of `candidates` that the filter selects.
    fn evaluate(
        &self,
        segment: &Segment,
        state: &MailboxState,
        candidates: &Docs,
        check: &Check<'_>,
    ) -> Result<Docs, Error> {
        check.run()?;
        let mut docs = Docs::empty(segment.reader.max_doc());
        match self {
            Self::All(filters) => {
                let mut left = candidates.clone();
                for filter in filters {
                    if left.is_empty() {
                        break;
                    }
                    left = filter.evaluate(segment, state, &left, check)?;
                }
                return Ok(left);
            }
            Self::Any(filters) => {
                for filter in filters {
                    docs.add(&filter.evaluate(segment, state, candidates, check)?);
                }
            }
            Self::None(filters) => {
                for filter in filters {
                    docs.add(&filter.evaluate(segment, state, candidates, check)?);
                }
                docs.complement(candidates);
            }
            Self::Words { part, text } => {
                let words = TermWords::new(text, false);
                if !words.is_empty() {
                    let words = WordsIn {
                        fields: part.fields(),
                        words,
                    };
                    words.add(segment, candidates, &mut docs)?;
                }
            }
            Self::Attachment => select(&segment.has_attachment, candidates, &mut docs, |has| has),
            Self::ArrivedFrom(time) => {
                select(&segment.arrival, candidates, &mut docs, |at| at >= *time);
            }
            Self::ArrivedBefore(time) => {
                select(&segment.arrival, candidates, &mut docs, |at| at < *time);
            }
            Self::MinSize(size) => {
                select(&segment.size, candidates, &mut docs, |bytes| bytes >= *size);
            }
            Self::SmallerThan(size) => {
                select(&segment.size, candidates, &mut docs, |bytes| bytes < *size);
            }
            Self::Flag(flag) => {
                let sets = state.flag_sets().iter();
                let sets: Vec<bool> = sets.map(|flags| flags.contains(flag)).collect();
                docs = filter_numbers(segment, candidates, |number| {
                    let entry = state.entry(number);
                    entry.and_then(|entry| sets.get(entry.flags as usize)) == Some(&true)
                });
            }
            Self::Folder(folder) => {
                docs = filter_numbers(segment, candidates, |number| {
                    let entry = state.entry(number);
                    entry.is_some_and(|entry| entry.folder == *folder)
                });
            }
            Self::Numbers(numbers) => {
                docs = filter_numbers(segment, candidates, |number| numbers.contains(&number));
            }
        }
        docs.intersect(candidates);
        Ok(docs)
    }
}

/// Returns the documents of `candidates` whose message number satisfies a condition.
fn filter_numbers(
    segment: &Segment,
    candidates: &Docs,
    satisfies: impl Fn(MessageNumber) -> bool,
) -> Docs {
    let mut docs = Docs::empty(segment.reader.max_doc());
    select(&segment.number, candidates, &mut docs, |number| {
        satisfies(MessageNumber(number))
    });
    docs
}

/// Adds the documents of a segment to `selected`.
fn add(segment: &Segment, docs: &Docs, selected: &mut Vec<Selected>) {
    let (mut numbers, mut sizes) = ([0; BLOCK], [0; BLOCK]);
    let (mut arrivals, mut dates) = ([0; BLOCK], [0; BLOCK]);
    docs.for_each_block(|block| {
        let count = block.len();
        segment.number.get_vals(block, &mut numbers[..count]);
        segment.size.get_vals(block, &mut sizes[..count]);
        segment.arrival.get_vals(block, &mut arrivals[..count]);
        segment.date.get_vals(block, &mut dates[..count]);
        selected.extend((0..count).map(|at| Selected {
            number: MessageNumber(numbers[at]),
            arrival: arrivals[at],
            date: dates[at],
            size: sizes[at],
        }));
    });
}

#[cfg(test)]
mod tests {
    use latchmail_core::message_number::Uid;

    use super::*;
    use crate::{Document, Participant};

    /// Creates an index with three messages: 1 and 2 in the folder 0, 3 in the folder 1.
    fn index() -> (tempfile::TempDir, Index, MailboxState) {
        let folder = tempfile::tempdir().unwrap();
        let index = Index::open(folder.path()).unwrap();
        let mut writer = index.writer(15_000_000).unwrap();
        let mut state = MailboxState::new();
        state.set_folder(0, "INBOX");
        state.set_folder(1, "Archive");
        for (number, subject, text) in [
            (1, "Invoice", "green tea"),
            (2, "Plan", "the invoice"),
            (3, "Invoice", "tea, green"),
        ] {
            let from = [Participant {
                name: "Ada",
                address: "ada@example.org",
            }];
            let document = Document {
                number: MessageNumber(number),
                arrival: i64::try_from(number).unwrap() * 100,
                size: number * 10,
                subject,
                from: &from,
                text,
                has_attachment: number == 2,
                ..Document::default()
            };
            writer.add(&document).unwrap();
            let (folder, flags) = (
                u16::from(number == 3),
                if number == 2 { "\\Seen" } else { "" },
            );
            let uid = Uid(u32::try_from(number).unwrap());
            state.set(MessageNumber(number), folder, uid, flags);
        }
        writer.commit().unwrap();
        (folder, index, state)
    }

    #[test]
    fn a_filter_selects_messages_by_all_conditions() {
        let (_folder, index, state) = index();
        let select = |filter: Filter| {
            let folders: FolderSet = [0, 1].into_iter().collect();
            let selected = index.select(&state, &filter, &folders, &AtomicBool::new(false));
            let mut numbers: Vec<u64> = selected.unwrap().iter().map(|one| one.number.0).collect();
            numbers.sort_unstable();
            numbers
        };
        let words = |part, text: &str| Filter::Words {
            part,
            text: text.into(),
        };
        assert_eq!(select(Filter::All(vec![])), [1, 2, 3]);
        assert_eq!(select(Filter::Any(vec![])), [0; 0]);
        assert_eq!(select(words(Part::Any, "invoice")), [1, 2, 3]);
        assert_eq!(select(words(Part::Subject, "INVOICE")), [1, 3]);
        assert_eq!(select(words(Part::Body, "green tea")), [1]);
        assert_eq!(select(words(Part::From, "ada")), [1, 2, 3]);
        assert_eq!(select(words(Part::Any, "!")), [0; 0]);
        assert_eq!(select(Filter::Attachment), [2]);
        assert_eq!(select(Filter::ArrivedFrom(200)), [2, 3]);
        assert_eq!(select(Filter::ArrivedBefore(200)), [1]);
        assert_eq!(select(Filter::MinSize(20)), [2, 3]);
        assert_eq!(select(Filter::SmallerThan(20)), [1]);
        assert_eq!(select(Filter::Flag("\\seen".into())), [2]);
        assert_eq!(select(Filter::Folder(1)), [3]);
        let numbers = [2, 9].map(MessageNumber).into_iter().collect();
        assert_eq!(select(Filter::Numbers(numbers)), [2]);
        let not = Filter::None(vec![Filter::Folder(1), Filter::Attachment]);
        assert_eq!(select(not.clone()), [1]);
        assert_eq!(select(Filter::Any(vec![not, Filter::Folder(1)])), [1, 3]);
    }

    #[test]
    fn only_messages_in_the_folders_are_selected() {
        let (_folder, index, state) = index();
        let folders: FolderSet = std::iter::once(1).collect();
        let (filter, cancelled) = (Filter::All(vec![]), AtomicBool::new(false));
        let selected = index.select(&state, &filter, &folders, &cancelled).unwrap();
        assert_eq!(selected.len(), 1);
        assert_eq!((selected[0].arrival, selected[0].size), (300, 30));
        cancelled.store(true, std::sync::atomic::Ordering::Relaxed);
        let ended = index.select(&state, &filter, &folders, &cancelled);
        assert!(matches!(ended, Err(Error::Cancelled)));
        let attributes = index.attributes(&[2, 9].map(MessageNumber)).unwrap();
        let expected = Attributes {
            size: 20,
            has_attachment: true,
        };
        assert_eq!(attributes, [Some(expected), None]);
    }
}
