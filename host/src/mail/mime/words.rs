//! Character sets, and what senders do to them: encoded words (RFC 2047) and continued parameters (RFC 2231) that cut a character in two,
//! and labels that do not say what is there.

use std::borrow::Cow;

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use mail_parser::decoders::charsets::map::charset_decoder;
use memchr::memmem;

use super::transfer::{self, Encoding};

/// Bytes as text, in the character set that they are said to be in. `cut` says whether the last character may be there in part.
pub(super) fn text(bytes: Vec<u8>, label: Option<&str>, cut: bool) -> String {
    let label = label.map(named);
    if label.as_deref().is_none_or(is_ascii) {
        return match String::from_utf8(bytes) {
            Ok(text) => text,
            Err(error) => {
                let at_the_end = error.utf8_error().error_len().is_none();
                match charset_decoder(b"windows-1252") {
                    Some(decode) if !(cut && at_the_end) => decode(error.as_bytes()),
                    _ => String::from_utf8_lossy(error.as_bytes()).into_owned(),
                }
            }
        };
    }
    match label.and_then(|label| charset_decoder(label.as_bytes())) {
        Some(decode) => decode(&bytes),
        None => String::from_utf8(bytes)
            .unwrap_or_else(|error| String::from_utf8_lossy(error.as_bytes()).into_owned()),
    }
}

/// A label as `mail-parser` knows it.
fn named(label: &str) -> Cow<'_, str> {
    let label = label.trim();
    if ["cp932", "windows-932"]
        .iter()
        .any(|other| label.eq_ignore_ascii_case(other))
    {
        "shift_jis".into()
    } else {
        label.into()
    }
}

/// Whether the label promises bytes below 128. Where there are others, they are UTF-8 more often than anything else.
fn is_ascii(label: &str) -> bool {
    ["us-ascii", "ascii", "us_ascii", "ansi_x3.4-1968"]
        .iter()
        .any(|other| label.eq_ignore_ascii_case(other))
}

/// An encoded word.
struct Word<'a> {
    charset: &'a str,
    bytes: Vec<u8>,
    /// How long it is as it is written.
    length: usize,
}

/// A header in which neighbouring encoded words of one character set are one, and none is labelled misleadingly.
pub(super) fn joined(header: &[u8]) -> Cow<'_, [u8]> {
    let finder = memmem::Finder::new(b"=?");
    let mut out = Vec::new();
    let (mut copied, mut at) = (0, 0);
    while let Some(found) = header.get(at..).and_then(|rest| finder.find(rest)) {
        let start = at + found;
        let Some(mut word) = Word::at(&header[start..]) else {
            at = start + 2;
            continue;
        };
        let mut end = start + word.length;
        let mut words = 1;
        while let Some(next) = following(&header[end..])
            && let Some(other) = Word::at(&header[end + next..])
            && other.charset.eq_ignore_ascii_case(word.charset)
        {
            word.bytes.extend_from_slice(&other.bytes);
            end += next + other.length;
            words += 1;
        }
        let label = word.label();
        if words > 1 || label != word.charset {
            out.extend_from_slice(&header[copied..start]);
            out.extend_from_slice(format!("=?{label}?B?").as_bytes());
            out.extend_from_slice(BASE64_STANDARD.encode(&word.bytes).as_bytes());
            out.extend_from_slice(b"?=");
            copied = end;
        }
        at = end;
    }
    if copied == 0 {
        return header.into();
    }
    out.extend_from_slice(&header[copied..]);
    out.into()
}

impl<'a> Word<'a> {
    /// The encoded word that `text` begins with.
    fn at(text: &'a [u8]) -> Option<Self> {
        let rest = text.strip_prefix(b"=?")?;
        let (charset, rest) = token(rest)?;
        let (encoding, rest) = token(rest)?;
        let (data, rest) = token(rest)?;
        let rest = rest.strip_prefix(b"=")?;
        let bytes = match encoding {
            b"b" | b"B" => transfer::decoded(data, Encoding::Base64),
            b"q" | b"Q" => {
                // As an escape: white space at the end of a line would be taken for an accident.
                let data: Vec<u8> = data
                    .iter()
                    .flat_map(|b| {
                        if *b == b'_' {
                            &b"=20"[..]
                        } else {
                            std::slice::from_ref(b)
                        }
                    })
                    .copied()
                    .collect();
                transfer::decoded(&data, Encoding::QuotedPrintable)
            }
            _ => return None,
        };
        let charset = std::str::from_utf8(charset).ok()?;
        // RFC 2231, section 5: a language may follow.
        let charset = charset.split('*').next().unwrap_or(charset);
        (charset.len() > 1).then_some(Self {
            charset,
            bytes,
            length: text.len() - rest.len(),
        })
    }

    fn label(&self) -> Cow<'a, str> {
        if is_ascii(self.charset) && std::str::from_utf8(&self.bytes).is_ok() {
            return "utf-8".into();
        }
        named(self.charset)
    }
}

/// What stands before the next question mark, if that is on this line and without white space.
fn token(text: &[u8]) -> Option<(&[u8], &[u8])> {
    let end = text
        .iter()
        .position(|b| *b == b'?' || b.is_ascii_whitespace())?;
    (text[end] == b'?').then(|| (&text[..end], &text[end + 1..]))
}

/// How much white space stands before an encoded word of the same field.
fn following(text: &[u8]) -> Option<usize> {
    let white = text.iter().take_while(|b| b.is_ascii_whitespace()).count();
    // A line that does not begin with white space is another field.
    let folded = white > 0 && text[white - 1] != b'\n';
    (folded && text[white..].starts_with(b"=?")).then_some(white)
}

/// The value of the parameter `name` of a field, where it is continued over several (RFC 2231, section 3), joined before it is decoded.
pub(super) fn continued(field: &[u8], name: &str) -> Option<String> {
    let mut pieces: Vec<(u32, bool, Vec<u8>)> = Vec::new();
    for parameter in parameters(field) {
        let Some(equals) = memchr::memchr(b'=', parameter) else {
            continue;
        };
        let (key, value) = (
            parameter[..equals].trim_ascii(),
            parameter[equals + 1..].trim_ascii(),
        );
        let Some(key) = std::str::from_utf8(key)
            .ok()
            .and_then(|key| key.split_at_checked(name.len()))
            .filter(|(begins, _)| begins.eq_ignore_ascii_case(name))
            .and_then(|(_, rest)| rest.strip_prefix('*'))
        else {
            continue;
        };
        let (number, encoded) = match key.strip_suffix('*') {
            Some(number) => (number, true),
            None => (key, false),
        };
        let Ok(number) = number.parse() else { continue };
        pieces.push((number, encoded, unquoted(value)));
    }
    pieces.sort_by_key(|piece| piece.0);
    pieces.dedup_by_key(|piece| piece.0);
    let (0, encoded, first) = pieces.first_mut()? else {
        return None;
    };
    let mut charset = None;
    if *encoded {
        let value = std::mem::take(first);
        let mut quotes = value.splitn(3, |b| *b == b'\'');
        if let (Some(label), Some(_), Some(rest)) = (quotes.next(), quotes.next(), quotes.next()) {
            charset = String::from_utf8(label.to_vec()).ok();
            *first = rest.to_vec();
        } else {
            *first = value;
        }
    }
    let mut bytes = Vec::new();
    for ((number, encoded, value), expected) in pieces.into_iter().zip(0..) {
        if number != expected {
            break;
        }
        if encoded {
            bytes.extend(percent_encoding::percent_decode(&value));
        } else {
            bytes.extend(value);
        }
    }
    Some(text(bytes, charset.as_deref(), false))
}

/// What stands between the semicolons of a field, those in quotes aside.
fn parameters(field: &[u8]) -> impl Iterator<Item = &[u8]> {
    let (mut quoted, mut escaped) = (false, false);
    field.split(move |b| {
        let separates = *b == b';' && !quoted;
        if *b == b'"' && !escaped {
            quoted = !quoted;
        }
        escaped = *b == b'\\' && !escaped;
        separates
    })
}

fn unquoted(value: &[u8]) -> Vec<u8> {
    let Some(inner) = value
        .strip_prefix(b"\"")
        .and_then(|value| value.strip_suffix(b"\""))
    else {
        return value.to_vec();
    };
    let mut bytes = Vec::with_capacity(inner.len());
    let mut escaped = false;
    for b in inner {
        escaped = *b == b'\\' && !escaped;
        if !escaped && !matches!(b, b'\r' | b'\n') {
            bytes.push(*b);
        }
    }
    bytes
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_that_are_said_to_be_ascii_are_utf_8_or_else_of_windows() {
        let read = |bytes: &[u8], label| text(bytes.to_vec(), label, false);
        for label in [
            Some("us-ascii"),
            Some("ASCII"),
            Some("ANSI_X3.4-1968"),
            None,
        ] {
            assert_eq!(read("Grüße".as_bytes(), label), "Grüße");
            assert_eq!(read(b"Gr\xfc\xdfe \x80", label), "Grüße €");
        }
        // What was cut in the middle of a character is not for that of Windows.
        assert_eq!(
            text(b"Gr\xc3\xbc\xc3".to_vec(), Some("us-ascii"), true),
            "Grü\u{fffd}"
        );
        assert_eq!(read(b"\x83n\x83\x8d", Some("cp932")), "ハロ");
        assert_eq!(read(b"a\xff", Some("utf-8")), "a\u{fffd}");
    }

    #[test]
    fn encoded_words_that_cut_a_character_are_joined() {
        let read =
            |header: &str| String::from_utf8(joined(header.as_bytes()).into_owned()).unwrap();
        assert_eq!(
            read("Subject: =?utf-8?B?R3LD?=\r\n =?UTF-8?B?vMOfZQ==?= x\r\n"),
            "Subject: =?utf-8?B?R3LDvMOfZQ==?= x\r\n"
        );
        assert_eq!(
            read("=?utf-8?Q?a_=C3?= =?utf-8?Q?=BC_?="),
            format!("=?utf-8?B?{}?=", BASE64_STANDARD.encode("a ü "))
        );
        assert_eq!(read("=?us-ascii?Q?=C3=BC?="), "=?utf-8?B?w7w=?=");
        assert_eq!(read("=?cp932?B?g24=?="), "=?shift_jis?B?g24=?=");
        for same in [
            "=?utf-8?Q?a?= =?iso-8859-1?Q?b?=",
            "Subject: =?utf-8?Q?a?=\r\n=?utf-8?Q?b?=: c",
            "=?utf-8?Q?a?= b =?utf-8?Q?c?=",
            "=?utf-8?Q?a b?= =?utf-8?Q?c",
            "=?=?=?=?",
            "=?utf-8?X?a?=",
            "=?us-ascii?Q?=FC?=",
        ] {
            assert_eq!(read(same), same);
        }
    }

    #[test]
    fn a_continued_parameter_is_joined_before_it_is_decoded() {
        let read = |field: &str| continued(field.as_bytes(), "filename");
        assert_eq!(
            read("attachment; filename*0*=iso-8859-1''Gr%FC; filename*1*=%DFe; filename*2=\".t;x\\\"t\"")
                .unwrap(),
            "Grüße.t;x\"t"
        );
        assert_eq!(
            read("attachment; FileName*1*=%BC.txt;\r\n filename*0*=utf-8'de'%C3").unwrap(),
            "ü.txt"
        );
        assert_eq!(
            read("x; filename*0=\"a\r\n b\"; filename*2=c").unwrap(),
            "a b"
        );
        for none in [
            "",
            "x; filename=a",
            "x; filename*=utf-8''a",
            "x; filename*1=a",
            "; =; filename*0",
        ] {
            assert_eq!(read(none), None, "{none}");
        }
    }
}
