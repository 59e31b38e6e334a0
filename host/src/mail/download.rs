//! An attachment's bytes: read piece by piece from the mail server, decoded on the way, and gone when they are handed on, so that an attachment of
//! any size takes the same memory.
//!
//! A connection to the mail server is held while its client keeps up with it, and no longer.

use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};

use bytes::Bytes;
use futures_util::stream::{self, BoxStream, StreamExt as _, TryStreamExt as _};
use tokio::sync::{OwnedSemaphorePermit, mpsc};
use tokio::time::timeout;
use tracing::Instrument as _;

use super::index::Place;
use super::mime::{Decoder, Section};
use super::pool::Lease;
use super::{Access, Error, Mail, bounds, imap, reading};

/// The decoded bytes of an attachment.
pub struct Download {
    source: Source,
    /// Its first bytes, which were read to see that it is there, and what reads the others. Whoever asks first has them.
    begun: Mutex<Option<(Bytes, Reader)>>,
}

impl fmt::Debug for Download {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Download")
            .field("section", &self.source.section)
            .finish_non_exhaustive()
    }
}

/// What it takes to read an attachment.
#[derive(Clone)]
struct Source {
    mail: Arc<Mail>,
    access: Access,
    place: Place,
    section: Section,
}

/// Reads an attachment from where it is to its end.
struct Reader {
    source: Source,
    decoder: Decoder,
    at: usize,
    /// A connection that has its folder open.
    lease: Option<Lease>,
    _share: Option<Share>,
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
        place: Place,
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
        let (first, reader) = begun.as_ref()?;
        reader.is_done().then(|| first.clone())
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
            let (first, reader) = match begun {
                Some(begun) => begun,
                None => source.begin().await?.ok_or_else(gone)?,
            };
            Ok::<_, Error>(stream::once(async { Ok(first) }).chain(reader.pieces()))
        })
        .try_flatten()
        .boxed()
    }
}

impl Source {
    async fn begin(&self) -> Result<Option<(Bytes, Reader)>, Error> {
        let share = if self.section.range.len() > bounds::PIECE {
            let pool = &self.mail.pool;
            Some(Share {
                _of_account: pool.download(&self.access.account).await?,
                _of_memory: self.mail.room_for(bounds::DOWNLOAD_MIB).await?,
            })
        } else {
            None
        };
        let mut reader = Reader {
            decoder: Decoder::new(self.section.encoding),
            at: self.section.range.start,
            source: self.clone(),
            lease: None,
            _share: share,
        };
        let first = reader.next().await?;
        Ok(first.map(|first| (first, reader)))
    }
}

impl Reader {
    fn is_done(&self) -> bool {
        self.at >= self.source.section.range.end
    }

    /// The next piece, decoded. None where the message is not there.
    async fn next(&mut self) -> Result<Option<Bytes>, Error> {
        let end = self.source.section.range.end;
        let range = self.at..end.min(self.at + bounds::PIECE);
        // No length is none of the protocol's: that the message is there has to be seen of an empty attachment too.
        let asked = if range.is_empty() {
            0..1
        } else {
            range.clone()
        };
        let spot = self.source.place.spot();
        let piece = if let Some(lease) = &mut self.lease {
            lease.session().await?.piece(spot.uid, &asked).await?
        } else {
            let access = &self.source.access;
            let mut lease = self
                .source
                .mail
                .pool
                .lease(&access.account, &access.credential, Some(spot.path))
                .await?;
            let piece = reading!(lease, session => session.piece_of(spot, &asked));
            self.lease = Some(lease);
            piece
        };
        let Some(piece) = piece else {
            return Ok(None);
        };
        let piece = if range.is_empty() {
            Bytes::new()
        } else {
            piece
        };
        if piece.len() != range.len() {
            return Err(Error::Internal(
                "the mail server gave fewer bytes of a message than before".into(),
            ));
        }
        self.at = range.end;
        if self.is_done() {
            self.lease = None;
        }
        let decoded = self.decoder.decode(&piece, self.is_done());
        Ok(Some(decoded.into()))
    }

    /// The pieces that are left, one read ahead.
    fn pieces(mut self) -> BoxStream<'static, Result<Bytes, Error>> {
        if self.is_done() {
            return stream::empty().boxed();
        }
        let (ahead, pieces) = mpsc::channel::<Result<Bytes, Error>>(1);
        let read = async move {
            while !self.is_done() {
                let place = if let Ok(place) = timeout(bounds::SLOW, ahead.reserve()).await {
                    place
                } else {
                    self.lease = None;
                    ahead.reserve().await
                };
                // Whoever wanted them may be gone.
                let Ok(place) = place else { return };
                let piece = self.next().await.and_then(|piece| piece.ok_or_else(gone));
                let failed = piece.is_err();
                place.send(piece);
                if failed {
                    return;
                }
            }
        };
        tokio::spawn(read.in_current_span());
        stream::unfold(pieces, async |mut pieces| {
            Some((pieces.recv().await?, pieces))
        })
        .boxed()
    }
}

fn gone() -> Error {
    Error::Internal("a message went away while an attachment of it was read".into())
}
