//! Streams the bytes of an attachment: they are read from the mail server in pieces, decoded, and dropped once they are passed on. So an attachment of any size
//! uses the same memory.
//!
//! A download holds a connection to the mail server only while its client keeps up.

use std::sync::{Arc, Mutex, PoisonError};
use std::{fmt, mem};

use bytes::Bytes;
use futures_util::stream::{self, BoxStream, StreamExt as _, TryStreamExt as _};
use latchmail_directory::message_index::Location;
use latchmail_imap::Connector;
use latchmail_mime::{Decoder, Section};
use tokio::sync::{OwnedSemaphorePermit, mpsc};
use tokio::time::timeout;
use tracing::Instrument as _;

use super::places::spot_of;
use super::pool::Lease;
use super::{Access, Error, Mail, bounds, reading};

/// An attachment whose decoded bytes can be read.
pub struct Download {
    source: Source,
    /// The first bytes and the reader of the rest. They were read to check that the attachment exists. The first call of [`Download::open`] takes them.
    begun: Mutex<Option<Begun>>,
}

impl fmt::Debug for Download {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Download")
            .field("section", &self.source.section)
            .finish_non_exhaustive()
    }
}

/// A read of an attachment that has started.
struct Begun {
    first: Bytes,
    decoder: Decoder,
    reader: Reader,
}

/// The location of an attachment and the access to it.
#[derive(Clone)]
struct Source {
    mail: Arc<Mail>,
    access: Access,
    place: Arc<Location>,
    section: Section,
}

/// Reads the encoded bytes of an attachment from `at` to the end.
struct Reader {
    source: Source,
    at: usize,
    way: Way,
    /// The client was slower than the mail server.
    slow: bool,
    _share: Option<Share>,
}

/// How the next bytes are read.
#[derive(Default)]
enum Way {
    /// On a connection that has not been leased yet.
    #[default]
    Closed,
    /// On a connection that has the folder open.
    Open(Lease<Connector>),
    /// On a connection that is already sending them.
    Streaming(Lease<Connector>),
}

/// The permits of a larger download.
struct Share {
    _of_account: OwnedSemaphorePermit,
    _of_memory: OwnedSemaphorePermit,
}

impl Download {
    /// Reads the first bytes of an attachment. Returns `None` if the message no longer exists.
    pub(crate) async fn begin(
        mail: Arc<Mail>,
        access: &Access,
        place: Arc<Location>,
        section: Section,
    ) -> Result<Option<Self>, Error> {
        let source = Source {
            mail,
            access: access.clone(),
            place,
            section,
        };
        let Some(begun) = source.begin().await? else {
            return Ok(None);
        };
        Ok(Some(Self {
            source,
            begun: Mutex::new(Some(begun)),
        }))
    }

    /// Returns all bytes if they have already been read.
    #[must_use]
    pub fn whole(&self) -> Option<Bytes> {
        let begun = self.begun.lock().unwrap_or_else(PoisonError::into_inner);
        let begun = begun.as_ref()?;
        begun.reader.is_done().then(|| begun.first.clone())
    }

    /// Returns all bytes as a stream: exactly as many as [`super::Attachment::size`], or an error.
    #[must_use]
    pub fn open(&self) -> BoxStream<'static, Result<Bytes, Error>> {
        let begun = self
            .begun
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .take();
        let source = self.source.clone();
        stream::once(async move {
            let begun = match begun {
                Some(begun) => begun,
                None => source.begin().await?.ok_or_else(gone)?,
            };
            let first = begun.first.clone();
            Ok::<_, Error>(stream::once(async { Ok(first) }).chain(begun.pieces()))
        })
        .try_flatten()
        .boxed()
    }
}

impl Source {
    async fn begin(&self) -> Result<Option<Begun>, Error> {
        let share = if self.section.range.len() > bounds::PIECE {
            Some(Share {
                _of_account: self.mail.download(self.access.caller()).await?,
                _of_memory: self.mail.room_for(bounds::DOWNLOAD_MIB).await?,
            })
        } else {
            None
        };
        let mut reader = Reader {
            at: self.section.range.start,
            source: self.clone(),
            way: Way::Closed,
            slow: false,
            _share: share,
        };
        let Some(encoded) = reader.next().await? else {
            return Ok(None);
        };
        let mut decoder = Decoder::new(self.section.encoding);
        let first = decoder.decode(&encoded, reader.is_done()).into();
        Ok(Some(Begun {
            first,
            decoder,
            reader,
        }))
    }
}

impl Reader {
    fn is_done(&self) -> bool {
        self.at >= self.source.section.range.end
    }

    /// Returns the next bytes, or `None` if the message no longer exists.
    ///
    /// The rest of the attachment is requested with one command, because the mail server parses the message from its beginning for every command. For a slow
    /// client it is requested in pieces, so that other requests do not wait for the connection.
    async fn next(&mut self) -> Result<Option<Bytes>, Error> {
        let end = self.source.section.range.end;
        let piece = self.at..end.min(self.at + bounds::PIECE);
        let spot = spot_of(&self.source.place);
        let (bytes, way) = match mem::take(&mut self.way) {
            Way::Closed => {
                let access = &self.source.access;
                let pool = &self.source.mail.pool;
                let mut lease = pool.lease(access, Some(spot.path)).await?;
                let rest = self.at..end;
                let at_once = if self.slow || piece.end == end {
                    None
                } else {
                    reading!(lease, session => session.start_stream_at(spot, &rest))
                };
                if let Some(length) = at_once {
                    whole(length == rest.len())?;
                    (lease.as_it_is()?.next_bytes().await?, Way::Streaming(lease))
                } else {
                    // IMAP has no empty range, and the message's existence must be checked for an empty attachment too.
                    let asked = piece.start..piece.end.max(piece.start + 1);
                    let bytes = reading!(lease, session => session.read_range_at(spot, &asked));
                    let Some(mut bytes) = bytes else {
                        return Ok(None);
                    };
                    bytes.truncate(piece.len());
                    whole(bytes.len() == piece.len())?;
                    (bytes, Way::Open(lease))
                }
            }
            Way::Open(mut lease) => {
                let session = lease.session().await?;
                let Some(bytes) = session.read_range(spot.uid, &piece).await? else {
                    return Ok(None);
                };
                whole(bytes.len() == piece.len())?;
                (bytes, Way::Open(lease))
            }
            Way::Streaming(mut lease) => {
                let bytes = lease.as_it_is()?.next_bytes().await?;
                (bytes, Way::Streaming(lease))
            }
        };
        self.at += bytes.len();
        if !self.is_done() {
            self.way = way;
        }
        Ok(Some(bytes))
    }
}

/// Returns an error if the mail server announced another number of bytes than before.
fn whole(is: bool) -> Result<(), Error> {
    if is {
        Ok(())
    } else {
        Err(Error::Internal(
            "the mail server returned fewer bytes of a message than before".into(),
        ))
    }
}

impl Begun {
    /// Returns the remaining pieces. Two pieces are read ahead.
    fn pieces(self) -> BoxStream<'static, Result<Bytes, Error>> {
        let Self {
            mut decoder,
            mut reader,
            ..
        } = self;
        if reader.is_done() {
            return stream::empty().boxed();
        }
        // The next pieces can arrive while one is decoded.
        let (ahead, pieces) = mpsc::channel::<Result<(Bytes, bool), Error>>(2);
        let read = async move {
            while !reader.is_done() {
                let place = if let Ok(place) = timeout(bounds::SLOW, ahead.reserve()).await {
                    place
                } else {
                    reader.way = Way::Closed;
                    reader.slow = true;
                    ahead.reserve().await
                };
                // The receiver may have been dropped.
                let Ok(place) = place else { return };
                let piece = reader.next().await.and_then(|piece| piece.ok_or_else(gone));
                let failed = piece.is_err();
                place.send(piece.map(|piece| (piece, reader.is_done())));
                if failed {
                    return;
                }
            }
        };
        tokio::spawn(read.in_current_span());
        stream::unfold(pieces, async |mut pieces| {
            Some((pieces.recv().await?, pieces))
        })
        .map_ok(move |(piece, last)| Bytes::from(decoder.decode(&piece, last)))
        .boxed()
    }
}

fn gone() -> Error {
    Error::Internal("a message was deleted while its attachment was read".into())
}
