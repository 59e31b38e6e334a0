//! Decodes character sets, encoded words (RFC 2047) and extended parameters (RFC 2231). Corrects two common errors of senders: wrong labels of character sets,
//! and characters that are split between two words or two parameters.

use std::borrow::Cow;

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use mail_parser::decoders::charsets::map::charset_decoder;
use memchr::memmem;

use super::transfer::{self, Encoding};

/// Decodes bytes in the character set `label` and removes a byte order mark. `cut` is `true` if the last character can be incomplete.
pub(super) fn decode_text(bytes: Vec<u8>, label: Option<&str>, cut: bool) -> String {
    let mut text = decode_charset(bytes, label, cut);
    if text.starts_with('\u{feff}') {
        text.drain(..'\u{feff}'.len_utf8());
    }
    text
}

fn decode_charset(mut bytes: Vec<u8>, label: Option<&str>, cut: bool) -> String {
    let label = label.map(canonical_label);
    if label.is_none_or(is_ascii) {
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
    if label.is_some_and(|label| label.eq_ignore_ascii_case("iso-2022-jp")) {
        bytes = remove_redundant_escapes(&bytes);
    }
    // ASCII text in such a character set is already UTF-8.
    let is_utf8 = label.is_some_and(is_single_byte) && bytes.is_ascii();
    match label.and_then(|label| charset_decoder(label.as_bytes())) {
        Some(decode) if !is_utf8 => decode(&bytes),
        _ => String::from_utf8(bytes)
            .unwrap_or_else(|error| String::from_utf8_lossy(error.as_bytes()).into_owned()),
    }
}

/// Decodes the beginning of a text. Returns `None` if the rest of the text could change the result, or if the character set is not an extension of ASCII.
pub(super) fn decode_beginning<'b>(bytes: &'b [u8], label: Option<&str>) -> Option<&'b str> {
    let label = label.map(canonical_label);
    let text = match std::str::from_utf8(bytes) {
        Ok(text) => text,
        Err(error) => std::str::from_utf8(&bytes[..error.valid_up_to()]).ok()?,
    };
    if label.is_some_and(|label| label.eq_ignore_ascii_case("utf-8")) {
        return Some(text.strip_prefix('\u{feff}').unwrap_or(text));
    }
    let extends_ascii = label.is_none_or(|label| is_ascii(label) || is_single_byte(label));
    (extends_ascii && bytes.is_ascii()).then_some(text)
}

/// Returns `true` for common labels of character sets with one byte for each character, which contain ASCII.
fn is_single_byte(label: &str) -> bool {
    ["iso-8859-", "windows-125"].iter().any(|family| {
        let prefix = label.get(..family.len());
        prefix.is_some_and(|prefix| prefix.eq_ignore_ascii_case(family))
    })
}

/// Pairs of labels for the same character set. `mail-parser` supports only the second label of each pair.
const ALIASES: [(&str, &str); 14] = [
    ("8859-1", "iso-8859-1"),
    ("big5hkscs", "big5"),
    ("cp50220", "iso-2022-jp"),
    ("cp50221", "iso-2022-jp"),
    ("cp932", "shift_jis"),
    ("cp949", "euc-kr"),
    ("eucjp", "euc-jp"),
    ("iso-2022-jp-1", "iso-2022-jp"),
    ("iso-2022-jp-ms", "iso-2022-jp"),
    ("latin-1", "iso-8859-1"),
    ("macroman", "macintosh"),
    ("ms949", "euc-kr"),
    ("win-1251", "windows-1251"),
    ("windows-932", "shift_jis"),
];

/// Replaces an alias of [`ALIASES`] with the label that `mail-parser` supports. Removes quotes and spaces around the label.
fn canonical_label(label: &str) -> &str {
    let label = label.trim_matches(|c: char| c.is_whitespace() || matches!(c, '"' | '\''));
    ALIASES
        .iter()
        .find(|(other, _)| label.eq_ignore_ascii_case(other))
        .map_or(label, |(_, known)| known)
}

/// Removes each escape sequence that directly precedes another escape sequence. Senders create such pairs when they join lines or encoded words, because each
/// line begins with a switch to Japanese and ends with a switch to ASCII. Decoders for the web treat such a pair as an attack.
fn remove_redundant_escapes(bytes: &[u8]) -> Vec<u8> {
    let mut result = Vec::with_capacity(bytes.len());
    let mut at = 0;
    while let Some(byte) = bytes.get(at) {
        if *byte == 0x1b && bytes.get(at + 3) == Some(&0x1b) {
            at += 3;
        } else {
            result.push(*byte);
            at += 1;
        }
    }
    result
}

/// Returns `true` if the label means ASCII. Bytes above 127 in an ASCII text are usually UTF-8.
fn is_ascii(label: &str) -> bool {
    ["us-ascii", "ascii", "us_ascii", "ansi_x3.4-1968"]
        .iter()
        .any(|other| label.eq_ignore_ascii_case(other))
}

/// An encoded word.
struct Word<'a> {
    charset: &'a str,
    bytes: Vec<u8>,
    /// The length of the encoded word in the header, in bytes.
    length: usize,
}

/// Converts a header for `mail-parser`. Converts text and encoded words to UTF-8, and joins adjacent encoded words with the same character set.
pub(super) fn normalize(header: &[u8]) -> Cow<'_, [u8]> {
    let write = |text: &str, out: &mut Vec<u8>| {
        out.extend_from_slice(b"=?utf-8?B?");
        out.extend_from_slice(BASE64_STANDARD.encode(text).as_bytes());
        out.extend_from_slice(b"?=");
    };
    match to_utf8(header) {
        Cow::Borrowed(header) => rewrite_words(header, write),
        Cow::Owned(header) => rewrite_words(&header, write).into_owned().into(),
    }
}

/// Converts a header to UTF-8. Decodes a line as Windows-1252 if it contains bytes above 127 and no valid UTF-8 sequence. RFC 6532 allows only UTF-8, but old
/// senders use Windows-1252.
fn to_utf8(header: &[u8]) -> Cow<'_, [u8]> {
    if std::str::from_utf8(header).is_ok() {
        return header.into();
    }
    let mut out = Vec::with_capacity(header.len());
    for line in header.split_inclusive(|b| *b == b'\n') {
        if line.utf8_chunks().all(|chunk| chunk.valid().is_ascii()) {
            out.extend_from_slice(decode_text(line.to_vec(), None, false).as_bytes());
        } else {
            out.extend_from_slice(String::from_utf8_lossy(line).as_bytes());
        }
    }
    out.into()
}

/// Decodes each encoded word and replaces the word with the output of `write`. Joins adjacent encoded words with the same character set.
fn rewrite_words(header: &[u8], write: impl Fn(&str, &mut Vec<u8>)) -> Cow<'_, [u8]> {
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
        while let Some(next) = space_before_word(&header[end..])
            && let Some(other) = Word::at(&header[end + next..])
            && other.charset.eq_ignore_ascii_case(word.charset)
        {
            word.bytes.extend_from_slice(&other.bytes);
            end += next + other.length;
        }
        out.extend_from_slice(&header[copied..start]);
        write(
            &decode_text(word.bytes, Some(word.charset), false),
            &mut out,
        );
        copied = end;
        at = end;
    }
    if copied == 0 {
        return header.into();
    }
    out.extend_from_slice(&header[copied..]);
    out.into()
}

impl<'a> Word<'a> {
    /// Parses the encoded word at the beginning of `text`.
    fn at(text: &'a [u8]) -> Option<Self> {
        let rest = text.strip_prefix(b"=?")?;
        let (charset, rest) = token(rest)?;
        let (encoding, rest) = token(rest)?;
        let (data, rest) = token(rest)?;
        let rest = rest.strip_prefix(b"=")?;
        let bytes = match encoding {
            b"b" | b"B" => transfer::decoded(data, Encoding::Base64),
            b"q" | b"Q" => {
                // Replace `_` with an escaped space, because the decoder removes unescaped white space at the end.
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
        // A language can follow the character set (RFC 2231, section 5).
        let charset = charset.split('*').next().unwrap_or(charset);
        (charset.len() > 1).then_some(Self {
            charset,
            bytes,
            length: text.len() - rest.len(),
        })
    }
}

/// Splits `text` at the next question mark. Returns `None` if white space precedes the question mark.
fn token(text: &[u8]) -> Option<(&[u8], &[u8])> {
    let end = text
        .iter()
        .position(|b| *b == b'?' || b.is_ascii_whitespace())?;
    (text[end] == b'?').then(|| (&text[..end], &text[end + 1..]))
}

/// Returns the length of the white space at the beginning of `text` if an encoded word of the same field follows the white space.
fn space_before_word(text: &[u8]) -> Option<usize> {
    let white = text.iter().take_while(|b| b.is_ascii_whitespace()).count();
    // A line that does not begin with white space starts another field.
    let folded = white > 0 && text[white - 1] != b'\n';
    (folded && text[white..].starts_with(b"=?")).then_some(white)
}

/// Returns the value of the parameter `name` if the parameter is extended or continued (RFC 2231, sections 3 and 4). Joins the pieces before decoding.
pub(super) fn extended_parameter(field: &[u8], name: &str) -> Option<String> {
    // Most fields have no such parameter.
    memchr::memchr(b'*', field)?;
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
        // `name*` contains the complete value and takes precedence over continued pieces.
        let (number, encoded) = match number.parse() {
            Ok(number) => (number, encoded),
            Err(_) if key.is_empty() => (0, true),
            Err(_) => continue,
        };
        pieces.push((number, encoded, unquoted(value)));
    }
    pieces.sort_by_key(|piece| piece.0);
    pieces.dedup_by_key(|piece| piece.0);
    let (0, encoded, first) = pieces.first_mut()? else {
        return None;
    };
    let mut charset = None;
    let extended = *encoded;
    if extended {
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
    let value = decode_text(bytes, charset.as_deref(), false);
    if extended {
        return Some(value);
    }
    // RFC 2231 does not allow encoded words in a continued parameter, but some senders use them there.
    let plain = rewrite_words(value.as_bytes(), |text, out| {
        out.extend_from_slice(text.as_bytes());
    });
    Some(String::from_utf8_lossy(&plain).into_owned())
}

/// Splits a field at semicolons outside quotes.
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
        let read = |bytes: &[u8], label| decode_text(bytes.to_vec(), label, false);
        for label in [
            Some("us-ascii"),
            Some("ASCII"),
            Some("ANSI_X3.4-1968"),
            None,
        ] {
            assert_eq!(read("Grüße".as_bytes(), label), "Grüße");
            assert_eq!(read(b"Gr\xfc\xdfe \x80", label), "Grüße €");
        }
        // An incomplete last character must not make the text Windows-1252.
        assert_eq!(
            decode_text(b"Gr\xc3\xbc\xc3".to_vec(), Some("us-ascii"), true),
            "Grü\u{fffd}"
        );
        for (known, label) in [
            ("Shift_JIS", "cp932"),
            ("euc-kr", "MS949"),
            ("iso-8859-1", "'latin-1'"),
        ] {
            assert_eq!(
                read(b"\x83n\xb0\xa1", Some(label)),
                read(b"\x83n\xb0\xa1", Some(known))
            );
        }
        for (_, known) in ALIASES {
            assert!(charset_decoder(known.as_bytes()).is_some(), "{known}");
        }
        assert_eq!(read(b"\x83n\x83\x8d", Some("cp932")), "ハロ");
        assert_eq!(read(b"a\xff", Some("utf-8")), "a\u{fffd}");
    }

    #[test]
    fn encoded_words_are_read_as_they_were_meant() {
        let read = |header: &str| {
            let plain = rewrite_words(header.as_bytes(), |text, out| {
                out.extend_from_slice(text.as_bytes());
            });
            String::from_utf8(plain.into_owned()).unwrap()
        };
        // A character that is split between two words, in both encodings.
        assert_eq!(
            read("Subject: =?utf-8?B?R3LD?=\r\n =?UTF-8?B?vMOfZQ==?= x\r\n"),
            "Subject: Grüße x\r\n"
        );
        assert_eq!(read("=?utf-8?Q?a_=C3?= =?utf-8?Q?=BC_?="), "a ü ");
        // Wrong labels and missing padding.
        assert_eq!(read("=?us-ascii?Q?=C3=BC?= =?us-ascii?Q??="), "ü");
        assert_eq!(read("=?us-ascii?Q?=FC?="), "ü");
        assert_eq!(read("=?cp932?B?g24=?="), "ハ");
        assert_eq!(read("=?utf-8?b?w6TDtg?="), "äö");
        // Each word begins and ends in ASCII.
        assert_eq!(
            read("=?ISO-2022-JP?B?GyRCJCobKEI=?=\r\n =?ISO-2022-JP?B?GyRCQ04bKEI=?="),
            "お知"
        );
        for same in [
            "Subject: a\r\n=?utf-8?X?b?=: c",
            "=?=?=?=?",
            "=?utf-8?X?a?=",
            "=?utf-8?Q?a b?= =?utf-8?Q?c",
        ] {
            assert_eq!(read(same), same);
        }
        assert_eq!(
            read("Subject: =?utf-8?Q?a?=\r\n=?utf-8?Q?b?= =?utf-8?Q?c?= d =?utf-8?Q?e?="),
            "Subject: a\r\nbc d e"
        );
        assert_eq!(
            *normalize(b"=?iso-8859-1?Q?=FC?= x"),
            *b"=?utf-8?B?w7w=?= x"
        );
    }

    #[test]
    fn a_line_of_a_header_that_is_not_utf_8_is_of_windows() {
        let read = |header: &[u8]| String::from_utf8(normalize(header).into_owned()).unwrap();
        assert_eq!(
            read(b"A: Gr\xfc\xdfe \x80\r\nB: Gr\xc3\xbc\xdfe\r\nC: Gr\xc3\xbc\r\n"),
            "A: Grüße €\r\nB: Grü\u{fffd}e\r\nC: Grü\r\n"
        );
    }

    #[test]
    fn single_byte_character_sets_contain_ascii() {
        let ascii: String = ('\0'..='\x7f').collect();
        let mut supported = 0;
        for family in ["ISO-8859-", "windows-125"] {
            for number in 0..20 {
                // `mail-parser` supports labels with the year of the standard and labels with the direction of the text.
                let years = (1980..2010).map(|year| format!(":{year}"));
                for suffix in years.chain(["", "-e", "-i"].map(String::from)) {
                    let label = format!("{family}{number}{suffix}");
                    assert!(is_single_byte(&label), "{label}");
                    if let Some(decode) = charset_decoder(label.as_bytes()) {
                        assert_eq!(decode(ascii.as_bytes()), ascii, "{label}");
                        supported += 1;
                    }
                }
            }
        }
        assert!(supported > 30, "{supported}");
        for label in [
            "iso-8859",
            "utf-8",
            "utf-16",
            "iso-2022-jp",
            "iso-8859\u{e9}",
        ] {
            assert!(!is_single_byte(label), "{label}");
        }
    }

    #[test]
    fn a_byte_order_mark_is_no_text() {
        let read = |bytes: &[u8], label| decode_text(bytes.to_vec(), label, false);
        assert_eq!(read(b"\xef\xbb\xbfa", Some("utf-8")), "a");
        assert_eq!(read(b"\xef\xbb\xbfa", None), "a");
        assert_eq!(read(b"\xff\xfea\0", Some("utf-16")), "a");
    }

    #[test]
    fn a_continued_parameter_is_joined_before_it_is_decoded() {
        let read = |field: &str| extended_parameter(field.as_bytes(), "filename");
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
        assert_eq!(
            read("x; filename=e.txt; filename*=utf-8''%C3%A9.txt").unwrap(),
            "é.txt"
        );
        assert_eq!(
            read("x; filename*0=\"=?utf-8?B?w6Q=?=\"; filename*1=.txt").unwrap(),
            "ä.txt"
        );
        assert_eq!(
            read("x; filename*0*=utf-8''%3D%3Futf-8%3FQ%3F; filename*1*=%3D41%3F%3D").unwrap(),
            "=?utf-8?Q?=41?="
        );
        for none in [
            "",
            "x; filename=a",
            "x; filename*x=a",
            "x; filename*1=a",
            "; =; filename*0",
        ] {
            assert_eq!(read(none), None, "{none}");
        }
    }
}
