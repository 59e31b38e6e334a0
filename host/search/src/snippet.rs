//! The part of a message's text with the matches of a query.

use std::collections::VecDeque;
use std::ops::Range;

use crate::matching::Plan;
use crate::schema::TextField;
use crate::words::Words;

/// The length of a snippet, in code points.
const LENGTH: usize = 200;

/// The maximum number of words before the first match.
const WORDS_BEFORE: usize = 8;

/// The maximum length of the text before the first match, in code points. Without a limit, long words could fill the snippet.
const LENGTH_BEFORE: usize = LENGTH / 2;

/// The maximum number of words of a phrase that is highlighted.
const MAX_PHRASE: usize = 64;

/// A part of the text of a message.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Snippet {
    /// The text, about 200 characters. White space is collapsed.
    pub text: String,
    /// The positions of the matches in `text`, in Unicode code points, ascending. Empty if only header fields match.
    pub matches: Vec<Range<u32>>,
}

/// The words and phrases of a query, to find them in texts.
pub(crate) struct Highlighter {
    phrases: Vec<Phrase>,
}

struct Phrase {
    words: Vec<String>,
    prefix: bool,
    /// Bit N is set if the last words of the text are the first N + 1 words of the phrase.
    state: u64,
}

impl Phrase {
    /// Reads the next word of a text. Returns `true` if the phrase ends with the word.
    fn advance(&mut self, word: &str) -> bool {
        let last = self.words.len() - 1;
        let mut equal = 0;
        for (index, expected) in self.words.iter().enumerate() {
            let matches = if index == last && self.prefix {
                word.starts_with(expected.as_str())
            } else {
                word == expected
            };
            equal |= u64::from(matches) << index;
        }
        self.state = (self.state << 1 | 1) & equal;
        self.state & (1 << last) != 0
    }
}

impl Highlighter {
    /// Creates a highlighter for the words of a query that are searched in the text.
    pub(crate) fn new(plan: &Plan) -> Self {
        let phrases = plan
            .positive_words()
            .filter(|words| words.fields.contains(&TextField::Body))
            .filter(|words| (1..=MAX_PHRASE).contains(&words.words.words.len()))
            .map(|words| Phrase {
                words: words.words.words.clone(),
                prefix: words.words.prefix,
                state: 0,
            })
            .collect();
        Self { phrases }
    }

    /// Returns the part of `text` with the first matches.
    pub(crate) fn snippet(&mut self, text: &str) -> Snippet {
        let (start, matches) = self.find(text);
        render(text, start, &matches)
    }

    /// Returns the start of the snippet and the ranges of matches after it, in bytes.
    fn find(&mut self, text: &str) -> (usize, Vec<Range<usize>>) {
        let mut matches: Vec<Range<usize>> = Vec::new();
        if self.phrases.is_empty() {
            return (0, matches);
        }
        for phrase in &mut self.phrases {
            phrase.state = 0;
        }
        // The starts of the last words: those of a phrase, and those before it.
        let mut starts = VecDeque::with_capacity(MAX_PHRASE + WORDS_BEFORE);
        let mut snippet = 0..usize::MAX;
        let mut words = Words::new(text);
        while words.advance() && words.start < snippet.end {
            if starts.len() == MAX_PHRASE + WORDS_BEFORE {
                starts.pop_front();
            }
            starts.push_back(words.start);
            for phrase in &mut self.phrases {
                if !phrase.advance(&words.word) {
                    continue;
                }
                // A word of paired letters can have one letter more than a prefix.
                let one_letter = phrase.prefix
                    && words.paired
                    && phrase
                        .words
                        .last()
                        .is_some_and(|last| last.chars().nth(1).is_none());
                let end = if one_letter {
                    words.first_end
                } else {
                    words.end
                };
                let first = starts.len() - phrase.words.len();
                if matches.is_empty() {
                    let start = starts[first];
                    let mut before = starts.range(first.saturating_sub(WORDS_BEFORE)..first);
                    let is_near = |before: &&usize| {
                        text[**before..start].chars().nth(LENGTH_BEFORE).is_none()
                    };
                    snippet.start = before.find(is_near).copied().unwrap_or(start);
                    // Collapsed white space is ignored here, so this can end too late, but not too early for most texts.
                    snippet.end = end.saturating_add(4 * LENGTH);
                }
                matches.push(starts[first]..end);
            }
        }
        matches.sort_unstable_by_key(|range| (range.start, range.end));
        (snippet.start, matches)
    }
}

/// Copies about [`LENGTH`] code points from `start`, collapses white space, and converts the ranges.
fn render(text: &str, start: usize, matches: &[Range<usize>]) -> Snippet {
    let mut snippet = Snippet::default();
    let mut length = 0;
    let mut space = false;
    let mut matches = matches
        .iter()
        .filter(|range| range.start >= start)
        .peekable();
    let mut current: Option<(u32, usize)> = None;
    for (index, character) in text[start..].char_indices() {
        let position = start + index;
        if let Some((first, end)) = current
            && position >= end
        {
            snippet.matches.push(first..length);
            current = None;
        }
        if length as usize >= LENGTH {
            break;
        }
        if character.is_whitespace() || character.is_control() {
            space = length > 0;
            continue;
        }
        if space {
            snippet.text.push(' ');
            length += 1;
            space = false;
        }
        // Overlapping matches become one.
        while let Some(range) = matches.next_if(|range| range.start <= position) {
            let (first, end) = current.unwrap_or((length, range.end));
            current = Some((first, end.max(range.end)));
        }
        snippet.text.push(character);
        length += 1;
    }
    if let Some((first, _)) = current {
        snippet.matches.push(first..length);
    }
    snippet
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::query::Query;
    use crate::state::{FolderSet, MailboxState};

    fn snippet(query: &str, text: &str) -> (String, Vec<String>) {
        let plan = Plan::new(
            &Query::parse(query).unwrap(),
            &FolderSet::default(),
            &MailboxState::new(),
        );
        let snippet = Highlighter::new(&plan).snippet(text);
        let characters: Vec<char> = snippet.text.chars().collect();
        let matches = snippet.matches.iter().map(|range| {
            characters[range.start as usize..range.end as usize]
                .iter()
                .collect()
        });
        let matches = matches.collect();
        (snippet.text, matches)
    }

    #[test]
    fn matches_are_found_as_in_the_index() {
        assert_eq!(
            snippet(
                "muller inv-2024 \"see you\" -see from:see",
                "See Müller's INV-2024:\n\n see\tyou!"
            ),
            (
                "See Müller's INV-2024: see you!".into(),
                vec!["Müller".into(), "INV-2024".into(), "see you".into()]
            )
        );
        assert_eq!(
            snippet("ber", "Ber Berlin berg").1,
            ["Ber", "Berlin", "berg"]
        );
        assert_eq!(snippet("ber x", "Ber Berlin x").1, ["Ber", "x"]);
        assert_eq!(snippet("京都", "東京都に").1, ["京都"]);
        assert_eq!(snippet("京", "東京都に").1, ["京"]);
        assert_eq!(snippet("東京都", "東京都に").1, ["東京都"]);
    }

    #[test]
    fn a_snippet_begins_before_the_first_match() {
        let text = "word ".repeat(500) + "needle" + &" tail".repeat(500);
        let (snippet, matches) = snippet("needle", &text);
        assert!(
            snippet.starts_with("word word word word word word word word needle tail"),
            "{snippet}"
        );
        assert_eq!(matches, ["needle"]);
        assert_eq!(snippet.chars().count(), LENGTH);
    }

    #[test]
    fn long_words_before_the_match_are_omitted() {
        let text = format!("first {} last needle", "x".repeat(900));
        assert_eq!(
            snippet("needle", &text),
            ("last needle".into(), vec!["needle".into()])
        );
    }

    #[test]
    fn without_a_match_the_snippet_is_the_beginning() {
        assert_eq!(
            snippet("subject:x", " \u{A0}Hello\r\n\r\n  world "),
            ("Hello world".into(), vec![])
        );
        assert_eq!(
            snippet("absent", "é".repeat(300).as_str()),
            ("é".repeat(200), vec![])
        );
        assert_eq!(snippet("absent", ""), (String::new(), vec![]));
    }

    #[test]
    fn a_match_at_the_end_is_cut() {
        let text = "a".repeat(300);
        assert_eq!(snippet("a", &text).1, ["a".repeat(200)]);
    }
}
