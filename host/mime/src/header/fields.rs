//! Finds the fields of a header (RFC 5322, section 2.2), and converts their values to text.

use std::borrow::Cow;

use memchr::memchr;

use super::{declared_charset, limit_header, to_single_line};
use crate::charset::Charset;
use crate::{bounds, words};

/// A decoded header field.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Field {
    /// The name, as the message contains it.
    pub name: String,
    /// The unfolded and decoded value.
    pub value: String,
}

/// The decoded fields of a header, in the order of the message.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Fields {
    /// The fields.
    pub fields: Vec<Field>,
    /// `true` if fields or parts of values were left out, because a limit was exceeded.
    pub truncated: bool,
}

impl Fields {
    /// Decodes the fields with one of these names, or all fields. Limits each value to
    /// [`bounds::FIELD`] bytes and all fields together to [`bounds::HEADER`] bytes. Ignores lines
    /// that are not fields.
    #[must_use]
    pub fn of(header: &[u8], names: Option<&[String]>) -> Self {
        let (header, mut truncated) = limit_header(header);
        let content_types = select(header, &[b"content-type"]);
        let charset = || declared_charset(content_types.last().map(|(_, value)| *value));
        let (mut fields, mut total) = (Vec::new(), 0);
        for (name, value) in all(header) {
            let is_wanted = |wanted: &String| wanted.as_bytes().eq_ignore_ascii_case(name);
            let Ok(name_text) = std::str::from_utf8(name) else {
                continue;
            };
            if !is_name(name_text) || names.is_some_and(|names| !names.iter().any(is_wanted)) {
                continue;
            }
            let value = to_text(value, charset);
            let mut value = to_single_line(&words::decode(&unfold(&value)));
            if value.len() > bounds::FIELD {
                value.truncate(value.floor_char_boundary(bounds::FIELD));
                truncated = true;
            }
            total += name.len() + value.len() + bounds::ENTRY;
            if total > bounds::HEADER {
                truncated = true;
                break;
            }
            fields.push(Field {
                name: name_text.to_owned(),
                value,
            });
        }
        Self { fields, truncated }
    }
}

/// Returns `true` if the text is the name of a header field (RFC 5322, section 2.2).
#[must_use]
pub fn is_name(text: &str) -> bool {
    let is_part = |byte: u8| (0x21..0x7f).contains(&byte) && byte != b':';
    !text.is_empty() && text.bytes().all(is_part)
}

/// Returns the names and values of all fields. A value includes its folded lines. Lines without a
/// colon are left out.
fn all(header: &[u8]) -> impl Iterator<Item = (&[u8], &[u8])> {
    let mut rest = header;
    let fields = std::iter::from_fn(move || {
        if matches!(rest, [] | [b'\n', ..] | [b'\r', b'\n', ..]) {
            return None;
        }
        let (field, others) = rest.split_at(field_length(rest));
        rest = others;
        Some(field)
    });
    fields.filter_map(|field| {
        let line = memchr(b'\n', field).unwrap_or(field.len());
        let colon = memchr(b':', &field[..line])?;
        Some((field[..colon].trim_ascii_end(), &field[colon + 1..]))
    })
}

/// Returns the fields whose names are in `names`: the index in `names`, and the value. `names` must
/// be in lower case. A value includes its folded lines.
pub(super) fn select<'h>(header: &'h [u8], names: &[&[u8]]) -> Vec<(usize, &'h [u8])> {
    let mut selected = Vec::new();
    let mut rest = header;
    while !matches!(rest, [] | [b'\n', ..] | [b'\r', b'\n', ..]) {
        let (field, others) = rest.split_at(field_length(rest));
        rest = others;
        let line = memchr(b'\n', field).unwrap_or(field.len());
        let Some(colon) = memchr(b':', &field[..line]) else {
            continue;
        };
        let name = field[..colon].trim_ascii();
        if let Some(index) = names.iter().position(|n| n.eq_ignore_ascii_case(name)) {
            selected.push((index, &field[colon + 1..]));
        }
    }
    selected
}

/// Returns the length of the first field with its continuation lines, in bytes.
fn field_length(header: &[u8]) -> usize {
    let mut end = 0;
    while let Some(line) = memchr(b'\n', &header[end..]) {
        end += line + 1;
        if !matches!(header.get(end), Some(b' ' | b'\t')) {
            return end;
        }
    }
    header.len()
}

/// Converts the value of a field to text. RFC 6532 allows only UTF-8, but old senders use other
/// character sets. `charset` is the character set of the body, which usually is the character set
/// of the header too.
pub(super) fn to_text(value: &[u8], charset: impl FnOnce() -> Charset) -> Cow<'_, str> {
    if let Ok(text) = std::str::from_utf8(value) {
        // Some Japanese senders use the escape sequences of ISO-2022-JP instead of encoded words.
        return match memchr(0x1b, value) {
            Some(_) => Charset::Unlabelled.decode(value.to_vec(), false).into(),
            None => text.into(),
        };
    }
    let has_utf8 = || value.utf8_chunks().any(|chunk| !chunk.valid().is_ascii());
    match charset().decode_strictly(value) {
        Some(text) => text.into(),
        None if has_utf8() => String::from_utf8_lossy(value),
        None => Charset::Unlabelled.decode(value.to_vec(), false).into(),
    }
}

/// Joins the lines of a folded value with spaces.
pub(super) fn unfold(value: &str) -> Cow<'_, str> {
    let value = value.trim_matches(|c: char| c.is_ascii_whitespace());
    if !value.contains('\n') {
        return value.into();
    }
    let mut unfolded = String::with_capacity(value.len());
    for line in value.split('\n') {
        let line = line.trim_matches(|c: char| c.is_ascii_whitespace());
        if !unfolded.is_empty() && !line.is_empty() {
            unfolded.push(' ');
        }
        unfolded.push_str(line);
    }
    unfolded.into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_fields_are_decoded_in_their_order() {
        let header = b"Received: a\r\n\tb\r\nX-Empty:\r\nSubject : =?utf-8?Q?=C3=A9?=\r\n =?utf-8?Q?=0Ax?=\r\n\
              no field\r\n \r\nreceived: c\r\n\r\nTo: a";
        let read = |names: Option<&[String]>| {
            let fields = Fields::of(header, names);
            assert!(!fields.truncated);
            let fields = fields.fields.into_iter();
            fields.map(|one| (one.name, one.value)).collect::<Vec<_>>()
        };
        let field = |name: &str, value: &str| (name.to_owned(), value.to_owned());
        let (first, second) = (field("Received", "a b"), field("received", "c"));
        let others = [field("X-Empty", ""), field("Subject", "\u{e9} x")];
        let [empty, subject] = others;
        assert_eq!(read(None), [first.clone(), empty, subject, second.clone()]);
        assert_eq!(read(Some(&["RECEIVED".into()])), [first, second]);
        assert_eq!(read(Some(&[])), []);
    }

    #[test]
    fn fields_are_limited() {
        let long = format!("A: {}\r\n", "\u{e9}".repeat(bounds::FIELD));
        let fields = Fields::of(long.as_bytes(), None);
        assert!(fields.truncated && fields.fields[0].value.len() <= bounds::FIELD);
        let many = "A:\r\n".repeat(bounds::HEADER / bounds::ENTRY + 1);
        let fields = Fields::of(many.as_bytes(), None);
        assert!(fields.truncated && fields.fields.len() < bounds::HEADER / bounds::ENTRY);
    }

    fn selected(header: &str) -> Vec<(usize, &str)> {
        let selected = select(header.as_bytes(), &[b"subject", b"to"]).into_iter();
        selected
            .map(|(index, value)| (index, std::str::from_utf8(value).unwrap()))
            .collect()
    }

    #[test]
    fn needed_fields_are_found_with_their_continuation_lines() {
        assert_eq!(
            selected("Received: a\r\n\tb\r\nSUBJECT: c\r\n d\r\n\te\r\nX-To: f\r\n g\r\nto: h\r\n"),
            [(0, " c\r\n d\r\n\te\r\n"), (1, " h\r\n")]
        );
        assert_eq!(selected("To: a\n b\nCc: c\n d"), [(1, " a\n b\n")]);
        assert_eq!(selected("Subjects: a\r\nT: b\r\n:c\r\nno colon\r\n"), []);
        assert_eq!(
            selected("To : a\r\nX-A\r\n To: b\r\nTo:c"),
            [(1, " a\r\n"), (1, "c")]
        );
        assert_eq!(selected("Cc: a\r\n \r\n b\r\nTo: c"), [(1, " c")]);
        assert_eq!(selected(""), []);
    }

    #[test]
    fn an_empty_line_ends_the_header() {
        for header in ["To: a\r\n\r\nTo: b\r\n", "To: a\r\n\nTo: b\r\n"] {
            assert_eq!(selected(header), [(1, " a\r\n")]);
        }
        assert_eq!(selected("\r\nTo: a\r\n"), []);
    }

    #[test]
    fn a_folded_value_is_one_line() {
        assert_eq!(unfold(" a\r\n\t b  c\r\n \r\n  d \r\n"), "a b  c d");
        assert_eq!(unfold("\r\n a"), "a");
        assert_eq!(unfold(" \t"), "");
    }
}
