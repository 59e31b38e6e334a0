//! Detects invisible characters. People cannot see these characters, but models read them. A text
//! can therefore have different meanings for a person and an agent. Warnings report invisible
//! characters. JSON escapes represent the characters in the result; no character is removed.

use std::fmt::Write as _;
use std::io;

use latchmail_shape::{Invisible, invisible};
use serde::Serialize;
use serde_json::ser::{CharEscape, CompactFormatter, Formatter, Serializer};

/// The reported kinds of invisible characters, with their names in warnings. The list contains no
/// joiners: a single joiner is legitimate, for example between the parts of an emoji.
const KINDS: [(Invisible, &str); 3] = [
    (
        Invisible::Direction,
        "bidirectional control characters, which display text in a different order",
    ),
    (
        Invisible::Blank,
        "zero-width characters, which are invisible to people",
    ),
    (
        Invisible::Tag,
        "Unicode tag characters, which are invisible to people and may spell out another text",
    ),
];

/// Returns whether a character must be escaped in a result. Invisible characters and characters
/// that look like a line break are escaped.
fn is_escaped(c: char) -> bool {
    let ends_a_line = matches!(c, '\u{7f}'..='\u{9f}' | '\u{2028}' | '\u{2029}');
    ends_a_line || invisible(c).is_some()
}

/// Returns the size of a character in a result, in bytes. The size includes JSON escapes.
pub(crate) fn escaped_size(c: char) -> usize {
    match c {
        _ if is_escaped(c) => 6 * c.len_utf16(),
        '"' | '\\' | '\n' | '\r' | '\t' | '\u{8}' | '\u{c}' => 2,
        '\0'..='\u{1f}' => 6,
        _ => c.len_utf8(),
    }
}

/// Returns whether two consecutive characters are joiners. A sequence of joiners can encode a
/// hidden text. A zero-width joiner after an emoji's variation selector is legitimate.
fn is_joiner_pair(before: char, c: char) -> bool {
    let joiner = Some(Invisible::Joiner);
    invisible(before) == joiner && invisible(c) == joiner && (before, c) != ('\u{fe0f}', '\u{200d}')
}

/// The kinds of invisible characters found in a message.
#[derive(Debug, Default)]
pub(crate) struct InvisibleCharacters {
    found: [Vec<&'static str>; KINDS.len()],
}

impl InvisibleCharacters {
    /// Scans a text of the message. Warnings use `part` as the name of the text.
    pub(crate) fn scan(&mut self, part: &'static str, text: &str) {
        let mut has = [false; KINDS.len()];
        let mut mark = |found: Invisible| {
            for ((kind, _), has) in KINDS.iter().zip(&mut has) {
                *has |= *kind == found;
            }
        };
        let mut before = '\0';
        for c in text.chars() {
            match invisible(c) {
                Some(Invisible::Joiner) if is_joiner_pair(before, c) => mark(Invisible::Blank),
                Some(found) => mark(found),
                None => {}
            }
            before = c;
        }
        for (has, parts) in has.into_iter().zip(&mut self.found) {
            if has && !parts.contains(&part) {
                parts.push(part);
            }
        }
    }

    /// Returns one warning for each kind of invisible characters found. Warnings use `message` as
    /// the name of the message, and contain no text of the message.
    pub(crate) fn warnings(&self, message: &str) -> Vec<String> {
        let kinds = KINDS.iter().zip(&self.found);
        kinds
            .filter(|(_, parts)| !parts.is_empty())
            .map(|((_, what), parts)| format!("{message} has {what}, in: {}", parts.join(", ")))
            .collect()
    }
}

/// Serializes a value as JSON and escapes invisible characters.
///
/// # Errors
/// Returns an error if the value cannot be serialized as JSON.
pub(crate) fn json<T: Serialize>(value: &T) -> serde_json::Result<String> {
    let mut bytes = Vec::new();
    value.serialize(&mut Serializer::with_formatter(&mut bytes, EscapeInvisible))?;
    // `serde_json` passes only complete characters to the formatter, so the bytes are valid UTF-8.
    Ok(String::from_utf8(bytes).unwrap_or_default())
}

/// The compact format of `serde_json`, with escapes for invisible characters.
struct EscapeInvisible;

impl Formatter for EscapeInvisible {
    fn write_string_fragment<W: ?Sized + io::Write>(
        &mut self,
        writer: &mut W,
        fragment: &str,
    ) -> io::Result<()> {
        let mut rest = fragment;
        while let Some((at, c)) = rest.char_indices().find(|(_, c)| is_escaped(*c)) {
            writer.write_all(&rest.as_bytes()[..at])?;
            let mut escaped = String::new();
            for unit in c.encode_utf16(&mut [0; 2]) {
                write!(escaped, "\\u{unit:04x}").map_err(io::Error::other)?;
            }
            writer.write_all(escaped.as_bytes())?;
            rest = &rest[at + c.len_utf8()..];
        }
        writer.write_all(rest.as_bytes())
    }

    fn write_char_escape<W: ?Sized + io::Write>(
        &mut self,
        writer: &mut W,
        escape: CharEscape,
    ) -> io::Result<()> {
        CompactFormatter.write_char_escape(writer, escape)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn warnings(text: &str) -> Vec<String> {
        let mut invisible_characters = InvisibleCharacters::default();
        invisible_characters.scan("subject", text);
        invisible_characters.warnings("It")
    }

    #[test]
    fn invisible_characters_are_reported() {
        for (text, what) in [
            ("invoice\u{202e}fdp.exe", "bidirectional"),
            ("a\u{2066}b\u{2069}", "bidirectional"),
            ("pay\u{200b}pal", "zero-width"),
            ("\u{feff}x", "zero-width"),
            ("x\u{200c}\u{200d}\u{200c}", "zero-width"),
            ("x\u{200e}\u{200f}", "zero-width"),
            ("x\u{ad}\u{61c}", "zero-width"),
            ("x\u{206a}\u{206f}", "zero-width"),
            ("x\u{fe00}\u{fe0f}\u{fe01}", "zero-width"),
            ("x\u{fe0f}\u{200d}\u{fe0f}", "zero-width"),
            ("hi\u{e0049}\u{e0067}", "tag characters"),
        ] {
            let warnings = warnings(text);
            assert!(
                warnings.len() == 1 && warnings[0].contains(what),
                "{text:?}: {warnings:?}"
            );
        }
    }

    #[test]
    fn ordinary_text_in_any_language_is_not_reported() {
        for text in [
            "Grüße, 日本語, שלום, مرحبا",
            "👩\u{200d}👩\u{200d}👧",
            "می\u{200c}خواهم",
            "❤\u{fe0f}",
            "❤\u{fe0f}\u{200d}🔥",
            "Donau\u{ad}dampf\u{ad}schiff",
            "שלום!\u{200f} (ABC)\u{200e}",
        ] {
            assert!(warnings(text).is_empty(), "{text:?}");
        }
    }

    #[test]
    fn invisible_characters_are_escaped_in_text() {
        let slight = json(&["a\u{200c}\u{200d}\u{200e}\u{61c}\u{ad}\u{206a}❤\u{fe0f}"]).unwrap();
        assert_eq!(
            slight,
            r#"["a\u200c\u200d\u200e\u061c\u00ad\u206a❤\ufe0f"]"#
        );
        let written = json(&["a\u{202e}\"\n\u{e0041}é\u{85}\u{2028}"]).unwrap();
        assert_eq!(written, r#"["a\u202e\"\n\udb40\udc41é\u0085\u2028"]"#);
    }

    proptest! {
        #[test]
        fn escapes_do_not_change_the_value(text in any::<String>()) {
            let written = json(&text).unwrap();
            prop_assert_eq!(serde_json::from_str::<String>(&written).unwrap(), text);
            prop_assert!(!written.chars().any(is_escaped));
        }
    }
}
