//! Content-Transfer-Encodings (RFC 2045, section 6), forgiving: whatever the bytes are, something is decoded.

use base64::Engine as _;
use base64::alphabet;
use base64::engine::{DecodePaddingMode, GeneralPurpose, GeneralPurposeConfig};

/// Padding is dealt with before, and bits beyond the last byte mean nothing.
const BASE64: GeneralPurpose = GeneralPurpose::new(
    &alphabet::STANDARD,
    GeneralPurposeConfig::new()
        .with_decode_allow_trailing_bits(true)
        .with_decode_padding_mode(DecodePaddingMode::RequireNone),
);

/// How a part's bytes are written.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Encoding {
    /// As they are.
    #[default]
    Identity,
    /// Base64.
    Base64,
    /// Quoted-printable.
    QuotedPrintable,
}

impl Encoding {
    /// The encoding of that name; one that is not known is taken for none.
    pub(super) fn named(name: &str) -> Self {
        match name.trim().to_ascii_lowercase().as_str() {
            "base64" => Self::Base64,
            "quoted-printable" => Self::QuotedPrintable,
            _ => Self::Identity,
        }
    }
}

/// The bytes that `encoded` stands for.
pub(super) fn decoded(encoded: &[u8], encoding: Encoding) -> Vec<u8> {
    match encoding {
        Encoding::Identity => encoded.to_vec(),
        Encoding::Base64 => base64(encoded),
        Encoding::QuotedPrintable => quoted_printable(encoded),
    }
}

/// How many bytes `encoded` stands for.
pub(super) fn decoded_length(encoded: &[u8], encoding: Encoding) -> usize {
    match encoding {
        Encoding::Identity => encoded.len(),
        Encoding::Base64 => encoded
            .split(|b| *b == b'=')
            .map(|run| run.iter().filter(|b| in_base64(**b)).count() * 3 / 4)
            .sum(),
        Encoding::QuotedPrintable => quoted_printable(encoded).len(),
    }
}

/// What is not of the alphabet is passed over, as RFC 2045 asks. Padding ends a run; another may follow.
fn base64(encoded: &[u8]) -> Vec<u8> {
    let mut decoded = Vec::with_capacity(encoded.len() / 4 * 3);
    for run in encoded.split(|b| *b == b'=') {
        let mut run: Vec<u8> = run.iter().copied().filter(|b| in_base64(*b)).collect();
        if run.len() % 4 == 1 {
            run.pop();
        }
        // Nothing is left in it that could fail.
        let _ = BASE64.decode_vec(&run, &mut decoded);
    }
    decoded
}

fn in_base64(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || matches!(byte, b'+' | b'/')
}

/// What is not an escape stands for itself. White space at the end of a line was added on the way.
fn quoted_printable(encoded: &[u8]) -> Vec<u8> {
    let mut decoded = Vec::with_capacity(encoded.len());
    for line in encoded.split_inclusive(|b| *b == b'\n') {
        let (text, end) = match line {
            [text @ .., b'\r', b'\n'] => (text, &b"\r\n"[..]),
            [text @ .., b'\n'] => (text, &b"\n"[..]),
            text => (text, &b""[..]),
        };
        let text = text.trim_ascii_end();
        let (text, end) = match text.strip_suffix(b"=") {
            Some(soft) => (soft, &b""[..]),
            None => (text, end),
        };
        let mut bytes = text.iter();
        while let Some(byte) = bytes.next() {
            if *byte == b'='
                && let [high, low, ..] = bytes.as_slice()
                && let (Some(high), Some(low)) = (hexadecimal(*high), hexadecimal(*low))
            {
                decoded.push(high << 4 | low);
                bytes.nth(1);
            } else {
                decoded.push(*byte);
            }
        }
        decoded.extend_from_slice(end);
    }
    decoded
}

fn hexadecimal(digit: u8) -> Option<u8> {
    char::from(digit)
        .to_digit(16)
        .and_then(|value| u8::try_from(value).ok())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn base64_is_read_through_what_does_not_belong_there() {
        let cases: [(&[u8], &[u8]); 8] = [
            (b"aGVsbG8=", b"hello"),
            (b"aGVs\r\nbG8=\r\n", b"hello"),
            (b"aGVsbG8", b"hello"),
            (b"aGVs!!bG8=--", b"hello"),
            (b"aGVsbG8=aGVsbG8=", b"hellohello"),
            (b"aGVsbG8a=", b"hello\x1a"),
            (b"a", b""),
            (b"\xff\x00===", b""),
        ];
        for (encoded, plain) in cases {
            assert_eq!(decoded(encoded, Encoding::Base64), plain);
            assert_eq!(decoded_length(encoded, Encoding::Base64), plain.len());
        }
    }

    #[test]
    fn quoted_printable_is_read_through_what_does_not_belong_there() {
        let cases: [(&[u8], &[u8]); 7] = [
            (b"caf=C3=a9", "café".as_bytes()),
            (b"so=\r\nft  \r\nhard", b"soft\r\nhard"),
            (b"so= \r\nft", b"soft"),
            (b"a=ZZ=4", b"a=ZZ=4"),
            (b"tail=", b"tail"),
            (b"=\n=\n", b""),
            (b"\xff=3D", b"\xff="),
        ];
        for (encoded, plain) in cases {
            assert_eq!(decoded(encoded, Encoding::QuotedPrintable), plain);
        }
    }
}
