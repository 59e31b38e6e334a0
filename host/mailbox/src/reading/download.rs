//! Streams the bytes of an attachment or of a stored message. Reads chunks from the mail server and
//! passes the decoded bytes to the client. The memory use does not depend on the size.
//!
//! If the client of a download is slower than the mail server, the download releases its connection
//! to the mail server while the download waits for the client. If the client is very slow, the
//! download also discards the bytes that the client has not taken, and releases their memory. When
//! the client continues, the download reads these bytes again. Therefore slow clients do not use up
//! the memory that all accounts share.

mod buffer;

use std::ops::Range;
use std::sync::{Arc, Mutex, PoisonError};
use std::{fmt, mem};

use bytes::Bytes;
use futures_util::FutureExt as _;
use futures_util::stream::{self, BoxStream, StreamExt as _, TryStreamExt as _};
use latchmail_core::traces::in_request;
use latchmail_directory::message_index::Location;
use latchmail_imap::{Connector, end_stream, next_piece};
use latchmail_mime::{Decoder, Encoding, Section};
use tokio::sync::OwnedSemaphorePermit;
use tokio::time::timeout;

use super::Reader as MessageReader;
use crate::access::Access;
use crate::bounds;
use crate::connections::pool::Lease;
use crate::connections::retry::retry_read;
use crate::error::Error;
use crate::numbers::locations::message_ref;
use buffer::{PIECE, Receiver, Sender, State, buffer};

/// An attachment whose decoded bytes can be read.
pub struct Download {
    source: Source,
    /// The first chunk and the reader of the other chunks. The first chunk was read to check that
    /// the attachment exists. `None` after the first call of [`Download::open`].
    started: Mutex<Option<Started>>,
}

impl fmt::Debug for Download {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Download")
            .field("section", &self.source.section)
            .finish_non_exhaustive()
    }
}

/// An attachment whose first chunk has been read.
struct Started {
    /// The encoded bytes of the first chunk.
    first: Bytes,
    reader: Reader,
}

/// The location of an attachment, and the access to the mailbox.
#[derive(Clone)]
struct Source {
    reader: Arc<MessageReader>,
    access: Access,
    location: Arc<Location>,
    section: Section,
}

/// A reader of the encoded bytes of an attachment from `position` to the end.
struct Reader {
    source: Source,
    position: usize,
    connection: Connection,
    /// `true` if the client was slower than the mail server.
    is_client_slow: bool,
    /// The permit that limits the concurrent downloads of the account. `None` if the attachment has
    /// only one chunk.
    _download: Option<OwnedSemaphorePermit>,
    /// The permit for the memory of the chunks that the client has not taken. `None` if the
    /// attachment has only one chunk.
    memory: Option<OwnedSemaphorePermit>,
}

/// The connection for the next bytes.
#[derive(Default)]
enum Connection {
    /// No connection is leased.
    #[default]
    None,
    /// A leased connection that has the folder open.
    FolderOpen(Lease<Connector>),
    /// A leased connection on which the mail server is sending the bytes.
    Streaming(Lease<Connector>),
}

impl Download {
    /// Reads the first chunk of an attachment. Returns `None` if the message no longer exists.
    pub(crate) async fn start(
        reader: Arc<MessageReader>,
        access: &Access,
        location: Arc<Location>,
        section: Section,
    ) -> Result<Option<Self>, Error> {
        let source = Source {
            reader,
            access: access.clone(),
            location,
            section,
        };
        let Some(started) = source.start().await? else {
            return Ok(None);
        };
        Ok(Some(Self {
            source,
            started: Mutex::new(Some(started)),
        }))
    }

    /// Creates a download whose first chunk has been read. `first` begins at the start of
    /// `section`. `lease` has the folder of the message open, and reads the other chunks.
    pub(crate) async fn with_first(
        reader: Arc<MessageReader>,
        access: &Access,
        location: Arc<Location>,
        section: Section,
        first: Bytes,
        lease: Lease<Connector>,
    ) -> Result<Self, Error> {
        let source = Source {
            reader,
            access: access.clone(),
            location,
            section,
        };
        let reader = source.reader_at_start().now_or_never();
        let (mut reader, connection) = if let Some(reader) = reader {
            (reader?, Connection::FolderOpen(lease))
        } else {
            // The downloads that have the permits need connections, so the connection must be
            // released before the wait for a permit.
            drop(lease);
            (source.reader_at_start().await?, Connection::None)
        };
        reader.position += first.len();
        if !reader.is_done() {
            reader.connection = connection;
        }
        Ok(Self {
            source,
            started: Mutex::new(Some(Started { first, reader })),
        })
    }

    /// Requests the bytes after the first chunk, so that the mail server sends them while the
    /// response begins. The connection closes if the bytes are not read. Returns `false` if the
    /// message no longer exists.
    ///
    /// # Errors
    /// Returns an [`Error`] if the operation fails.
    pub(crate) async fn request_rest(&mut self) -> Result<bool, Error> {
        let started = self.started.get_mut();
        match started.unwrap_or_else(PoisonError::into_inner) {
            Some(started) => started.reader.request_rest().await,
            None => Ok(true),
        }
    }

    /// Returns a part of the bytes as a stream. Returns `None` if the content is encoded, so that a
    /// part cannot be read alone. `range` must be within the content.
    #[must_use]
    pub fn open_range(
        &self,
        range: Range<usize>,
    ) -> Option<BoxStream<'static, Result<Bytes, Error>>> {
        if self.source.section.encoding != Encoding::Identity {
            return None;
        }
        // Release the permits of the first chunk, because the range is another download.
        let started = || self.started.lock().unwrap_or_else(PoisonError::into_inner);
        drop(started().take());
        let mut source = self.source.clone();
        let start = source.section.range.start;
        source.section.range = start + range.start..start + range.end;
        let part = Self {
            source,
            started: Mutex::new(None),
        };
        Some(part.open())
    }

    /// Returns the decoded attachment if the attachment has only one chunk. Otherwise returns
    /// `None`.
    #[must_use]
    pub fn whole(&self) -> Option<Bytes> {
        let started = self.started.lock().unwrap_or_else(PoisonError::into_inner);
        let started = started.as_ref()?;
        let mut decoder = Decoder::new(self.source.section.encoding);
        let is_whole = started.reader.is_done();
        is_whole.then(|| decoder.decode(&started.first, true).into())
    }

    /// Returns the decoded bytes of the attachment as a stream. The stream has exactly
    /// [`crate::Attachment::size`] bytes, or ends with an error. The caller must be in a tokio
    /// runtime.
    #[must_use]
    pub fn open(&self) -> BoxStream<'static, Result<Bytes, Error>> {
        let started = self
            .started
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .take();
        if let Some(started) = started {
            // The reader must run before the first read of the stream. Otherwise a client that
            // reads nothing, for example with an HTTP/2 window of 0 bytes, would keep the
            // connection and the memory.
            return started.decoded();
        }
        let source = self.source.clone();
        stream::once(async move {
            let started = source.start().await?.ok_or_else(message_deleted)?;
            Ok::<_, Error>(started.decoded())
        })
        .try_flatten()
        .boxed()
    }
}

impl Source {
    /// Acquires the permits and reads the first chunk. Returns `None` if the message no longer
    /// exists.
    async fn start(&self) -> Result<Option<Started>, Error> {
        let mut reader = self.reader_at_start().await?;
        let Some(first) = reader.next().await? else {
            return Ok(None);
        };
        if reader.is_done() {
            reader.end_stream().await;
        }
        Ok(Some(Started { first, reader }))
    }

    /// Acquires the permit for the download. Returns a reader that has read nothing.
    async fn reader_at_start(&self) -> Result<Reader, Error> {
        let download = if self.needs_permits() {
            Some(self.reader.acquire_download(self.access.caller()).await?)
        } else {
            None
        };
        Ok(Reader {
            position: self.section.range.start,
            source: self.clone(),
            connection: Connection::None,
            is_client_slow: false,
            _download: download,
            memory: None,
        })
    }

    fn needs_permits(&self) -> bool {
        self.section.range.len() > bounds::DOWNLOAD_CHUNK
    }
}

impl Reader {
    fn is_done(&self) -> bool {
        self.position >= self.source.section.range.end
    }

    /// Reads the chunks that the client needs, until the client has taken all bytes or has stopped
    /// the download.
    async fn run(mut self, client: &Sender) -> Result<(), Error> {
        while self.wait_for_client(client).await && !self.is_done() {
            let chunk = self.next().await?.ok_or_else(message_deleted)?;
            client.send(Ok(chunk));
            if self.is_done() {
                self.end_stream().await;
            }
        }
        Ok(())
    }

    /// Waits for the end of the command that sent the last bytes, and returns the connection. The
    /// client has all bytes, so a failure only closes the connection.
    async fn end_stream(&mut self) {
        if let Connection::Streaming(mut lease) = mem::take(&mut self.connection)
            && let Ok(session) = lease.current_session()
            && let Err(error) = end_stream(session).await
        {
            tracing::debug!(%error, "the mail server did not end a download");
        }
    }

    /// Requests all further bytes with one command if a connection has the folder open. Otherwise
    /// does nothing. Returns `false` if the message no longer exists.
    async fn request_rest(&mut self) -> Result<bool, Error> {
        let mut lease = match mem::take(&mut self.connection) {
            Connection::FolderOpen(lease) => lease,
            other => {
                self.connection = other;
                return Ok(true);
            }
        };
        self.acquire_memory().await?;
        let rest = self.position..self.source.section.range.end;
        let uid = message_ref(&self.source.location).uid;
        let session = lease.session().await?;
        let Some(length) = session.selected_folder()?.start_stream(uid, &rest).await? else {
            return Ok(false);
        };
        check_length(length, rest.len())?;
        self.connection = Connection::Streaming(lease);
        Ok(true)
    }

    /// Acquires the memory for the next chunk. The caller must have leased a connection. Otherwise
    /// downloads would occupy memory while they wait for a connection of the account.
    async fn acquire_memory(&mut self) -> Result<(), Error> {
        if self.memory.is_none() && self.source.needs_permits() {
            let memory = self
                .source
                .reader
                .context
                .message_memory
                .acquire(bounds::DOWNLOAD_MIB);
            self.memory = Some(memory.await?);
        }
        Ok(())
    }

    /// Waits until the client needs the next chunk. After the last chunk, waits until the client
    /// has taken all bytes. Returns `false` if the client has stopped the download.
    async fn wait_for_client(&mut self, client: &Sender) -> bool {
        loop {
            let (is_done, is_slow) = (self.is_done(), self.is_client_slow);
            let is_ready = |state: &State| match (is_done, is_slow) {
                (true, _) => state.length == 0,
                (false, true) => state.length <= PIECE,
                (false, false) => state.length <= bounds::DOWNLOAD_CHUNK,
            };
            if let Ok(is_open) = timeout(bounds::SLOW_CLIENT, client.wait(is_ready)).await {
                if is_slow {
                    // Release the memory, so that other requests that wait for memory come before a
                    // slow client.
                    self.memory = None;
                }
                return is_open;
            }
            self.connection = Connection::None;
            self.is_client_slow = true;
            let taken = client.taken();
            let is_progress = |state: &State| state.taken != taken || is_ready(state);
            let progress = timeout(bounds::VERY_SLOW_CLIENT, client.wait(is_progress));
            if progress.await.is_err() {
                self.position -= client.take_back();
                self.memory = None;
                if !client.wait(|state| state.is_awaited).await {
                    return false;
                }
            }
        }
    }

    /// Returns the next bytes. Returns `None` if the message no longer exists.
    ///
    /// Requests the rest of the attachment with one command, because the mail server parses the
    /// complete message for every command. For a slow client, requests single chunks, so that other
    /// requests can use the connection between two chunks.
    async fn next(&mut self) -> Result<Option<Bytes>, Error> {
        let end = self.source.section.range.end;
        let chunk = self.position..end.min(self.position + bounds::DOWNLOAD_CHUNK);
        let location = Arc::clone(&self.source.location);
        let message = message_ref(&location);
        if !self.is_client_slow && chunk.end != end && !self.request_rest().await? {
            return Ok(None);
        }
        let (bytes, connection) = match mem::take(&mut self.connection) {
            Connection::None => {
                let access = &self.source.access;
                let pool = &self.source.reader.context.connections;
                let mut lease = pool.lease(access, Some(message.path)).await?;
                self.acquire_memory().await?;
                let rest = self.position..end;
                let stream_length = if self.is_client_slow || chunk.end == end {
                    None
                } else {
                    retry_read!(lease, session => session.start_stream_at(message, &rest))
                };
                if let Some(length) = stream_length {
                    check_length(length, rest.len())?;
                    let (bytes, _) = next_piece(lease.current_session()?).await?;
                    (bytes, Connection::Streaming(lease))
                } else {
                    // Request at least one byte, because IMAP has no empty range. The request also
                    // checks that the message of an empty attachment exists.
                    let range = chunk.start..chunk.end.max(chunk.start + 1);
                    let bytes =
                        retry_read!(lease, session => session.read_range_at(message, &range));
                    let Some(mut bytes) = bytes else {
                        return Ok(None);
                    };
                    bytes.truncate(chunk.len());
                    check_length(bytes.len(), chunk.len())?;
                    (bytes, Connection::FolderOpen(lease))
                }
            }
            Connection::FolderOpen(mut lease) => {
                self.acquire_memory().await?;
                let session = lease.session().await?;
                let Some(bytes) = session
                    .selected_folder()?
                    .read_range(message.uid, &chunk)
                    .await?
                else {
                    return Ok(None);
                };
                check_length(bytes.len(), chunk.len())?;
                (bytes, Connection::FolderOpen(lease))
            }
            Connection::Streaming(mut lease) => {
                let (bytes, _) = next_piece(lease.current_session()?).await?;
                (bytes, Connection::Streaming(lease))
            }
        };
        self.position += bytes.len();
        if !self.is_done() || matches!(connection, Connection::Streaming(_)) {
            self.connection = connection;
        }
        Ok(Some(bytes))
    }
}

/// Returns an error if the mail server sends a different number of bytes than expected.
fn check_length(length: usize, expected: usize) -> Result<(), Error> {
    if length == expected {
        Ok(())
    } else {
        Err(Error::Internal(format!(
            "the mail server returned {length} bytes of an attachment instead of {expected}"
        )))
    }
}

impl Started {
    /// Returns the decoded bytes.
    fn decoded(self) -> BoxStream<'static, Result<Bytes, Error>> {
        let Self { first, reader } = self;
        let section = &reader.source.section;
        let is_encoded = section.encoding != Encoding::Identity;
        let (mut decoder, mut remaining) = (Decoder::new(section.encoding), section.range.len());
        let (client, chunks) = buffer();
        client.send(Ok(first));
        let read = async move {
            if let Err(error) = reader.run(&client).await {
                client.send(Err(error));
            }
        };
        tokio::spawn(in_request(read));
        stream::unfold(chunks, async |chunks: Receiver| {
            Some((chunks.next().await?, chunks))
        })
        .map_ok(move |chunk| {
            if !is_encoded {
                // Passing on the bytes takes less time than copying them.
                return chunk;
            }
            remaining = remaining.saturating_sub(chunk.len());
            Bytes::from(decoder.decode(&chunk, remaining == 0))
        })
        .boxed()
    }
}

fn message_deleted() -> Error {
    Error::Internal("a message was deleted while its attachment was read".into())
}
