//! The order of search results: scores, and the selection of a page.

use std::io;

use tantivy::schema::IndexRecordOption;

use crate::docs::Docs;
use crate::error::Error;
use crate::matching::{Plan, WordsIn};
use crate::schema::{FIELDS, TextField};
use crate::segment::Segment;

/// A result with its sort key. A greater value comes first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Ranked {
    /// The score, or 0 if the results are not sorted by relevance.
    pub(crate) score: u32,
    /// The IMAP UID or the time of arrival.
    pub(crate) newest: i64,
    pub(crate) uid: u64,
    pub(crate) segment: usize,
    pub(crate) doc: u32,
}

/// Selects the first results in order.
pub(crate) struct Selection {
    limit: usize,
    /// At most twice as many results as needed, in any order.
    results: Vec<Ranked>,
    /// A lower bound for results that can still be selected.
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

/// The weight of a word in a field, compared with the text.
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

/// Adds the scores of the documents of all segments. `docs` and the result have an element for each segment.
///
/// A complete word is scored with BM25. A phrase or a prefix counts as a word that occurs once.
pub(crate) fn scores(
    plan: &Plan,
    segments: &[Segment],
    docs: &[Docs],
) -> Result<Vec<Vec<f32>>, Error> {
    let mut scores: Vec<_> = segments
        .iter()
        .map(|segment| vec![0.0; segment.reader.max_doc() as usize])
        .collect();
    for words in plan.positive_words() {
        for &field in words.fields {
            if let [word] = &*words.words.words {
                score_word(field, word, segments, docs, &mut scores)?;
            }
            if words.words.prefix || words.words.words.len() > 1 {
                score_matches(field, words, segments, docs, &mut scores)?;
            }
        }
    }
    Ok(scores)
}

/// Returns the weight of a word that `frequency` documents have.
fn inverse_frequency(frequency: u32, segments: &[Segment]) -> f32 {
    let documents: u32 = segments
        .iter()
        .map(|segment| segment.reader.max_doc())
        .sum();
    let (documents, frequency) = (f64::from(documents.max(frequency)), f64::from(frequency));
    to_f32((1.0 + (documents - frequency + 0.5) / (frequency + 0.5)).ln())
}

#[expect(clippy::cast_possible_truncation, reason = "scores need no precision")]
fn to_f32(value: f64) -> f32 {
    value as f32
}

fn score_word(
    field: TextField,
    word: &str,
    segments: &[Segment],
    docs: &[Docs],
    scores: &mut [Vec<f32>],
) -> Result<(), Error> {
    let mut frequency = 0;
    let mut words = 0;
    let mut documents = 0;
    for segment in segments {
        let text = segment.text(field);
        frequency += text.terms().get(word)?.map_or(0, |info| info.doc_freq);
        words += text.total_num_tokens();
        documents += u64::from(segment.reader.max_doc());
    }
    if frequency == 0 {
        return Ok(());
    }
    #[expect(clippy::cast_precision_loss, reason = "scores need no precision")]
    let average = (words as f32 / documents as f32).max(1.0);
    let weight = boost(field) * inverse_frequency(frequency, segments) * (K1 + 1.0);
    // The part of the formula that depends on the length only, for each of the 256 lengths that tantivy distinguishes.
    let lengths: Vec<f32> = (0..=u8::MAX)
        .map(|id| {
            let length = to_f32(f64::from(
                tantivy::fieldnorm::FieldNormReader::id_to_fieldnorm(id),
            ));
            K1 * (1.0 - B + B * length / average)
        })
        .collect();
    for ((segment, docs), scores) in segments.iter().zip(docs).zip(scores) {
        let text = segment.text(field);
        let Some(info) = text.terms().get(word)? else {
            continue;
        };
        let length = segment
            .reader
            .get_fieldnorms_reader(FIELDS.texts[field as usize])?;
        let mut postings =
            text.read_block_postings_from_terminfo(&info, IndexRecordOption::WithFreqs)?;
        while !postings.docs().is_empty() {
            for (&doc, &count) in postings.docs().iter().zip(postings.freqs()) {
                if docs.contains(doc) {
                    let count = to_f32(f64::from(count));
                    let length = lengths[usize::from(length.fieldnorm_id(doc))];
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
    segments: &[Segment],
    docs: &[Docs],
    scores: &mut [Vec<f32>],
) -> io::Result<()> {
    let mut frequency = 0;
    let mut all = Vec::with_capacity(segments.len());
    for (segment, docs) in segments.iter().zip(docs) {
        let mut matches = Docs::empty(segment.reader.max_doc());
        words.add_field(segment, field, docs, &mut matches)?;
        matches.intersect(docs);
        frequency += matches.len();
        all.push(matches);
    }
    let weight = boost(field) * inverse_frequency(frequency, segments);
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
                    uid: doc,
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
