//! The order of search results: scores, and the selection of a page.

use std::io;

use latchmail_core::message_number::MessageNumber;
use tantivy::fieldnorm::FieldNormReader;
use tantivy::schema::IndexRecordOption;

use crate::docs::Docs;
use crate::error::Error;
use crate::matching::{Check, Plan, WordsIn};
use crate::schema::{FIELDS, TextField};
use crate::segment::Segment;

/// A result with its sort key. Results are sorted in descending order of this type.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Ranked {
    /// The bits of the score, or 0 if the results are not sorted by relevance.
    pub(crate) score: u32,
    /// The IMAP UID, or the time of arrival in milliseconds since 1970.
    pub(crate) newest: i64,
    pub(crate) number: MessageNumber,
    pub(crate) segment: usize,
    pub(crate) doc: u32,
}

/// Selects the first results in order.
pub(crate) struct Selection {
    limit: usize,
    /// The best results so far, in any order. The maximum length is twice `limit`, but at least
    /// 256.
    results: Vec<Ranked>,
    /// Results below this value cannot be selected any more.
    threshold: Option<Ranked>,
}

impl Selection {
    /// Creates a selection of `limit` results.
    pub(crate) fn new(limit: usize) -> Self {
        Self {
            limit,
            results: Vec::new(),
            threshold: None,
        }
    }

    /// Adds a result.
    #[inline]
    pub(crate) fn add(&mut self, result: Ranked) {
        if self.threshold.is_some_and(|threshold| result < threshold) {
            return;
        }
        self.results.push(result);
        if self.results.len() >= self.limit.saturating_mul(2).max(256) {
            self.shrink();
        }
    }

    fn shrink(&mut self) {
        if self.limit == 0 {
            self.results.clear();
        } else if self.results.len() > self.limit {
            let (_, &mut last, _) = self
                .results
                .select_nth_unstable_by(self.limit - 1, |a, b| b.cmp(a));
            self.results.truncate(self.limit);
            self.threshold = Some(last);
        }
    }

    /// Returns the selected results in order.
    pub(crate) fn into_sorted(mut self) -> Vec<Ranked> {
        self.shrink();
        self.results.sort_unstable_by(|a, b| b.cmp(a));
        self.results
    }
}

/// The weight of a word in a field, relative to a word in the text.
fn boost(field: TextField) -> f32 {
    match field {
        TextField::Body => 1.0,
        TextField::Subject => 3.0,
        TextField::From => 2.0,
        TextField::To => 1.5,
    }
}

/// The parameters of BM25 with their usual values.
const K1: f32 = 1.2;
const B: f32 = 0.75;

/// The documents from which the frequencies of words are computed. Documents in other folders must
/// not change the scores, because the client may have no access to these folders.
struct Searched<'a> {
    segments: &'a [Segment],
    docs: &'a [Docs],
    count: u32,
    /// The average number of words in each field, if it was computed.
    averages: [Option<f32>; 4],
}

impl<'a> Searched<'a> {
    fn new(segments: &'a [Segment], docs: &'a [Docs]) -> Self {
        Self {
            segments,
            docs,
            count: docs.iter().map(Docs::len).sum(),
            averages: [None; 4],
        }
    }

    /// Returns the average number of words in a field.
    fn average(&mut self, field: TextField) -> Result<f32, Error> {
        if let Some(average) = self.averages[field as usize] {
            return Ok(average);
        }
        let mut words = 0;
        for (segment, docs) in self.segments.iter().zip(self.docs) {
            let lengths = lengths(segment, field)?;
            docs.for_each(|doc| words += u64::from(lengths.fieldnorm(doc)));
        }
        #[expect(clippy::cast_precision_loss, reason = "scores need no precision")]
        let average = (words as f32 / self.count.max(1) as f32).max(1.0);
        self.averages[field as usize] = Some(average);
        Ok(average)
    }

    /// Returns the number of documents whose field contains a word.
    fn frequency(&self, field: TextField, word: &str) -> Result<u32, Error> {
        let mut frequency = 0;
        for (segment, docs) in self.segments.iter().zip(self.docs) {
            let text = segment.text(field);
            let Some(info) = text.terms().get(word)? else {
                continue;
            };
            let option = IndexRecordOption::Basic;
            let mut postings = text.read_block_postings_from_terminfo(&info, option)?;
            while !postings.docs().is_empty() {
                let found = postings.docs().iter().map(|&doc| docs.contains(doc));
                frequency += found.map(u32::from).sum::<u32>();
                postings.advance();
            }
        }
        Ok(frequency)
    }

    /// Returns the inverse document frequency of a word that `frequency` documents contain.
    fn inverse_frequency(&self, frequency: u32) -> f32 {
        let documents = f64::from(self.count.max(frequency));
        let frequency = f64::from(frequency);
        to_f32((1.0 + (documents - frequency + 0.5) / (frequency + 0.5)).ln())
    }
}

/// Returns a reader for the number of words that each document has in a field.
fn lengths(segment: &Segment, field: TextField) -> Result<FieldNormReader, Error> {
    Ok(segment
        .reader
        .get_fieldnorms_reader(FIELDS.texts[field as usize])?)
}

#[expect(clippy::cast_possible_truncation, reason = "scores need no precision")]
fn to_f32(value: f64) -> f32 {
    value as f32
}

/// Returns the score of each document, by segment. `searched` contains the documents in the
/// searched folders. `docs` contains the documents that also satisfy the query. `searched`, `docs`
/// and the result have one element for each segment.
///
/// A complete word is scored with BM25. A phrase or a prefix counts as a word that occurs once.
pub(crate) fn scores(
    plan: &Plan,
    segments: &[Segment],
    searched: &[Docs],
    docs: &[Docs],
    check: &Check<'_>,
) -> Result<Vec<Vec<f32>>, Error> {
    let mut scores: Vec<_> = segments
        .iter()
        .map(|segment| vec![0.0; segment.reader.max_doc() as usize])
        .collect();
    let mut searched = Searched::new(segments, searched);
    for words in plan.positive_words() {
        for &field in words.fields {
            check.run()?;
            if let [word] = &*words.words.words {
                score_word(field, word, &mut searched, docs, &mut scores)?;
            }
            if words.words.prefix || words.words.words.len() > 1 {
                score_matches(field, words, &searched, docs, &mut scores)?;
            }
        }
    }
    Ok(scores)
}

fn score_word(
    field: TextField,
    word: &str,
    searched: &mut Searched<'_>,
    docs: &[Docs],
    scores: &mut [Vec<f32>],
) -> Result<(), Error> {
    let frequency = searched.frequency(field, word)?;
    if frequency == 0 {
        return Ok(());
    }
    let average = searched.average(field)?;
    let weight = boost(field) * searched.inverse_frequency(frequency) * (K1 + 1.0);
    // The part of the BM25 formula that depends only on the length of the field, for each of the
    // 256 lengths that tantivy distinguishes.
    let by_length: Vec<f32> = (0..=u8::MAX)
        .map(|id| {
            let length = to_f32(f64::from(FieldNormReader::id_to_fieldnorm(id)));
            K1 * (1.0 - B + B * length / average)
        })
        .collect();
    for ((segment, docs), scores) in searched.segments.iter().zip(docs).zip(scores) {
        let text = segment.text(field);
        let Some(info) = text.terms().get(word)? else {
            continue;
        };
        let lengths = lengths(segment, field)?;
        let mut postings =
            text.read_block_postings_from_terminfo(&info, IndexRecordOption::WithFreqs)?;
        while !postings.docs().is_empty() {
            for (&doc, &count) in postings.docs().iter().zip(postings.freqs()) {
                if docs.contains(doc) {
                    let count = to_f32(f64::from(count));
                    let length = by_length[usize::from(lengths.fieldnorm_id(doc))];
                    scores[doc as usize] += weight * count / (count + length);
                }
            }
            postings.advance();
        }
    }
    Ok(())
}

fn score_matches(
    field: TextField,
    words: &WordsIn,
    searched: &Searched<'_>,
    docs: &[Docs],
    scores: &mut [Vec<f32>],
) -> io::Result<()> {
    let mut frequency = 0;
    let mut all = Vec::with_capacity(searched.segments.len());
    for (segment, docs) in searched.segments.iter().zip(docs) {
        let mut matches = Docs::empty(segment.reader.max_doc());
        words.add_field(segment, field, docs, &mut matches)?;
        matches.intersect(docs);
        frequency += matches.len();
        all.push(matches);
    }
    let weight = boost(field) * searched.inverse_frequency(frequency);
    for (matches, scores) in all.iter().zip(scores) {
        matches.for_each(|doc| scores[doc as usize] += weight);
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_selection_equals_the_first_sorted_results() {
        let mut random = 1_u32;
        let results: Vec<_> = (0..5000)
            .map(|doc| {
                random = random.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
                Ranked {
                    score: 0,
                    newest: i64::from(random >> 20),
                    number: MessageNumber(doc),
                    segment: 0,
                    doc: 0,
                }
            })
            .collect();
        let mut sorted = results.clone();
        sorted.sort_unstable_by(|a, b| b.cmp(a));
        for limit in [0, 1, 20, 300, 4999, 5000, 6000, usize::MAX] {
            let mut selection = Selection::new(limit);
            for &result in &results {
                selection.add(result);
            }
            assert_eq!(selection.into_sorted(), sorted[..limit.min(5000)]);
        }
    }
}
