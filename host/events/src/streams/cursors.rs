//! Streams of cursors: each event says only that the mailbox has changed, and contains the current
//! cursor of the change log. A module chooses the form of the events.

use std::time::Duration;

use bytes::Bytes;
use futures_util::stream::{self, StreamExt as _};
use latchmail_mailbox::{Access, Error};
use tokio::time::Instant;

use super::{ByteStream, HEARTBEAT, OpenError, StreamCaller, Streams, Woken};
use crate::limits::StreamOwner;
use crate::sse;
use crate::stream_span::StreamSpan;
use crate::watcher::retry_delay;

/// The text that is replaced by the cursor.
const PLACEHOLDER: &str = "{cursor}";

/// The form of the events.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CursorFormat {
    /// The type of the events.
    pub event_type: String,
    /// The data of the events, with a placeholder for the cursor.
    pub data: String,
    /// The interval of the events of the type `ping`. `None` sends comments instead.
    pub ping: Option<Duration>,
    /// The data of the events of the type `ping`.
    pub ping_data: String,
    /// Whether the stream ends after the first event.
    pub once: bool,
}

impl CursorFormat {
    fn event(&self, cursor: &str) -> Bytes {
        let data = self.data.replace(PLACEHOLDER, cursor);
        let kind = &self.event_type;
        format!("id: {cursor}\nevent: {kind}\ndata: {data}\n\n").into()
    }

    fn heartbeat(&self) -> Bytes {
        match self.ping {
            Some(_) => format!("event: ping\ndata: {}\n\n", self.ping_data).into(),
            None => Bytes::from_static(b": waiting\n\n"),
        }
    }

    fn interval(&self) -> Duration {
        self.ping.unwrap_or(HEARTBEAT)
    }
}

/// The state of a stream between two reads.
struct CursorStream {
    streams: Streams,
    caller: StreamCaller,
    format: CursorFormat,
    /// The last cursor that the client knows.
    cursor: String,
    /// Whether the mailbox is read before the next wait.
    must_read: bool,
    heartbeat_at: Instant,
    /// The number of consecutive failed reads.
    failures: u32,
    /// The time of the next attempt after a failed read.
    retry_at: Option<Instant>,
    has_ended: bool,
    span: StreamSpan,
}

impl Streams {
    /// Opens a stream of cursors. With a cursor in `since` that is not the current one, the stream
    /// begins with an event.
    ///
    /// # Errors
    /// Returns [`OpenError`] if the stream cannot be opened.
    pub async fn open_cursors(
        &self,
        access: Access,
        owner: &StreamOwner,
        since: Option<String>,
        format: CursorFormat,
    ) -> Result<ByteStream, OpenError> {
        let mut caller = self.caller(access, owner)?;
        let log = &self.mail.changelog;
        let current = log.message_page(&caller.access, None, 1).await?.cursor;
        // The rights can have ended since the request was authenticated.
        caller
            .check()
            .await?
            .map_err(|_| Error::CredentialRefused)?;
        let mut cursors = CursorStream {
            streams: self.clone(),
            caller,
            heartbeat_at: Instant::now() + format.interval(),
            cursor: current.clone(),
            must_read: false,
            failures: 0,
            retry_at: None,
            has_ended: false,
            span: StreamSpan::start("cursor stream"),
            format,
        };
        let mut first = vec![Bytes::from_static(b": waiting\n\n")];
        if since.is_some_and(|since| since != current) {
            first.push(cursors.event());
        }
        let rest = stream::unfold(cursors, async |mut cursors| {
            let frames = cursors.next().await?;
            Some((frames, cursors))
        });
        Ok(stream::iter(first).chain(rest).map(Ok).boxed())
    }
}

impl CursorStream {
    /// Returns the next frames. Returns `None` after the last frame.
    async fn next(&mut self) -> Option<Bytes> {
        if self.has_ended {
            return None;
        }
        loop {
            if Instant::now() >= self.heartbeat_at {
                self.heartbeat_at = Instant::now() + self.format.interval();
                return Some(self.format.heartbeat());
            }
            if !self.must_read {
                let until = self.retry_at.unwrap_or(self.heartbeat_at);
                match self.caller.wait(until.min(self.heartbeat_at)).await {
                    Woken::Ended(reason) => return Some(self.end(reason)),
                    Woken::TimedOut if Instant::now() >= self.heartbeat_at => continue,
                    Woken::Changed | Woken::TimedOut => {}
                }
            }
            self.must_read = false;
            let (access, streams) = (self.caller.access.clone(), self.streams.clone());
            let since = self.cursor.clone();
            // The memory of the read is freed before the next wait.
            let read = Box::pin(async move { streams.cursor_after(&access, &since).await });
            match self.caller.read(read).await {
                Ok(Ok(read)) => {
                    (self.failures, self.retry_at) = (0, None);
                    let is_changed = read.is_changed;
                    self.cursor = read.cursor;
                    if is_changed {
                        return Some(self.event());
                    }
                }
                Ok(Err(reason)) => return Some(self.end(reason)),
                // The stream continues when the mail server and the database respond again.
                Err(error) => {
                    tracing::debug!(%error, "a stream cannot read the change log");
                    self.retry_at = Some(Instant::now() + retry_delay(self.failures));
                    self.failures += 1;
                }
            }
        }
    }

    fn event(&mut self) -> Bytes {
        self.span.events += 1;
        self.heartbeat_at = Instant::now() + self.format.interval();
        if self.format.once {
            self.has_ended = true;
            self.span.outcome = "completed";
        }
        self.format.event(&self.cursor)
    }

    fn end(&mut self, reason: &'static str) -> Bytes {
        self.has_ended = true;
        self.span.outcome = reason;
        sse::end(reason)
    }
}

/// The current cursor.
struct ReadCursor {
    cursor: String,
    /// Whether the mailbox has changed since the earlier cursor.
    is_changed: bool,
}

impl Streams {
    /// Returns the current cursor.
    async fn cursor_after(&self, access: &Access, since: &str) -> Result<ReadCursor, Error> {
        let log = &self.mail.changelog;
        let cursor = match log.message_page(access, Some(since), 1).await {
            // The page can have a new cursor without changes, for example after an event of the
            // outbox, or for a member.
            Ok(page) if page.changes.is_empty() && !page.more => {
                return Ok(ReadCursor {
                    cursor: page.cursor,
                    is_changed: false,
                });
            }
            Ok(page) if !page.more => page.cursor,
            Ok(_) | Err(Error::CursorExpired) => log.message_page(access, None, 1).await?.cursor,
            Err(error) => return Err(error),
        };
        Ok(ReadCursor {
            cursor,
            is_changed: true,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_event_contains_the_cursor() {
        let format = CursorFormat {
            event_type: "state".into(),
            data: r#"{"Email":"{cursor}","Thread":"{cursor}"}"#.into(),
            ping: Some(Duration::from_secs(5)),
            ping_data: r#"{"interval":5}"#.into(),
            once: false,
        };
        assert_eq!(
            format.event("abc"),
            "id: abc\nevent: state\ndata: {\"Email\":\"abc\",\"Thread\":\"abc\"}\n\n"
        );
        assert_eq!(
            format.heartbeat(),
            "event: ping\ndata: {\"interval\":5}\n\n"
        );
        let silent = CursorFormat {
            ping: None,
            ..format
        };
        assert_eq!(silent.heartbeat(), ": waiting\n\n");
        assert_eq!(silent.interval(), HEARTBEAT);
    }
}
