//! Reads request bodies within limits: size, time between two pieces, total time, and the memory that the client can use ([`super::body_memory`]).
//!
//! A rejected body is not read to its end here. The response is sent immediately. The connection discards the rest afterwards ([`super::connection`]), so that
//! a client that is still writing receives the response.

use std::sync::Arc;
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use http::{HeaderMap, StatusCode, header};
use http_body_util::BodyExt as _;
use hyper::body::Body;
use tokio::time::{Instant, timeout, timeout_at};

use super::body_memory::{LARGE, Share};
use super::fields::Fields;
use super::module;
use crate::rejection::Rejection;

/// The maximum size of an unread body that is discarded before the response, in bytes. The connection can then be reused.
const SMALL: u64 = 64 * 1024;
/// The timeout for discarding such a body.
const SMALL_PATIENCE: Duration = Duration::from_secs(1);
/// The timeout of the whole body, as a multiple of the timeout of a piece.
const PIECES: u32 = 10;
/// The minimum average speed of a body above [`LARGE`], in bytes per second.
const MIN_SPEED: u128 = 64 * 1024;

/// An incoming body. Records whether the body was read to its end, because a chunked body does not report this.
#[derive(Debug)]
pub struct Intake<B> {
    body: B,
    ended: bool,
}

impl<B: Body<Data = Bytes> + Unpin> Intake<B> {
    /// Wraps an unread body.
    pub fn new(body: B) -> Self {
        Self {
            ended: body.is_end_stream(),
            body,
        }
    }

    /// Returns `true` if nothing is left to read.
    pub(crate) fn is_empty(&self) -> bool {
        self.ended
    }

    /// Returns the next piece, or `None` at the end.
    async fn piece(&mut self) -> Option<Result<Bytes, B::Error>> {
        loop {
            let Some(frame) = self.body.frame().await else {
                self.ended = true;
                return None;
            };
            match frame.map(hyper::body::Frame::into_data) {
                Ok(Ok(data)) => return Some(Ok(data)),
                // Trailers are ignored.
                Ok(Err(_)) => {}
                Err(error) => return Some(Err(error)),
            }
        }
    }
}

/// A body that was read: the remaining JSON, and the extracted fields.
#[derive(Debug, Default)]
pub struct Taken {
    /// The body.
    pub bytes: Bytes,
    /// The extracted fields, decoded, in the order of the body.
    pub fields: Vec<Bytes>,
}

/// The bytes of a body and their share of the memory, which is released with the last reference to the bytes.
struct Held {
    bytes: Bytes,
    _share: Arc<Share>,
}

impl AsRef<[u8]> for Held {
    fn as_ref(&self) -> &[u8] {
        &self.bytes
    }
}

/// The buffer of an incoming body.
enum Making {
    /// The whole body. A body of one piece is not copied. A longer body is copied once, into a buffer whose pages the system allocates on the first write.
    Whole { only: Bytes, all: BytesMut },
    /// A body whose fields are extracted.
    Split(Box<Fields>),
}

impl Making {
    fn of(pointers: &[String]) -> Self {
        if pointers.is_empty() {
            Self::Whole {
                only: Bytes::new(),
                all: BytesMut::new(),
            }
        } else {
            Self::Split(Box::new(Fields::new(pointers)))
        }
    }

    /// Adds the next piece of a body with an announced size.
    fn take(&mut self, data: Bytes, announced: usize) -> Result<(), Rejection> {
        match self {
            Self::Whole { only, all } if only.is_empty() && all.is_empty() => *only = data,
            Self::Whole { only, all } => {
                if all.is_empty() {
                    all.reserve(announced.max(only.len() + data.len()));
                    all.extend_from_slice(&std::mem::take(only));
                }
                all.extend_from_slice(&data);
            }
            Self::Split(fields) => fields.push(&data)?,
        }
        Ok(())
    }

    /// Returns the number of bytes in memory.
    fn held(&self) -> usize {
        match self {
            Self::Whole { only, all } => only.len() + all.len(),
            Self::Split(fields) => fields.held(),
        }
    }

    fn made(self, share: Share) -> Taken {
        let (bytes, fields) = match self {
            Self::Whole { only, all } if all.is_empty() => (only, Vec::new()),
            Self::Whole { all, .. } => (all.freeze(), Vec::new()),
            Self::Split(fields) => {
                let (bytes, fields) = fields.finish();
                (bytes.into(), fields)
            }
        };
        let share = Arc::new(share);
        let held = |bytes: Bytes| {
            if bytes.is_empty() {
                return bytes;
            }
            Bytes::from_owner(Held {
                bytes,
                _share: Arc::clone(&share),
            })
        };
        Taken {
            bytes: held(bytes),
            fields: fields.into_iter().map(held).collect(),
        }
    }
}

/// Reads a body of at most `cap` bytes, with at most `patience` between two pieces, and extracts the fields at `pointers`. A body above [`LARGE`] requires a
/// permit of its account, and must arrive at [`MIN_SPEED`] on average. The bytes in memory count towards `share` from their arrival until the last of them is
/// dropped. An announced size does not count.
///
/// # Errors
/// Returns 413 if the body is too large, 408 if the body does not arrive in time, 400 if the body is incomplete or a field is invalid, and 503 if there is
/// not enough memory. If the announced size is too large or does not fit into the memory, 413 or 503 is returned before reading.
pub(crate) async fn read<B>(
    intake: &mut Intake<B>,
    cap: usize,
    pointers: &[String],
    patience: Duration,
    mut share: Share,
) -> Result<Taken, Rejection>
where
    B: Body<Data = Bytes> + Unpin,
{
    let announced = intake.body.size_hint().lower();
    let announced = usize::try_from(announced)
        .ok()
        .filter(|announced| *announced <= cap)
        .ok_or_else(|| too_large(cap))?;
    let whole = patience.saturating_mul(PIECES);
    if announced > LARGE {
        admit_large(&mut share, whole).await?;
    }
    share.check(announced)?;
    let quota = MIN_SPEED.saturating_mul(patience.as_millis()) / 1000;
    let whole = Instant::now() + whole;
    let mut pause = Instant::now() + patience;
    let mut making = Making::of(pointers);
    // The number of bytes so far, and since `pause` was set.
    let (mut length, mut recent) = (0, 0);
    loop {
        let piece = timeout_at(whole.min(pause), intake.piece())
            .await
            .map_err(|_| {
                Rejection::new(
                    StatusCode::REQUEST_TIMEOUT,
                    "The request's body did not arrive in time",
                )
            })?;
        let Some(piece) = piece else { break };
        let data =
            piece.map_err(|_| Rejection::bad_request("The request's body could not be read"))?;
        length += data.len();
        recent += data.len() as u128;
        if length > cap {
            return Err(too_large(cap));
        }
        if length > LARGE {
            admit_large(&mut share, whole.saturating_duration_since(Instant::now())).await?;
        }
        if length <= LARGE || recent >= quota {
            pause = Instant::now() + patience;
            recent = 0;
        }
        share.grow_to(making.held() + data.len())?;
        making.take(data, announced)?;
    }
    Ok(making.made(share))
}

/// Waits for the permit for a large body.
async fn admit_large(share: &mut Share, patience: Duration) -> Result<(), Rejection> {
    timeout(patience, share.admit_large()).await.map_err(|_| {
        module::busy("Too many requests with large bodies, please try again in a moment")
    })
}

/// Discards the rest of a body if the rest is small and its client does not wait for `100 Continue`. Returns `true` if nothing is left. Otherwise the
/// connection cannot be reused.
pub async fn discard<B>(intake: &mut Intake<B>, headers: &HeaderMap) -> bool
where
    B: Body<Data = Bytes> + Unpin,
{
    let size = intake.body.size_hint().exact();
    let small = size.is_some_and(|size| size <= SMALL);
    if intake.ended || !small || headers.contains_key(header::EXPECT) {
        return intake.ended;
    }
    let until = Instant::now() + SMALL_PATIENCE;
    while let Ok(Some(Ok(_))) = timeout_at(until, intake.piece()).await {}
    intake.ended
}

fn too_large(cap: usize) -> Rejection {
    Rejection::new(
        StatusCode::PAYLOAD_TOO_LARGE,
        if cap == 0 {
            "This route accepts no request body".into()
        } else {
            format!("The request's body is larger than {cap} bytes")
        },
    )
}

#[cfg(test)]
mod tests {
    use std::convert::Infallible;
    use std::net::Ipv4Addr;

    use futures_util::{FutureExt as _, stream};
    use http_body_util::{Full, StreamBody};
    use hyper::body::Frame;

    use super::super::body_memory::BodyMemory;
    use super::*;

    const PATIENCE: Duration = Duration::from_secs(10);

    /// Returns an unused share for a body of at most 16 KiB.
    fn plenty() -> Share {
        Arc::new(BodyMemory::new(1)).share(None, Ipv4Addr::LOCALHOST.into(), 16 * 1024)
    }

    fn pieces(pieces: &'static [&'static str]) -> Intake<impl Body<Data = Bytes> + Unpin> {
        Intake::new(StreamBody::new(stream::iter(pieces.iter().map(|piece| {
            Ok::<_, Infallible>(Frame::data(Bytes::from_static(piece.as_bytes())))
        }))))
    }

    #[tokio::test]
    async fn a_body_up_to_its_cap_is_read_whole() {
        let mut body = pieces(&["ab", "", "cd", "e"]);
        assert_eq!(
            read(&mut body, 5, &[], PATIENCE, plenty())
                .await
                .unwrap()
                .bytes,
            "abcde"
        );
        let mut none = pieces(&[]);
        assert_eq!(
            read(&mut none, 0, &[], PATIENCE, plenty())
                .await
                .unwrap()
                .bytes,
            ""
        );
    }

    #[tokio::test]
    async fn a_larger_one_is_refused_whether_it_says_so_or_not() {
        let mut declared = Intake::new(Full::new(Bytes::from_static(b"abcdef")));
        assert_eq!(
            read(&mut declared, 5, &[], PATIENCE, plenty())
                .await
                .unwrap_err()
                .status,
            413
        );
        let mut counted = pieces(&["abc", "def"]);
        assert_eq!(
            read(&mut counted, 5, &[], PATIENCE, plenty())
                .await
                .unwrap_err()
                .status,
            413
        );
    }

    #[tokio::test]
    async fn a_body_counts_for_as_long_as_a_part_of_it_is_held() {
        const LARGE: &[u8] = &[b'x'; 700 * 1024];
        const CAP: usize = 1024 * 1024;
        let memory = Arc::new(BodyMemory::new(1));
        let share = || memory.share(None, Ipv4Addr::LOCALHOST.into(), CAP);
        let large = || Intake::new(Full::new(Bytes::from_static(LARGE)));
        let ask = async |intake: &mut Intake<Full<Bytes>>| {
            read(intake, CAP, &[], PATIENCE, share()).await
        };
        let held = ask(&mut large()).await.unwrap().bytes;
        assert_eq!(held, LARGE);
        let part = held.slice(10..20);
        drop(held);
        let mut unread = large();
        let refused = ask(&mut unread).await.unwrap_err();
        assert_eq!(
            (refused.status.as_u16(), refused.headers[0].0.as_str()),
            (503, "retry-after")
        );
        assert!(!unread.ended, "refused by what it announced");
        let mut growing = pieces(vec!["a", &*"x".repeat(700 * 1024).leak()].leak());
        let refused = read(&mut growing, CAP, &[], PATIENCE, share()).await;
        assert_eq!(refused.unwrap_err().status, 503);
        let small = Intake::new(Full::new(Bytes::from_static(b"small")));
        assert!(ask(&mut { small }).await.is_ok());
        drop(part);
        assert!(ask(&mut large()).await.is_ok());
    }

    #[tokio::test]
    async fn an_announcement_takes_nothing() {
        let memory = Arc::new(BodyMemory::new(1));
        let share = || memory.share(None, Ipv4Addr::LOCALHOST.into(), LARGE);
        let stuck = stream::pending::<Result<Frame<Bytes>, Infallible>>();
        let mut stuck = Intake::new(Box::pin(StreamBody::new(stuck)));
        let mut reading = Box::pin(read(&mut stuck, LARGE, &[], PATIENCE, share()));
        assert!((&mut reading).now_or_never().is_none(), "it waits");
        assert!(share().check(LARGE).is_ok());
    }

    #[tokio::test]
    async fn a_large_body_that_becomes_slow_is_not_waited_for() {
        const CAP: usize = 40 * 1024 * 1024;
        const PAUSE: Duration = Duration::from_millis(10);
        let patience = PAUSE * 10;
        let memory = Arc::new(BodyMemory::new(256));
        // Returns the number of pieces after the first.
        let pieces = async |bytes: usize| {
            let share = memory.share(Some("ada"), Ipv4Addr::LOCALHOST.into(), CAP);
            let mut sent = 0_u32;
            let body = stream::unfold(&mut sent, |sent| async move {
                let piece = if *sent == 0 {
                    Bytes::from(vec![b'x'; 2 * LARGE])
                } else {
                    tokio::time::sleep(PAUSE).await;
                    Bytes::from(vec![b'x'; bytes])
                };
                *sent += 1;
                Some((Ok::<_, Infallible>(Frame::data(piece)), sent))
            });
            let mut body = Intake::new(Box::pin(StreamBody::new(body)));
            let refused = read(&mut body, CAP, &[], patience, share).await;
            assert_eq!(refused.unwrap_err().status, 408);
            drop(body);
            sent - 1
        };
        assert!(pieces(1).await <= 10);
        let before = Instant::now();
        pieces(8 * 1024).await;
        assert!(before.elapsed() >= patience * PIECES);
    }

    #[tokio::test]
    async fn a_body_that_stops_coming_is_not_waited_for() {
        let pending = stream::pending::<Result<Frame<Bytes>, Infallible>>();
        let mut stuck = Intake::new(StreamBody::new(pending));
        let before = Instant::now();
        let patience = Duration::from_millis(20);
        assert_eq!(
            read(&mut stuck, 5, &[], patience, plenty())
                .await
                .unwrap_err()
                .status,
            408
        );
        assert!(before.elapsed() >= patience);
    }

    #[tokio::test]
    async fn a_body_that_trickles_is_not_waited_for_for_ever() {
        let mut slow = Intake::new(Box::pin(StreamBody::new(stream::unfold((), |()| async {
            tokio::time::sleep(Duration::from_millis(5)).await;
            let piece = Frame::data(Bytes::from_static(b"a"));
            Some((Ok::<_, Infallible>(piece), ()))
        }))));
        let before = Instant::now();
        let patience = Duration::from_millis(100);
        let refused = read(&mut slow, 100_000, &[], patience, plenty())
            .await
            .unwrap_err();
        assert_eq!(refused.status, 408);
        assert!(before.elapsed() >= patience * PIECES);
    }
}
