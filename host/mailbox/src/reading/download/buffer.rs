//! A buffer for the encoded bytes of a download. The reader adds bytes, and the client takes bytes.
//! The reader can remove the bytes that the client has not taken.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use bytes::Bytes;
use tokio::sync::Notify;

use crate::error::Error;

/// Maximum number of bytes that the client takes at once.
pub(super) const PIECE: usize = 64 * 1024;

#[derive(Default)]
struct Shared {
    state: Mutex<State>,
    /// Notifies the reader that the client has taken bytes or waits for bytes.
    taken: Notify,
    /// Notifies the client that the reader has added bytes or an error.
    added: Notify,
}

#[derive(Default)]
pub(super) struct State {
    chunks: VecDeque<Bytes>,
    /// The number of bytes in `chunks`.
    pub(super) length: usize,
    /// The number of pieces that the client has taken.
    pub(super) taken: usize,
    /// `true` if the client waits for bytes.
    pub(super) is_awaited: bool,
    error: Option<Error>,
    /// `true` if the [`Sender`] or the [`Receiver`] was dropped.
    closed: bool,
}

/// The reader's side of the buffer. Dropping the sender ends the download after the client has
/// taken the bytes in the buffer.
pub(super) struct Sender(Arc<Shared>);

/// The client's side of the buffer. Dropping the receiver stops the reader.
pub(super) struct Receiver(Arc<Shared>);

/// Creates an empty buffer.
pub(super) fn buffer() -> (Sender, Receiver) {
    let shared = Arc::<Shared>::default();
    (Sender(Arc::clone(&shared)), Receiver(shared))
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, State> {
        // The lock is never poisoned, because no code panics while it holds the lock.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn close(&self) {
        self.lock().closed = true;
        self.taken.notify_one();
        self.added.notify_one();
    }
}

impl Sender {
    /// Adds bytes, or the error that ends the download.
    pub(super) fn send(&self, chunk: Result<Bytes, Error>) {
        let mut state = self.0.lock();
        match chunk {
            Ok(chunk) => {
                state.length += chunk.len();
                state.chunks.push_back(chunk);
            }
            Err(error) => state.error = Some(error),
        }
        drop(state);
        self.0.added.notify_one();
    }

    /// Waits until the state satisfies `is_ready`. Returns `false` if the [`Receiver`] was dropped.
    pub(super) async fn wait(&self, is_ready: impl Fn(&State) -> bool) -> bool {
        loop {
            {
                let state = self.0.lock();
                if state.closed {
                    return false;
                }
                if is_ready(&state) {
                    return true;
                }
            }
            self.0.taken.notified().await;
        }
    }

    /// Returns the number of pieces that the client has taken.
    pub(super) fn taken(&self) -> usize {
        self.0.lock().taken
    }

    /// Removes all bytes from the buffer. Returns the count of removed bytes.
    pub(super) fn take_back(&self) -> usize {
        let mut state = self.0.lock();
        state.chunks = VecDeque::new();
        std::mem::take(&mut state.length)
    }
}

impl Receiver {
    /// Takes the next bytes. Returns `None` after the last bytes.
    pub(super) async fn next(&self) -> Option<Result<Bytes, Error>> {
        loop {
            {
                let mut state = self.0.lock();
                let piece = state.chunks.front_mut().map(|chunk| {
                    let length = chunk.len().min(PIECE);
                    (chunk.split_to(length), chunk.is_empty())
                });
                state.is_awaited = piece.is_none();
                if let Some((piece, is_last)) = piece {
                    if is_last {
                        state.chunks.pop_front();
                    }
                    state.length -= piece.len();
                    state.taken += 1;
                    drop(state);
                    self.0.taken.notify_one();
                    return Some(Ok(piece));
                }
                if let Some(error) = state.error.take() {
                    return Some(Err(error));
                }
                if state.closed {
                    return None;
                }
            }
            self.0.taken.notify_one();
            self.0.added.notified().await;
        }
    }
}

impl Drop for Sender {
    fn drop(&mut self) {
        self.0.close();
    }
}

impl Drop for Receiver {
    fn drop(&mut self) {
        self.0.close();
    }
}
