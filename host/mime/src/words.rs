//! Decodes encoded words (RFC 2047). Accepts common errors of senders: words without white space
//! around them, spaces in a word, and characters that are split between two words.

use std::borrow::Cow;

use super::charset::Charset;
use super::transfer::{self, Encoding, hexadecimal};

/// An encoded word.
struct Word<'t> {
    charset: Charset,
    is_base64: bool,
    data: &'t str,
    /// The text after the word.
    rest: &'t str,
}

/// Decodes the encoded words in a text without line breaks.
pub(super) fn decode(text: &str) -> Cow<'_, str> {
    let mut decoded = String::new();
    let (mut copied, mut at) = (0, 0);
    while let Some(found) = memchr::memchr(b'?', &text.as_bytes()[at..]) {
        let mark = at + found;
        at = mark + 1;
        if !text[copied..mark].ends_with('=') {
            continue;
        }
        let start = mark - 1;
        if let Some((words, length)) = decode_first(&text[start..]) {
            decoded.push_str(&text[copied..start]);
            decoded.push_str(&words);
            at = start + length;
            copied = at;
        }
    }
    if copied == 0 {
        return text.into();
    }
    decoded.push_str(&text[copied..]);
    decoded.into()
}

/// Decodes the encoded words at the beginning of `text`. White space between two words is not part
/// of the text (RFC 2047, section 6.2). Returns the decoded text and the length of the encoded
/// words in bytes. Returns `None` if the text does not begin with an encoded word.
pub(super) fn decode_first(text: &str) -> Option<(String, usize)> {
    let mut next = Word::at(text);
    let mut decoded = String::new();
    let mut group: Vec<Word<'_>> = Vec::new();
    while let Some(word) = next {
        if group
            .last()
            .is_some_and(|last| last.charset != word.charset)
        {
            decoded.push_str(&decode_group(&group));
            group.clear();
        }
        next = Word::at(word.rest.trim_start());
        group.push(word);
    }
    let length = text.len() - group.last()?.rest.len();
    decoded.push_str(&decode_group(&group));
    Some((decoded, length))
}

/// Decodes adjacent words of one character set together, because a character can be split between
/// two words.
fn decode_group(words: &[Word<'_>]) -> String {
    let Some((last, others)) = words.split_last() else {
        return String::new();
    };
    let mut bytes = Vec::new();
    for word in words {
        word.decode(&mut bytes);
    }
    let separate = last.charset.decode(bytes, false);
    if others.iter().all(|word| !word.is_unpadded()) {
        return separate;
    }
    // Either the sender omits the padding, or a group of four letters is split between two words.
    // Decode the words separately and joined, and choose the better result.
    let mut bytes = Vec::new();
    for run in words.chunk_by(|a, b| a.is_base64 && b.is_base64) {
        if let [word] = run {
            word.decode(&mut bytes);
        } else {
            let letters: String = run.iter().map(|word| word.data).collect();
            bytes.extend(transfer::decoded(letters.as_bytes(), Encoding::Base64));
        }
    }
    let joined = last.charset.decode(bytes, false);
    let is_text = |text: &str| !text.contains(|c: char| c.is_control() || c == '\u{fffd}');
    let can_be_separate = others.iter().all(Word::is_whole) || !is_text(&joined);
    if can_be_separate && is_text(&separate) {
        separate
    } else {
        joined
    }
}

impl<'t> Word<'t> {
    /// Parses the encoded word at the beginning of `text`.
    fn at(text: &'t str) -> Option<Self> {
        let rest = text.strip_prefix("=?")?;
        let (label, rest) = token(rest)?;
        let (encoding, rest) = token(rest)?;
        let is_base64 = match encoding {
            "b" | "B" => true,
            "q" | "Q" => false,
            _ => return None,
        };
        // Some senders do not encode spaces and question marks. Another `=?` before the end means
        // that this word has no end.
        let bytes = rest.as_bytes();
        let end = memchr::memchr_iter(b'?', bytes).find(|at| {
            bytes.get(at + 1) == Some(&b'=')
                || at.checked_sub(1).is_some_and(|at| bytes[at] == b'=')
        })?;
        let (data, rest) = rest.split_at(end);
        let charset = if data.is_ascii() {
            Charset::named(Some(label))
        } else {
            // The caller has already decoded the letters that are not ASCII, so the label does not
            // apply.
            Charset::Unlabelled
        };
        (label.len() > 1).then_some(Self {
            charset,
            is_base64,
            data,
            rest: rest.strip_prefix("?=")?,
        })
    }

    /// Decodes the data and appends the result to `bytes`.
    fn decode(&self, bytes: &mut Vec<u8>) {
        if self.is_base64 {
            bytes.extend(transfer::decoded(self.data.as_bytes(), Encoding::Base64));
            return;
        }
        bytes.reserve(self.data.len());
        let mut rest = self.data.as_bytes();
        while let [byte, after @ ..] = rest {
            rest = after;
            bytes.push(match (byte, after) {
                (b'_', _) => b' ',
                (b'=', [high, low, after @ ..]) => match (hexadecimal(*high), hexadecimal(*low)) {
                    (Some(high), Some(low)) => {
                        rest = after;
                        high << 4 | low
                    }
                    _ => b'=',
                },
                (byte, _) => *byte,
            });
        }
    }

    fn letters(&self) -> impl DoubleEndedIterator<Item = u8> {
        self.data.bytes().filter_map(transfer::base64_value)
    }

    /// Returns `true` if the last group of base64 has fewer than four letters and no padding.
    fn is_unpadded(&self) -> bool {
        self.is_base64 && !self.data.ends_with('=') && !self.letters().count().is_multiple_of(4)
    }

    /// Returns `true` if the base64 can be complete: the unused bits of its last letter are zero.
    fn is_whole(&self) -> bool {
        let unused = match self.letters().count() % 4 {
            _ if !self.is_unpadded() => 0,
            2 => 0b1111,
            3 => 0b11,
            _ => return false,
        };
        self.letters()
            .next_back()
            .is_none_or(|last| last & unused == 0)
    }
}

/// Splits `text` at the next question mark. Returns `None` if white space precedes the question
/// mark.
fn token(text: &str) -> Option<(&str, &str)> {
    let end = text.find(|c: char| c == '?' || c.is_ascii_whitespace())?;
    let (token, rest) = text.split_at(end);
    Some((token, rest.strip_prefix('?')?))
}

#[cfg(test)]
mod tests;
