//! Counts the decoded bytes of content while the content arrives. Does not decode base64.

use memchr::memchr;

use super::transfer::{Encoding, QuotedPrintable, Sink, base64_value};

/// A counter for the decoded bytes of encoded content. The result is the number of bytes that
/// [`crate::Decoder`] returns.
#[derive(Debug)]
pub(super) enum DecodedSize {
    Base64(Base64Size),
    QuotedPrintable(QuotedPrintable, Length),
}

impl DecodedSize {
    /// Creates a counter for content with this encoding. Returns `None` if the content is not
    /// encoded.
    pub(super) fn new(encoding: Encoding) -> Option<Self> {
        match encoding {
            Encoding::Identity => None,
            Encoding::Base64 => Some(Self::Base64(Base64Size::default())),
            Encoding::QuotedPrintable => Some(Self::QuotedPrintable(
                QuotedPrintable::default(),
                Length::default(),
            )),
        }
    }

    /// Processes the next bytes of the content.
    pub(super) fn push(&mut self, encoded: &[u8]) {
        match self {
            Self::Base64(size) => size.push(encoded),
            Self::QuotedPrintable(decoder, length) => decoder.push(encoded, length),
        }
    }

    /// Returns the decoded size in bytes.
    pub(super) fn finish(self) -> usize {
        match self {
            Self::Base64(mut size) => {
                size.end_run();
                size.decoded
            }
            Self::QuotedPrintable(mut decoder, mut length) => {
                decoder.finish(&mut length);
                length.0
            }
        }
    }
}

/// Computes the decoded size of base64 from the number of letters in each run. Padding ends a run.
#[derive(Debug, Default)]
pub(super) struct Base64Size {
    /// The decoded size of the runs that have ended.
    decoded: usize,
    /// The number of letters in the current run.
    letters: usize,
}

impl Base64Size {
    fn push(&mut self, mut encoded: &[u8]) {
        while let Some(end) = memchr(b'=', encoded) {
            self.letters += count_letters(&encoded[..end]);
            self.end_run();
            encoded = &encoded[end + 1..];
        }
        self.letters += count_letters(encoded);
    }

    /// Ends a run of letters. Four letters encode three bytes. Excess bits and a single remaining
    /// letter encode no byte.
    fn end_run(&mut self) {
        self.decoded += self.letters / 4 * 3 + self.letters % 4 * 3 / 4;
        self.letters = 0;
    }
}

/// Returns the number of letters of the base64 alphabet in `bytes`.
fn count_letters(bytes: &[u8]) -> usize {
    // The sum for 255 bytes fits into one byte. Therefore the compiler can count many bytes with
    // one instruction.
    let chunks = bytes.chunks(255).map(|chunk| {
        let is_letter = |byte: &u8| u8::from(base64_value(*byte).is_some());
        chunk.iter().map(is_letter).sum::<u8>()
    });
    chunks.map(usize::from).sum()
}

/// A sink that counts the bytes.
#[derive(Debug, Default)]
pub(super) struct Length(usize);

impl Sink for Length {
    fn put(&mut self, bytes: &[u8]) {
        self.0 += bytes.len();
    }
}
