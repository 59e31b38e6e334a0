//! Checks access tokens of an external authorization server. The service queries the server about
//! each token (RFC 7662) and caches the response for one minute.
//!
//! | file | what it is for |
//! |---|---|
//! | `settings` | reads and validates the configuration |
//! | `introspection` | sends one introspection request |
//! | `response` | interprets a response |
//! | `token` | a token as the client sent it |
//!
//! This module returns the address of the account that owns a token. It does not look up the
//! account.

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
use latchmail_core::clock::Clock;
use latchmail_core::codes;
use latchmail_core::config::Config;
use latchmail_core::error::{Failure, StartError};
use latchmail_core::traces::in_request;
use latchmail_net::fetch::Fetch;
use quick_cache::sync::Cache;
use tokio::sync::Semaphore;
use tokio::time::{Instant, timeout};

use self::introspection::Introspection;
use self::response::Expected;
pub(super) use self::response::TokenStatus;
pub use self::token::OpaqueToken;
use crate::mail_server::MailServer;

/// Time for which a response is cached. The time starts when the
/// introspection request starts.
const CACHE_LIFETIME: Duration = Duration::from_mins(1);

/// Maximum number of cached responses.
const CACHE_CAPACITY: usize = 10_000;

/// Maximum number of concurrent introspection requests.
const MAX_CONCURRENT: usize = 64;

/// Maximum length of a token in bytes. A longer token would exceed the maximum line length of an
/// IMAP or SMTP log-in.
const MAX_TOKEN: usize = 4096;

/// An external authorization server.
pub(super) struct External(Arc<Inner>);

struct Inner {
    introspection: Introspection,
    expected: Expected,
    clock: Clock,
    mail_server: Arc<dyn MailServer>,
    /// Cached responses, by the hash of the token.
    cache: Cache<String, CachedStatus>,
    pending: Mutex<HashMap<String, PendingQuery>>,
    permits: Semaphore,
}

/// A cached response.
#[derive(Clone)]
struct CachedStatus {
    status: TokenStatus,
    /// Time at which the cached response expires, on the monotonic clock.
    until: Duration,
}

/// An introspection request for which several callers can wait. The error is a text for the
/// service's log.
type PendingQuery = Shared<BoxFuture<'static, Result<TokenStatus, Arc<str>>>>;

impl fmt::Debug for External {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("External")
            .field("introspection", &self.0.introspection)
            .finish_non_exhaustive()
    }
}

impl External {
    /// Returns the configured external server, or `None` if the service uses its own authorization
    /// server. Sends no request.
    ///
    /// # Errors
    /// Returns an error that names the configuration key if a setting is invalid.
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

    /// Returns the status of a token, from the cache or from the external authorization server.
    ///
    /// # Errors
    /// Returns 503 if the external authorization server cannot be queried. This error is not
    /// cached.
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

    /// Returns the time at which the cached status of a token expires.
    pub(super) fn cached_until(&self, token: &OpaqueToken) -> Instant {
        let cached = self.0.cache.peek(token.hash());
        let left = cached.map_or(CACHE_LIFETIME, |cached| {
            cached.until.saturating_sub(self.0.clock.monotonic())
        });
        Instant::now() + left
    }
}

impl Inner {
    fn pending(&self) -> MutexGuard<'_, HashMap<String, PendingQuery>> {
        self.pending.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the cached status of a token. Without a cached status, returns `Err` with the
    /// introspection request for this token, and starts the request if necessary. The request
    /// continues even if no caller waits for the response.
    fn cached_or_pending(
        self: &Arc<Self>,
        token: &OpaqueToken,
    ) -> Result<TokenStatus, PendingQuery> {
        // The lock also covers the cache lookup. A response is cached before the request is removed
        // from `pending`, so no second request starts after a successful request.
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
                let task = tokio::spawn(in_request(task));
                let query = async {
                    task.await
                        .unwrap_or_else(|error| Err(Arc::from(error.to_string())))
                };
                Err(entry.insert(query.boxed().shared()).clone())
            }
        }
    }

    /// Sends an introspection request and caches the response. The lifetime of the cached response
    /// starts at `now`, which is a time of the monotonic clock.
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

/// A guard that removes an introspection request from `pending` when the guard is dropped.
struct RemoveOnDrop<'a>(&'a Inner, &'a str);

impl Drop for RemoveOnDrop<'_> {
    fn drop(&mut self) {
        self.0.pending().remove(self.1);
    }
}

fn unavailable(why: &str) -> Failure {
    Failure::unavailable(
        codes::AUTHORIZATION_SERVER_UNAVAILABLE,
        "The authorization server cannot be reached, please try again in a moment",
    )
    .because(format!("cannot query the authorization server: {why}"))
}
