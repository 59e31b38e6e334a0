//! Decodes Content-Transfer-Encodings (RFC 2045, section 6) while bytes arrive. Decoding never
//! fails, even for invalid input. The result does not depend on the sizes of the input pieces.

use base64_simd::STANDARD_NO_PAD;
use memchr::{memchr, memchr2_iter};

/// The encoding of a part's content.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Encoding {
    /// Not encoded.
    #[default]
    Identity,
    /// Base64.
    Base64,
    /// Quoted-printable.
    QuotedPrintable,
}

impl Encoding {
    /// Returns the encoding with this name, or [`Encoding::Identity`] if the name is unknown.
    pub(super) fn named(name: &str) -> Self {
        match name.trim().to_ascii_lowercase().as_str() {
            "base64" => Self::Base64,
            "quoted-printable" => Self::QuotedPrintable,
            _ => Self::Identity,
        }
    }
}

/// A receiver of decoded bytes.
pub(super) trait Sink {
    /// Receives the next bytes.
    fn put(&mut self, bytes: &[u8]);
}

impl Sink for Vec<u8> {
    fn put(&mut self, bytes: &[u8]) {
        self.extend_from_slice(bytes);
    }
}

/// A decoder for the content of a part. The decoder processes bytes as they arrive.
#[derive(Debug)]
pub struct Decoder(State);

#[derive(Debug)]
enum State {
    Identity,
    Base64(Base64),
    QuotedPrintable(QuotedPrintable),
}

impl Decoder {
    /// Creates a decoder for content with this encoding.
    #[must_use]
    pub fn new(encoding: Encoding) -> Self {
        Self(match encoding {
            Encoding::Identity => State::Identity,
            Encoding::Base64 => State::Base64(Base64::default()),
            Encoding::QuotedPrintable => State::QuotedPrintable(QuotedPrintable::default()),
        })
    }

    /// Decodes the next bytes. If the meaning of some bytes depends on later bytes, stores them
    /// until the next call. `last` is `true` for the last bytes of the content.
    pub fn decode(&mut self, encoded: &[u8], last: bool) -> Vec<u8> {
        let mut decoded = Vec::with_capacity(match self.0 {
            State::Base64(_) => encoded.len() / 4 * 3 + 3,
            State::Identity | State::QuotedPrintable(_) => encoded.len(),
        });
        match &mut self.0 {
            State::Identity => decoded.extend_from_slice(encoded),
            State::Base64(state) => {
                state.push(encoded, &mut decoded);
                if last {
                    state.end_run(&mut decoded);
                }
            }
            State::QuotedPrintable(state) => {
                state.push(encoded, &mut decoded);
                if last {
                    state.finish(&mut decoded);
                }
            }
        }
        decoded
    }
}

/// Decodes complete content.
pub(super) fn decoded(encoded: &[u8], encoding: Encoding) -> Vec<u8> {
    Decoder::new(encoding).decode(encoded, true)
}

/// Returns the value of a letter of the base64 alphabet (RFC 2045, table 1). Returns `None` for
/// other bytes.
pub(super) const fn base64_value(byte: u8) -> Option<u8> {
    match byte {
        b'A'..=b'Z' => Some(byte - b'A'),
        b'a'..=b'z' => Some(byte - b'a' + 26),
        b'0'..=b'9' => Some(byte - b'0' + 52),
        b'+' => Some(62),
        b'/' => Some(63),
        _ => None,
    }
}

/// A base64 decoder. It ignores bytes outside the alphabet (RFC 2045, section 6.8). Padding ends a
/// run of letters, and another run can follow.
#[derive(Debug, Default)]
struct Base64 {
    /// The bits of the letters in an incomplete group.
    bits: u32,
    filled: usize,
}

impl Base64 {
    fn push(&mut self, encoded: &[u8], decoded: &mut Vec<u8>) {
        let mut letters = Vec::new();
        // If a line does not have the usual form, the decoder processes this line without the fast
        // path. `behind` is the number of bytes after this line.
        let (mut rest, mut behind) = (encoded, encoded.len());
        loop {
            if self.filled == 0 {
                if rest.len() <= behind {
                    (rest, behind) = decode_lines(rest, &mut letters, decoded);
                }
                rest = decode_groups(rest, decoded);
            }
            let Some((byte, after)) = rest.split_first() else {
                break;
            };
            rest = after;
            if let Some(value) = base64_value(*byte) {
                self.bits = self.bits << 6 | u32::from(value);
                self.filled += 1;
                if self.filled == 4 {
                    self.end_run(decoded);
                }
            } else if *byte == b'=' {
                self.end_run(decoded);
            }
        }
    }

    /// Ends a run of letters. Ignores excess bits and a single remaining letter.
    fn end_run(&mut self, decoded: &mut Vec<u8>) {
        let [_, bytes @ ..] = (self.bits << (24 - 6 * self.filled)).to_be_bytes();
        decoded.extend_from_slice(&bytes[..self.filled * 3 / 4]);
        *self = Self::default();
    }
}

/// Decodes many lines together. The lines must have the usual form: complete groups of letters,
/// then CRLF. Almost all content has this form, so this function is the fast path. Stops at the
/// first line with another form. Returns the remaining bytes, and the number of bytes after that
/// line. `letters` is a buffer.
fn decode_lines<'e>(
    encoded: &'e [u8],
    letters: &mut Vec<u8>,
    decoded: &mut Vec<u8>,
) -> (&'e [u8], usize) {
    let mut rest = encoded;
    loop {
        letters.clear();
        let mut after = rest;
        let remaining = loop {
            let line = &after[..after.len().min(MAX_LINE)];
            let end = memchr(b'\r', line).unwrap_or(line.len());
            if !end.is_multiple_of(4) || after.get(end..end + 2) != Some(b"\r\n") {
                break end;
            }
            if letters.len() + end > MAX_LETTERS {
                break 0;
            }
            letters.extend_from_slice(&after[..end]);
            after = &after[end + 2..];
        };
        if letters.is_empty() {
            return (rest, after.len() - remaining);
        }
        if STANDARD_NO_PAD.decode_append(&*letters, decoded).is_err() {
            // The lines contain padding or other bytes, so the caller decodes the lines without
            // this function.
            return (rest, after.len());
        }
        rest = after;
    }
}

/// Decodes groups of four letters up to the first byte outside the alphabet. Returns the remaining
/// bytes.
fn decode_groups<'e>(encoded: &'e [u8], decoded: &mut Vec<u8>) -> &'e [u8] {
    let letters = encoded.iter().position(|b| base64_value(*b).is_none());
    let (groups, rest) = encoded.split_at(letters.unwrap_or(encoded.len()) / 4 * 4);
    match STANDARD_NO_PAD.decode_append(groups, decoded) {
        Ok(()) => rest,
        Err(_) => encoded,
    }
}

/// Maximum number of letters that are decoded together on the fast path. The letters fit into the
/// fastest cache of the processor.
const MAX_LETTERS: usize = 8192;

/// Maximum length of a line on the fast path, in bytes. RFC 2045 allows 76 letters.
const MAX_LINE: usize = 1024;

/// Maximum length of white space that is removed at the end of a line, in bytes. Some mail servers
/// add such white space (RFC 2045, section 6.7, rule 3).
const MAX_SPACE: usize = 1024;

/// A quoted-printable decoder. It returns an invalid escape unchanged as text.
#[derive(Debug, Default)]
pub(super) struct QuotedPrintable {
    escape: Escape,
    /// White space that is removed if a line break follows.
    space: Vec<u8>,
}

#[derive(Clone, Copy, Debug, Default)]
enum Escape {
    #[default]
    None,
    /// `=`
    Begun,
    /// `=` and a hexadecimal digit.
    High(u8),
}

impl QuotedPrintable {
    pub(super) fn push(&mut self, encoded: &[u8], sink: &mut impl Sink) {
        let mut rest = encoded;
        loop {
            if matches!(self.escape, Escape::None) && self.space.is_empty() {
                rest = decode_regular(rest, sink);
            }
            let Some((byte, after)) = rest.split_first() else {
                break;
            };
            match byte {
                b'\n' => self.end_line(sink),
                b' ' | b'\t' | b'\r' | b'\x0c' => self.space(*byte, sink),
                _ => {
                    if !self.space.is_empty() {
                        self.keep_space(sink);
                    }
                    self.letter(*byte, sink);
                }
            }
            rest = after;
        }
    }

    fn letter(&mut self, byte: u8, sink: &mut impl Sink) {
        let (high, low) = (self.escape, hexadecimal(byte));
        self.escape = match (high, low) {
            (Escape::High(first), Some(low)) => {
                sink.put(&[hexadecimal(first).unwrap_or_default() << 4 | low]);
                Escape::None
            }
            (Escape::Begun, Some(_)) => Escape::High(byte),
            (escape, _) => {
                escape.write_as_text(sink);
                if byte == b'=' {
                    Escape::Begun
                } else {
                    sink.put(&[byte]);
                    Escape::None
                }
            }
        };
    }

    fn space(&mut self, byte: u8, sink: &mut impl Sink) {
        if let Escape::High(_) = self.escape {
            std::mem::take(&mut self.escape).write_as_text(sink);
        }
        if self.space.len() == MAX_SPACE {
            self.keep_space(sink);
        }
        self.space.push(byte);
    }

    /// Passes the white space to `sink`, because the line continues.
    fn keep_space(&mut self, sink: &mut impl Sink) {
        std::mem::take(&mut self.escape).write_as_text(sink);
        sink.put(&self.space);
        self.space.clear();
    }

    fn end_line(&mut self, sink: &mut impl Sink) {
        match std::mem::take(&mut self.escape) {
            // A soft line break is not part of the content.
            Escape::Begun => {}
            escape => {
                escape.write_as_text(sink);
                let carriage_return = self.space.last() == Some(&b'\r');
                sink.put(if carriage_return { b"\r\n" } else { b"\n" });
            }
        }
        self.space.clear();
    }

    pub(super) fn finish(&mut self, sink: &mut impl Sink) {
        if let Escape::High(_) = self.escape {
            std::mem::take(&mut self.escape).write_as_text(sink);
        }
    }
}

/// Decodes text, valid escapes and soft line breaks. This function is the fast path and needs no
/// state. Returns the remaining bytes. They begin with an invalid or incomplete escape, or with
/// white space that can be at the end of a line.
fn decode_regular<'e>(encoded: &'e [u8], sink: &mut impl Sink) -> &'e [u8] {
    // The text from `start` has not been passed to the sink. `line` is the beginning of the current
    // line, or the end of the last escape in this line.
    let (mut start, mut line) = (0, 0);
    for at in memchr2_iter(b'=', b'\n', encoded) {
        if at < line {
            // The line feed belongs to a soft line break.
            continue;
        }
        if encoded[at] == b'=' {
            sink.put(&encoded[start..at]);
            line = match &encoded[at + 1..] {
                [b'\n', ..] => at + 2,
                [b'\r', b'\n', ..] => at + 3,
                [high, low, ..] => {
                    let (Some(high), Some(low)) = (hexadecimal(*high), hexadecimal(*low)) else {
                        return &encoded[at..];
                    };
                    sink.put(&[high << 4 | low]);
                    at + 3
                }
                _ => return &encoded[at..],
            };
            start = line;
        } else {
            let text = line + encoded[line..at].trim_ascii_end().len();
            let line_break = at - usize::from(encoded[text..at].ends_with(b"\r"));
            if text < line_break {
                // Remove the white space before the line break.
                sink.put(&encoded[start..text]);
                if at - text > MAX_SPACE {
                    return &encoded[text..];
                }
                start = line_break;
            }
            line = at + 1;
        }
    }
    let end = line + encoded[line..].trim_ascii_end().len();
    sink.put(&encoded[start..end]);
    &encoded[end..]
}

impl Escape {
    /// Writes an invalid escape as text.
    fn write_as_text(self, sink: &mut impl Sink) {
        match self {
            Self::None => {}
            Self::Begun => sink.put(b"="),
            Self::High(first) => sink.put(&[b'=', first]),
        }
    }
}

/// Returns the value of a hexadecimal digit.
pub(super) fn hexadecimal(digit: u8) -> Option<u8> {
    char::from(digit)
        .to_digit(16)
        .and_then(|value| u8::try_from(value).ok())
}

#[cfg(test)]
mod tests {
    use base64::Engine as _;
    use base64::engine::general_purpose::STANDARD;

    use super::*;
    use crate::decoded_size::DecodedSize;

    /// Checks the result for every size of pieces, for decoding and for counting.
    fn decodes(encoded: &[u8], encoding: Encoding, plain: &[u8]) {
        for size in (1..=encoded.len().clamp(1, 200)).chain([encoded.len().max(1)]) {
            let mut decoder = Decoder::new(encoding);
            let mut counter = DecodedSize::new(encoding);
            let mut bytes = Vec::new();
            for piece in encoded.chunks(size) {
                bytes.extend(decoder.decode(piece, false));
                if let Some(counter) = &mut counter {
                    counter.push(piece);
                }
            }
            bytes.extend(decoder.decode(b"", true));
            assert_eq!(bytes, plain, "{encoded:?} in pieces of {size}");
            assert_eq!(counter.map(DecodedSize::finish), Some(plain.len()));
        }
    }

    #[test]
    fn base64_is_read_through_what_does_not_belong_there() {
        let cases: [(&[u8], &[u8]); 10] = [
            (b"aGVsbG8=", b"hello"),
            (b"aGVs\r\nbG8=\r\n", b"hello"),
            (b"aGVsbG8", b"hello"),
            (b"aGVs!!bG8=--", b"hello"),
            (b"aGVsbG8=aGVsbG8=", b"hellohello"),
            (b"aGVsbG8a=", b"hello\x1a"),
            (b"a", b""),
            (b"\xff\x00===", b""),
            (b"aG\r\nVs bG8=", b"hello"),
            (b"aGVsb=G8AA", b"hel\x1b\xc0\x00"),
        ];
        for (encoded, plain) in cases {
            decodes(encoded, Encoding::Base64, plain);
        }
    }

    #[test]
    fn long_base64_is_what_it_was() {
        let plain: Vec<u8> = (0..5000_u32).map(|n| n.to_le_bytes()[0] ^ 0x5a).collect();
        let letters = STANDARD.encode(&plain);
        let lines: Vec<u8> = letters
            .as_bytes()
            .chunks(76)
            .flat_map(|line| [line, b"\r\n"].concat())
            .collect();
        decodes(&lines, Encoding::Base64, &plain);
        assert_eq!(decoded(letters.as_bytes(), Encoding::Base64), plain);
    }

    #[test]
    fn quoted_printable_is_read_through_what_does_not_belong_there() {
        let cases: [(&[u8], &[u8]); 13] = [
            (b"caf=C3=a9", "café".as_bytes()),
            (b"so=\r\nft  \r\nhard", b"soft\r\nhard"),
            (b"so= \r\nft", b"soft"),
            (b"a=ZZ=4", b"a=ZZ=4"),
            (b"tail=", b"tail"),
            (b"=\n=\n", b""),
            (b"\xff=3D", b"\xff="),
            (b"a==41=4=41=4 \nb", b"a=A=4A=4\nb"),
            (b"a b\tc \t ", b"a b\tc"),
            (b"a\rb\r\r\nc", b"a\rb\r\nc"),
            (b"a= b==\nc", b"a= b=c"),
            (b"x = \ny", b"x y"),
            (b"", b""),
        ];
        for (encoded, plain) in cases {
            decodes(encoded, Encoding::QuotedPrintable, plain);
        }
    }

    #[test]
    fn white_space_without_an_end_takes_no_memory() {
        let mut decoder = Decoder::new(Encoding::QuotedPrintable);
        for _ in 0..1000 {
            decoder.decode(&[b' '; 1000], false);
        }
        let State::QuotedPrintable(state) = decoder.0 else {
            panic!("another decoder");
        };
        assert!(state.space.len() <= MAX_SPACE);
    }
}
