//! Finds the fields of a header (RFC 5322, section 2.2), and converts their values to text.

use std::borrow::Cow;

use memchr::memchr;

use crate::charset::Charset;

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
