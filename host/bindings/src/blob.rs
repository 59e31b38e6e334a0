//! The bytes behind a `blob` handle of the WIT interface.

use std::fmt;
use std::io;
use std::sync::Arc;

use bytes::Bytes;
use futures_util::stream::{self, BoxStream, StreamExt as _};

/// A stream of byte chunks.
pub type Pieces = BoxStream<'static, io::Result<Bytes>>;

/// Supplies bytes that are not in the host's memory.
pub trait Source: Send + Sync {
    /// Starts reading from the first byte. Each call starts a new read.
    fn open(&self) -> Pieces;
}

/// Bytes that stay in the host while a guest holds a handle to them.
pub struct Blob {
    size: u64,
    content: Content,
}

enum Content {
    Here(Bytes),
    Elsewhere {
        source: Arc<dyn Source>,
        /// The guest's current read, if one has started.
        reading: Option<Reading>,
    },
}

/// A started read of a source.
struct Reading {
    pieces: Pieces,
    /// The unread rest of the current chunk.
    piece: Bytes,
    /// The offset of `piece` in the blob, in bytes.
    at: u64,
}

impl Blob {
    /// Creates a blob from bytes in memory.
    #[must_use]
    pub fn new(bytes: Bytes) -> Self {
        Self {
            size: bytes.len() as u64,
            content: Content::Here(bytes),
        }
    }

    /// Creates a blob of `size` bytes that are read from `source`.
    #[must_use]
    pub fn from_source(size: u64, source: Arc<dyn Source>) -> Self {
        Self {
            size,
            content: Content::Elsewhere {
                source,
                reading: None,
            },
        }
    }

    /// Returns the length in bytes.
    #[must_use]
    pub fn size(&self) -> u64 {
        self.size
    }

    /// Reads up to `length` bytes from `offset`. Returns fewer at the end and none after it. Read a blob from a source in order: an offset before the previous
    /// one starts the source again.
    ///
    /// # Errors
    /// Returns an error if the source fails or has fewer bytes than [`Blob::size`].
    pub async fn read(&mut self, offset: u64, length: usize) -> io::Result<Bytes> {
        let left = self.size.saturating_sub(offset);
        let length = usize::try_from(left).map_or(length, |left| left.min(length));
        if length == 0 {
            return Ok(Bytes::new());
        }
        match &mut self.content {
            Content::Here(bytes) => {
                let start = usize::try_from(offset).unwrap_or(usize::MAX);
                Ok(bytes.slice(start..start + length))
            }
            Content::Elsewhere { source, reading } => {
                let mut at = match reading.take() {
                    Some(reading) if reading.at <= offset => reading,
                    Some(_) | None => Reading {
                        pieces: source.open(),
                        piece: Bytes::new(),
                        at: 0,
                    },
                };
                at.skip_to(offset).await?;
                let read = at.take(length).await?;
                *reading = Some(at);
                Ok(read)
            }
        }
    }

    /// Returns all bytes as a stream: [`Blob::size`] bytes, unless the source fails.
    #[must_use]
    pub fn into_pieces(self) -> Pieces {
        match self.content {
            Content::Here(bytes) => stream::once(async { Ok(bytes) }).boxed(),
            Content::Elsewhere { source, .. } => source.open(),
        }
    }

    /// Returns all bytes if they are in memory.
    ///
    /// # Errors
    /// Returns the blob unchanged if its bytes come from a source.
    pub fn into_bytes(self) -> Result<Bytes, Self> {
        match self.content {
            Content::Here(bytes) => Ok(bytes),
            Content::Elsewhere { .. } => Err(self),
        }
    }
}

impl Reading {
    /// Reads chunks until `piece` is not empty.
    async fn fill(&mut self) -> io::Result<()> {
        while self.piece.is_empty() {
            self.piece = self
                .pieces
                .next()
                .await
                .unwrap_or_else(|| Err(io::ErrorKind::UnexpectedEof.into()))?;
        }
        Ok(())
    }

    async fn skip_to(&mut self, offset: u64) -> io::Result<()> {
        while self.at < offset {
            self.fill().await?;
            let wanted = usize::try_from(offset - self.at).unwrap_or(usize::MAX);
            self.advance(wanted);
        }
        Ok(())
    }

    async fn take(&mut self, length: usize) -> io::Result<Bytes> {
        self.fill().await?;
        if self.piece.len() >= length {
            return Ok(self.advance(length));
        }
        let mut taken = Vec::with_capacity(length);
        while taken.len() < length {
            self.fill().await?;
            let piece = self.advance(length - taken.len());
            taken.extend_from_slice(&piece);
        }
        Ok(taken.into())
    }

    fn advance(&mut self, most: usize) -> Bytes {
        let taken = self.piece.split_to(most.min(self.piece.len()));
        self.at += taken.len() as u64;
        taken
    }
}

impl fmt::Debug for Blob {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Blob")
            .field("size", &self.size)
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};

    use futures_util::FutureExt as _;

    use super::*;

    #[derive(Default)]
    struct Alphabet {
        opened: AtomicUsize,
        ends_early: bool,
    }

    impl Source for Alphabet {
        fn open(&self) -> Pieces {
            self.opened.fetch_add(1, Ordering::Relaxed);
            let mut pieces = vec!["ab", "", "cdef", "g"];
            if self.ends_early {
                pieces.pop();
            }
            stream::iter(pieces.into_iter().map(|piece| Ok(Bytes::from(piece)))).boxed()
        }
    }

    fn read(blob: &mut Blob, offset: u64, length: usize) -> Bytes {
        blob.read(offset, length).now_or_never().unwrap().unwrap()
    }

    #[test]
    fn any_stretch_can_be_read_wherever_the_bytes_are() {
        let source = Arc::new(Alphabet::default());
        let blobs = [
            Blob::new(Bytes::from_static(b"abcdefg")),
            Blob::from_source(7, source),
        ];
        for mut blob in blobs {
            assert_eq!(blob.size(), 7);
            for offset in [0, 3, 1, 6, 7, 2, u64::MAX] {
                for length in [0, 1, 3, 7, usize::MAX] {
                    let start = usize::try_from(offset).unwrap().min(7);
                    let expected = &b"abcdefg"[start..start.saturating_add(length).min(7)];
                    assert_eq!(read(&mut blob, offset, length), expected);
                }
            }
        }
    }

    #[test]
    fn what_is_read_in_order_is_asked_for_once() {
        let source = Arc::new(Alphabet::default());
        let mut blob = Blob::from_source(7, Arc::clone(&source) as Arc<dyn Source>);
        for offset in 0..7 {
            read(&mut blob, offset, 1);
        }
        assert_eq!(source.opened.load(Ordering::Relaxed), 1);
        let rest: Vec<_> = blob
            .into_pieces()
            .map(Result::unwrap)
            .collect()
            .now_or_never()
            .unwrap();
        assert_eq!(rest.concat(), b"abcdefg");
        assert_eq!(source.opened.load(Ordering::Relaxed), 2);
    }

    #[test]
    fn a_source_that_ends_early_is_an_error() {
        let source = Arc::new(Alphabet {
            ends_early: true,
            ..Alphabet::default()
        });
        let mut blob = Blob::from_source(7, source);
        assert_eq!(read(&mut blob, 0, 6), "abcdef");
        assert!(blob.read(0, 7).now_or_never().unwrap().is_err());
    }
}
