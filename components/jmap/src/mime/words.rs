//! Decodes the texts of header fields: folding (RFC 5322, section 2.2.3) and encoded words (RFC
//! 2047).

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;

use super::text;

/// The maximum number of bytes in an encoded word, which has at most 75 characters.
const MAX_WORD: usize = 45;

/// Removes the line breaks of a folded field.
pub(crate) fn unfold(raw: &[u8]) -> String {
    let text = String::from_utf8_lossy(raw);
    text.chars().filter(|c| !matches!(c, '\r' | '\n')).collect()
}

/// An encoded word.
struct Word<'a> {
    charset: &'a str,
    bytes: Vec<u8>,
}

/// Decodes the encoded words in a text. White space between two encoded words is dropped. Adjacent
/// words with one character set are decoded together, because some programs split characters.
pub(crate) fn decode(text: &str) -> String {
    if !text.contains("=?") {
        return text.into();
    }
    let mut decoded = String::with_capacity(text.len());
    let mut pending: Option<(&str, Vec<u8>)> = None;
    let mut rest = text;
    while !rest.is_empty() {
        let start = rest.find("=?").unwrap_or(rest.len());
        let (before, from) = rest.split_at(start);
        let is_space = before.chars().all(|c| matches!(c, ' ' | '\t'));
        if let Some((found, after)) = word(from) {
            match &mut pending {
                Some((charset, bytes)) if is_space => {
                    if charset.eq_ignore_ascii_case(found.charset) {
                        bytes.extend(found.bytes);
                    } else {
                        flush(&mut decoded, pending.take());
                        pending = Some((found.charset, found.bytes));
                    }
                }
                _ => {
                    flush(&mut decoded, pending.take());
                    decoded.push_str(before);
                    pending = Some((found.charset, found.bytes));
                }
            }
            rest = after;
        } else {
            flush(&mut decoded, pending.take());
            let end = from.len().min(2);
            decoded.push_str(before);
            decoded.push_str(&from[..end]);
            rest = &from[end..];
        }
    }
    flush(&mut decoded, pending);
    decoded
}

fn flush(decoded: &mut String, pending: Option<(&str, Vec<u8>)>) {
    if let Some((charset, bytes)) = pending {
        decoded.push_str(&text::charset(&bytes, Some(charset)).0);
    }
}

/// Parses the encoded word at the start of a text. Returns the word and the rest of the text.
fn word(text: &str) -> Option<(Word<'_>, &str)> {
    let rest = text.strip_prefix("=?")?;
    let (charset, rest) = rest.split_once('?')?;
    let (encoding, rest) = rest.split_once('?')?;
    let (encoded, rest) = rest.split_once("?=")?;
    let has_space = |text: &str| text.contains([' ', '\t']);
    if charset.is_empty() || has_space(charset) || encoding.len() != 1 {
        return None;
    }
    let bytes = match encoding.as_bytes() {
        b"B" | b"b" => text::base64(encoded.as_bytes()),
        b"Q" | b"q" => quoted(encoded),
        _ => return None,
    };
    // A language can follow the character set (RFC 2231, section 5).
    let charset = charset.split('*').next().unwrap_or(charset);
    Some((Word { charset, bytes }, rest))
}

fn quoted(encoded: &str) -> Vec<u8> {
    let mut decoded = Vec::with_capacity(encoded.len());
    let mut rest = encoded.as_bytes();
    while let Some((first, after)) = rest.split_first() {
        rest = after;
        match first {
            b'_' => decoded.push(b' '),
            b'=' => match text::hex_pair(after) {
                Some(value) => {
                    decoded.push(value);
                    rest = &after[2..];
                }
                None => decoded.push(*first),
            },
            _ => decoded.push(*first),
        }
    }
    decoded
}

/// Encodes a text for a header field if it is not printable ASCII or contains an encoded word. The
/// encoded words are separated by spaces.
pub(crate) fn encode(text: &str) -> String {
    let is_plain = text.bytes().all(|b| matches!(b, b' '..=b'~')) && !text.contains("=?");
    if is_plain {
        return text.into();
    }
    let mut words = Vec::new();
    let mut part = String::new();
    for c in text.chars() {
        if part.len() + c.len_utf8() > MAX_WORD {
            words.push(std::mem::take(&mut part));
        }
        part.push(c);
    }
    words.push(part);
    let word = |part: &String| format!("=?utf-8?B?{}?=", STANDARD.encode(part));
    words.iter().map(word).collect::<Vec<_>>().join(" ")
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn encoded_words_are_decoded() {
        for (text, decoded) in [
            ("plain", "plain"),
            ("=?utf-8?Q?caf=C3=A9_x?=", "caf\u{e9} x"),
            ("=?ISO-8859-1?B?6Q==?= =?utf-8?q?a?= b", "\u{e9}a b"),
            ("a =?utf-8?Q?b?= c", "a b c"),
            ("=?utf-8?B?4oI=?= =?utf-8?B?rA==?=", "\u{20ac}"),
            ("=?utf-8*en?Q?a?=", "a"),
            ("=?utf-8?X?a?=", "=?utf-8?X?a?="),
            ("=?", "=?"),
            ("=?a b?Q?c?=", "=?a b?Q?c?="),
        ] {
            assert_eq!(decode(text), decoded, "{text}");
        }
        assert_eq!(unfold(b" a\r\n b"), " a b");
    }

    proptest! {
        #[test]
        fn an_encoded_text_is_decoded(text in "[ -~\u{a0}-\u{2ff}\u{1f600}]{0,80}") {
            prop_assert_eq!(decode(&encode(&text)), text);
        }

        #[test]
        fn any_text_is_decoded(text in any::<String>()) {
            decode(&text);
        }
    }
}
