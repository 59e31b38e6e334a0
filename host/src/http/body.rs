//! A request's body, read within bounds: bytes, time between two pieces, time for the whole, and the memory that the client can use ([`super::body_memory`]).
//!
//! What is refused is not read to its end here: the answer goes out at once, and the connection reads the rest away afterwards
//! ([`super::connection`]), so that a client that is still writing sees it.

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
use crate::error::Failure;

/// A body that nobody wants is read away before the answer where it is no longer than this, so that the connection can go on.
const SMALL: u64 = 64 * 1024;
/// How long that may take.
const SMALL_PATIENCE: Duration = Duration::from_secs(1);
/// The whole body may take this many times as long as one piece.
const PIECES: u32 = 10;
/// The minimum average speed of a body above [`LARGE`], in bytes per second.
const MIN_SPEED: u128 = 64 * 1024;

/// A body on its way in. It remembers whether it was read to its end, which a chunked one cannot tell of itself.
#[derive(Debug)]
pub struct Intake<B> {
    body: B,
    ended: bool,
}

impl<B: Body<Data = Bytes> + Unpin> Intake<B> {
    /// A body of which nothing was read.
    pub fn new(body: B) -> Self {
        Self {
            ended: body.is_end_stream(),
            body,
        }
    }

    /// Whether nothing of it is left to read.
    pub(super) fn is_empty(&self) -> bool {
        self.ended
    }

    /// The next piece; none at its end.
    async fn piece(&mut self) -> Option<Result<Bytes, B::Error>> {
        loop {
            let Some(frame) = self.body.frame().await else {
                self.ended = true;
                return None;
            };
            match frame.map(hyper::body::Frame::into_data) {
                Ok(Ok(data)) => return Some(Ok(data)),
                // Trailers: nothing here asks for them.
                Ok(Err(_)) => {}
                Err(error) => return Some(Err(error)),
            }
        }
    }
}

/// What came of a body: what is left of it, and the fields that were set aside.
#[derive(Debug, Default)]
pub struct Taken {
    /// The body.
    pub bytes: Bytes,
    /// Its fields, decoded, in their order.
    pub fields: Vec<Bytes>,
}

/// Bytes of a body and its share of the memory, which ends with the last of them.
struct Held {
    bytes: Bytes,
    _share: Arc<Share>,
}

impl AsRef<[u8]> for Held {
    fn as_ref(&self) -> &[u8] {
        &self.bytes
    }
}

/// What is made of a body as it comes.
enum Making {
    /// A body of one piece is not copied, a longer one once: into memory that is the system's until something is written there.
    Whole { only: Bytes, all: BytesMut },
    /// Its fields are set aside.
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

    /// Takes the next piece of a body that announced so many bytes.
    fn take(&mut self, data: Bytes, announced: usize) -> Result<(), Failure> {
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

    /// Bytes that are in memory.
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

/// Reads a body of at most `cap` bytes, with at most `patience` between two pieces of it, and sets the fields at `pointers` aside. Of a body above [`LARGE`]
/// at least [`MIN_SPEED`] must arrive on average, and it is read only with a permit of its account. What is in memory of the body counts towards `share` as it
/// arrives, so a client that announces much and sends nothing takes nothing, and until the last of it is dropped.
///
/// # Errors
/// 413 if it is larger (at once if it says so itself), 408 if it does not arrive in time, 400 if it breaks off or a field is not
/// what it has to be, 503 if there is no memory for it (at once if it says how long it is).
pub(super) async fn read<B>(
    intake: &mut Intake<B>,
    cap: usize,
    pointers: &[String],
    patience: Duration,
    mut share: Share,
) -> Result<Taken, Failure>
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
    // The bytes so far, and those since `pause` was set.
    let (mut length, mut recent) = (0, 0);
    loop {
        let piece = timeout_at(whole.min(pause), intake.piece())
            .await
            .map_err(|_| {
                Failure::new(
                    StatusCode::REQUEST_TIMEOUT,
                    "The request's body did not arrive in time",
                )
            })?;
        let Some(piece) = piece else { break };
        let data =
            piece.map_err(|_| Failure::bad_request("The request's body could not be read"))?;
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
async fn admit_large(share: &mut Share, patience: Duration) -> Result<(), Failure> {
    timeout(patience, share.admit_large()).await.map_err(|_| {
        module::busy("Too many requests with large bodies, please try again in a moment")
    })
}

/// Reads away what is left of a body that nobody wants, where that is little and its client is not waiting to be asked for it.
/// Answers whether all of it is gone: else the connection cannot go on.
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

fn too_large(cap: usize) -> Failure {
    Failure::new(
        StatusCode::PAYLOAD_TOO_LARGE,
        if cap == 0 {
            "This route takes no request body".into()
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

    /// A share of 16 KiB.
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
