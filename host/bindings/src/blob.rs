//! The host's data type for the WIT resource `blob`.

use std::fmt;
use std::io;
use std::sync::Arc;

use bytes::Bytes;
use futures_util::stream::{self, BoxStream, StreamExt as _};

/// A stream of byte chunks.
pub type ByteStream = BoxStream<'static, io::Result<Bytes>>;

/// A source of bytes outside the host's memory.
pub trait BlobSource: Send + Sync {
    /// Returns a stream that starts at the first byte. Each call returns a new stream.
    fn open(&self) -> ByteStream;

    /// Returns a stream of `length` bytes that starts at `start`. By default, reads and discards
    /// the bytes before `start`.
    fn open_range(&self, start: u64, length: u64) -> ByteStream {
        range_of(self.open(), start, length)
    }
}

/// Returns `length` bytes of a stream, starting at `start`.
#[must_use]
pub fn range_of(stream: ByteStream, start: u64, length: u64) -> ByteStream {
    stream::try_unfold(
        (stream, start, length),
        async |(mut stream, mut skip, left)| {
            if left == 0 {
                return Ok(None);
            }
            while let Some(chunk) = stream.next().await {
                let mut chunk = chunk?;
                let skipped =
                    usize::try_from(skip).map_or(chunk.len(), |skip| skip.min(chunk.len()));
                drop(chunk.split_to(skipped));
                skip -= skipped as u64;
                chunk.truncate(usize::try_from(left).unwrap_or(usize::MAX));
                if !chunk.is_empty() {
                    let left = left - chunk.len() as u64;
                    return Ok(Some((chunk, (stream, skip, left))));
                }
            }
            Ok(None)
        },
    )
    .boxed()
}

/// The bytes to which a `blob` handle of a module refers. The bytes stay in the host.
pub struct Blob {
    size: u64,
    content: Content,
}

enum Content {
    InMemory(Bytes),
    FromSource {
        source: Arc<dyn BlobSource>,
        /// The position of the blob in the source, in bytes. `None` if the blob contains the
        /// complete source.
        start: Option<u64>,
        /// The current read of the source, or `None` if the module has not read any bytes.
        reading: Option<Reading>,
    },
}

/// The state of a read of a source.
struct Reading {
    stream: ByteStream,
    /// The unread bytes of the current chunk.
    chunk: Bytes,
    /// The offset of `chunk` in the blob, in bytes.
    offset: u64,
}

impl Blob {
    /// Creates a blob from bytes in memory.
    #[must_use]
    pub fn new(bytes: Bytes) -> Self {
        Self {
            size: bytes.len() as u64,
            content: Content::InMemory(bytes),
        }
    }

    /// Creates a blob of `size` bytes. Bytes are read from `source` on demand.
    #[must_use]
    pub fn from_source(size: u64, source: Arc<dyn BlobSource>) -> Self {
        Self {
            size,
            content: Content::FromSource {
                source,
                start: None,
                reading: None,
            },
        }
    }

    /// Returns a blob with up to `length` bytes, starting at `offset`. Does not copy or read the
    /// bytes.
    #[must_use]
    pub fn slice(&self, offset: u64, length: u64) -> Self {
        let offset = offset.min(self.size);
        let size = length.min(self.size - offset);
        let content = match &self.content {
            Content::InMemory(bytes) => {
                let at = |n: u64| usize::try_from(n).unwrap_or(usize::MAX);
                Content::InMemory(bytes.slice(at(offset)..at(offset + size)))
            }
            Content::FromSource { source, start, .. } => Content::FromSource {
                source: Arc::clone(source),
                start: Some(start.unwrap_or(0) + offset),
                reading: None,
            },
        };
        Self { size, content }
    }

    /// Returns the length of the blob in bytes.
    #[must_use]
    pub fn size(&self) -> u64 {
        self.size
    }

    /// Reads up to `length` bytes, starting at `offset`. Returns fewer bytes at the end of the
    /// blob, and no bytes after the end.
    ///
    /// Callers should read in order. If `offset` is before the end of the last read, this function
    /// opens the source again and skips all bytes before `offset`.
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
            Content::InMemory(bytes) => {
                let start = usize::try_from(offset).unwrap_or(usize::MAX);
                Ok(bytes.slice(start..start + length))
            }
            Content::FromSource {
                source,
                start,
                reading,
            } => {
                let mut current = match reading.take() {
                    Some(reading) if reading.offset <= offset => reading,
                    Some(_) | None => Reading {
                        stream: open(&**source, *start, self.size),
                        chunk: Bytes::new(),
                        offset: 0,
                    },
                };
                current.skip_to(offset).await?;
                let bytes = current.take(length).await?;
                *reading = Some(current);
                Ok(bytes)
            }
        }
    }

    /// Returns all bytes of the blob as a stream. The stream has [`Blob::size`] bytes, unless the
    /// source fails.
    #[must_use]
    pub fn into_stream(self) -> ByteStream {
        match self.content {
            Content::InMemory(bytes) => stream::once(async { Ok(bytes) }).boxed(),
            Content::FromSource { source, start, .. } => open(&*source, start, self.size),
        }
    }

    /// Returns the bytes, or `None` if they come from a source.
    #[must_use]
    pub fn in_memory(&self) -> Option<&Bytes> {
        match &self.content {
            Content::InMemory(bytes) => Some(bytes),
            Content::FromSource { .. } => None,
        }
    }

    /// Returns the source, and the position of the blob in the source in bytes. The position is
    /// `None` if the blob contains the complete source. Returns `None` if the bytes are in memory.
    #[must_use]
    pub fn source(&self) -> Option<(&Arc<dyn BlobSource>, Option<u64>)> {
        match &self.content {
            Content::InMemory(_) => None,
            Content::FromSource { source, start, .. } => Some((source, *start)),
        }
    }

    /// Returns all bytes of the blob if the bytes are in memory.
    ///
    /// # Errors
    /// Returns the unchanged blob if the bytes come from a source.
    pub fn into_bytes(self) -> Result<Bytes, Self> {
        match self.content {
            Content::InMemory(bytes) => Ok(bytes),
            Content::FromSource { .. } => Err(self),
        }
    }
}

fn open(source: &dyn BlobSource, start: Option<u64>, size: u64) -> ByteStream {
    match start {
        Some(start) => source.open_range(start, size),
        None => source.open(),
    }
}

impl Reading {
    /// Reads chunks until `chunk` is not empty.
    async fn fill(&mut self) -> io::Result<()> {
        while self.chunk.is_empty() {
            self.chunk = self
                .stream
                .next()
                .await
                .unwrap_or_else(|| Err(io::ErrorKind::UnexpectedEof.into()))?;
        }
        Ok(())
    }

    async fn skip_to(&mut self, offset: u64) -> io::Result<()> {
        while self.offset < offset {
            self.fill().await?;
            let length = usize::try_from(offset - self.offset).unwrap_or(usize::MAX);
            self.split_chunk(length);
        }
        Ok(())
    }

    async fn take(&mut self, length: usize) -> io::Result<Bytes> {
        self.fill().await?;
        if self.chunk.len() >= length {
            return Ok(self.split_chunk(length));
        }
        let mut taken = Vec::with_capacity(length);
        while taken.len() < length {
            self.fill().await?;
            let bytes = self.split_chunk(length - taken.len());
            taken.extend_from_slice(&bytes);
        }
        Ok(taken.into())
    }

    /// Removes up to `max` bytes from the start of the current chunk and returns the removed bytes.
    fn split_chunk(&mut self, max: usize) -> Bytes {
        let bytes = self.chunk.split_to(max.min(self.chunk.len()));
        self.offset += bytes.len() as u64;
        bytes
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

    impl BlobSource for Alphabet {
        fn open(&self) -> ByteStream {
            self.opened.fetch_add(1, Ordering::Relaxed);
            let mut chunks = vec!["ab", "", "cdef", "g"];
            if self.ends_early {
                chunks.pop();
            }
            stream::iter(chunks.into_iter().map(|chunk| Ok(Bytes::from(chunk)))).boxed()
        }
    }

    fn read(blob: &mut Blob, offset: u64, length: usize) -> Bytes {
        blob.read(offset, length).now_or_never().unwrap().unwrap()
    }

    #[test]
    fn any_range_can_be_read_from_memory_and_from_a_source() {
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
    fn a_slice_has_a_part_of_the_bytes() {
        let blobs = [
            Blob::new(Bytes::from_static(b"abcdefg")),
            Blob::from_source(7, Arc::new(Alphabet::default())),
        ];
        for blob in blobs {
            for (offset, length, expected) in [
                (0, 7, "abcdefg"),
                (2, 3, "cde"),
                (5, u64::MAX, "fg"),
                (1, 0, ""),
                (9, 1, ""),
            ] {
                let mut slice = blob.slice(offset, length);
                assert_eq!(slice.size(), expected.len() as u64);
                assert_eq!(read(&mut slice, 0, 10), expected);
                let inner = slice.slice(1, 1);
                let all: Vec<_> = inner.into_stream().collect().now_or_never().unwrap();
                let all: Vec<Bytes> = all.into_iter().map(Result::unwrap).collect();
                assert_eq!(
                    all.concat(),
                    expected.as_bytes().get(1..2).unwrap_or_default()
                );
            }
        }
    }

    #[test]
    fn reading_in_order_opens_the_source_once() {
        let source = Arc::new(Alphabet::default());
        let mut blob = Blob::from_source(7, Arc::clone(&source) as Arc<dyn BlobSource>);
        for offset in 0..7 {
            read(&mut blob, offset, 1);
        }
        assert_eq!(source.opened.load(Ordering::Relaxed), 1);
        let rest: Vec<_> = blob
            .into_stream()
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
