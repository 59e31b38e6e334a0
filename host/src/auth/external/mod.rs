//! Access tokens of an authorization server elsewhere: the server is asked what a token is (RFC 7662), and what it said is remembered for a minute.
//!
//! | file | what it is for |
//! |---|---|
//! | `settings` | what the configuration says of it, checked at the start |
//! | `introspection` | one question and its answer |
//! | `answer` | what an answer means |
//! | `token` | a token as it was presented |
//!
//! Knows no accounts: whose token it is, is told by address.

mod answer;
mod introspection;
mod settings;
mod token;

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use futures_util::FutureExt as _;
use futures_util::future::{BoxFuture, Shared};
use http::{HeaderValue, StatusCode, header};
use quick_cache::sync::Cache;
use tokio::sync::Semaphore;
use tokio::time::{Instant, timeout};
use tracing::Instrument as _;

use self::answer::Expected;
pub(super) use self::answer::Verdict;
use self::introspection::Introspection;
pub use self::token::OpaqueToken;
use crate::clock::{Clock, Timestamp};
use crate::config::Config;
use crate::error::{Failure, StartError};
use crate::fetch::Fetch;
use crate::mail::Mail;

/// How long an answer counts (specification, section 5), from when the question was asked.
const LONGEST: Duration = Duration::from_mins(1);

/// Answers that are remembered.
const REMEMBERED: usize = 10_000;

/// Questions under way at a time.
const AT_ONCE: usize = 64;

/// Bytes of a token. What is longer fits into no line of a log-in.
const LARGEST_TOKEN: usize = 4096;

/// An authorization server elsewhere.
pub(super) struct External(Arc<Inner>);

struct Inner {
    introspection: Introspection,
    expected: Expected,
    clock: Clock,
    mail: Arc<Mail>,
    /// By the tokens' hashes.
    answers: Cache<String, Answered>,
    under_way: Mutex<HashMap<String, Asking>>,
    room: Semaphore,
}

/// What the server said.
#[derive(Clone)]
struct Answered {
    verdict: Verdict,
    /// On the clock that never goes back.
    until: Duration,
}

/// A question that several may wait for. Its error is for the log.
type Asking = Shared<BoxFuture<'static, Result<Verdict, Arc<str>>>>;

impl fmt::Debug for External {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("External")
            .field("introspection", &self.0.introspection)
            .finish_non_exhaustive()
    }
}

impl External {
    /// The one that is configured; none where the authorization server is the service's own. Nobody is asked.
    ///
    /// # Errors
    /// A sentence that names the key that cannot be used.
    pub(super) fn new(
        config: &Config,
        fetch: Fetch,
        mail: Arc<Mail>,
        clock: Clock,
    ) -> Result<Option<Self>, StartError> {
        let Some((introspection, expected)) = settings::read(config, fetch)? else {
            return Ok(None);
        };
        Ok(Some(Self(Arc::new(Inner {
            introspection,
            expected,
            clock,
            mail,
            answers: Cache::new(REMEMBERED),
            under_way: Mutex::default(),
            room: Semaphore::new(AT_ONCE),
        }))))
    }

    /// What the server says of a token, or said less than a minute ago.
    ///
    /// # Errors
    /// 503 where it cannot be asked. That is not remembered.
    pub(super) async fn judge(&self, token: &OpaqueToken) -> Result<Verdict, Failure> {
        if token.len() > LARGEST_TOKEN {
            return Ok(Verdict::Refused("it is too long"));
        }
        let verdict = match self.0.known_or_asked(token) {
            Ok(verdict) => verdict,
            Err(asking) => asking.await.map_err(|why| away(&why))?,
        };
        Ok(verdict.at(self.0.clock.now()))
    }

    /// When it will be `at`, for what does not ask the clock.
    pub(super) fn instant(&self, at: Timestamp) -> Instant {
        let now = Instant::now();
        let left = at.since(self.0.clock.now());
        // Beyond what can be told, the idle time of a connection ends it.
        now.checked_add(left).unwrap_or(now + LONGEST)
    }
}

impl Inner {
    fn under_way(&self) -> MutexGuard<'_, HashMap<String, Asking>> {
        self.under_way
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }

    /// What is remembered of a token, else the question that is under way about it: begun now where there is none. It goes on when nobody waits for it.
    fn known_or_asked(self: &Arc<Self>, token: &OpaqueToken) -> Result<Verdict, Asking> {
        // Under one lock: who ends a question remembers its answer first.
        let mut under_way = self.under_way();
        let now = self.clock.monotonic();
        if let Some(answered) = self.answers.get(token.hash())
            && now < answered.until
        {
            return Ok(answered.verdict);
        }
        match under_way.entry(token.hash().to_owned()) {
            Entry::Occupied(asking) => Err(asking.get().clone()),
            Entry::Vacant(place) => {
                let (this, token) = (Arc::clone(self), token.clone());
                let task = async move {
                    let ending = Ending(&this, token.hash());
                    let asked = this.ask(&token, now).await;
                    drop(ending);
                    asked
                };
                let task = tokio::spawn(task.in_current_span());
                let asking = async {
                    task.await
                        .unwrap_or_else(|error| Err(Arc::from(error.to_string())))
                };
                Err(place.insert(asking.boxed().shared()).clone())
            }
        }
    }

    /// Asks, and remembers the answer from `now` on.
    async fn ask(&self, token: &OpaqueToken, now: Duration) -> Result<Verdict, Arc<str>> {
        let asked = async {
            let _turn = self.room.acquire().await.map_err(|e| e.to_string())?;
            self.introspection.ask(token).await
        };
        let body = timeout(self.introspection.patience(), asked)
            .await
            .unwrap_or_else(|_| Err("it does not answer in time".into()))?;
        let verdict = answer::read(&body, &self.expected, self.clock.now())?;
        if let Some(why) = verdict.differs() {
            tracing::info!(why, "an active access token is not taken");
        }
        let before = self.answers.peek(token.hash());
        let answered = Answered {
            verdict: verdict.clone(),
            until: now.saturating_add(LONGEST),
        };
        self.answers.insert(token.hash().to_owned(), answered);
        let was_good = before.is_some_and(|before| matches!(before.verdict, Verdict::Good(_)));
        if was_good && matches!(verdict, Verdict::Refused(_)) {
            self.mail.close(token.hash());
        }
        Ok(verdict)
    }
}

/// A question that is under way, until this is dropped.
struct Ending<'a>(&'a Inner, &'a str);

impl Drop for Ending<'_> {
    fn drop(&mut self) {
        self.0.under_way().remove(self.1);
    }
}

fn away(why: &str) -> Failure {
    Failure::new(
        StatusCode::SERVICE_UNAVAILABLE,
        "The authorization server cannot be reached, please try again in a moment",
    )
    .with(header::RETRY_AFTER, HeaderValue::from_static("2"))
    .because(format!("the authorization server cannot be asked: {why}"))
}
