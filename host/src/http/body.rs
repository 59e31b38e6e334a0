//! A request's body, read within bounds: bytes, time between two pieces, time for the whole, and memory for all bodies together.
//!
//! What is refused is not read to its end here: the answer goes out at once, and the connection reads the rest away afterwards
//! ([`super::connection`]), so that a client that is still writing sees it.

use std::sync::Arc;
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use http::{HeaderMap, StatusCode, header};
use http_body_util::BodyExt as _;
use hyper::body::Body;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::{Instant, timeout_at};

use super::fields::Fields;
use super::module;
use crate::error::Failure;

/// A body that nobody wants is read away before the answer where it is no longer than this, so that the connection can go on.
const SMALL: u64 = 64 * 1024;
/// How long that may take.
const SMALL_PATIENCE: Duration = Duration::from_secs(1);
/// The whole body may take this many times as long as one piece.
const PIECES: u32 = 10;
/// The unit of the budget: small bodies cost next to nothing.
const KIB: usize = 1024;

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

/// How much of bodies may be in memory at a time, over all requests: a route's own bound alone would let its callers, together, ask
/// for as much as they like.
#[derive(Clone, Debug)]
pub struct Budget(Arc<Semaphore>);

impl Budget {
    /// A budget of so many KiB.
    #[must_use]
    pub fn new(kibibytes: usize) -> Self {
        Self(Arc::new(Semaphore::new(
            kibibytes.min(Semaphore::MAX_PERMITS),
        )))
    }

    fn take(&self, kibibytes: usize) -> Result<OwnedSemaphorePermit, Failure> {
        u32::try_from(kibibytes)
            .ok()
            .and_then(|kibibytes| Arc::clone(&self.0).try_acquire_many_owned(kibibytes).ok())
            .ok_or_else(|| module::busy("The service is busy, please try again in a moment"))
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

/// Bytes of a body and its part of the budget, which ends with the last of them.
struct Held {
    bytes: Bytes,
    _share: Arc<OwnedSemaphorePermit>,
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

    fn made(self, share: OwnedSemaphorePermit) -> Taken {
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

/// Reads a body of at most `cap` bytes, with at most `patience` between two pieces of it, and sets the fields at `pointers` aside. What is in memory
/// of it counts towards `budget` as it comes, so that who announces much and sends nothing takes nothing, and until the last of it is dropped.
///
/// # Errors
/// 413 where it is larger (at once where it says so itself), 408 where it does not come in time, 400 where it breaks off or a field is not
/// what it has to be, 503 where the budget is spent (at once where it says how long it is).
pub async fn read<B>(
    intake: &mut Intake<B>,
    cap: usize,
    pointers: &[String],
    patience: Duration,
    budget: &Budget,
) -> Result<Taken, Failure>
where
    B: Body<Data = Bytes> + Unpin,
{
    let announced = intake.body.size_hint().lower();
    let announced = usize::try_from(announced)
        .ok()
        .filter(|announced| *announced <= cap)
        .ok_or_else(|| too_large(cap))?;
    drop(budget.take(announced.div_ceil(KIB))?);
    let mut share = budget.take(0)?;
    let whole = Instant::now() + patience.saturating_mul(PIECES);
    let mut making = Making::of(pointers);
    let mut length = 0;
    loop {
        let piece = timeout_at(whole.min(Instant::now() + patience), intake.piece())
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
        if length > cap {
            return Err(too_large(cap));
        }
        let held = making.held() + data.len();
        share.merge(budget.take(held.div_ceil(KIB).saturating_sub(share.num_permits()))?);
        making.take(data, announced)?;
    }
    Ok(making.made(share))
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

    use futures_util::{FutureExt as _, stream};
    use http_body_util::{Full, StreamBody};
    use hyper::body::Frame;

    use super::*;

    const PATIENCE: Duration = Duration::from_secs(10);

    fn plenty() -> Budget {
        Budget::new(1024)
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
            read(&mut body, 5, &[], PATIENCE, &plenty())
                .await
                .unwrap()
                .bytes,
            "abcde"
        );
        let mut none = pieces(&[]);
        assert_eq!(
            read(&mut none, 0, &[], PATIENCE, &plenty())
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
            read(&mut declared, 5, &[], PATIENCE, &plenty())
                .await
                .unwrap_err()
                .status,
            413
        );
        let mut counted = pieces(&["abc", "def"]);
        assert_eq!(
            read(&mut counted, 5, &[], PATIENCE, &plenty())
                .await
                .unwrap_err()
                .status,
            413
        );
    }

    #[tokio::test]
    async fn bodies_share_a_budget_for_as_long_as_somebody_has_them() {
        const LARGE: &[u8] = &[b'x'; 3000];
        let budget = Budget::new(4);
        let ask = async |intake: &mut Intake<Full<Bytes>>| {
            read(intake, 10_000, &[], PATIENCE, &budget).await
        };
        let large = || Intake::new(Full::new(Bytes::from_static(LARGE)));
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
        let mut growing = pieces(vec!["a", &*"x".repeat(3000).leak()].leak());
        let refused = read(&mut growing, 10_000, &[], PATIENCE, &budget).await;
        assert_eq!(refused.unwrap_err().status, 503);
        let small = Intake::new(Full::new(Bytes::from_static(b"small")));
        assert!(ask(&mut { small }).await.is_ok());
        drop(part);
        assert!(ask(&mut large()).await.is_ok());
        assert_eq!(budget.0.available_permits(), 4);
    }

    #[tokio::test]
    async fn an_announcement_takes_nothing() {
        let budget = Budget::new(4);
        let stuck = stream::pending::<Result<Frame<Bytes>, Infallible>>();
        let mut stuck = Intake::new(Box::pin(StreamBody::new(stuck)));
        let mut reading = Box::pin(read(&mut stuck, 4096, &[], PATIENCE, &budget));
        assert!((&mut reading).now_or_never().is_none(), "it waits");
        assert_eq!(budget.0.available_permits(), 4);
    }

    #[tokio::test]
    async fn a_body_that_stops_coming_is_not_waited_for() {
        let pending = stream::pending::<Result<Frame<Bytes>, Infallible>>();
        let mut stuck = Intake::new(StreamBody::new(pending));
        let before = Instant::now();
        let patience = Duration::from_millis(20);
        assert_eq!(
            read(&mut stuck, 5, &[], patience, &plenty())
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
        let refused = read(&mut slow, 100_000, &[], patience, &plenty())
            .await
            .unwrap_err();
        assert_eq!(refused.status, 408);
        assert!(before.elapsed() >= patience * PIECES);
    }
}
