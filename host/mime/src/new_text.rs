//! Extracts the new part of a reply: the text without quoted messages, signature and disclaimer.
//!
//! The rules are heuristics for what mail clients write in English, German, French, Spanish, Italian and Dutch. They prefer to keep too much:
//!
//! - A line with `>` at the beginning is a quote, and the line that introduces the quote belongs to it. Answers between quotes are kept, in order.
//! - Everything after the header of a message (`From:`, `Sent:`, `To:`, `Subject:`) or after a line like `-----Original Message-----` is a quote, unless that
//!   text has `>` at the beginning of its lines.
//! - A closing phrase and the name after it are part of the text. Only the following lines with phone numbers or addresses are a signature.
//! - If no other text remains, a forwarded or quoted message without `>` is the text.
//!
//! Time and memory are linear in the length of the text.

mod html;
mod quote_phrases;
mod quotes;
mod signature;
mod signature_phrases;

use std::ops::Range;

/// The meaning of a line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    /// Text of the author, or not yet known.
    Text,
    /// A line of a quote.
    Quote,
    /// A line between the texts, for example the introduction of a quote.
    Dropped,
    /// The start of another message, which ends at the end of the text. The line contains no text.
    Cut,
}

/// A line of a text.
#[derive(Clone, Copy, Debug)]
struct Line<'a> {
    /// The line without trailing white space.
    text: &'a str,
    /// `true` if the line is the separator of a signature (RFC 3676, section 4.3), with its space.
    is_separator: bool,
    kind: Kind,
}

impl<'a> Line<'a> {
    fn new(line: &'a str, kind: Kind) -> Self {
        Self {
            text: line.trim_end(),
            is_separator: line.trim_end_matches('\r') == "-- ",
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

/// Returns the new part of a message. Uses the HTML only if there is no plain text. Returns `None` if there is neither, and an empty text if the message
/// contains only quotes and a signature.
#[must_use]
pub fn new_text(text: Option<&str>, html: Option<&str>) -> Option<String> {
    if let Some(text) = text.filter(|text| !crate::is_blank(text) || html.is_none()) {
        let lines = text.split('\n').map(|line| Line::new(line, Kind::Text));
        return Some(new_part(lines.collect()));
    }
    let lines = html::lines(html?);
    let lines = lines.iter().map(|(line, kind)| Line::new(line, *kind));
    Some(new_part(lines.collect()))
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

/// Returns the sequences of lines with text.
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
        text.push_str(line.text);
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
