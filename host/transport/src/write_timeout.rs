//! Limits the time for which a client can block a write.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use tokio::time::{Sleep, sleep};

/// The timer of the current write on a connection.
pub(crate) struct WriteTimeout {
    timeout: Duration,
    /// `None` if the write is not blocked.
    blocked: Option<Pin<Box<Sleep>>>,
}

impl WriteTimeout {
    /// Creates a timer. A client can block a write for at most `timeout`.
    pub(crate) fn new(timeout: Duration) -> Self {
        Self {
            timeout,
            blocked: None,
        }
    }

    /// Returns the result of a write, or an error if the write has been blocked for too long.
    pub(crate) fn limit<R>(
        &mut self,
        cx: &mut Context<'_>,
        poll: Poll<io::Result<R>>,
    ) -> Poll<io::Result<R>> {
        if poll.is_ready() {
            self.blocked = None;
            return poll;
        }
        let timeout = self.timeout;
        let blocked = self.blocked.get_or_insert_with(|| Box::pin(sleep(timeout)));
        ready!(blocked.as_mut().poll(cx));
        Poll::Ready(Err(io::ErrorKind::TimedOut.into()))
    }
}
