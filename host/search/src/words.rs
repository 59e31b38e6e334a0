//! Splits text into folded words. The index, queries and snippets use the same words.
//!
//! A word is a maximal run of letters, digits and marks. All other characters separate words, so
//! `INV-2024-00815`, `anna@example.com` and `report_final.pdf` consist of several adjacent words.
//!
//! Chinese, Japanese, Korean, Thai, Lao, Khmer and Burmese have no spaces between words, or none
//! around particles. A run of letters of these languages becomes one word for each pair of adjacent
//! letters, and one word for the last letter. For example, `東京都` becomes `東京`, `京都` and `都`.

use tantivy::tokenizer::{Token, TokenStream, Tokenizer};

use crate::class::Class;
use crate::folding::fold;

/// The maximum length of a word, in code points. The rest of a longer word is ignored.
pub(crate) const MAX_WORD: usize = 64;

/// Returns whether a character of class [`Class::Paired`] can combine with the character before it.
fn combines(character: char) -> bool {
    matches!(character, '\u{1160}'..='\u{11FF}' | '\u{FF9E}' | '\u{FF9F}' | '\u{FFA0}'..='\u{FFDC}')
}

/// Returns whether a letter is a kana, a Han character or a Hangul syllable that folding does not
/// change. Returns `false` for some other letters that folding does not change.
fn is_folded(letter: char) -> bool {
    matches!(
        letter,
        '\u{3041}'..='\u{3096}' | '\u{30A1}'..='\u{30FC}' | '\u{4E00}'..='\u{9FFF}' | '\u{AC00}'..='\u{D7A3}'
    )
}

/// A folded letter of a run of paired letters, and its range in the text in bytes.
#[derive(Clone, Copy, Debug)]
struct Letter {
    folded: char,
    start: usize,
    end: usize,
}

/// The words of a text, in order.
#[derive(Debug)]
pub(crate) struct Words<'a> {
    text: &'a str,
    /// The end of the part of `text` that was read, in bytes.
    read: usize,
    /// The letters of the current run of paired letters. `next_letter` is the index of the first
    /// letter of the next word.
    run: Vec<Letter>,
    next_letter: usize,
    /// The current word in its folded form.
    pub(crate) word: String,
    /// The start of the current word in `text`, in bytes. `end` is its end.
    pub(crate) start: usize,
    pub(crate) end: usize,
    /// The end of the first letter of a word of paired letters in `text`, in bytes.
    pub(crate) first_end: usize,
    /// Whether the word consists of paired letters.
    pub(crate) paired: bool,
    folded: String,
}

impl<'a> Words<'a> {
    /// Returns the words of `text`.
    pub(crate) fn new(text: &'a str) -> Self {
        Self {
            text,
            read: 0,
            run: Vec::new(),
            next_letter: 0,
            word: String::new(),
            start: 0,
            end: 0,
            first_end: 0,
            paired: false,
            folded: String::new(),
        }
    }

    /// Reads the next word. Returns `false` at the end of the text.
    pub(crate) fn advance(&mut self) -> bool {
        loop {
            if self.next_letter < self.run.len() {
                self.next_pair();
                return true;
            }
            let Some(class) = self.skip_separators() else {
                return false;
            };
            if class == Class::Paired {
                self.read_run();
            } else {
                self.read_word();
                if !self.word.is_empty() {
                    return true;
                }
            }
        }
    }

    /// Returns the number of letters of the current run of paired letters that have not yet begun a
    /// word.
    pub(crate) fn letters_left(&self) -> usize {
        self.run.len().saturating_sub(self.next_letter)
    }

    /// Skips characters that are not part of a word, and returns the class of the next character.
    fn skip_separators(&mut self) -> Option<Class> {
        let bytes = self.text.as_bytes();
        while let Some(&byte) = bytes.get(self.read) {
            if byte.is_ascii_alphanumeric() {
                return Some(Class::Letter);
            }
            if byte.is_ascii() {
                self.read += 1;
                continue;
            }
            let character = self.text[self.read..].chars().next()?;
            match Class::of(character) {
                Class::Separator | Class::Extend => self.read += character.len_utf8(),
                class => return Some(class),
            }
        }
        None
    }

    fn read_word(&mut self) {
        let bytes = self.text.as_bytes();
        self.start = self.read;
        let mut length = 0;
        let mut cut = None;
        while let Some(&byte) = bytes.get(self.read) {
            let size = if byte.is_ascii() {
                if !byte.is_ascii_alphanumeric() {
                    break;
                }
                1
            } else {
                let Some(character) = self.text[self.read..].chars().next() else {
                    break;
                };
                if matches!(Class::of(character), Class::Separator | Class::Paired) {
                    break;
                }
                character.len_utf8()
            };
            if length == MAX_WORD {
                cut = Some(self.read);
            }
            length += 1;
            self.read += size;
        }
        self.end = self.read;
        self.paired = false;
        self.word.clear();
        fold(
            &self.text[self.start..cut.unwrap_or(self.end)],
            &mut self.word,
        );
    }

    fn read_run(&mut self) {
        self.run.clear();
        self.next_letter = 0;
        // A letter and the characters that combine with it are folded together.
        let mut start = self.read;
        let mut characters = 0;
        while let Some(character) = self.text[self.read..].chars().next() {
            let combines = match Class::of(character) {
                Class::Paired => combines(character),
                Class::Extend => true,
                Class::Letter | Class::Separator => break,
            };
            if !combines && characters > 0 {
                self.push_letters(start, characters);
                start = self.read;
                characters = 0;
            }
            characters += 1;
            self.read += character.len_utf8();
        }
        self.push_letters(start, characters);
    }

    /// Adds the folded characters between `start` and the current position to the run.
    fn push_letters(&mut self, start: usize, characters: usize) {
        let end = self.read;
        let text = &self.text[start..end];
        self.folded.clear();
        if characters == 1 && text.chars().all(is_folded) {
            self.folded.push_str(text);
        } else {
            fold(text, &mut self.folded);
        }
        self.run.extend(
            self.folded
                .chars()
                .map(|folded| Letter { folded, start, end }),
        );
    }

    fn next_pair(&mut self) {
        let first = self.run[self.next_letter];
        self.word.clear();
        self.word.push(first.folded);
        self.start = first.start;
        self.end = first.end;
        self.first_end = first.end;
        self.paired = true;
        self.next_letter += 1;
        if let Some(second) = self.run.get(self.next_letter) {
            self.word.push(second.folded);
            self.end = second.end;
        }
    }
}

/// The words of a term of a query.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct TermWords {
    /// The words, which must be adjacent and in this order.
    pub(crate) words: Vec<String>,
    /// Whether the last word can be the beginning of a longer word.
    pub(crate) prefix: bool,
}

impl TermWords {
    /// Returns the words of the text of a term. `prefix` says whether the last word can be the
    /// beginning of a longer word.
    ///
    /// If the text ends with a run of paired letters, this run can be part of a longer run in a
    /// message. So the word for the last letter is omitted. If the run has only one letter, the
    /// letter becomes a prefix instead.
    pub(crate) fn new(text: &str, prefix: bool) -> Self {
        let mut words = Words::new(text);
        let mut all = Vec::new();
        // The number of words of the current run of paired letters.
        let mut run = 0;
        let mut run_ended = true;
        while words.advance() {
            run = match words.paired {
                true if run_ended => 1,
                true => run + 1,
                false => 0,
            };
            run_ended = words.letters_left() == 0;
            all.push(words.word.clone());
        }
        if run > 1 {
            all.pop();
        }
        let prefix = run == 1 || (prefix && run == 0 && !all.is_empty());
        Self { words: all, prefix }
    }

    /// Returns whether the term has no words.
    pub(crate) fn is_empty(&self) -> bool {
        self.words.is_empty()
    }
}

/// The tokenizer of the index.
#[derive(Clone, Debug, Default)]
pub(crate) struct WordTokenizer {
    buffer: Token,
}

/// The words of a text as tantivy's tokens.
#[derive(Debug)]
pub(crate) struct WordStream<'a> {
    words: Words<'a>,
    token: &'a mut Token,
}

impl Tokenizer for WordTokenizer {
    type TokenStream<'a> = WordStream<'a>;

    fn token_stream<'a>(&'a mut self, text: &'a str) -> WordStream<'a> {
        self.buffer.reset();
        WordStream {
            words: Words::new(text),
            token: &mut self.buffer,
        }
    }
}

impl TokenStream for WordStream<'_> {
    fn advance(&mut self) -> bool {
        if !self.words.advance() {
            return false;
        }
        std::mem::swap(&mut self.token.text, &mut self.words.word);
        self.token.position = self.token.position.wrapping_add(1);
        self.token.offset_from = self.words.start;
        self.token.offset_to = self.words.end;
        true
    }

    fn token(&self) -> &Token {
        self.token
    }

    fn token_mut(&mut self) -> &mut Token {
        self.token
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn words(text: &str) -> Vec<String> {
        let mut words = Words::new(text);
        let mut all = Vec::new();
        while words.advance() {
            all.push(words.word.clone());
        }
        all
    }

    fn term(text: &str, prefix: bool) -> (Vec<String>, bool) {
        let term = TermWords::new(text, prefix);
        (term.words, term.prefix)
    }

    #[test]
    fn punctuation_separates_words() {
        assert_eq!(words("Hello, world!"), ["hello", "world"]);
        assert_eq!(words("INV-2024-00815"), ["inv", "2024", "00815"]);
        assert_eq!(
            words("anna.meier@example.com"),
            ["anna", "meier", "example", "com"]
        );
        assert_eq!(words("report_final.pdf"), ["report", "final", "pdf"]);
        assert_eq!(words("l'été п\u{2BC}ять"), ["l", "ete", "п", "ять"]);
        assert_eq!(words("abc123 2½"), ["abc123", "2"]);
        assert_eq!(words(" \u{200B}\u{301} - "), [""; 0]);
    }

    #[test]
    fn runs_without_spaces_become_pairs() {
        assert_eq!(words("東京都"), ["東京", "京都", "都"]);
        assert_eq!(words("都"), ["都"]);
        assert_eq!(words("第3章 rust東"), ["第", "3", "章", "rust", "東"]);
        assert_eq!(words("ﾃﾞｰﾀ"), ["デー", "ータ", "タ"]);
        assert_eq!(words("안녕 하"), ["안녕", "녕", "하"]);
        assert_eq!(words("안녕"), words("안녕"));
    }

    #[test]
    fn the_last_letter_of_a_run_in_a_term_can_have_a_successor() {
        assert_eq!(
            term("東京都", false),
            (vec!["東京".into(), "京都".into()], false)
        );
        assert_eq!(term("都", false), (vec!["都".into()], true));
        assert_eq!(
            term("第3章", false),
            (vec!["第".into(), "3".into(), "章".into()], true)
        );
        assert_eq!(
            term("東京 x", false),
            (vec!["東京".into(), "京".into(), "x".into()], false)
        );
        assert_eq!(
            term("東京 x", true),
            (vec!["東京".into(), "京".into(), "x".into()], true)
        );
        assert_eq!(term("東京 …", true), (vec!["東京".into()], false));
        assert_eq!(
            term("INV-20", true),
            (vec!["inv".into(), "20".into()], true)
        );
    }

    #[test]
    fn long_words_are_cut() {
        let text = "é".repeat(1000);
        assert_eq!(words(&text), ["e".repeat(MAX_WORD)]);
    }

    #[test]
    fn ranges_are_those_of_the_text() {
        let text = "Der Ｍü\u{301}ller, カ\u{3099}ス!";
        let mut words = Words::new(text);
        let mut ranges = Vec::new();
        while words.advance() {
            ranges.push(&text[words.start..words.end]);
        }
        assert_eq!(ranges, ["Der", "Ｍü\u{301}ller", "カ\u{3099}ス", "ス"]);
    }

    proptest! {
        #[test]
        fn any_text_has_words_without_separators(text in any::<String>()) {
            let mut words = Words::new(&text);
            while words.advance() {
                prop_assert!(!words.word.is_empty());
                prop_assert!(words.word.chars().all(|c| Class::of(c) != Class::Separator));
                prop_assert!(text.get(words.start..words.end).is_some());
            }
            TermWords::new(&text, true);
        }
    }
}
