//! Reads request bodies within limits. The limits are the size, the time between two chunks, the
//! total time, and the memory that the client can use ([`crate::body_memory`]).
//!
//! If a body is rejected, the service sends the response without reading the rest of the body.
//! After the response, the connection discards the rest. Otherwise a client that is sending data
//! could lose the response.

use std::sync::Arc;
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use http::StatusCode;
use http_body_util::BodyExt as _;
use hyper::body::Body;
use latchmail_core::codes;
use tokio::time::{Instant, timeout, timeout_at};

use crate::body_memory::{self, LARGE, Reservation};
use crate::error::RequestError;
use crate::fields::Fields;

/// The maximum size of an unread body that is discarded before the response, in bytes. A connection
/// with unread data cannot be reused.
const MAX_DISCARD: u64 = 64 * 1024;
/// The timeout for discarding an unread body.
const DISCARD_TIMEOUT: Duration = Duration::from_secs(1);
/// The timeout of the whole body divided by the timeout of a chunk.
const BODY_TIMEOUT_FACTOR: u32 = 10;
/// The minimum average speed of a body above [`LARGE`], in bytes per second.
const MIN_SPEED_LARGE: u128 = 64 * 1024;
/// The minimum average speed of any other body, in bytes per second.
const MIN_SPEED: u128 = 1024;

/// An incoming body, with a flag for its end. A chunked body itself does not report its end.
#[derive(Debug)]
pub struct IncomingBody<B> {
    body: B,
    ended: bool,
}

impl<B: Body<Data = Bytes> + Unpin> IncomingBody<B> {
    /// Wraps an unread body.
    pub fn new(body: B) -> Self {
        Self {
            ended: body.is_end_stream(),
            body,
        }
    }

    /// Returns `true` if the body has been read to its end.
    pub fn is_empty(&self) -> bool {
        self.ended
    }

    /// Returns the next chunk, or `None` at the end of the body.
    async fn next_chunk(&mut self) -> Option<Result<Bytes, B::Error>> {
        loop {
            let Some(frame) = self.body.frame().await else {
                self.ended = true;
                return None;
            };
            match frame.map(hyper::body::Frame::into_data) {
                Ok(Ok(data)) => return Some(Ok(data)),
                // The frame contains trailers, which are ignored.
                Ok(Err(_)) => {}
                Err(error) => return Some(Err(error)),
            }
        }
    }
}

/// A received body, divided into the extracted fields and the remaining bytes.
#[derive(Debug, Default)]
pub struct ReceivedBody {
    /// The body, in which the index in `fields` replaces each extracted field.
    pub bytes: Bytes,
    /// The decoded extracted fields, in the order of the body.
    pub fields: Vec<Bytes>,
}

/// The bytes of a body, together with the reservation of memory. Dropping the last reference to the
/// bytes ends the reservation.
struct CountedBytes {
    bytes: Bytes,
    _reservation: Arc<Reservation>,
}

impl AsRef<[u8]> for CountedBytes {
    fn as_ref(&self) -> &[u8] {
        &self.bytes
    }
}

/// The buffer of an incoming body.
enum Buffer {
    /// A body without extracted fields. A single chunk is stored in `first`. When a second chunk
    /// arrives, all chunks are copied to `all`. The capacity of `all` is the announced size of the
    /// body. Pages of the buffer that are never written do not occupy physical memory.
    Whole { first: Bytes, all: BytesMut },
    /// A body with extracted fields.
    Split(Box<Fields>),
}

impl Buffer {
    fn new(pointers: &[String]) -> Self {
        if pointers.is_empty() {
            Self::Whole {
                first: Bytes::new(),
                all: BytesMut::new(),
            }
        } else {
            Self::Split(Box::new(Fields::new(pointers)))
        }
    }

    /// Adds the next chunk. `announced` is the size of the body according to the request's header.
    fn push(&mut self, chunk: Bytes, announced: usize) -> Result<(), RequestError> {
        match self {
            Self::Whole { first, all } if first.is_empty() && all.is_empty() => *first = chunk,
            Self::Whole { first, all } => {
                if all.is_empty() {
                    all.reserve(announced.max(first.len() + chunk.len()));
                    all.extend_from_slice(&std::mem::take(first));
                }
                all.extend_from_slice(&chunk);
            }
            Self::Split(fields) => fields.push(&chunk)?,
        }
        Ok(())
    }

    /// Returns the number of bytes in memory.
    fn len(&self) -> usize {
        match self {
            Self::Whole { first, all } => first.len() + all.len(),
            Self::Split(fields) => fields.held(),
        }
    }

    /// Returns the complete body. The reservation ends when the bytes of the body are dropped.
    fn finish(self, reservation: Reservation) -> ReceivedBody {
        let (bytes, fields) = match self {
            Self::Whole { first, all } if all.is_empty() => (first, Vec::new()),
            Self::Whole { all, .. } => (all.freeze(), Vec::new()),
            Self::Split(fields) => {
                let (bytes, fields) = fields.finish();
                (bytes.into(), fields)
            }
        };
        let reservation = Arc::new(reservation);
        let counted = |bytes: Bytes| {
            if bytes.is_empty() {
                return bytes;
            }
            Bytes::from_owner(CountedBytes {
                bytes,
                _reservation: Arc::clone(&reservation),
            })
        };
        ReceivedBody {
            bytes: counted(bytes),
            fields: fields.into_iter().map(counted).collect(),
        }
    }
}

/// Reads a body of at most `max_size` bytes, and extracts the fields at the JSON pointers in
/// `pointers`. Each chunk must arrive within `chunk_timeout`.
///
/// A body must arrive at an average speed of at least [`MIN_SPEED`]. A body above [`LARGE`] must
/// arrive at an average speed of at least [`MIN_SPEED_LARGE`], and needs a permit of its account.
/// `reservation` counts the received bytes, and not the announced size. The reservation ends when
/// all received bytes are dropped.
///
/// # Errors
/// Returns 413 if the body is too large, 408 if a timeout expires, 400 if the body is incomplete or
/// a field is invalid, and 503 if the memory is not available. If the announced size already
/// exceeds a limit, returns 413 or 503 without reading the body.
pub async fn read<B>(
    body: &mut IncomingBody<B>,
    max_size: usize,
    pointers: &[String],
    chunk_timeout: Duration,
    mut reservation: Reservation,
) -> Result<ReceivedBody, RequestError>
where
    B: Body<Data = Bytes> + Unpin,
{
    let announced = body.body.size_hint().lower();
    let announced = usize::try_from(announced)
        .ok()
        .filter(|announced| *announced <= max_size)
        .ok_or_else(|| too_large(max_size))?;
    let body_timeout = chunk_timeout.saturating_mul(BODY_TIMEOUT_FACTOR);
    if announced > LARGE {
        acquire_large_body_permit(&mut reservation, body_timeout).await?;
    }
    reservation.check(announced)?;
    // The number of bytes that must arrive within each `chunk_timeout`.
    let min_progress = |length| {
        let speed = if length > LARGE {
            MIN_SPEED_LARGE
        } else {
            MIN_SPEED
        };
        speed.saturating_mul(chunk_timeout.as_millis()) / 1000
    };
    let body_deadline = Instant::now() + body_timeout;
    let mut chunk_deadline = Instant::now() + chunk_timeout;
    let mut buffer = Buffer::new(pointers);
    // The total number of received bytes, and the number of received bytes since the last change of
    // `chunk_deadline`.
    let (mut length, mut recent) = (0, 0);
    loop {
        let chunk = timeout_at(body_deadline.min(chunk_deadline), body.next_chunk())
            .await
            .map_err(|_| {
                RequestError::new(
                    StatusCode::REQUEST_TIMEOUT,
                    codes::REQUEST_TIMEOUT,
                    "The request's body did not arrive in time",
                )
            })?;
        let Some(chunk) = chunk else { break };
        let chunk = chunk.map_err(|_| {
            RequestError::bad_request(
                codes::MALFORMED_REQUEST,
                "The request's body could not be read",
            )
        })?;
        length += chunk.len();
        recent += chunk.len() as u128;
        if length > max_size {
            return Err(too_large(max_size));
        }
        if length > LARGE {
            let remaining = body_deadline.saturating_duration_since(Instant::now());
            acquire_large_body_permit(&mut reservation, remaining).await?;
        }
        if recent >= min_progress(length) {
            chunk_deadline = Instant::now() + chunk_timeout;
            recent = 0;
        }
        reservation.grow_to(buffer.len() + chunk.len())?;
        buffer.push(chunk, announced)?;
    }
    Ok(buffer.finish(reservation))
}

/// Waits for a permit for a large body. Returns 503 after `max_wait`.
async fn acquire_large_body_permit(
    reservation: &mut Reservation,
    max_wait: Duration,
) -> Result<(), RequestError> {
    timeout(max_wait, reservation.acquire_large_body_permit())
        .await
        .map_err(|_| body_memory::too_many_large_bodies())
}

/// Discards the rest of a body if the rest is small and the client does not wait for
/// `100 Continue` (`expects_continue`). Returns `true` if the body was read to its end. If the
/// result is `false`, the connection cannot be reused.
pub async fn discard<B>(body: &mut IncomingBody<B>, expects_continue: bool) -> bool
where
    B: Body<Data = Bytes> + Unpin,
{
    let size = body.body.size_hint().exact();
    let is_small = size.is_some_and(|size| size <= MAX_DISCARD);
    if body.ended || !is_small || expects_continue {
        return body.ended;
    }
    let deadline = Instant::now() + DISCARD_TIMEOUT;
    while let Ok(Some(Ok(_))) = timeout_at(deadline, body.next_chunk()).await {}
    body.ended
}

fn too_large(max_size: usize) -> RequestError {
    let status = StatusCode::PAYLOAD_TOO_LARGE;
    if max_size == 0 {
        let text = "This route accepts no request body";
        return RequestError::new(status, codes::BODY_NOT_ALLOWED, text);
    }
    let text = format!("The request's body is larger than {max_size} bytes");
    RequestError::new(status, codes::BODY_TOO_LARGE, text)
}

#[cfg(test)]
mod tests {
    use std::convert::Infallible;
    use std::net::Ipv4Addr;

    use futures_util::{FutureExt as _, stream};
    use http_body_util::{Full, StreamBody};
    use hyper::body::Frame;

    use super::*;
    use crate::body_memory::BodyMemory;

    const TIMEOUT: Duration = Duration::from_secs(10);

    /// Returns a reservation for a body of at most 16 KiB.
    fn reservation() -> Reservation {
        Arc::new(BodyMemory::new(1)).reserve(None, Ipv4Addr::LOCALHOST.into(), 16 * 1024)
    }

    fn chunked(chunks: &'static [&'static str]) -> IncomingBody<impl Body<Data = Bytes> + Unpin> {
        IncomingBody::new(StreamBody::new(stream::iter(chunks.iter().map(|chunk| {
            Ok::<_, Infallible>(Frame::data(Bytes::from_static(chunk.as_bytes())))
        }))))
    }

    #[tokio::test]
    async fn a_body_up_to_the_maximum_size_is_read() {
        let mut body = chunked(&["ab", "", "cd", "e"]);
        assert_eq!(
            read(&mut body, 5, &[], TIMEOUT, reservation())
                .await
                .unwrap()
                .bytes,
            "abcde"
        );
        let mut none = chunked(&[]);
        assert_eq!(
            read(&mut none, 0, &[], TIMEOUT, reservation())
                .await
                .unwrap()
                .bytes,
            ""
        );
    }

    #[tokio::test]
    async fn a_body_above_the_maximum_size_is_rejected_with_and_without_an_announced_size() {
        let mut declared = IncomingBody::new(Full::new(Bytes::from_static(b"abcdef")));
        assert_eq!(
            read(&mut declared, 5, &[], TIMEOUT, reservation())
                .await
                .unwrap_err()
                .status,
            413
        );
        let mut counted = chunked(&["abc", "def"]);
        assert_eq!(
            read(&mut counted, 5, &[], TIMEOUT, reservation())
                .await
                .unwrap_err()
                .status,
            413
        );
    }

    #[tokio::test]
    async fn memory_is_reserved_until_the_last_bytes_of_a_body_are_dropped() {
        const LARGE: &[u8] = &[b'x'; 700 * 1024];
        const MAX_SIZE: usize = 1024 * 1024;
        let memory = Arc::new(BodyMemory::new(1));
        let reserve = || memory.reserve(None, Ipv4Addr::LOCALHOST.into(), MAX_SIZE);
        let large = || IncomingBody::new(Full::new(Bytes::from_static(LARGE)));
        let receive = async |body: &mut IncomingBody<Full<Bytes>>| {
            read(body, MAX_SIZE, &[], TIMEOUT, reserve()).await
        };
        let bytes = receive(&mut large()).await.unwrap().bytes;
        assert_eq!(bytes, LARGE);
        let slice = bytes.slice(10..20);
        drop(bytes);
        let mut unread = large();
        let rejected = receive(&mut unread).await.unwrap_err();
        assert_eq!(rejected.status, 503);
        assert!(!unread.ended, "rejected because of its announced size");
        let mut growing = chunked(vec!["a", &*"x".repeat(700 * 1024).leak()].leak());
        let rejected = read(&mut growing, MAX_SIZE, &[], TIMEOUT, reserve()).await;
        assert_eq!(rejected.unwrap_err().status, 503);
        let small = IncomingBody::new(Full::new(Bytes::from_static(b"small")));
        assert!(receive(&mut { small }).await.is_ok());
        drop(slice);
        assert!(receive(&mut large()).await.is_ok());
    }

    #[tokio::test]
    async fn an_announced_size_reserves_no_memory() {
        let memory = Arc::new(BodyMemory::new(1));
        let reserve = || memory.reserve(None, Ipv4Addr::LOCALHOST.into(), LARGE);
        let stuck = stream::pending::<Result<Frame<Bytes>, Infallible>>();
        let mut stuck = IncomingBody::new(Box::pin(StreamBody::new(stuck)));
        let mut reading = Box::pin(read(&mut stuck, LARGE, &[], TIMEOUT, reserve()));
        assert!(
            (&mut reading).now_or_never().is_none(),
            "the read waits for the body"
        );
        assert!(reserve().check(LARGE).is_ok());
    }

    #[tokio::test]
    async fn a_large_body_must_arrive_at_the_minimum_speed() {
        const MAX_SIZE: usize = 40 * 1024 * 1024;
        const PAUSE: Duration = Duration::from_millis(10);
        let timeout = PAUSE * 10;
        let memory = Arc::new(BodyMemory::new(256));
        // Returns the number of chunks that arrive after the first one.
        let chunks = async |bytes: usize| {
            let reservation = memory.reserve(Some("ada"), Ipv4Addr::LOCALHOST.into(), MAX_SIZE);
            let mut sent = 0_u32;
            let body = stream::unfold(&mut sent, |sent| async move {
                let chunk = if *sent == 0 {
                    Bytes::from(vec![b'x'; 2 * LARGE])
                } else {
                    tokio::time::sleep(PAUSE).await;
                    Bytes::from(vec![b'x'; bytes])
                };
                *sent += 1;
                Some((Ok::<_, Infallible>(Frame::data(chunk)), sent))
            });
            let mut body = IncomingBody::new(Box::pin(StreamBody::new(body)));
            let rejected = read(&mut body, MAX_SIZE, &[], timeout, reservation).await;
            assert_eq!(rejected.unwrap_err().status, 408);
            drop(body);
            sent - 1
        };
        assert!(chunks(1).await <= 10);
        let before = Instant::now();
        chunks(8 * 1024).await;
        assert!(before.elapsed() >= timeout * BODY_TIMEOUT_FACTOR);
    }

    #[tokio::test]
    async fn a_body_that_stops_arriving_is_rejected_after_the_timeout() {
        let pending = stream::pending::<Result<Frame<Bytes>, Infallible>>();
        let mut stuck = IncomingBody::new(StreamBody::new(pending));
        let before = Instant::now();
        let timeout = Duration::from_millis(20);
        assert_eq!(
            read(&mut stuck, 5, &[], timeout, reservation())
                .await
                .unwrap_err()
                .status,
            408
        );
        assert!(before.elapsed() >= timeout);
    }

    /// Returns a body without end. The first chunk has `first` bytes, and each further chunk has
    /// `then` bytes and arrives after a few milliseconds.
    fn endless(first: usize, then: usize) -> IncomingBody<impl Body<Data = Bytes> + Unpin> {
        let chunks = stream::unfold(first, move |size| async move {
            if size != first {
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
            let chunk = Frame::data(Bytes::from(vec![b'a'; size]));
            Some((Ok::<_, Infallible>(chunk), then))
        });
        IncomingBody::new(Box::pin(StreamBody::new(chunks)))
    }

    #[tokio::test]
    async fn a_small_body_must_arrive_at_the_minimum_speed() {
        let mut body = endless(4096, 1);
        let before = Instant::now();
        let timeout = Duration::from_millis(100);
        let rejected = read(&mut body, 100_000, &[], timeout, reservation()).await;
        assert_eq!(rejected.unwrap_err().status, 408);
        assert!(before.elapsed() < timeout * BODY_TIMEOUT_FACTOR);
    }

    #[tokio::test]
    async fn a_slow_body_is_rejected_after_the_total_timeout() {
        // Two chunks are the progress that is needed, which takes a tenth of the allowed time.
        let mut slow = endless(59, 60);
        let before = Instant::now();
        let timeout = Duration::from_millis(100);
        let rejected = read(&mut slow, 100_000, &[], timeout, reservation())
            .await
            .unwrap_err();
        assert_eq!(rejected.status, 408);
        assert!(before.elapsed() >= timeout * BODY_TIMEOUT_FACTOR);
    }
}
