//! The open segments of an index, and the words in them.

use std::fmt::Debug;
use std::io;
use std::sync::Arc;

use tantivy::columnar::{Column, ColumnIndex, ColumnValues};
use tantivy::index::SegmentReader;
use tantivy::postings::{BlockSegmentPostings, Postings, SegmentPostings, TermInfo};
use tantivy::schema::IndexRecordOption;
use tantivy::{DocSet, InvertedIndexReader, TERMINATED};

use crate::docs::Docs;
use crate::error::Error;
use crate::schema::{FIELDS, TextField};

/// A column with exactly one value for each document.
pub(crate) type Values<T> = Arc<dyn ColumnValues<T>>;

/// An open segment.
pub(crate) struct Segment {
    pub(crate) reader: SegmentReader,
    texts: [Arc<InvertedIndexReader>; 4],
    pub(crate) number: Values<u64>,
    pub(crate) arrival: Values<i64>,
    pub(crate) date: Values<i64>,
    pub(crate) size: Values<u64>,
    pub(crate) has_attachment: Values<bool>,
    pub(crate) has_codes: Values<bool>,
    pub(crate) message_id: Values<u64>,
    pub(crate) references: Column<u64>,
    pub(crate) base_subject: Values<u64>,
    pub(crate) untagged_subject: Values<u64>,
    pub(crate) is_reply: Values<bool>,
}

impl Segment {
    /// Opens the columns and dictionaries of a segment.
    pub(crate) fn open(reader: &SegmentReader) -> Result<Self, Error> {
        let columns = reader.fast_fields();
        let references = columns.column_opt("references")?;
        let text = |field: TextField| reader.inverted_index(FIELDS.texts[field as usize]);
        Ok(Self {
            texts: [
                text(TextField::Body)?,
                text(TextField::Subject)?,
                text(TextField::From)?,
                text(TextField::To)?,
            ],
            number: values(columns.u64("uid")?, 0),
            arrival: values(columns.i64("arrival")?, 0),
            date: values(columns.i64("date")?, 0),
            size: values(columns.u64("size")?, 0),
            has_attachment: values(columns.bool("has_attachment")?, false),
            has_codes: values(columns.bool("has_codes")?, false),
            message_id: values(columns.u64("message_id")?, 0),
            references: references.unwrap_or_else(|| Column::build_empty_column(reader.max_doc())),
            base_subject: values(columns.u64("base_subject")?, 0),
            untagged_subject: values(columns.u64("untagged_subject")?, 0),
            is_reply: values(columns.bool("is_reply")?, false),
            reader: reader.clone(),
        })
    }

    /// Returns the documents that were not deleted.
    pub(crate) fn alive(&self) -> Docs {
        let mut docs = Docs::full(self.reader.max_doc());
        if let Some(alive) = self.reader.alive_bitset() {
            let mut kept = Docs::empty(self.reader.max_doc());
            docs.for_each(|doc| {
                if alive.is_alive(doc) {
                    kept.insert(doc);
                }
            });
            docs = kept;
        }
        docs
    }

    /// Returns the dictionary and the postings of a field.
    pub(crate) fn text(&self, field: TextField) -> &InvertedIndexReader {
        &self.texts[field as usize]
    }

    /// Adds the documents with a word to `docs`. Returns the number of documents with the word,
    /// including deleted documents.
    pub(crate) fn add_word(
        &self,
        field: TextField,
        word: &str,
        docs: &mut Docs,
    ) -> io::Result<u32> {
        let text = self.text(field);
        let Some(info) = text.terms().get(word)? else {
            return Ok(0);
        };
        let mut postings =
            text.read_block_postings_from_terminfo(&info, IndexRecordOption::Basic)?;
        add_blocks(&mut postings, docs);
        Ok(info.doc_freq)
    }

    /// Adds the documents with a word that begins with `prefix` to `docs`. Stops as soon as `docs`
    /// includes all candidates.
    pub(crate) fn add_prefix(
        &self,
        field: TextField,
        prefix: &str,
        candidates: &Docs,
        docs: &mut Docs,
    ) -> io::Result<()> {
        let text = self.text(field);
        let mut postings = BlockSegmentPostings::empty();
        let mut words = 0_u32;
        self.for_each_with_prefix(field, prefix, |info| {
            // Empty postings have no record option and cannot be reset. So the first list is opened
            // separately.
            if words == 0 {
                postings =
                    text.read_block_postings_from_terminfo(info, IndexRecordOption::Basic)?;
            } else {
                text.reset_block_postings_from_terminfo(info, &mut postings)?;
            }
            add_blocks(&mut postings, docs);
            words += 1;
            Ok(words.is_multiple_of(64) && docs.includes(candidates))
        })
    }

    /// Calls `f` with each word that begins with `prefix`, until `f` returns `true`.
    pub(crate) fn for_each_with_prefix(
        &self,
        field: TextField,
        prefix: &str,
        mut f: impl FnMut(&TermInfo) -> io::Result<bool>,
    ) -> io::Result<()> {
        let mut end = prefix.as_bytes().to_vec();
        // The last byte of UTF-8 text is at most 0xBF, so the increment cannot overflow.
        if let Some(last) = end.last_mut() {
            *last += 1;
        }
        let mut words = self
            .text(field)
            .terms()
            .range()
            .ge(prefix)
            .lt(end)
            .into_stream()?;
        while words.advance() {
            if f(words.value())? {
                break;
            }
        }
        Ok(())
    }

    /// Returns the postings of a word with frequencies and positions.
    pub(crate) fn positions(
        &self,
        field: TextField,
        word: &str,
    ) -> io::Result<Option<SegmentPostings>> {
        let text = self.text(field);
        let info = text.terms().get(word)?;
        info.map(|info| {
            text.read_postings_from_terminfo(&info, IndexRecordOption::WithFreqsAndPositions)
        })
        .transpose()
    }
}

/// Returns the values of a column with exactly one value for each document.
fn values<T: PartialOrd + Copy + Debug + Send + Sync + 'static>(
    column: Column<T>,
    default: T,
) -> Values<T> {
    match column.index {
        ColumnIndex::Full => column.values,
        _ => column.first_or_default_col(default),
    }
}

fn add_blocks(postings: &mut BlockSegmentPostings, docs: &mut Docs) {
    while !postings.docs().is_empty() {
        for &doc in postings.docs() {
            docs.insert(doc);
        }
        postings.advance();
    }
}

/// Adds the documents of `candidates` in which a field has the words, adjacent and in this order,
/// to `docs`.
pub(crate) fn add_phrase(
    segment: &Segment,
    field: TextField,
    words: &[String],
    prefix: bool,
    candidates: &Docs,
    docs: &mut Docs,
) -> io::Result<()> {
    let Some((last, first)) = words.split_last() else {
        return Ok(());
    };
    if !prefix {
        return for_each_phrase(segment, field, words, candidates, |doc, _| docs.insert(doc));
    }

    // `matches` has the documents that contain the words before the last word. `positions` has the
    // positions that the last word must have, for one document after the other. `ends` has the
    // index in `positions` at which the positions of each document end.
    let mut matches: Vec<u32> = Vec::new();
    let mut ends: Vec<usize> = Vec::new();
    let mut positions: Vec<u32> = Vec::new();
    for_each_phrase(segment, field, first, candidates, |doc, aligned| {
        matches.push(doc);
        positions.extend(aligned);
        ends.push(positions.len());
    })?;
    if matches.is_empty() {
        return Ok(());
    }
    let text = segment.text(field);
    let mut found = Vec::new();
    segment.for_each_with_prefix(field, last, |info| {
        let mut postings =
            text.read_postings_from_terminfo(info, IndexRecordOption::WithFreqsAndPositions)?;
        let mut index = 0;
        while let Some(&doc) = matches.get(index) {
            let posting = seek(&mut postings, doc);
            if posting == TERMINATED {
                break;
            }
            if posting == doc {
                if !docs.contains(doc) {
                    postings.positions_with_offset(0, &mut found);
                    let start = if index == 0 { 0 } else { ends[index - 1] };
                    if intersects(&positions[start..ends[index]], &found) {
                        docs.insert(doc);
                    }
                }
                index += 1;
            } else {
                index += matches[index..].partition_point(|&doc| doc < posting);
            }
        }
        Ok(false)
    })
}

/// Calls `f` with each document of `candidates` in which a field has the words, adjacent and in
/// this order, and with the positions after the last word.
fn for_each_phrase(
    segment: &Segment,
    field: TextField,
    words: &[String],
    candidates: &Docs,
    mut f: impl FnMut(u32, &[u32]),
) -> io::Result<()> {
    let mut lists = Vec::with_capacity(words.len());
    for (word, offset) in words.iter().zip((1..=words.len()).rev()) {
        let Some(postings) = segment.positions(field, word)? else {
            return Ok(());
        };
        lists.push((postings, u32::try_from(offset).unwrap_or(u32::MAX)));
    }
    // The rarest word is first, so that the other lists are read only where necessary.
    lists.sort_by_key(|(postings, _)| postings.doc_freq());

    let mut intersection = Intersection::default();
    let mut aligned = Vec::new();
    let mut other = Vec::new();
    let mut target = 0;
    'documents: while let Some(doc) = candidates.next(target) {
        for (postings, _) in &mut lists {
            match seek(postings, doc) {
                TERMINATED => return Ok(()),
                next if next > doc => {
                    target = next;
                    continue 'documents;
                }
                _ => {}
            }
        }
        target = doc + 1;
        for (index, (postings, offset)) in lists.iter_mut().enumerate() {
            if index == 0 {
                postings.positions_with_offset(*offset, &mut aligned);
            } else {
                postings.positions_with_offset(*offset, &mut other);
                intersection.retain(&mut aligned, &other);
            }
            if aligned.is_empty() {
                continue 'documents;
            }
        }
        f(doc, &aligned);
    }
    Ok(())
}

/// Moves `postings` to the first document that is not before `target`, and returns this document.
fn seek(postings: &mut SegmentPostings, target: u32) -> u32 {
    if postings.doc() < target {
        postings.seek(target)
    } else {
        postings.doc()
    }
}

/// Intersects lists of positions in the same document.
///
/// The intersection uses one bit for each position. A merge of two lists would be slower, because
/// the processor cannot predict the results of its comparisons.
#[derive(Default)]
struct Intersection {
    /// All bits are zero between two calls of `retain`.
    bits: Vec<u64>,
}

impl Intersection {
    /// Keeps the values that are in `other`. Both lists are ascending.
    fn retain(&mut self, values: &mut Vec<u32>, other: &[u32]) {
        let words = other.last().map_or(0, |&last| last as usize / 64 + 1);
        if self.bits.len() < words {
            self.bits.resize(words, 0);
        }
        for &value in other {
            self.bits[value as usize / 64] |= 1 << (value % 64);
        }
        let mut kept = 0;
        for index in 0..values.len() {
            let value = values[index];
            let bits = self.bits.get(value as usize / 64).copied().unwrap_or(0);
            values[kept] = value;
            kept += usize::from(bits >> (value % 64) & 1 == 1);
        }
        values.truncate(kept);
        for &value in other {
            self.bits[value as usize / 64] = 0;
        }
    }
}

/// Returns whether two ascending lists have a common value.
fn intersects(values: &[u32], others: &[u32]) -> bool {
    let mut rest = others.iter().copied().peekable();
    values.iter().any(|&value| {
        while rest.next_if(|&other| other < value).is_some() {}
        rest.peek() == Some(&value)
    })
}
