//! Selects the fields of a header that `mail-parser` must parse, because `mail-parser` takes much longer to skip a field.

use std::borrow::Cow;

use memchr::memchr;

/// Removes all fields whose names are not in `names`. The names are in lower case. Keeps each field whose name contains unusual characters. Therefore the
/// result of `mail-parser` does not change.
pub(super) fn select<'h>(header: &'h [u8], names: &[&[u8]]) -> Cow<'h, [u8]> {
    let mut selected = Vec::new();
    let (mut copied, mut at) = (0, 0);
    while let Some(first) = header.get(at) {
        if first.is_ascii_whitespace() {
            // `mail-parser` also ends a header at a line of white space, so the other fields cannot be removed safely.
            return header.into();
        }
        let field = &header[at..];
        let end = at + field_length(field);
        if !is_needed(field, names) {
            selected.extend_from_slice(&header[copied..at]);
            copied = end;
        }
        at = end;
    }
    if copied == 0 {
        return header.into();
    }
    selected.extend_from_slice(&header[copied..]);
    selected.into()
}

fn is_needed(field: &[u8], names: &[&[u8]]) -> bool {
    let end = field
        .iter()
        .position(|b| !(b.is_ascii_alphanumeric() || *b == b'-'))
        .unwrap_or(field.len());
    let (name, after) = field.split_at(end);
    name.is_empty()
        || !after.starts_with(b":")
        || names.iter().any(|n| n.eq_ignore_ascii_case(name))
}

/// Returns the length of the first field with its continuation lines.
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

#[cfg(test)]
mod tests {
    use super::*;

    fn selected(header: &str) -> String {
        let selected = select(header.as_bytes(), &[b"subject", b"to"]);
        String::from_utf8(selected.into_owned()).unwrap()
    }

    #[test]
    fn needed_fields_are_kept_with_their_continuation_lines() {
        assert_eq!(
            selected("Received: a\r\n\tb\r\nSUBJECT: c\r\n d\r\n\te\r\nX-To: f\r\n g\r\nto: h\r\n"),
            "SUBJECT: c\r\n d\r\n\te\r\nto: h\r\n"
        );
        assert_eq!(selected("To: a\n b\nCc: c\n d"), "To: a\n b\n");
        assert_eq!(selected("Subjects: a\r\nT: b\r\n:c"), ":c");
        assert_eq!(selected("Cc: a\r\n \r\n b\r\nBcc: c"), "");
        assert_eq!(selected(""), "");
    }

    #[test]
    fn fields_with_unusual_names_are_kept() {
        for field in [
            "Sub ject: a",
            "X-A : a",
            "X_A: a",
            "X-\u{e9}: a",
            ": a",
            "no colon",
            "X-A",
        ] {
            assert_eq!(
                selected(&format!("Cc: a\r\n{field}\r\n b\r\n")),
                format!("{field}\r\n b\r\n")
            );
        }
    }

    #[test]
    fn a_header_with_a_line_of_white_space_is_unchanged() {
        for header in [
            "\r\nCc: a\r\n",
            " \t\nCc: a\r\n",
            "Cc: a\r\n\r\nTo: b\r\n",
            "Cc: a\n\nTo: b\r\n",
            "Cc: a\r\n\x0c\r\nTo: b\r\n",
        ] {
            assert_eq!(selected(header), header);
        }
    }
}
