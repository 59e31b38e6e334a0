//! Streams the bytes of an attachment. Reads chunks from the mail server, decodes them and passes them to the client. The memory use does not depend on the
//! size of the attachment.
//!
//! If the client of a download is slower than the mail server, the download releases its connection to the mail server while it waits for the client.

use std::sync::{Arc, Mutex, PoisonError};
use std::{fmt, mem};

use bytes::Bytes;
use futures_util::stream::{self, BoxStream, StreamExt as _, TryStreamExt as _};
use latchmail_core::traces::in_request;
use latchmail_directory::message_index::Location;
use latchmail_imap::Connector;
use latchmail_mime::{Decoder, Section};
use tokio::sync::{OwnedSemaphorePermit, mpsc};
use tokio::time::timeout;

use crate::access::Access;
use crate::bounds;
use crate::error::Error;
use crate::locations::message_ref;
use crate::mail::Mail;
use crate::pool::Lease;
use crate::retry::retry_read;

/// An attachment whose decoded bytes can be read.
pub struct Download {
    source: Source,
    /// The first chunk and the reader of the other chunks. The first chunk was read to check that the attachment exists. `None` after the first call of
    /// [`Download::open`].
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
    first: Bytes,
    decoder: Decoder,
    reader: Reader,
}

/// The location of an attachment, and the access to the mailbox.
#[derive(Clone)]
struct Source {
    mail: Arc<Mail>,
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
    _permits: Option<Permits>,
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

/// The permits for a download of more than [`bounds::DOWNLOAD_CHUNK`] encoded bytes.
struct Permits {
    _download: OwnedSemaphorePermit,
    _memory: OwnedSemaphorePermit,
}

impl Download {
    /// Reads the first chunk of an attachment. Returns `None` if the message no longer exists.
    pub(crate) async fn start(
        mail: Arc<Mail>,
        access: &Access,
        location: Arc<Location>,
        section: Section,
    ) -> Result<Option<Self>, Error> {
        let source = Source {
            mail,
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

    /// Returns all bytes if the first chunk is the complete attachment.
    #[must_use]
    pub fn whole(&self) -> Option<Bytes> {
        let started = self.started.lock().unwrap_or_else(PoisonError::into_inner);
        let started = started.as_ref()?;
        started.reader.is_done().then(|| started.first.clone())
    }

    /// Returns all bytes as a stream. The stream has exactly [`crate::Attachment::size`] bytes, or ends with an error.
    #[must_use]
    pub fn open(&self) -> BoxStream<'static, Result<Bytes, Error>> {
        let started = self
            .started
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .take();
        let source = self.source.clone();
        stream::once(async move {
            let started = match started {
                Some(started) => started,
                None => source.start().await?.ok_or_else(message_deleted)?,
            };
            let first = started.first.clone();
            Ok::<_, Error>(stream::once(async { Ok(first) }).chain(started.remaining_chunks()))
        })
        .try_flatten()
        .boxed()
    }
}

impl Source {
    /// Acquires the permits and reads the first chunk. Returns `None` if the message no longer exists.
    async fn start(&self) -> Result<Option<Started>, Error> {
        let permits = if self.section.range.len() > bounds::DOWNLOAD_CHUNK {
            let (mail, account) = (&self.mail, self.access.caller());
            Some(Permits {
                _download: mail.acquire_download(account).await?,
                _memory: mail.acquire_message_memory(bounds::DOWNLOAD_MIB).await?,
            })
        } else {
            None
        };
        let mut reader = Reader {
            position: self.section.range.start,
            source: self.clone(),
            connection: Connection::None,
            is_client_slow: false,
            _permits: permits,
        };
        let Some(encoded) = reader.next().await? else {
            return Ok(None);
        };
        let mut decoder = Decoder::new(self.section.encoding);
        let first = decoder.decode(&encoded, reader.is_done()).into();
        Ok(Some(Started {
            first,
            decoder,
            reader,
        }))
    }
}

impl Reader {
    fn is_done(&self) -> bool {
        self.position >= self.source.section.range.end
    }

    /// Returns the next bytes. Returns `None` if the message no longer exists.
    ///
    /// Requests the rest of the attachment with one command, because the mail server parses the complete message for every command. For a slow client, requests
    /// single chunks. Therefore other requests do not wait for the connection.
    async fn next(&mut self) -> Result<Option<Bytes>, Error> {
        let end = self.source.section.range.end;
        let chunk = self.position..end.min(self.position + bounds::DOWNLOAD_CHUNK);
        let message = message_ref(&self.source.location);
        let (bytes, connection) = match mem::take(&mut self.connection) {
            Connection::None => {
                let access = &self.source.access;
                let pool = &self.source.mail.pool;
                let mut lease = pool.lease(access, Some(message.path)).await?;
                let rest = self.position..end;
                let stream_length = if self.is_client_slow || chunk.end == end {
                    None
                } else {
                    retry_read!(lease, session => session.start_stream_at(message, &rest))
                };
                if let Some(length) = stream_length {
                    check_length(length, rest.len())?;
                    let bytes = lease.current_session()?.next_bytes().await?;
                    (bytes, Connection::Streaming(lease))
                } else {
                    // Request at least one byte, because IMAP has no empty range. The request also checks that the message of an empty attachment exists.
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
                let session = lease.session().await?;
                let Some(bytes) = session.read_range(message.uid, &chunk).await? else {
                    return Ok(None);
                };
                check_length(bytes.len(), chunk.len())?;
                (bytes, Connection::FolderOpen(lease))
            }
            Connection::Streaming(mut lease) => {
                let bytes = lease.current_session()?.next_bytes().await?;
                (bytes, Connection::Streaming(lease))
            }
        };
        self.position += bytes.len();
        if !self.is_done() {
            self.connection = connection;
        }
        Ok(Some(bytes))
    }
}

/// Returns an error if the mail server returned a different number of bytes than it had announced.
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
    /// Returns the chunks after the first chunk. Reads up to two chunks ahead.
    fn remaining_chunks(self) -> BoxStream<'static, Result<Bytes, Error>> {
        let Self {
            mut decoder,
            mut reader,
            ..
        } = self;
        if reader.is_done() {
            return stream::empty().boxed();
        }
        // The next chunks can arrive while one chunk is decoded.
        let (sender, chunks) = mpsc::channel::<Result<(Bytes, bool), Error>>(2);
        let read = async move {
            while !reader.is_done() {
                let slot = if let Ok(slot) = timeout(bounds::SLOW_CLIENT, sender.reserve()).await {
                    slot
                } else {
                    reader.connection = Connection::None;
                    reader.is_client_slow = true;
                    sender.reserve().await
                };
                // The receiver might have been dropped.
                let Ok(slot) = slot else { return };
                let chunk = reader.next().await;
                let chunk = chunk.and_then(|chunk| chunk.ok_or_else(message_deleted));
                let failed = chunk.is_err();
                slot.send(chunk.map(|chunk| (chunk, reader.is_done())));
                if failed {
                    return;
                }
            }
        };
        tokio::spawn(in_request(read));
        stream::unfold(chunks, async |mut chunks| {
            Some((chunks.recv().await?, chunks))
        })
        .map_ok(move |(chunk, is_last)| Bytes::from(decoder.decode(&chunk, is_last)))
        .boxed()
    }
}

fn message_deleted() -> Error {
    Error::Internal("a message was deleted while its attachment was read".into())
}
