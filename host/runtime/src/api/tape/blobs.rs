//! Recorded blobs. Bytes in memory are shared with the recording. Of a blob with a source, for
//! example an attachment, only the bytes are recorded that the guest reads itself. A guest that
//! only passes such a blob on reads nothing.

use std::fmt;
use std::io;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use bytes::Bytes;
use futures_util::stream::{self, StreamExt as _};
use latchmail_bindings::{Blob, BlobSource, ByteStream};
use wasmtime::component::{Resource, ResourceTable};

use super::Recording;
use super::charge::Charge;

/// A recorded blob.
#[derive(Clone, Debug)]
pub(in crate::api) enum StoredBlob {
    /// A blob with its bytes.
    InMemory(Bytes),
    /// A blob of this size.
    FromSource(u64, Arc<BlobTape>),
}

impl StoredBlob {
    /// Records the blob of a handle that a host function returns. Replaces the source of the blob
    /// with one that records the bytes that are read. Returns `None` if the recording is too large.
    pub(super) fn record(
        handle: &Resource<Blob>,
        recording: &mut Recording,
        table: &mut ResourceTable,
    ) -> Option<Self> {
        let blob = table.get_mut(handle).ok()?;
        if let Some(bytes) = blob.in_memory() {
            let bytes = bytes.clone();
            return recording
                .charge
                .take(bytes.len())
                .then_some(Self::InMemory(bytes));
        }
        let (source, start) = blob.source()?;
        let size = blob.size();
        let tape = Arc::new(BlobTape::new(Arc::clone(&recording.charge)));
        let source = RecordingSource {
            source: Arc::clone(source),
            start,
            size,
            tape: Arc::clone(&tape),
        };
        *blob = Blob::from_source(size, Arc::new(source));
        recording.blobs.push(Arc::clone(&tape));
        Some(Self::FromSource(size, tape))
    }

    /// Returns a blob for a replay.
    pub(super) fn to_blob(&self) -> Blob {
        match self {
            Self::InMemory(bytes) => Blob::new(bytes.clone()),
            Self::FromSource(size, tape) => {
                Blob::from_source(*size, Arc::clone(tape) as Arc<dyn BlobSource>)
            }
        }
    }
}

/// The source of a blob during the recording.
struct RecordingSource {
    source: Arc<dyn BlobSource>,
    /// The position of the blob in the source, in bytes. `None` if the blob contains the complete
    /// source.
    start: Option<u64>,
    /// The size of the blob, in bytes.
    size: u64,
    tape: Arc<BlobTape>,
}

impl BlobSource for RecordingSource {
    fn open(&self) -> ByteStream {
        self.open_range(0, self.size)
    }

    fn open_range(&self, start: u64, length: u64) -> ByteStream {
        let stream = match self.start {
            None if start == 0 && length == self.size => self.source.open(),
            first => self.source.open_range(first.unwrap_or(0) + start, length),
        };
        let tape = Arc::clone(&self.tape);
        let recorded = stream.scan(start, move |position, chunk| {
            if let Ok(bytes) = &chunk {
                tape.record(*position, bytes);
                *position += bytes.len() as u64;
            }
            std::future::ready(Some(chunk))
        });
        recorded.boxed()
    }
}

/// The recorded bytes of a blob. As a source, it has only these bytes.
pub(in crate::api) struct BlobTape {
    state: Mutex<BlobState>,
    charge: Arc<Charge>,
}

#[derive(Default)]
struct BlobState {
    /// The recorded chunks with their positions.
    chunks: Vec<(u64, Bytes)>,
    /// Whether the guest has finished. The host then reads the body of the response.
    is_finished: bool,
}

impl BlobTape {
    fn new(charge: Arc<Charge>) -> Self {
        Self {
            state: Mutex::default(),
            charge,
        }
    }

    fn state(&self) -> MutexGuard<'_, BlobState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn record(&self, position: u64, bytes: &Bytes) {
        let mut state = self.state();
        if !state.is_finished && self.charge.take(bytes.len()) {
            state.chunks.push((position, bytes.clone()));
        }
    }

    /// Ends the recording of bytes.
    pub(super) fn finish(&self) {
        self.state().is_finished = true;
    }
}

impl fmt::Debug for BlobTape {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("BlobTape").finish_non_exhaustive()
    }
}

impl BlobSource for BlobTape {
    fn open(&self) -> ByteStream {
        self.open_range(0, u64::MAX)
    }

    /// Returns the recorded bytes. The stream fails at the first byte that was not recorded.
    fn open_range(&self, start: u64, length: u64) -> ByteStream {
        let chunks = self.state().chunks.clone();
        let state = (chunks, start, length);
        stream::try_unfold(state, async |(chunks, position, left)| {
            if left == 0 {
                return Ok(None);
            }
            let found = chunks.iter().find_map(|(at, bytes)| {
                let skipped = usize::try_from(position.checked_sub(*at)?).ok()?;
                (skipped < bytes.len()).then(|| bytes.slice(skipped..))
            });
            let Some(mut bytes) = found else {
                return Err(io::Error::from(io::ErrorKind::UnexpectedEof));
            };
            bytes.truncate(usize::try_from(left).unwrap_or(usize::MAX));
            let length = bytes.len() as u64;
            Ok(Some((bytes, (chunks, position + length, left - length))))
        })
        .boxed()
    }
}
