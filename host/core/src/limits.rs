//! Rate limits: requests per minute, for each bucket and each credential or client.
//!
//! Each [`Key`] has a budget in each bucket. A full budget is the number of requests that the limit
//! allows per minute. The budget refills evenly over one minute.
//!
//! The route of a request selects the bucket, and the key identifies the client. The memory for
//! budgets is bounded for any number of clients.
//!
//! Each host has its own budgets in memory, or several hosts share their budgets
//! ([`SharedBudgets`]).

mod failures;
mod rejections;
mod shared;
#[cfg(test)]
mod tests;

use std::borrow::Cow;
use std::fmt;
use std::hash::{BuildHasher as _, RandomState};
use std::net::IpAddr;
use std::num::NonZeroU32;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, AtomicU64, AtomicUsize, Ordering};
use std::time::Duration;

use arc_swap::ArcSwap;
use governor::clock::Clock as _;
use governor::middleware::StateInformationMiddleware;
use governor::state::keyed::DashMapStateStore;
use governor::{Quota, RateLimiter};
use latchmail_shape::named;

use crate::caller::{Caller, Credential};
use crate::clock::Clock;
use crate::config;
use crate::error::{Failure, StartError};
use crate::network::{network, region, site};
use crate::rate_limit::RateLimitStatus;

pub use failures::{Attempt, Failures};
pub use rejections::{Rejections, record_rejection, rejections};
pub use shared::{BoxFuture, SharedBudget, SharedBudgets, Taken};

/// The time in which an empty budget refills.
const MINUTE: Duration = Duration::from_mins(1);

/// The interval at which keys with a full budget are removed from memory.
const SWEEP_EVERY: Duration = Duration::from_mins(1);

/// The maximum number of keys of one bucket. This number of keys needs about 10 MB of memory. If a
/// bucket has this number of keys, new keys are merged ([`Key::merged`]).
const MAX_KEYS: usize = 100_000;

macro_rules! buckets {
    ($($bucket:ident = $key:ident),* $(,)?) => {
        named! {
            /// A rate-limit bucket. The configuration section `[limits]` has one key for each
            /// bucket. The name of a bucket is its key.
            #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
            #[expect(missing_docs, reason = "each variant is the key of the same name")]
            pub enum Bucket {
                $($bucket = stringify!($key)),*
            }
        }

        impl Bucket {
            const fn configured(self, limits: &config::Limits) -> u32 {
                match self {
                    $(Self::$bucket => limits.$key),*
                }
            }
        }
    };
}

buckets! {
    Mail = mail,
    Search = search,
    Events = events,
    Aliases = aliases,
    Profile = profile,
    Tokens = tokens,
    AppPasswords = app_passwords,
    SignIn = sign_in,
    Unproven = unproven,
    Registration = registration,
    PasswordChange = password_change,
    DomainsRead = domains_read,
    DomainsWrite = domains_write,
    Mcp = mcp,
    Jmap = jmap,
    Teams = teams,
    Webhooks = webhooks,
    Modules = modules,
    Public = public,
    Readiness = readiness,
    Session = session,
    OAuth = oauth,
    Admin = admin,
}

/// The key of a budget. The key identifies the session, token, account, client or mail address
/// whose requests use the budget.
#[derive(Clone, PartialEq, Eq, Hash)]
pub enum Key {
    /// The `sid` of a web session.
    Session(Box<str>),
    /// The id of an API token.
    ApiToken(Box<str>),
    /// The id of an OAuth grant.
    OAuth(Box<str>),
    /// The id of an app password.
    AppPassword(Box<str>),
    /// The id of an account. All credentials of an account share one budget for requests to the
    /// agent endpoint, and all handlers of modules share one budget.
    Account(Box<str>),
    /// A client without a credential: an IPv4 address, or the /64 network of an IPv6 address. One
    /// client usually controls all addresses of a /64 network.
    Client(IpAddr),
    /// A mail address. The budget limits the failed attempts to sign in to this address from all
    /// networks together.
    Address(Box<str>),
    /// A mail address and a client network. The budget limits the failed attempts to sign in to
    /// this address from this network.
    AddressFrom(Box<str>, IpAddr),
    /// A mail address and an IPv6 /48 network. The budget limits the failed attempts to sign in to
    /// this address from all networks of one site.
    AddressFromSite(Box<str>, IpAddr),
    /// A receiver of webhooks, and the id of the credential for which a request is sent. Without an
    /// id, the budget is for all credentials.
    Receiver(Box<str>, Option<Box<str>>),
    /// All clients in one IPv4 /16 network or one IPv6 /32 network. Replaces the keys of single
    /// clients if the bucket has too many keys.
    Region(IpAddr),
    /// All mail addresses or receivers with the same 16-bit hash. Replaces their single keys if the
    /// bucket has too many keys.
    Addresses(u16),
}

impl Key {
    /// Returns the key for a request of `caller` in `bucket`.
    #[must_use]
    pub fn caller(bucket: Bucket, caller: &Caller) -> Self {
        if bucket == Bucket::Mcp {
            return Self::Account(caller.account.as_str().into());
        }
        match &caller.credential {
            Credential::Session { sid } => Self::Session(sid.as_str().into()),
            Credential::ApiToken { id, .. } => Self::ApiToken(id.as_str().into()),
            Credential::OAuth { id, .. } => Self::OAuth(id.as_str().into()),
            Credential::AppPassword { id } => Self::AppPassword(id.as_str().into()),
            Credential::Handler { .. } => Self::Account(caller.account.as_str().into()),
        }
    }

    /// Returns the key of a request without a credential.
    #[must_use]
    pub fn client(address: IpAddr) -> Self {
        Self::Client(network(address))
    }

    /// Returns a less specific key, which replaces this key if the bucket has too many keys. Client
    /// networks, mail addresses and receivers are merged, because an attacker can use any number of
    /// them. Credentials are not merged, because the service issued each credential.
    fn merged(&self, hashes: &RandomState) -> Cow<'_, Self> {
        match self {
            Self::Client(address) => Cow::Owned(Self::Region(region(*address))),
            Self::Address(address)
            | Self::AddressFrom(address, _)
            | Self::AddressFromSite(address, _)
            | Self::Receiver(address, _) => {
                let [high, low, ..] = hashes.hash_one(address).to_be_bytes();
                Cow::Owned(Self::Addresses(u16::from_be_bytes([high, low])))
            }
            _ => Cow::Borrowed(self),
        }
    }
}

type Limiter = RateLimiter<Key, DashMapStateStore<Key>, Ticks, StateInformationMiddleware>;

/// The budgets of all buckets.
pub struct Limits {
    clock: Clock,
    budgets: Vec<ArcSwap<Budget>>,
    /// The maximum number of failed sign-in attempts per minute for one mail address from one
    /// client network.
    sign_in_address: Limit,
    sign_in_failures: Failures,
    /// For each client, the requests whose body contains a credential that has not been verified.
    unverified: Failures,
    hashes: RandomState,
    swept: AtomicU64,
    /// The budgets that hosts share, and the name of this server in the names of the budgets.
    /// `None` if each host has its own budgets.
    shared: Option<(Arc<dyn SharedBudgets>, &'static str)>,
}

/// A limit that can change while the service runs.
#[derive(Debug)]
pub struct Limit(AtomicU32);

impl Limit {
    /// Creates a limit. The value 0 counts as 1.
    #[must_use]
    pub fn new(limit: u32) -> Self {
        Self(AtomicU32::new(limit))
    }

    /// Returns the current limit.
    #[must_use]
    pub fn get(&self) -> NonZeroU32 {
        NonZeroU32::new(self.0.load(Ordering::Relaxed)).unwrap_or(NonZeroU32::MIN)
    }

    /// Changes the limit.
    pub fn set(&self, limit: u32) {
        self.0.store(limit, Ordering::Relaxed);
    }
}

/// For one mail address, the limit on failed sign-in attempts from all networks together is this
/// number times the limit for one network.
const ALL_NETWORKS: NonZeroU32 = NonZeroU32::new(20).unwrap();

/// For one mail address, the limit on failed sign-in attempts from one IPv6 /48 network is this
/// number times the limit for one /64 network. One party often has all 65,536 networks of a /48
/// network. Without this limit, it could use up the limit for all networks.
const SITE: NonZeroU32 = NonZeroU32::new(4).unwrap();

/// Returns the time in which a budget refills by one request.
fn interval(limit: NonZeroU32) -> Duration {
    MINUTE / limit.get()
}

/// The budgets of one bucket.
struct Budget {
    limit: NonZeroU32,
    limiter: Limiter,
    /// An upper bound on the number of keys. The exact number is determined only when this bound
    /// reaches the maximum, because counting is expensive.
    keys: AtomicUsize,
    /// The time at which full budgets were last removed, in seconds of the monotonic clock.
    cleared: AtomicU64,
}

impl Limits {
    /// Creates the buckets. Every client starts with a full budget.
    ///
    /// # Errors
    /// Returns an error that names the configuration key if a limit is 0.
    pub fn new(config: &config::Limits, clock: Clock) -> Result<Self, StartError> {
        let at_least_one = |limit, key| {
            NonZeroU32::new(limit)
                .ok_or_else(|| StartError::new(format!("`limits.{key}` must be at least 1")))
        };
        let budgets = Bucket::ALL
            .iter()
            .map(|bucket| {
                let limit = at_least_one(bucket.configured(config), bucket.name())?;
                let limiter = Limiter::new(
                    Quota::per_minute(limit),
                    DashMapStateStore::default(),
                    Ticks(clock.clone()),
                );
                Ok(ArcSwap::from_pointee(Budget {
                    limit,
                    limiter,
                    keys: AtomicUsize::new(0),
                    cleared: AtomicU64::new(0),
                }))
            })
            .collect::<Result<_, StartError>>()?;
        Ok(Self {
            swept: AtomicU64::new(clock.monotonic().as_secs()),
            sign_in_address: Limit::new(
                at_least_one(config.sign_in_address, "sign_in_address")?.get(),
            ),
            sign_in_failures: Failures::new(clock.clone()),
            unverified: Failures::new(clock.clone()),
            clock,
            budgets,
            hashes: RandomState::new(),
            shared: None,
        })
    }

    /// Shares the budgets with other hosts. `server` identifies this server, because each server of
    /// a host has its own budgets.
    #[must_use]
    pub fn with_shared(mut self, budgets: Arc<dyn SharedBudgets>, server: &'static str) -> Self {
        self.share(budgets, server);
        self
    }

    /// Shares the budgets with other hosts, like [`Self::with_shared`], but changes `self`.
    pub fn share(&mut self, budgets: Arc<dyn SharedBudgets>, server: &'static str) {
        self.sign_in_failures
            .share(Arc::clone(&budgets), "sign_in_failures");
        self.unverified.share(Arc::clone(&budgets), "unverified");
        self.shared = Some((budgets, server));
    }

    /// Returns the budgets that hosts share, or `None` if each host has its own budgets.
    #[must_use]
    pub fn shared(&self) -> Option<&Arc<dyn SharedBudgets>> {
        self.shared.as_ref().map(|(budgets, _)| budgets)
    }

    /// Changes the limits. In a bucket whose limit changes, every client starts with a full budget.
    /// Counted failures to sign in are not reset.
    ///
    /// # Errors
    /// Returns an error that names the configuration key if a limit is 0. In this case, no limit
    /// changes.
    pub fn reload(&self, config: &config::Limits) -> Result<(), StartError> {
        let new = Self::new(config, self.clock.clone())?;
        for (current, new) in self.budgets.iter().zip(new.budgets) {
            let new = new.into_inner();
            if current.load().limit != new.limit {
                current.store(new);
            }
        }
        self.sign_in_address.set(config.sign_in_address);
        Ok(())
    }

    /// Returns the limit of a bucket, in requests per minute.
    #[must_use]
    pub fn per_minute(&self, bucket: Bucket) -> u32 {
        self.budgets[bucket as usize].load().limit.get()
    }

    /// Returns the maximum number of failed sign-ins per minute for one mail address from one
    /// client network.
    #[must_use]
    pub fn sign_in_address_per_minute(&self) -> u32 {
        self.sign_in_address.get().get()
    }

    /// Starts a request whose body contains a credential. The request counts towards the limit
    /// `unproven` of its client, unless [`Attempt::succeeded`] is called. Requests with valid
    /// credentials do not count, so the clients of one network do not affect each other.
    ///
    /// # Errors
    /// Returns [`Kind::RateLimited`](crate::error::Kind::RateLimited) if the client has sent too
    /// many requests without a valid credential.
    pub async fn unverified_request(&self, client: IpAddr) -> Result<Attempt<'_>, Failure> {
        let limit = self.budgets[Bucket::Unproven as usize].load().limit;
        let attempt = self
            .unverified
            .attempt([(Key::client(client), limit)])
            .await;
        if attempt.is_err() {
            record_rejection(Bucket::Unproven.name(), self.clock.now());
        }
        attempt
    }

    /// Counts one request of `key` in a bucket. Returns whether the request is accepted, and the
    /// state of the bucket.
    pub async fn check(&self, bucket: Bucket, key: &Key) -> RateLimitStatus {
        let status = self.check_budgets(bucket, key).await;
        if status.retry_after.is_some() {
            record_rejection(bucket.name(), self.clock.now());
        }
        status
    }

    async fn check_budgets(&self, bucket: Bucket, key: &Key) -> RateLimitStatus {
        if let Some((budgets, server)) = &self.shared
            && budgets.is_available()
            && let Some(status) = self.check_shared(&**budgets, server, bucket, key).await
        {
            return status;
        }
        self.check_in_process(bucket, key)
    }

    /// Counts the request in the budgets that hosts share. Returns `None` if these budgets are
    /// unavailable.
    async fn check_shared(
        &self,
        budgets: &dyn SharedBudgets,
        server: &str,
        bucket: Bucket,
        key: &Key,
    ) -> Option<RateLimitStatus> {
        let limit = self.budgets[bucket as usize].load().limit;
        let budget = SharedBudget::of_requests(server, bucket, limit, key);
        let (remaining, wait) = match budgets.take(std::slice::from_ref(&budget)).await? {
            Taken::Accepted { full_in } => (budget.remaining(full_in), None),
            Taken::Rejected { full_in, .. } => (0, Some(budget.wait(full_in))),
        };
        Some(self.status(limit, remaining, wait))
    }

    fn check_in_process(&self, bucket: Bucket, key: &Key) -> RateLimitStatus {
        self.sweep();
        let budget = self.budgets[bucket as usize].load();
        let key = if budget.can_add_key(self.clock.monotonic().as_secs()) {
            Cow::Borrowed(key)
        } else {
            key.merged(&self.hashes)
        };
        let (remaining, wait) = match budget.limiter.check_key(&key) {
            Ok(state) => (state.remaining_burst_capacity(), None),
            Err(until) => {
                let wait = until.wait_time_from(Ticks(self.clock.clone()).now());
                (0, Some(wait))
            }
        };
        self.status(budget.limit, remaining, wait)
    }

    /// Returns the state of a bucket. `wait` is the time until a request is accepted, or `None` if
    /// this request was accepted.
    fn status(&self, limit: NonZeroU32, remaining: u32, wait: Option<Duration>) -> RateLimitStatus {
        let interval = interval(limit);
        let full_in = match wait {
            None => interval.saturating_mul(limit.get().saturating_sub(remaining)),
            Some(wait) => wait.saturating_add(interval.saturating_mul(limit.get() - 1)),
        };
        let reset = self.clock.now().plus(full_in);
        RateLimitStatus::new(limit.get(), remaining, reset, wait)
    }

    /// Starts an attempt to sign in to `address`. The caller must first count the request with
    /// [`Limits::check`].
    ///
    /// `known` is `true` if an earlier sign-in to `address` from the client's network succeeded.
    /// For a known network, failures from other networks do not count. So an attacker in another
    /// network cannot lock the owner out.
    ///
    /// # Errors
    /// Returns [`Kind::RateLimited`](crate::error::Kind::RateLimited) if `address` has had too many
    /// failures from the client's network, from its IPv6 /48 network, or from all networks
    /// together.
    pub async fn sign_in_attempt(
        &self,
        address: &str,
        client: IpAddr,
        known: bool,
    ) -> Result<Attempt<'_>, Failure> {
        let address: Box<str> = address.to_lowercase().into();
        let from = Key::AddressFrom(address.clone(), network(client));
        let strict = self.sign_in_address.get();
        let mut keys = vec![(from, strict)];
        if !known {
            if client.to_canonical().is_ipv6() {
                let site = Key::AddressFromSite(address.clone(), site(client));
                keys.push((site, strict.saturating_mul(SITE)));
            }
            keys.push((Key::Address(address), strict.saturating_mul(ALL_NETWORKS)));
        }
        self.sign_in_failures.attempt(keys).await
    }

    fn sweep(&self) {
        let now = self.clock.monotonic().as_secs();
        let last = self.swept.load(Ordering::Relaxed);
        let due = now.saturating_sub(last) >= SWEEP_EVERY.as_secs();
        // Several concurrent requests can find that the sweep is due. The exchange succeeds for
        // only one of them.
        if due
            && self
                .swept
                .compare_exchange(last, now, Ordering::Relaxed, Ordering::Relaxed)
                .is_ok()
        {
            for budget in &self.budgets {
                let budget = budget.load();
                budget.remove_full();
                budget.limiter.shrink_to_fit();
            }
        }
    }

    /// Returns the number of keys.
    #[cfg(test)]
    fn remembered(&self) -> usize {
        let budgets = self.budgets.iter().map(ArcSwap::load);
        budgets.map(|budget| budget.limiter.len()).sum()
    }
}

impl Budget {
    /// Counts a request and returns `true` if the memory limit [`MAX_KEYS`] allows a new key. `now`
    /// is in seconds of the monotonic clock.
    fn can_add_key(&self, now: u64) -> bool {
        if self.keys.fetch_add(1, Ordering::Relaxed) < MAX_KEYS {
            return true;
        }
        // Search for full budgets at most once per second. Otherwise a flood of new keys would
        // cause a search for each key.
        if self.cleared.swap(now, Ordering::Relaxed) != now {
            self.remove_full();
        }
        self.limiter.len() < MAX_KEYS
    }

    fn remove_full(&self) {
        self.limiter.retain_recent();
        self.keys.store(self.limiter.len(), Ordering::Relaxed);
    }
}

impl fmt::Debug for Limits {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Limits").finish_non_exhaustive()
    }
}

/// The monotonic clock for the crate `governor`. With the system clock, all clients would be
/// blocked if the system time were set back.
#[derive(Clone)]
struct Ticks(Clock);

impl governor::clock::Clock for Ticks {
    type Instant = Duration;

    fn now(&self) -> Duration {
        self.0.monotonic()
    }
}
