//! Access tokens of an external authorization server. The server is queried about each token (RFC 7662), and its response is cached for one
//! minute.
//!
//! | file | what it is for |
//! |---|---|
//! | `settings` | reads and validates the configuration |
//! | `introspection` | sends one introspection request |
//! | `response` | interprets a response |
//! | `token` | a token as the client sent it |
//!
//! This module does not query accounts; it reports the owner of a token by address.

mod introspection;
mod response;
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

use self::introspection::Introspection;
use self::response::Expected;
pub(super) use self::response::TokenStatus;
pub use self::token::OpaqueToken;
use crate::mail_server::MailServer;

/// How long a response is cached (specification, section 5), from the start of its request.
const CACHE_LIFETIME: Duration = Duration::from_mins(1);

/// Number of responses that are cached.
const CACHE_CAPACITY: usize = 10_000;

/// Maximum number of concurrent introspection requests.
const MAX_CONCURRENT: usize = 64;

/// Maximum length of a token in bytes. A longer token does not fit into a line of an IMAP or SMTP log-in.
const MAX_TOKEN: usize = 4096;

/// An external authorization server.
pub(super) struct External(Arc<Inner>);

struct Inner {
    introspection: Introspection,
    expected: Expected,
    clock: Clock,
    mail_server: Arc<dyn MailServer>,
    /// Cached responses by the tokens' hashes.
    cache: Cache<String, CachedStatus>,
    pending: Mutex<HashMap<String, PendingQuery>>,
    permits: Semaphore,
}

/// A cached response.
#[derive(Clone)]
struct CachedStatus {
    status: TokenStatus,
    /// End of the caching time, on the monotonic clock.
    until: Duration,
}

/// A request that several callers can wait for. Its error is for the log.
type PendingQuery = Shared<BoxFuture<'static, Result<TokenStatus, Arc<str>>>>;

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
            cache: Cache::new(CACHE_CAPACITY),
            pending: Mutex::default(),
            permits: Semaphore::new(MAX_CONCURRENT),
        }))))
    }

    /// Returns the status of a token, from the cache or from the server.
    ///
    /// # Errors
    /// Returns 503 if the server cannot be queried. The failure is not cached.
    pub(super) async fn check(&self, token: &OpaqueToken) -> Result<TokenStatus, Failure> {
        if token.len() > MAX_TOKEN {
            return Ok(TokenStatus::Rejected("the token is too long"));
        }
        let status = match self.0.cached_or_pending(token) {
            Ok(status) => status,
            Err(query) => query.await.map_err(|why| unavailable(&why))?,
        };
        Ok(status.at(self.0.clock.now()))
    }

    /// Converts a time to an [`Instant`], for code that does not use the service's clock.
    pub(super) fn instant(&self, at: Timestamp) -> Instant {
        let now = Instant::now();
        let left = at.since(self.0.clock.now());
        // If the time cannot be represented, the idle timeout of the connection applies.
        now.checked_add(left).unwrap_or(now + CACHE_LIFETIME)
    }
}

impl Inner {
    fn pending(&self) -> MutexGuard<'_, HashMap<String, PendingQuery>> {
        self.pending.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the cached status of a token. Otherwise returns the request that is in progress for the token, and starts one if there is
    /// none. The request continues even if no caller waits for it any longer.
    fn cached_or_pending(
        self: &Arc<Self>,
        token: &OpaqueToken,
    ) -> Result<TokenStatus, PendingQuery> {
        // The lock covers both maps: a request caches its response before it is removed from `pending`.
        let mut pending = self.pending();
        let now = self.clock.monotonic();
        if let Some(cached) = self.cache.get(token.hash())
            && now < cached.until
        {
            return Ok(cached.status);
        }
        match pending.entry(token.hash().to_owned()) {
            Entry::Occupied(query) => Err(query.get().clone()),
            Entry::Vacant(entry) => {
                let (this, token) = (Arc::clone(self), token.clone());
                let task = async move {
                    let guard = RemoveOnDrop(&this, token.hash());
                    let queried = this.query(&token, now).await;
                    drop(guard);
                    queried
                };
                let task = tokio::spawn(task.in_current_span());
                let query = async {
                    task.await
                        .unwrap_or_else(|error| Err(Arc::from(error.to_string())))
                };
                Err(entry.insert(query.boxed().shared()).clone())
            }
        }
    }

    /// Sends a request and caches the response from `now`.
    async fn query(&self, token: &OpaqueToken, now: Duration) -> Result<TokenStatus, Arc<str>> {
        let queried = async {
            let _permit = self.permits.acquire().await.map_err(|e| e.to_string())?;
            self.introspection.query(token).await
        };
        let body = timeout(self.introspection.timeout(), queried)
            .await
            .unwrap_or_else(|_| Err("the request timed out".into()))?;
        let status = response::parse(&body, &self.expected, self.clock.now())?;
        if let Some(why) = status.unexpected() {
            tracing::info!(why, "active access token rejected");
        }
        let before = self.cache.peek(token.hash());
        let cached = CachedStatus {
            status: status.clone(),
            until: now.saturating_add(CACHE_LIFETIME),
        };
        self.cache.insert(token.hash().to_owned(), cached);
        let was_good = before.is_some_and(|before| matches!(before.status, TokenStatus::Active(_)));
        if was_good && matches!(status, TokenStatus::Rejected(_)) {
            self.mail_server.close_connections(token.hash());
        }
        Ok(status)
    }
}

/// Removes a request from `pending` when dropped.
struct RemoveOnDrop<'a>(&'a Inner, &'a str);

impl Drop for RemoveOnDrop<'_> {
    fn drop(&mut self) {
        self.0.pending().remove(self.1);
    }
}

fn unavailable(why: &str) -> Failure {
    Failure::unavailable("The authorization server cannot be reached, please try again in a moment")
        .because(format!("cannot query the authorization server: {why}"))
}
