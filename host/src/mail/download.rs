//! An attachment's bytes: read piece by piece from the mail server, decoded on the way, and gone when they are handed on, so that an attachment of
//! any size takes the same memory.
//!
//! A connection to the mail server is held while its client keeps up with it, and no longer.

use std::sync::{Arc, Mutex, PoisonError};
use std::{fmt, mem};

use bytes::Bytes;
use futures_util::stream::{self, BoxStream, StreamExt as _, TryStreamExt as _};
use tokio::sync::{OwnedSemaphorePermit, mpsc};
use tokio::time::timeout;
use tracing::Instrument as _;

use super::imap::Connector;
use super::index::Place;
use super::mime::{Decoder, Section};
use super::pool::Lease;
use super::{Access, Error, Mail, bounds, imap, reading};

/// The decoded bytes of an attachment.
pub struct Download {
    source: Source,
    /// Its first bytes, which were read to see that it is there, and what reads the others. Whoever asks first has them.
    begun: Mutex<Option<Begun>>,
}

impl fmt::Debug for Download {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Download")
            .field("section", &self.source.section)
            .finish_non_exhaustive()
    }
}

/// An attachment that is being read.
struct Begun {
    first: Bytes,
    decoder: Decoder,
    reader: Reader,
}

/// What it takes to read an attachment.
#[derive(Clone)]
struct Source {
    mail: Arc<Mail>,
    access: Access,
    place: Arc<Place>,
    section: Section,
}

/// Reads an attachment from where it is to its end, as it is encoded.
struct Reader {
    source: Source,
    at: usize,
    way: Way,
    /// Its client was slower than the mail server.
    slow: bool,
    _share: Option<Share>,
}

/// How the next bytes come.
#[derive(Default)]
enum Way {
    /// By a connection that is still to be had.
    #[default]
    Closed,
    /// By one that has the folder open.
    Open(Lease<Connector>),
    /// By one on which they are coming.
    Streaming(Lease<Connector>),
}

/// What a download takes of what all share.
struct Share {
    _of_account: OwnedSemaphorePermit,
    _of_memory: OwnedSemaphorePermit,
}

impl Download {
    /// Reads the beginning of an attachment. None where the message is gone.
    pub(super) async fn begin(
        mail: Arc<Mail>,
        access: &Access,
        place: Arc<Place>,
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

    /// All bytes, where they were read already.
    #[must_use]
    pub fn whole(&self) -> Option<Bytes> {
        let begun = self.begun.lock().unwrap_or_else(PoisonError::into_inner);
        let begun = begun.as_ref()?;
        begun.reader.is_done().then(|| begun.first.clone())
    }

    /// All bytes from the first to the last, as they come. Exactly as many as the attachment's size says, or an error.
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

    /// The next bytes. None where the message is not there.
    ///
    /// All that is left is asked for at once and taken as it comes, for at every command the mail server looks for its place from the
    /// beginning of the message. For a client that is slower it is asked for piece by piece, so that nobody waits for the connection
    /// meanwhile.
    async fn next(&mut self) -> Result<Option<Bytes>, Error> {
        let end = self.source.section.range.end;
        let piece = self.at..end.min(self.at + bounds::PIECE);
        let spot = self.source.place.spot();
        let (bytes, way) = match mem::take(&mut self.way) {
            Way::Closed => {
                let access = &self.source.access;
                let pool = &self.source.mail.pool;
                let mut lease = pool.lease(access, Some(spot.path)).await?;
                let rest = self.at..end;
                let at_once = if self.slow || piece.end == end {
                    None
                } else {
                    reading!(lease, session => session.send_for_at(spot, &rest))
                };
                if let Some(length) = at_once {
                    whole(length == rest.len())?;
                    (lease.as_it_is()?.some().await?, Way::Streaming(lease))
                } else {
                    // No length is none of the protocol's: that the message is there has to be seen of an empty attachment too.
                    let asked = piece.start..piece.end.max(piece.start + 1);
                    let bytes = reading!(lease, session => session.piece_of(spot, &asked));
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
                let Some(bytes) = session.piece(spot.uid, &piece).await? else {
                    return Ok(None);
                };
                whole(bytes.len() == piece.len())?;
                (bytes, Way::Open(lease))
            }
            Way::Streaming(mut lease) => {
                let bytes = lease.as_it_is()?.some().await?;
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

/// Whether the mail server told of as many bytes as it did before.
fn whole(is: bool) -> Result<(), Error> {
    if is {
        Ok(())
    } else {
        Err(Error::Internal(
            "the mail server gave fewer bytes of a message than before".into(),
        ))
    }
}

impl Begun {
    /// The pieces that are left, two of them read ahead.
    fn pieces(self) -> BoxStream<'static, Result<Bytes, Error>> {
        let Self {
            mut decoder,
            mut reader,
            ..
        } = self;
        if reader.is_done() {
            return stream::empty().boxed();
        }
        // While one is decoded the next can come.
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
                // Whoever wanted them may be gone.
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
    Error::Internal("a message went away while an attachment of it was read".into())
}
