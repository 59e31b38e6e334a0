//! Access tokens of an external authorization server. The server is queried about each token (RFC 7662), and its response is cached for one
//! minute.
//!
//! | file | what it is for |
//! |---|---|
//! | `settings` | reads and validates the configuration |
//! | `introspection` | sends one introspection request |
//! | `answer` | interprets a response |
//! | `token` | a token as the client sent it |
//!
//! This module does not query accounts; it reports the owner of a token by address.

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
use latchmail_core::clock::{Clock, Timestamp};
use latchmail_core::config::Config;
use latchmail_core::error::{Failure, StartError};
use latchmail_net::fetch::Fetch;
use quick_cache::sync::Cache;
use tokio::sync::Semaphore;
use tokio::time::{Instant, timeout};
use tracing::Instrument as _;

use self::answer::Expected;
pub(super) use self::answer::Verdict;
use self::introspection::Introspection;
pub use self::token::OpaqueToken;
use crate::mail_server::MailServer;

/// How long a response is cached (specification, section 5), from the start of its request.
const LONGEST: Duration = Duration::from_mins(1);

/// Number of responses that are cached.
const REMEMBERED: usize = 10_000;

/// Maximum number of concurrent introspection requests.
const AT_ONCE: usize = 64;

/// Maximum length of a token in bytes. A longer token does not fit into a line of an IMAP or SMTP log-in.
const LARGEST_TOKEN: usize = 4096;

/// An external authorization server.
pub(super) struct External(Arc<Inner>);

struct Inner {
    introspection: Introspection,
    expected: Expected,
    clock: Clock,
    mail_server: Arc<dyn MailServer>,
    /// Cached responses by the tokens' hashes.
    answers: Cache<String, Answered>,
    under_way: Mutex<HashMap<String, Asking>>,
    room: Semaphore,
}

/// A cached response.
#[derive(Clone)]
struct Answered {
    verdict: Verdict,
    /// End of the caching time, on the monotonic clock.
    until: Duration,
}

/// A request that several callers can wait for. Its error is for the log.
type Asking = Shared<BoxFuture<'static, Result<Verdict, Arc<str>>>>;

impl fmt::Debug for External {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("External")
            .field("introspection", &self.0.introspection)
            .finish_non_exhaustive()
    }
}

impl External {
    /// Creates the server of the configuration, or returns `None` if the service uses its own authorization server. Sends no request.
    ///
    /// # Errors
    /// Returns an error that names the configuration key that is invalid.
    pub(super) fn new(
        config: &Config,
        fetch: Fetch,
        mail_server: Arc<dyn MailServer>,
        clock: Clock,
    ) -> Result<Option<Self>, StartError> {
        let Some((introspection, expected)) = settings::read(config, fetch)? else {
            return Ok(None);
        };
        Ok(Some(Self(Arc::new(Inner {
            introspection,
            expected,
            clock,
            mail_server,
            answers: Cache::new(REMEMBERED),
            under_way: Mutex::default(),
            room: Semaphore::new(AT_ONCE),
        }))))
    }

    /// Returns the server's verdict on a token, from the cache or with a request.
    ///
    /// # Errors
    /// Returns 503 if the server cannot be queried. The failure is not cached.
    pub(super) async fn judge(&self, token: &OpaqueToken) -> Result<Verdict, Failure> {
        if token.len() > LARGEST_TOKEN {
            return Ok(Verdict::Refused("the token is too long"));
        }
        let verdict = match self.0.known_or_asked(token) {
            Ok(verdict) => verdict,
            Err(asking) => asking.await.map_err(|why| away(&why))?,
        };
        Ok(verdict.at(self.0.clock.now()))
    }

    /// Converts a time to an [`Instant`], for code that does not use the service's clock.
    pub(super) fn instant(&self, at: Timestamp) -> Instant {
        let now = Instant::now();
        let left = at.since(self.0.clock.now());
        // If the time cannot be represented, the idle timeout of the connection applies.
        now.checked_add(left).unwrap_or(now + LONGEST)
    }
}

impl Inner {
    fn under_way(&self) -> MutexGuard<'_, HashMap<String, Asking>> {
        self.under_way
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the cached verdict of a token. Otherwise returns the request that is in progress for the token, and starts one if there is
    /// none. The request continues even if no caller waits for it any longer.
    fn known_or_asked(self: &Arc<Self>, token: &OpaqueToken) -> Result<Verdict, Asking> {
        // The lock covers both maps: a request caches its response before it is removed from `under_way`.
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

    /// Sends a request and caches the response from `now`.
    async fn ask(&self, token: &OpaqueToken, now: Duration) -> Result<Verdict, Arc<str>> {
        let asked = async {
            let _turn = self.room.acquire().await.map_err(|e| e.to_string())?;
            self.introspection.ask(token).await
        };
        let body = timeout(self.introspection.patience(), asked)
            .await
            .unwrap_or_else(|_| Err("the request timed out".into()))?;
        let verdict = answer::read(&body, &self.expected, self.clock.now())?;
        if let Some(why) = verdict.differs() {
            tracing::info!(why, "active access token rejected");
        }
        let before = self.answers.peek(token.hash());
        let answered = Answered {
            verdict: verdict.clone(),
            until: now.saturating_add(LONGEST),
        };
        self.answers.insert(token.hash().to_owned(), answered);
        let was_good = before.is_some_and(|before| matches!(before.verdict, Verdict::Good(_)));
        if was_good && matches!(verdict, Verdict::Refused(_)) {
            self.mail_server.close_connections(token.hash());
        }
        Ok(verdict)
    }
}

/// Removes a request from `under_way` when dropped.
struct Ending<'a>(&'a Inner, &'a str);

impl Drop for Ending<'_> {
    fn drop(&mut self) {
        self.0.under_way().remove(self.1);
    }
}

fn away(why: &str) -> Failure {
    Failure::unavailable("The authorization server cannot be reached, please try again in a moment")
        .because(format!("cannot query the authorization server: {why}"))
}
