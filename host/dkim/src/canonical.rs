//! The canonicalization `relaxed` for headers and body (RFC 6376, sections 3.4.2 and 3.4.4): the form of a message that is signed, so that the signature stays
//! valid if mail servers change white space.
//!
//! This is our own code because the crates that provide it sign with the `rsa` crate, or depend on another resolver and a second TLS library.

use memchr::{memchr_iter, memchr2};

/// Appends a header field with its line break.
pub(crate) fn field(name: &[u8], value: &[u8], out: &mut Vec<u8>) {
    field_without_end(name, value, out);
    out.extend_from_slice(b"\r\n");
}

/// Appends a header field without its line break, which is how the signature's own field is signed (section 3.7).
pub(crate) fn field_without_end(name: &[u8], value: &[u8], out: &mut Vec<u8>) {
    out.extend(name.trim_ascii_end().iter().map(u8::to_ascii_lowercase));
    out.push(b':');
    let start = out.len();
    for byte in value {
        match byte {
            b' ' | b'\t' | b'\r' | b'\n' => {
                if out.len() > start && out.last() != Some(&b' ') {
                    out.push(b' ');
                }
            }
            byte => out.push(*byte),
        }
    }
    if out.len() > start && out.last() == Some(&b' ') {
        out.pop();
    }
}

/// Passes the body to `write` in pieces. A body of only empty lines becomes empty.
pub(crate) fn body(body: &[u8], mut write: impl FnMut(&[u8])) {
    let mut empty = 0_usize;
    let mut rest = body;
    while !rest.is_empty() {
        let (whole, after) = rest.split_at(line(rest));
        rest = after;
        let line = whole.strip_suffix(b"\r\n").unwrap_or(whole);
        let kept = blanks_trimmed(line);
        if kept.is_empty() {
            empty += 1;
            continue;
        }
        for _ in 0..std::mem::take(&mut empty) {
            write(b"\r\n");
        }
        if whole.len() == kept.len() + 2 && memchr2(b' ', b'\t', kept).is_none() {
            write(whole);
        } else {
            blanks_folded(kept, &mut write);
            write(b"\r\n");
        }
    }
}

/// Returns the length of the first line, including its CRLF.
fn line(bytes: &[u8]) -> usize {
    memchr_iter(b'\n', bytes)
        .find(|at| *at > 0 && bytes[at - 1] == b'\r')
        .map_or(bytes.len(), |at| at + 1)
}

const fn is_blank(byte: u8) -> bool {
    matches!(byte, b' ' | b'\t')
}

fn blanks_trimmed(line: &[u8]) -> &[u8] {
    let end = line.iter().rposition(|byte| !is_blank(*byte));
    &line[..end.map_or(0, |at| at + 1)]
}

fn blanks_folded(line: &[u8], write: &mut impl FnMut(&[u8])) {
    let mut rest = line;
    while let Some(at) = memchr2(b' ', b'\t', rest) {
        write(&rest[..at]);
        write(b" ");
        let blanks = rest[at..].iter().position(|byte| !is_blank(*byte));
        rest = &rest[at + blanks.unwrap_or(rest.len() - at)..];
    }
    write(rest);
}

#[cfg(test)]
mod tests {
    use super::*;

    fn canonical_body(text: &str) -> String {
        let mut out = Vec::new();
        body(text.as_bytes(), |piece| out.extend_from_slice(piece));
        String::from_utf8(out).unwrap()
    }

    fn canonical_field(name: &str, value: &str) -> String {
        let mut out = Vec::new();
        field(name.as_bytes(), value.as_bytes(), &mut out);
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn the_example_of_the_standard_is_made_as_it_says() {
        // RFC 6376, section 3.4.5.
        assert_eq!(canonical_field("A", " X\r\n"), "a:X\r\n");
        assert_eq!(canonical_field("B ", " Y\t\r\n\tZ  \r\n"), "b:Y Z\r\n");
        let body = " C \r\nD \t E\r\n\r\n\r\n";
        assert_eq!(canonical_body(body), " C\r\nD E\r\n");
    }

    #[test]
    fn empty_lines_at_the_end_are_nothing_and_others_stay() {
        for nothing in ["", "\r\n", "\r\n\r\n", " \t\r\n \r\n", "  "] {
            assert_eq!(canonical_body(nothing), "", "{nothing:?}");
        }
        assert_eq!(canonical_body("a\r\n\r\nb"), "a\r\n\r\nb\r\n");
        assert_eq!(canonical_body("\r\n\r\na\r\n \r\n"), "\r\n\r\na\r\n");
        assert_eq!(canonical_body("a \t \r\n\t\r\nb\r\n"), "a\r\n\r\nb\r\n");
    }

    #[test]
    fn a_line_ends_with_both_its_characters_and_with_nothing_less() {
        assert_eq!(canonical_body("a\nb \r c\r\n"), "a\nb \r c\r\n");
        assert_eq!(canonical_body("\n\r\n"), "\n\r\n");
        assert_eq!(canonical_body("\na\r\r\n"), "\na\r\r\n");
    }

    #[test]
    fn a_field_of_blanks_is_empty_and_folding_is_a_blank() {
        assert_eq!(canonical_field("Subject", " \r\n \r\n"), "subject:\r\n");
        assert_eq!(
            canonical_field("SUBJECT", "a\r\n  b\tc"),
            "subject:a b c\r\n"
        );
        assert_eq!(canonical_field("x", "Grüße"), "x:Grüße\r\n");
    }
}
