//! The part of a message's text with the matches of a query.

use std::collections::{HashMap, HashSet, VecDeque};
use std::ops::Range;

use crate::matching::Plan;
use crate::schema::TextField;
use crate::words::Words;

/// The length of a snippet, in code points.
const LENGTH: usize = 200;

/// The maximum length of a snippet whose last match extends beyond [`LENGTH`], in code points. A
/// match can be a phrase with many words.
const MAX_LENGTH: usize = 800;

/// The maximum number of words before the first match.
const WORDS_BEFORE: usize = 8;

/// The maximum length of the text before the first match, in code points. Without a limit, long
/// words could fill the snippet.
const LENGTH_BEFORE: usize = LENGTH / 2;

/// The maximum number of words of a phrase. Longer phrases are not highlighted.
const MAX_PHRASE: usize = 64;

/// A part of the text of a message.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Snippet {
    /// The text, about 200 characters. White space is collapsed.
    pub text: String,
    /// The positions of the matches in `text`, in Unicode code points, ascending. Empty if only
    /// header fields match.
    pub matches: Vec<Range<u32>>,
}

/// The words and phrases of a query, to find them in texts.
///
/// The phrases form a tree: a path from the root contains the words of a phrase. So the time for a
/// word of a text does not depend on the number of phrases.
pub(crate) struct Highlighter {
    nodes: Vec<Node>,
    /// The nodes that the last words of the text reach, and the number of words on the path to each
    /// node. The longest path is first.
    reached: Vec<(usize, usize)>,
}

/// The beginning of a phrase.
#[derive(Default)]
struct Node {
    /// The child nodes, by the next word of a phrase.
    next: HashMap<String, usize>,
    /// The prefixes that complete a phrase as its last word.
    prefixes: HashSet<String>,
    /// The lengths of the prefixes, in bytes, ascending.
    prefix_lengths: Vec<usize>,
    /// Whether the node is a complete phrase.
    is_phrase: bool,
}

impl Node {
    /// Returns the length of the longest of `prefixes` with which a word begins, in bytes.
    fn prefix_of(&self, word: &str) -> Option<usize> {
        let mut lengths = self.prefix_lengths.iter().rev().copied();
        lengths.find(|&length| {
            word.get(..length)
                .is_some_and(|prefix| self.prefixes.contains(prefix))
        })
    }
}

/// A phrase of the query that ends with the current word of the text.
struct End {
    /// The number of words of the phrase.
    words: usize,
    /// Whether the phrase ends with the first letter of the word.
    is_first_letter: bool,
}

impl Highlighter {
    /// Creates a highlighter for the words of a query that are searched in the text.
    pub(crate) fn new(plan: &Plan) -> Self {
        let mut nodes = vec![Node::default()];
        let phrases = plan
            .positive_words()
            .filter(|words| words.fields.contains(&TextField::Body))
            .filter(|words| (1..=MAX_PHRASE).contains(&words.words.words.len()));
        for phrase in phrases {
            let words = &phrase.words.words;
            let complete = words.len() - usize::from(phrase.words.prefix);
            let mut node = 0;
            for word in &words[..complete] {
                let new = nodes.len();
                let next = *nodes[node].next.entry(word.clone()).or_insert(new);
                if next == new {
                    nodes.push(Node::default());
                }
                node = next;
            }
            let node = &mut nodes[node];
            match words.get(complete) {
                Some(prefix) => {
                    node.prefixes.insert(prefix.clone());
                    if let Err(at) = node.prefix_lengths.binary_search(&prefix.len()) {
                        node.prefix_lengths.insert(at, prefix.len());
                    }
                }
                None => node.is_phrase = true,
            }
        }
        Self {
            nodes,
            reached: Vec::new(),
        }
    }

    /// Returns the part of `text` with the first matches.
    pub(crate) fn snippet(&mut self, text: &str) -> Snippet {
        let (start, matches) = self.find(text);
        render(text, start, &matches)
    }

    /// Reads the next word of a text. Returns the longest phrase that ends with the word.
    fn advance(&mut self, words: &Words<'_>) -> Option<End> {
        let mut longest: Option<End> = None;
        self.reached.push((0, 0));
        self.reached.retain_mut(|(node, length)| {
            let at = &self.nodes[*node];
            *length += 1;
            let next = at.next.get(&words.word).copied();
            let is_phrase = next.is_some_and(|next| self.nodes[next].is_phrase);
            let prefix = at.prefix_of(&words.word);
            if is_phrase || prefix.is_some() {
                // A word of paired letters can have one letter more than a prefix. Then only the
                // first letter of the word matches.
                let is_letter = |prefix: usize| words.word[..prefix].chars().nth(1).is_none();
                let is_first_letter = !is_phrase && words.paired && prefix.is_some_and(is_letter);
                let end = longest.get_or_insert(End {
                    words: *length,
                    is_first_letter,
                });
                end.is_first_letter &= is_first_letter;
            }
            *node = next.unwrap_or_default();
            next.is_some()
        });
        longest
    }

    /// Returns the start of the snippet and the ranges of matches after it, in bytes.
    fn find(&mut self, text: &str) -> (usize, Vec<Range<usize>>) {
        let mut matches: Vec<Range<usize>> = Vec::new();
        let root = &self.nodes[0];
        if root.next.is_empty() && root.prefixes.is_empty() {
            return (0, matches);
        }
        self.reached.clear();
        // The starts of the last words, in bytes: the words of the longest phrase, and the words
        // before it.
        let mut starts = VecDeque::with_capacity(MAX_PHRASE + WORDS_BEFORE);
        let mut snippet = 0..usize::MAX;
        let mut words = Words::new(text);
        while words.advance() && words.start < snippet.end {
            if starts.len() == MAX_PHRASE + WORDS_BEFORE {
                starts.pop_front();
            }
            starts.push_back(words.start);
            let Some(phrase) = self.advance(&words) else {
                continue;
            };
            let end = if phrase.is_first_letter {
                words.first_end
            } else {
                words.end
            };
            let first = starts.len() - phrase.words;
            if matches.is_empty() {
                let start = starts[first];
                let mut before = starts.range(first.saturating_sub(WORDS_BEFORE)..first);
                let is_near =
                    |before: &&usize| text[**before..start].chars().nth(LENGTH_BEFORE).is_none();
                snippet.start = before.find(is_near).copied().unwrap_or(start);
                // A code point has at most 4 bytes. White space is not collapsed yet, so in a text
                // with much white space, matches at the end of the snippet can be missed.
                snippet.end = end.saturating_add(4 * LENGTH);
            }
            matches.push(starts[first]..end);
        }
        matches.retain(|range| range.start >= snippet.start);
        (snippet.start, merged(matches))
    }
}

/// Sorts ranges, and merges overlapping ranges.
fn merged(mut ranges: Vec<Range<usize>>) -> Vec<Range<usize>> {
    ranges.sort_unstable_by_key(|range| (range.start, range.end));
    ranges.dedup_by(|next, range| {
        let overlaps = next.start < range.end;
        if overlaps {
            range.end = range.end.max(next.end);
        }
        overlaps
    });
    ranges
}

/// Copies about [`LENGTH`] code points from `start`, collapses white space, and converts the
/// ranges. The copy ends after a complete match.
fn render(text: &str, start: usize, matches: &[Range<usize>]) -> Snippet {
    let mut snippet = Snippet::default();
    let mut length = 0;
    let mut space = false;
    let mut matches = matches.iter().peekable();
    // The current match: its start in the snippet in code points, its end in `text` in bytes, and
    // the length of the snippet before the match in bytes.
    let mut current: Option<(u32, usize, usize)> = None;
    let mut is_cut = false;
    for (index, character) in text[start..].char_indices() {
        let position = start + index;
        if let Some((first, end, _)) = current
            && position >= end
        {
            snippet.matches.push(first..length);
            current = None;
        }
        let limit = if current.is_some() {
            MAX_LENGTH
        } else {
            LENGTH
        };
        if length as usize >= limit {
            is_cut = current.is_some();
            break;
        }
        if character.is_whitespace() || character.is_control() {
            space = length > 0;
            continue;
        }
        let before = snippet.text.len();
        if space {
            snippet.text.push(' ');
            length += 1;
            space = false;
        }
        if let Some(range) = matches.next_if(|range| range.start <= position) {
            current = Some((length, range.end, before));
        }
        snippet.text.push(character);
        length += 1;
    }
    match current {
        Some((_, _, before)) if is_cut && !snippet.matches.is_empty() => {
            snippet.text.truncate(before);
        }
        // A match that exceeds the limit is cut only if it is the first match.
        Some((first, _, _)) => snippet.matches.push(first..length),
        None => {}
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
    fn a_snippet_ends_after_a_complete_match() {
        assert_eq!(snippet("a", &"a".repeat(300)).1, ["a".repeat(300)]);
        for before in 180..210 {
            let text = format!("first {} needle in hay tail", "x".repeat(before));
            let (snippet, matches) = snippet("first \"needle in hay\"", &text);
            let mut expected = vec!["first"];
            if before + 6 < LENGTH {
                expected.push("needle in hay");
            }
            assert_eq!(matches, expected, "{before}");
            assert!(snippet.chars().count() <= LENGTH + 13, "{before}");
        }
        // A match above the limit is omitted, or cut if it is the first match.
        let long = "y".repeat(MAX_LENGTH + 1);
        let text = format!("first {long}");
        let found = snippet("first OR yy", &text);
        assert_eq!(found, ("first".into(), vec!["first".into()]));
        assert_eq!(snippet("yy", &long).1, ["y".repeat(MAX_LENGTH)]);
    }

    #[test]
    fn overlapping_matches_are_one_match() {
        let text = "a b c d e";
        assert_eq!(snippet("\"a b\" \"b c\" c e", text).1, ["a b c", "e"]);
        assert_eq!(snippet("\"b c d\" \"a b c\" \"c x\"", text).1, ["a b c d"]);
        assert_eq!(snippet("京 \"x 京\" 京都", "x 京都").1, ["x 京都"]);
        assert_eq!(snippet("京 \"x 京\"", "x 京都").1, ["x 京"]);
    }

    /// The limit is generous, because tests run without optimization and next to other programs.
    #[test]
    fn the_time_does_not_depend_on_the_number_of_phrases() {
        let text = "some other words of a message ".repeat(64 * 1024 / 30);
        let same = "a ".repeat(32 * 1024);
        let join = |count, phrase: fn(usize) -> String| {
            let phrases: Vec<_> = (0..count).map(phrase).collect();
            phrases.join(" OR ")
        };
        let terms = |count| join(count, |number| format!("w{number}"));
        let phrases = |count| join(count, |number| format!("\"a a a a b{number}\""));
        let time = |query: &str, text: &str| {
            let started = std::time::Instant::now();
            assert_eq!(snippet(query, text).1, [""; 0]);
            started.elapsed()
        };
        for (one, many, text) in [
            (terms(1), terms(151), &text),
            (phrases(1), phrases(60), &same),
        ] {
            // The shortest times count, because tests run next to other programs.
            let times = (0..9).map(|_| (time(&one, text), time(&many, text)));
            let (of_one, of_many): (Vec<_>, Vec<_>) = times.unzip();
            let (one, many) = (of_one.iter().min().unwrap(), of_many.iter().min().unwrap());
            assert!(*many < *one * 8, "{many:?} instead of {one:?}");
        }
    }
}
