//! The open streams of clients, and the requests that wait for a change. A stream is read by the
//! connection of its client: while the client does not read, the stream reads no events and needs
//! no memory for them.
//!
//! Before and after each read, the rights of the caller are checked again. A stream ends when a
//! credential of its caller ends or expires, when the grants of a member change, and when the
//! service stops.

mod cursors;

use std::io;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use futures_util::stream::{self, BoxStream, StreamExt as _};
use latchmail_core::clock::Clock;
use latchmail_core::config;
use latchmail_core::ended_credentials::Registration;
use latchmail_core::metrics;
use latchmail_mailbox::changelog::reads_the_same;
use latchmail_mailbox::{Access, Error, Mail};
use serde::Serialize;
use serde_json::Value;
use tokio::time::{Instant, sleep_until};
use tokio_util::sync::CancellationToken;

use crate::event::{Event, EventFilter, change_json};
use crate::feed::Feed;
use crate::limits::{StreamLimits, StreamOwner, StreamPermit, TooManyStreams};
use crate::rights::CurrentRights;
use crate::sse;
use crate::stream_span::StreamSpan;
use crate::watcher::{Listener, WatchLimit, Watcher, retry_delay};

pub use cursors::CursorFormat;

/// The bytes of a stream.
pub type ByteStream = BoxStream<'static, io::Result<Bytes>>;

/// The interval at which a stream without events sends its cursor. The cursor passes the events
/// that the filter skips, so a quiet stream does not expire.
const HEARTBEAT: Duration = Duration::from_secs(20);
/// Maximum number of events that a stream holds in memory.
const PAGE: usize = 100;

const REVOKED: &str = "revoked";
const RIGHTS_CHANGED: &str = "rights_changed";
const FOLDER_DELETED: &str = "folder_deleted";
const CURSOR_EXPIRED: &str = "cursor_expired";
const SHUTDOWN: &str = "shutdown";

/// The reason why a stream cannot be opened.
#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    /// The host or the caller has too many open streams.
    #[error("too many open streams")]
    TooMany,
    /// The folder does not exist, or the caller cannot see it.
    #[error("the folder does not exist")]
    FolderNotFound,
    /// The mailbox cannot be read.
    #[error(transparent)]
    Mailbox(#[from] Error),
}

impl From<TooManyStreams> for OpenError {
    fn from(_: TooManyStreams) -> Self {
        Self::TooMany
    }
}

impl From<WatchLimit> for OpenError {
    fn from(_: WatchLimit) -> Self {
        Self::TooMany
    }
}

/// The streams of this host.
#[derive(Clone, Debug)]
pub struct Streams {
    feed: Feed,
    mail: Arc<Mail>,
    watcher: Arc<Watcher>,
    rights: Arc<dyn CurrentRights>,
    limits: Arc<StreamLimits>,
    clock: Clock,
    stopping: CancellationToken,
}

impl Streams {
    /// Creates a host without streams.
    #[must_use]
    pub fn new(
        config: &config::Events,
        mail: &Arc<Mail>,
        watcher: Arc<Watcher>,
        rights: Arc<dyn CurrentRights>,
        clock: Clock,
    ) -> Self {
        Self {
            feed: Feed::new(Arc::clone(mail)),
            mail: Arc::clone(mail),
            watcher,
            rights,
            limits: Arc::new(StreamLimits::new(config)),
            clock,
            stopping: CancellationToken::new(),
        }
    }

    /// Opens a stream of server-sent events since a cursor. Without a cursor, the stream begins
    /// with the next event.
    ///
    /// # Errors
    /// Returns [`OpenError`] if the stream cannot be opened.
    pub async fn open(
        &self,
        access: Access,
        owner: &StreamOwner,
        since: Option<&str>,
        filter: EventFilter,
    ) -> Result<ByteStream, OpenError> {
        let mut caller = self.caller(access, owner)?;
        let page = self.feed.read(&caller.access, since, &filter, PAGE).await?;
        // The rights can have ended since the request was authenticated.
        caller
            .check()
            .await?
            .map_err(|_| Error::CredentialRefused)?;
        let page = page.ok_or(OpenError::FolderNotFound)?;
        let mut first = vec![sse::heartbeat(since.unwrap_or(&page.cursor))];
        let mut span = StreamSpan::start("event stream");
        span.events = page.events.len();
        if !page.events.is_empty() {
            first.push(self.frames(&page.events));
        }
        let events = EventStream {
            streams: self.clone(),
            caller,
            filter,
            cursor: page.cursor,
            more: page.more,
            heartbeat_at: Instant::now() + HEARTBEAT,
            failures: 0,
            retry_at: None,
            has_ended: false,
            span,
        };
        let rest = stream::unfold(events, async |mut events| {
            let frames = events.next().await?;
            Some((frames, events))
        });
        Ok(stream::iter(first).chain(rest).map(Ok).boxed())
    }

    /// Waits until the mailbox has a change after the cursor, at most for `wait`. The stream is one
    /// JSON object: a page of changes as in the response of `GET /mail/changes`. The stream begins
    /// with spaces, so that no proxy closes an idle connection during a long wait.
    ///
    /// # Errors
    /// Returns [`OpenError`] if the wait cannot begin.
    pub fn wait(
        &self,
        access: Access,
        owner: &StreamOwner,
        since: String,
        folder: Option<String>,
        limit: u32,
        wait: Duration,
    ) -> Result<ByteStream, OpenError> {
        let wait = Wait {
            caller: self.caller(access, owner)?,
            streams: self.clone(),
            since,
            folder,
            limit,
            until: Instant::now() + wait,
            heartbeat_at: Instant::now() + HEARTBEAT,
            has_ended: false,
            span: StreamSpan::start("event wait"),
        };
        let pieces = stream::unfold(wait, async |mut wait| {
            let piece = wait.next().await?;
            Some((piece, wait))
        });
        Ok(pieces.map(Ok).boxed())
    }

    /// Ends all streams.
    pub fn stop(&self) {
        self.stopping.cancel();
    }

    fn caller(&self, access: Access, owner: &StreamOwner) -> Result<StreamCaller, OpenError> {
        let permit = self.limits.open(owner)?;
        let listener = self.watcher.listen(&access.account)?;
        let ended = self.mail.connections.ended_credentials();
        let now = Instant::now();
        // The rights are checked after the registration, so no end is missed.
        let register = |id: &str| ended.register(id, now);
        Ok(StreamCaller {
            registrations: [register(&owner.credential), register(&access.credential.id)],
            valid_until: now,
            credential: owner.credential.clone(),
            rights: Arc::clone(&self.rights),
            stopping: self.stopping.clone(),
            access,
            listener,
            _permit: permit,
        })
    }

    fn frames(&self, events: &[Event]) -> Bytes {
        let now = self.clock.now();
        for event in events {
            metrics::EVENT_LAG.observe([], now.since(event.time));
            metrics::EVENTS_SENT.increment([]);
        }
        sse::events(events)
    }
}

/// The caller of a stream.
struct StreamCaller {
    access: Access,
    /// The id of the caller's own credential. The credential of `access` can be that of a shared
    /// mailbox.
    credential: String,
    rights: Arc<dyn CurrentRights>,
    registrations: [Registration; 2],
    /// The time at which the rights must be checked again.
    valid_until: Instant,
    stopping: CancellationToken,
    listener: Listener,
    _permit: StreamPermit,
}

/// The reason why a wait has ended.
enum Woken {
    Changed,
    TimedOut,
    Ended(&'static str),
}

impl StreamCaller {
    /// Waits for a change, at most until `until` or until the rights must be checked again.
    async fn wait(&mut self, until: Instant) -> Woken {
        let until = until.min(self.valid_until);
        let ended = ended(&self.registrations, &self.stopping);
        wait(ended, self.listener.changed(), until).await
    }

    /// Runs `read`, and checks the rights before and after. Returns the reason if the stream must
    /// end.
    async fn read<T>(
        &mut self,
        read: impl Future<Output = Result<T, Error>>,
    ) -> Result<Result<T, &'static str>, Error> {
        // If the check fails, it is repeated after this time.
        self.valid_until = Instant::now() + HEARTBEAT;
        let checked = async {
            let before = check(&*self.rights, &self.credential, &self.access).await?;
            if let Err(reason) = before {
                return Ok(Err(reason));
            }
            let result = read.await?;
            // The read can wait for the mail server, and the rights can end during this time.
            let after = check(&*self.rights, &self.credential, &self.access).await?;
            Ok(after.map(|until| (until, result)))
        };
        let result = tokio::select! {
            biased;
            reason = ended(&self.registrations, &self.stopping) => Ok(Err(reason)),
            result = checked => result,
        };
        match result {
            Ok(Ok((until, result))) => {
                self.valid_until = until;
                Ok(Ok(result))
            }
            Ok(Err(reason)) => Ok(Err(reason)),
            Err(Error::CursorExpired) => Ok(Err(CURSOR_EXPIRED)),
            Err(Error::CredentialRefused | Error::Denied(_)) => Ok(Err(REVOKED)),
            Err(error) => Err(error),
        }
    }

    /// Checks the rights. Returns the reason if the stream must end.
    async fn check(&mut self) -> Result<Result<(), &'static str>, Error> {
        let checked = check(&*self.rights, &self.credential, &self.access).await?;
        Ok(checked.map(|until| self.valid_until = until))
    }
}

/// Returns the time at which the rights must be checked again, or the reason if the stream must
/// end.
async fn check(
    rights: &dyn CurrentRights,
    credential: &str,
    access: &Access,
) -> Result<Result<Instant, &'static str>, Error> {
    let Some(current) = rights.current(access).await? else {
        return Ok(Err(REVOKED));
    };
    let mut until = current.until;
    if credential != access.credential.id {
        let Some(own) = rights.valid_until(credential).await? else {
            return Ok(Err(REVOKED));
        };
        until = until.min(own);
    }
    Ok(if reads_the_same(&current.access, access) {
        Ok(until)
    } else {
        Err(RIGHTS_CHANGED)
    })
}

/// Waits until the stream must end, for a change, or until `until`.
async fn wait(
    ended: impl Future<Output = &'static str>,
    changed: impl Future<Output = ()>,
    until: Instant,
) -> Woken {
    tokio::select! {
        biased;
        reason = ended => Woken::Ended(reason),
        () = changed => Woken::Changed,
        () = sleep_until(until) => Woken::TimedOut,
    }
}

/// Waits until the rights of a stream end or the service stops. Returns the reason.
async fn ended(registrations: &[Registration; 2], stopping: &CancellationToken) -> &'static str {
    let [own, mailbox] = registrations;
    tokio::select! {
        () = own.stop().cancelled() => REVOKED,
        () = mailbox.stop().cancelled() => REVOKED,
        () = stopping.cancelled() => SHUTDOWN,
    }
}

/// The state of a stream between two reads.
struct EventStream {
    streams: Streams,
    caller: StreamCaller,
    filter: EventFilter,
    cursor: String,
    /// `true` if more events can follow without a change.
    more: bool,
    heartbeat_at: Instant,
    /// The number of consecutive failed reads.
    failures: u32,
    /// The time of the next attempt after a failed read.
    retry_at: Option<Instant>,
    has_ended: bool,
    span: StreamSpan,
}

impl EventStream {
    /// Returns the next frames. Returns `None` after the last frame.
    async fn next(&mut self) -> Option<Bytes> {
        if self.has_ended {
            return None;
        }
        loop {
            // A read can return no events, for example if the filter skips all of them.
            if Instant::now() >= self.heartbeat_at {
                return Some(self.heartbeat());
            }
            if !self.more {
                let until = self.retry_at.unwrap_or(self.heartbeat_at);
                match self.caller.wait(until.min(self.heartbeat_at)).await {
                    Woken::Ended(reason) => return Some(self.end(reason)),
                    Woken::TimedOut if Instant::now() >= self.heartbeat_at => continue,
                    Woken::Changed | Woken::TimedOut => {}
                }
            }
            let access = self.caller.access.clone();
            let (feed, cursor) = (&self.streams.feed, Some(&*self.cursor));
            // The memory of the read is freed before the next wait.
            let read = Box::pin(feed.read(&access, cursor, &self.filter, PAGE));
            match self.caller.read(read).await {
                Ok(Ok(Some(page))) => {
                    (self.failures, self.retry_at) = (0, None);
                    (self.cursor, self.more) = (page.cursor, page.more);
                    if !page.events.is_empty() {
                        self.heartbeat_at = Instant::now() + HEARTBEAT;
                        self.span.events += page.events.len();
                        return Some(self.streams.frames(&page.events));
                    }
                }
                Ok(Ok(None)) => return Some(self.end(FOLDER_DELETED)),
                Ok(Err(reason)) => return Some(self.end(reason)),
                // The stream continues when the mail server and the database respond again.
                Err(error) => {
                    tracing::debug!(%error, "a stream cannot read events");
                    self.more = false;
                    self.retry_at = Some(Instant::now() + retry_delay(self.failures));
                    self.failures += 1;
                }
            }
        }
    }

    fn heartbeat(&mut self) -> Bytes {
        self.heartbeat_at = Instant::now() + HEARTBEAT;
        sse::heartbeat(&self.cursor)
    }

    fn end(&mut self, reason: &'static str) -> Bytes {
        self.has_ended = true;
        self.span.outcome = reason;
        sse::end(reason)
    }
}

/// A page of changes as in the response of `GET /mail/changes`.
#[derive(Serialize)]
struct ChangeList<'c> {
    cursor: &'c str,
    more: bool,
    changes: Vec<Value>,
}

/// A request that waits for a change.
struct Wait {
    streams: Streams,
    caller: StreamCaller,
    since: String,
    folder: Option<String>,
    limit: u32,
    until: Instant,
    heartbeat_at: Instant,
    has_ended: bool,
    span: StreamSpan,
}

impl Wait {
    /// Returns spaces until the page with the first changes, or until an empty page at the end of
    /// the wait. Returns `None` after the page. If the wait cannot continue, the page is empty and
    /// `more` is `true`: the status of this response is already sent, so the next request gets the
    /// error.
    async fn next(&mut self) -> Option<Bytes> {
        if self.has_ended {
            return None;
        }
        loop {
            let woken = self.caller.wait(self.until.min(self.heartbeat_at)).await;
            let now = Instant::now();
            let is_last = now >= self.until;
            match woken {
                Woken::Ended(reason) => {
                    self.span.outcome = reason;
                    break;
                }
                Woken::TimedOut if !is_last && now >= self.heartbeat_at => {
                    self.heartbeat_at = now + HEARTBEAT;
                    return Some(Bytes::from_static(b" "));
                }
                Woken::Changed | Woken::TimedOut => {}
            }
            let access = self.caller.access.clone();
            let (log, folder) = (&self.streams.mail.changelog, self.folder.as_deref());
            let read = Box::pin(log.page(&access, Some(&self.since), folder, self.limit));
            let Ok(Ok(Some(page))) = self.caller.read(read).await else {
                self.span.outcome = "failed";
                break;
            };
            if is_last || page.more || !page.changes.is_empty() {
                let changes = page.changes.iter().map(change_json).collect();
                self.has_ended = true;
                (self.span.events, self.span.outcome) = (page.changes.len(), "completed");
                return Some(change_list(&page.cursor, page.more, changes));
            }
        }
        self.has_ended = true;
        Some(change_list(&self.since, true, Vec::new()))
    }
}

fn change_list(cursor: &str, more: bool, changes: Vec<Value>) -> Bytes {
    let list = ChangeList {
        cursor,
        more,
        changes,
    };
    // The serialization of texts and JSON values does not fail.
    serde_json::to_vec(&list).unwrap_or_default().into()
}

#[cfg(test)]
mod tests {
    use std::future::pending;

    use latchmail_core::ended_credentials::EndedCredentials;
    use tokio::time::sleep;

    use super::*;

    // The clock is paused: it moves only while all tasks wait, so a busy machine does not affect
    // the times.
    #[tokio::test(start_paused = true)]
    async fn a_stream_ends_at_the_moment_at_which_a_right_ends() {
        for (ending, expected) in [("own", REVOKED), ("mailbox", REVOKED), ("", SHUTDOWN)] {
            let credentials = EndedCredentials::default();
            let stopping = CancellationToken::new();
            let opened_at = Instant::now();
            let registrations = ["own", "mailbox"].map(|id| credentials.register(id, opened_at));
            let woken = wait(
                ended(&registrations, &stopping),
                pending(),
                opened_at + HEARTBEAT,
            );
            let end = async {
                sleep(HEARTBEAT / 2).await;
                if ending.is_empty() {
                    stopping.cancel();
                } else {
                    credentials.end(ending);
                }
                Instant::now()
            };
            let (woken, ended_at) = tokio::join!(woken, end);
            assert!(matches!(woken, Woken::Ended(reason) if reason == expected));
            assert_eq!(ended_at.elapsed(), Duration::ZERO, "{ending}");
        }
    }

    #[tokio::test(start_paused = true)]
    async fn the_rights_of_a_stream_without_changes_are_checked_when_they_expire() {
        let until = Instant::now() + Duration::from_secs(5);
        let woken = wait(pending(), pending(), until).await;
        assert!(matches!(woken, Woken::TimedOut));
        assert!(Instant::now() >= until && until.elapsed() < Duration::from_secs(1));
    }
}
