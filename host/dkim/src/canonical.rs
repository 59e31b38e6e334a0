//! The canonicalization `relaxed` for headers and body (RFC 6376, sections 3.4.2 and 3.4.4).
//! Converts a message to the form that is signed. Signatures of this form stay valid if mail
//! servers change white space.
//!
//! This module is our own code, because the canonicalizer of mail-auth 0.13.3 differs from the RFC
//! in 7 of 18 tested bodies. For example, mail-auth does not remove a last line with only white
//! space. Other DKIM crates are not suitable: they sign with the `rsa` crate, or depend on another
//! resolver and a second TLS library.

use memchr::{memchr_iter, memchr2};

/// Appends the canonical form of a header field to `out`, with its line break.
pub(crate) fn write_field(name: &[u8], value: &[u8], out: &mut Vec<u8>) {
    write_unterminated_field(name, value, out);
    out.extend_from_slice(b"\r\n");
}

/// Appends the canonical form of a header field to `out`, without its line break. The field
/// `DKIM-Signature` itself is signed in this form (RFC 6376, section 3.7).
pub(crate) fn write_unterminated_field(name: &[u8], value: &[u8], out: &mut Vec<u8>) {
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

/// Passes the canonical form of `body` to `write` in pieces. The canonical form is empty if the
/// body has only empty lines.
pub(crate) fn write_body(body: &[u8], mut write: impl FnMut(&[u8])) {
    let mut empty_lines = 0_usize;
    let mut rest = body;
    while !rest.is_empty() {
        let (terminated, after) = rest.split_at(line_length(rest));
        rest = after;
        let unterminated = terminated.strip_suffix(b"\r\n").unwrap_or(terminated);
        let line = trim_end(unterminated);
        if line.is_empty() {
            empty_lines += 1;
            continue;
        }
        for _ in 0..std::mem::take(&mut empty_lines) {
            write(b"\r\n");
        }
        let is_unchanged = terminated.ends_with(b"\r\n") && line.len() == unterminated.len();
        if is_unchanged && memchr2(b' ', b'\t', line).is_none() {
            write(terminated);
        } else {
            write_collapsed(line, &mut write);
            write(b"\r\n");
        }
    }
}

/// Returns the length of the first line in bytes, including its CRLF.
fn line_length(bytes: &[u8]) -> usize {
    memchr_iter(b'\n', bytes)
        .find(|at| *at > 0 && bytes[at - 1] == b'\r')
        .map_or(bytes.len(), |at| at + 1)
}

const fn is_blank(byte: u8) -> bool {
    matches!(byte, b' ' | b'\t')
}

/// Removes spaces and tabs at the end of a line.
fn trim_end(line: &[u8]) -> &[u8] {
    let end = line.iter().rposition(|byte| !is_blank(*byte));
    &line[..end.map_or(0, |at| at + 1)]
}

/// Writes a line and replaces each sequence of spaces and tabs by one space.
fn write_collapsed(line: &[u8], write: &mut impl FnMut(&[u8])) {
    let mut rest = line;
    while let Some(at) = memchr2(b' ', b'\t', rest) {
        write(&rest[..at]);
        write(b" ");
        let end = rest[at..].iter().position(|byte| !is_blank(*byte));
        rest = &rest[at + end.unwrap_or(rest.len() - at)..];
    }
    write(rest);
}

#[cfg(test)]
mod tests {
    use super::*;

    fn canonical_body(text: &str) -> String {
        let mut out = Vec::new();
        write_body(text.as_bytes(), |piece| out.extend_from_slice(piece));
        String::from_utf8(out).unwrap()
    }

    fn canonical_field(name: &str, value: &str) -> String {
        let mut out = Vec::new();
        write_field(name.as_bytes(), value.as_bytes(), &mut out);
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn the_example_of_the_rfc_has_the_expected_form() {
        // RFC 6376, section 3.4.5.
        assert_eq!(canonical_field("A", " X\r\n"), "a:X\r\n");
        assert_eq!(canonical_field("B ", " Y\t\r\n\tZ  \r\n"), "b:Y Z\r\n");
        let body = " C \r\nD \t E\r\n\r\n\r\n";
        assert_eq!(canonical_body(body), " C\r\nD E\r\n");
    }

    #[test]
    fn only_empty_lines_at_the_end_are_removed() {
        for body in ["", "\r\n", "\r\n\r\n", " \t\r\n \r\n", "  "] {
            assert_eq!(canonical_body(body), "", "{body:?}");
        }
        assert_eq!(canonical_body("a\r\n\r\nb"), "a\r\n\r\nb\r\n");
        assert_eq!(canonical_body("\r\n\r\na\r\n \r\n"), "\r\n\r\na\r\n");
        assert_eq!(canonical_body("a \t \r\n\t\r\nb\r\n"), "a\r\n\r\nb\r\n");
        for end in ["", " ", "  ", " \t ", "\r\n", " \r\n"] {
            assert_eq!(canonical_body(&format!("a{end}")), "a\r\n", "{end:?}");
        }
    }

    #[test]
    fn only_crlf_ends_a_line() {
        assert_eq!(canonical_body("a\nb \r c\r\n"), "a\nb \r c\r\n");
        assert_eq!(canonical_body("\n\r\n"), "\n\r\n");
        assert_eq!(canonical_body("\na\r\r\n"), "\na\r\r\n");
    }

    #[test]
    fn white_space_in_a_field_is_collapsed() {
        assert_eq!(canonical_field("Subject", " \r\n \r\n"), "subject:\r\n");
        assert_eq!(
            canonical_field("SUBJECT", "a\r\n  b\tc"),
            "subject:a b c\r\n"
        );
        assert_eq!(canonical_field("x", "Grüße"), "x:Grüße\r\n");
    }
}
