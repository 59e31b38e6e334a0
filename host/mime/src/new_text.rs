//! Extracts the new part of a reply: the text without quoted messages, signature and disclaimer.
//!
//! The rules are heuristics for what mail clients write in English, German, French, Spanish,
//! Italian, Dutch, Czech, Hungarian, Finnish, Romanian, Greek, Ukrainian, Hebrew, Arabic and
//! Korean. A text that no rule recognizes is kept. The rules are:
//!
//! - A line with `>` at the beginning is a quote, and the line that introduces the quote belongs to
//!   the quote. Answers between quotes are kept, in order.
//! - Everything after the header of a message (`From:`, `Sent:`, `To:`, `Subject:`) or after a line
//!   like `-----Original Message-----` is a quote, unless that text has `>` at the beginning of its
//!   lines.
//! - A closing phrase and the name after it are part of the text. Only the following lines with
//!   phone numbers or addresses are a signature.
//! - If no other text remains, a forwarded or quoted message without `>` is the text.
//!
//! Time and memory are linear in the length of the text.

mod disclaimer_phrases;
mod quote_phrases;
mod quotes;
mod signature;
mod signature_phrases;

use std::borrow::Cow;
use std::ops::Range;

use latchmail_html::{Kind, visible_lines};
use latchmail_shape::invisible;

/// A line of a text.
#[derive(Clone, Copy, Debug)]
struct Line<'a> {
    /// The line as the text contains it, without trailing white space.
    original: &'a str,
    /// The line without trailing white space and without characters that can be omitted. Mail
    /// clients in Hebrew and Arabic add invisible direction marks to lines.
    text: &'a str,
    /// `true` if the line is `-- ` with the space: the separator of a signature (RFC 3676, section
    /// 4.3).
    is_separator: bool,
    kind: Kind,
}

impl<'a> Line<'a> {
    /// Creates a line. `visible` is the line without invisible characters.
    fn new(line: &'a str, visible: &'a str, kind: Kind) -> Self {
        Self {
            original: line.trim_end(),
            text: visible.trim_end(),
            is_separator: visible.trim_end_matches('\r') == "-- ",
            kind,
        }
    }

    fn is_blank(&self) -> bool {
        self.text.is_empty()
    }

    fn is_text(&self) -> bool {
        self.kind == Kind::Text
    }

    fn is_quote(&self) -> bool {
        self.kind == Kind::Quote
    }
}

/// Returns the new part of a message. Uses the HTML only if there is no plain text. Returns `None`
/// if there is neither plain text nor HTML. Returns an empty text if the message contains only
/// quotes and a signature.
#[must_use]
pub fn new_text(text: Option<&str>, html: Option<&str>) -> Option<String> {
    if let Some(text) = text.filter(|text| !crate::is_blank(text) || html.is_none()) {
        let visible = without_invisible(text);
        let lines = text.split('\n').zip(visible.split('\n'));
        let lines = lines.map(|(line, visible)| Line::new(line, visible, Kind::Text));
        return Some(new_part(lines.collect()));
    }
    let lines = visible_lines(html?);
    let visible: Vec<_> = lines
        .iter()
        .map(|line| without_invisible(&line.0))
        .collect();
    let lines = lines.iter().zip(&visible);
    let lines = lines.map(|((line, kind), visible)| Line::new(line, visible, *kind));
    Some(new_part(lines.collect()))
}

/// Removes characters that do not change the meaning of a text.
fn without_invisible(text: &str) -> Cow<'_, str> {
    // Arabic vowel marks and the elongation character are optional.
    let is_optional = |c: char| matches!(c, '\u{640}' | '\u{64b}'..='\u{652}');
    let is_invisible = |c: char| invisible(c).is_some() || is_optional(c);
    if text.is_ascii() || !text.contains(is_invisible) {
        return text.into();
    }
    text.replace(is_invisible, "").into()
}

fn new_part(mut lines: Vec<Line<'_>>) -> String {
    quotes::mark_quotes(&mut lines);
    let other_message = quotes::mark_messages(&mut lines);
    quotes::mark_introductions(&mut lines);
    let mut new = String::new();
    for segment in segments(&lines) {
        append(&mut new, signature::without_signature(&lines[segment]));
    }
    if new.is_empty()
        && let Some(start) = other_message
    {
        append(&mut new, &lines[start..]);
    }
    new
}

/// Returns the ranges of consecutive lines of the kind [`Kind::Text`].
fn segments(lines: &[Line<'_>]) -> impl Iterator<Item = Range<usize>> {
    let mut start = 0;
    lines
        .chunk_by(|a, b| a.is_text() == b.is_text())
        .filter_map(move |chunk| {
            let range = start..start + chunk.len();
            start = range.end;
            chunk[0].is_text().then_some(range)
        })
}

/// Appends a paragraph. Removes blank lines at its beginning and end.
fn append(text: &mut String, lines: &[Line<'_>]) {
    let lines = trim(lines);
    for (at, line) in lines.iter().enumerate() {
        match at {
            0 if text.is_empty() => {}
            0 => text.push_str("\n\n"),
            _ => text.push('\n'),
        }
        text.push_str(line.original);
    }
}

/// Removes blank lines at the beginning and at the end.
fn trim<'l, 'a>(lines: &'l [Line<'a>]) -> &'l [Line<'a>] {
    let Some(start) = lines.iter().position(|line| !line.is_blank()) else {
        return &[];
    };
    let end = lines.iter().rposition(|line| !line.is_blank());
    &lines[start..=end.unwrap_or(start)]
}

#[cfg(test)]
mod tests;
