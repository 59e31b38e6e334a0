//! Decodes Content-Transfer-Encodings (RFC 2045, section 6) while bytes arrive. Decoding never fails, even for invalid input. The result does not depend on the
//! sizes of the input pieces.

use memchr::{memchr, memchr2};

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

/// A sink that counts the bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Length(pub(super) usize);

impl Sink for Length {
    fn put(&mut self, bytes: &[u8]) {
        self.0 += bytes.len();
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

    /// Decodes the next bytes. If the meaning of some bytes depends on later bytes, stores them until the next call. `last` is `true` for the last bytes of the
    /// content.
    pub fn decode(&mut self, encoded: &[u8], last: bool) -> Vec<u8> {
        let mut decoded = Vec::with_capacity(match self.0 {
            State::Base64(_) => encoded.len() / 4 * 3 + 3,
            State::Identity | State::QuotedPrintable(_) => encoded.len(),
        });
        self.push(encoded, &mut decoded);
        if last {
            self.finish(&mut decoded);
        }
        decoded
    }

    pub(super) fn push(&mut self, encoded: &[u8], sink: &mut impl Sink) {
        match &mut self.0 {
            State::Identity => sink.put(encoded),
            State::Base64(state) => state.push(encoded, sink),
            State::QuotedPrintable(state) => state.push(encoded, sink),
        }
    }

    /// Ends the content and passes the remaining bytes to `sink`.
    pub(super) fn finish(&mut self, sink: &mut impl Sink) {
        match &mut self.0 {
            State::Identity => {}
            State::Base64(state) => state.finish(sink),
            State::QuotedPrintable(state) => state.finish(sink),
        }
    }
}

/// Decodes complete content.
pub(super) fn decoded(encoded: &[u8], encoding: Encoding) -> Vec<u8> {
    Decoder::new(encoding).decode(encoded, true)
}

/// The bits of each letter of the base64 alphabet (RFC 2045, table 1) in a group of three bytes. The first index is the letter's position in the group. The
/// second index is the letter. Bytes outside the alphabet have the value [`NONE`].
static LETTERS: [[u32; 256]; 4] = {
    let alphabet = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let mut letters = [[NONE; 256]; 4];
    let mut position = 0;
    while position < 4 {
        let mut value = 0;
        while value < 64 {
            letters[position][alphabet[value as usize] as usize] = value << (18 - 6 * position);
            value += 1;
        }
        position += 1;
    }
    letters
};

/// The value of bytes outside the alphabet. This bit is outside the 24 bits of a group.
const NONE: u32 = 1 << 24;

/// Returns the 24 bits of a group of four letters. The value is [`NONE`] or greater if a byte is not a letter.
fn bits(group: [u8; 4]) -> u32 {
    let [a, b, c, d] = group.map(usize::from);
    LETTERS[0][a] | LETTERS[1][b] | LETTERS[2][c] | LETTERS[3][d]
}

/// A base64 decoder. It ignores bytes outside the alphabet (RFC 2045, section 6.8). Padding ends a run of letters, and another run can follow.
#[derive(Debug, Default)]
struct Base64 {
    /// The bits of the letters in an incomplete group.
    bits: u32,
    filled: usize,
}

impl Base64 {
    fn push(&mut self, encoded: &[u8], sink: &mut impl Sink) {
        let mut decoded = Decoded::default();
        // If a line does not have the usual form, the decoder processes this line without the fast path. `behind` is the number of bytes after this line.
        let (mut rest, mut behind) = (encoded, encoded.len());
        loop {
            if self.filled == 0 {
                if rest.len() <= behind {
                    (rest, behind) = decoded.lines(rest, sink);
                }
                rest = decoded.groups(rest, sink);
            }
            let Some((byte, after)) = rest.split_first() else {
                break;
            };
            rest = after;
            let bits = LETTERS[self.filled][usize::from(*byte)];
            if bits < NONE {
                self.bits |= bits;
                self.filled += 1;
                if self.filled == 4 {
                    self.end_run(&mut decoded, sink);
                }
            } else if *byte == b'=' {
                self.end_run(&mut decoded, sink);
            }
        }
        decoded.flush(sink);
    }

    fn finish(&mut self, sink: &mut impl Sink) {
        let mut decoded = Decoded::default();
        self.end_run(&mut decoded, sink);
        decoded.flush(sink);
    }

    /// Ends a run of letters. Ignores excess bits and a single remaining letter.
    fn end_run(&mut self, decoded: &mut Decoded, sink: &mut impl Sink) {
        let [_, bytes @ ..] = self.bits.to_be_bytes();
        decoded.put(&bytes[..self.filled * 3 / 4], sink);
        *self = Self::default();
    }
}

/// A buffer for decoded bytes before they are passed to a sink.
struct Decoded {
    bytes: [u8; 3072],
    length: usize,
}

impl Default for Decoded {
    fn default() -> Self {
        Self {
            bytes: [0; 3072],
            length: 0,
        }
    }
}

impl Decoded {
    /// Decodes many lines together. The lines must have the usual form: complete groups of letters, then CRLF. Almost all content has this form, so this
    /// function is the fast path. Stops at the first line with another form. Returns the remaining bytes, and the number of bytes after that line.
    fn lines<'e>(&mut self, encoded: &'e [u8], sink: &mut impl Sink) -> (&'e [u8], usize) {
        let mut rest = encoded;
        let mut letters = [0; 4096];
        loop {
            let (mut length, mut after) = (0, rest);
            let remaining = loop {
                let line = &after[..after.len().min(MAX_LINE)];
                let end = memchr(b'\r', line).unwrap_or(line.len());
                if !end.is_multiple_of(4) || after.get(end..end + 2) != Some(b"\r\n") {
                    break end;
                }
                let Some(position) = letters.get_mut(length..length + end) else {
                    break 0;
                };
                position.copy_from_slice(&after[..end]);
                length += end;
                after = &after[end + 2..];
            };
            if length == 0 {
                return (rest, after.len() - remaining);
            }
            self.flush(sink);
            let buffer = base64_simd::Out::from_slice(&mut self.bytes);
            match base64_simd::STANDARD_NO_PAD.decode(&letters[..length], buffer) {
                Ok(bytes) => self.length = bytes.len(),
                // The lines contain padding or other bytes.
                Err(_) => return (rest, after.len()),
            }
            rest = after;
        }
    }

    /// Decodes groups of four letters up to the first byte outside the alphabet. Returns the remaining bytes.
    fn groups<'e>(&mut self, encoded: &'e [u8], sink: &mut impl Sink) -> &'e [u8] {
        let mut rest = encoded;
        loop {
            let (groups, _) = rest.as_chunks::<4>();
            let (positions, _) = self.bytes[self.length..].as_chunks_mut::<3>();
            let mut done = 0;
            for (group, position) in groups.iter().zip(&mut *positions) {
                let bits = bits(*group);
                if bits >= NONE {
                    break;
                }
                let [_, bytes @ ..] = bits.to_be_bytes();
                *position = bytes;
                done += 1;
            }
            let full = done == positions.len();
            self.length += done * 3;
            rest = &rest[done * 4..];
            if !full {
                return rest;
            }
            self.flush(sink);
        }
    }

    fn put(&mut self, bytes: &[u8], sink: &mut impl Sink) {
        if self.length + bytes.len() > self.bytes.len() {
            self.flush(sink);
        }
        self.bytes[self.length..self.length + bytes.len()].copy_from_slice(bytes);
        self.length += bytes.len();
    }

    fn flush(&mut self, sink: &mut impl Sink) {
        sink.put(&self.bytes[..self.length]);
        self.length = 0;
    }
}

/// Maximum length of a line on the fast path, in bytes. RFC 2045 allows 76 letters.
const MAX_LINE: usize = 1024;

/// Maximum length of white space that is removed at the end of a line, in bytes. Mail servers added such white space (RFC 2045, section 6.7, rule 3).
const MAX_SPACE: usize = 1024;

/// A quoted-printable decoder. It returns an invalid escape unchanged as text.
#[derive(Debug, Default)]
struct QuotedPrintable {
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
    fn push(&mut self, encoded: &[u8], sink: &mut impl Sink) {
        let mut rest = encoded;
        while let Some((byte, after)) = rest.split_first() {
            match byte {
                b'\n' => self.end_line(sink),
                b' ' | b'\t' | b'\r' | b'\x0c' => self.space(*byte, sink),
                _ => {
                    if !self.space.is_empty() {
                        self.keep_space(sink);
                    }
                    if matches!(self.escape, Escape::None) && *byte != b'=' {
                        // Copy text up to the next significant byte, without the white space directly before this byte.
                        let plain = memchr2(b'=', b'\n', rest).unwrap_or(rest.len());
                        let text = rest[..plain].trim_ascii_end();
                        sink.put(text);
                        rest = &rest[text.len()..];
                        continue;
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

    fn finish(&mut self, sink: &mut impl Sink) {
        if let Escape::High(_) = self.escape {
            std::mem::take(&mut self.escape).write_as_text(sink);
        }
    }
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

fn hexadecimal(digit: u8) -> Option<u8> {
    char::from(digit)
        .to_digit(16)
        .and_then(|value| u8::try_from(value).ok())
}

#[cfg(test)]
mod tests {
    use base64::Engine as _;
    use base64::engine::general_purpose::STANDARD;

    use super::*;

    /// Checks the result for every size of pieces, for decoding and for counting.
    fn decodes(encoded: &[u8], encoding: Encoding, plain: &[u8]) {
        for size in (1..=encoded.len().clamp(1, 200)).chain([encoded.len().max(1)]) {
            let mut decoder = Decoder::new(encoding);
            let mut counter = Decoder::new(encoding);
            let (mut bytes, mut length) = (Vec::new(), Length::default());
            for piece in encoded.chunks(size) {
                bytes.extend(decoder.decode(piece, false));
                counter.push(piece, &mut length);
            }
            bytes.extend(decoder.decode(b"", true));
            counter.finish(&mut length);
            assert_eq!(bytes, plain, "{encoded:?} in pieces of {size}");
            assert_eq!(length.0, plain.len());
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
