//! Rate limits: requests per minute, for each bucket and each credential or client (specification, section 8).
//!
//! Each [`Key`] has a budget in each bucket. A full budget is the number of requests that the limit allows per minute. The budget refills evenly over one
//! minute.
//!
//! The route of a request selects the bucket, and the key identifies the client. The memory for budgets is bounded for any number of clients.

mod failures;

use std::borrow::Cow;
use std::fmt;
use std::hash::{BuildHasher as _, RandomState};
use std::net::IpAddr;
use std::num::NonZeroU32;
use std::sync::atomic::{AtomicU32, AtomicU64, AtomicUsize, Ordering};
use std::time::Duration;

use arc_swap::ArcSwap;
use governor::clock::Clock as _;
use governor::middleware::StateInformationMiddleware;
use governor::state::keyed::DashMapStateStore;
use governor::{Quota, RateLimiter};

use crate::caller::{Caller, Credential};
use crate::clock::Clock;
use crate::config;
use crate::error::{Failure, StartError};
use crate::network::{network, region};
use crate::verdict::Verdict;

pub use failures::{Attempt, Failures};

/// The interval at which keys with a full budget are removed from memory.
const SWEEP_EVERY: Duration = Duration::from_mins(1);

/// The maximum number of keys of one bucket. This number of keys needs about 10 MB of memory. If a bucket has this number of keys, new keys are merged
/// ([`Key::merged`]).
const MAX_KEYS: usize = 100_000;

macro_rules! buckets {
    ($($bucket:ident = $key:ident),* $(,)?) => {
        /// A rate-limit bucket. The configuration section `[limits]` has one key for each bucket.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        #[expect(missing_docs, reason = "each variant is the key of the same name")]
        pub enum Bucket {
            $($bucket),*
        }

        impl Bucket {
            /// All buckets, in the order of the configuration.
            pub const ALL: &[Self] = &[$(Self::$bucket),*];

            /// Returns the bucket's name, which is its configuration key in `[limits]`.
            #[must_use]
            pub const fn name(self) -> &'static str {
                match self {
                    $(Self::$bucket => stringify!($key)),*
                }
            }

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
    Teams = teams,
    Modules = modules,
    Public = public,
    Readiness = readiness,
    Session = session,
    OAuth = oauth,
    Admin = admin,
}

impl Bucket {
    /// Returns the bucket with this name, or `None` if there is no such bucket.
    #[must_use]
    pub fn named(name: &str) -> Option<Self> {
        Self::ALL
            .iter()
            .copied()
            .find(|bucket| bucket.name() == name)
    }
}

/// The key of a budget. The key identifies the session, token, account, client or mail address whose requests use the budget.
#[derive(Clone, PartialEq, Eq, Hash)]
pub enum Key {
    /// A web session.
    Session(Box<str>),
    /// An API token.
    ApiToken(Box<str>),
    /// An OAuth grant.
    OAuth(Box<str>),
    /// An account. Used for requests to the agent endpoint with any credential of the account.
    Account(Box<str>),
    /// A client without a credential: an IPv4 address, or the /64 network of an IPv6 address. One client usually controls all addresses of a /64 network.
    Client(IpAddr),
    /// A mail address. The budget limits the failed attempts to sign in to this address from all networks together.
    Address(Box<str>),
    /// A mail address and a client network. The budget limits the failed attempts to sign in to this address from this network.
    AddressFrom(Box<str>, IpAddr),
    /// All clients in one IPv4 /16 network or one IPv6 /32 network. Replaces the keys of single clients if the bucket has too many keys.
    Region(IpAddr),
    /// All mail addresses with the same 16-bit hash. Replaces the keys of single addresses if the bucket has too many keys.
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
        }
    }

    /// Returns the key of a request without a credential.
    #[must_use]
    pub fn client(address: IpAddr) -> Self {
        Self::Client(network(address))
    }

    /// Returns a less specific key, which replaces this key if the bucket has too many keys. Client networks and mail addresses are merged, because an attacker
    /// can use any number of networks and addresses. Credentials are not merged, because the service issued each credential.
    fn merged(&self, hashes: &RandomState) -> Cow<'_, Self> {
        match self {
            Self::Client(address) => Cow::Owned(Self::Region(region(*address))),
            Self::Address(address) | Self::AddressFrom(address, _) => {
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
    /// The maximum number of failed sign-in attempts per minute for one mail address from one client network.
    sign_in_address: Limit,
    sign_in_failures: Failures,
    hashes: RandomState,
    swept: AtomicU64,
}

/// A limit that can change while the service runs.
#[derive(Debug)]
pub struct Limit(AtomicU32);

impl Limit {
    /// Creates a limit. The limit of 0 is 1.
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

/// For one mail address, the limit on failed sign-in attempts from all networks together is this number times the limit for one network.
const ALL_NETWORKS: NonZeroU32 = NonZeroU32::new(20).unwrap();

/// The budgets of one bucket.
struct Budget {
    limit: NonZeroU32,
    limiter: Limiter,
    /// An upper bound on the number of keys. The exact number is determined only when this bound reaches the maximum, because counting is expensive.
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
            clock,
            budgets,
            hashes: RandomState::new(),
        })
    }

    /// Changes the limits. In a bucket whose limit changes, every client starts with a full budget. Counted failures of sign-in stay.
    ///
    /// # Errors
    /// Returns an error that names the configuration key if a limit is 0. In this case, no limit changes.
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

    /// Counts one request of `key` in a bucket. Returns whether the request is accepted, and the state of the bucket.
    #[must_use]
    pub fn check(&self, bucket: Bucket, key: &Key) -> Verdict {
        self.sweep();
        let budget = self.budgets[bucket as usize].load();
        let key = if budget.can_add_key(self.clock.monotonic().as_secs()) {
            Cow::Borrowed(key)
        } else {
            key.merged(&self.hashes)
        };
        let limit = budget.limit;
        let interval = Duration::from_mins(1) / limit.get();
        let (remaining, wait, whole_in) = match budget.limiter.check_key(&key) {
            Ok(state) => {
                let remaining = state.remaining_burst_capacity();
                let spent = limit.get().saturating_sub(remaining);
                (remaining, None, interval.saturating_mul(spent))
            }
            Err(until) => {
                let wait = until.wait_time_from(Ticks(self.clock.clone()).now());
                let rest = interval.saturating_mul(limit.get() - 1);
                (0, Some(wait), wait.saturating_add(rest))
            }
        };
        let reset = self.clock.now().plus(whole_in);
        Verdict::new(limit.get(), remaining, reset, wait)
    }

    /// Starts an attempt to sign in to `address`. The caller must first count the request with [`Limits::check`].
    ///
    /// `known` is `true` if an earlier sign-in to `address` from the client's network succeeded. For a known network, failures from other networks do not
    /// count. So an attacker in another network cannot lock the owner out.
    ///
    /// # Errors
    /// Returns [`Kind::RateLimited`](crate::error::Kind::RateLimited) if `address` has had too many failures from the client's network, or from all networks
    /// together.
    pub fn sign_in_attempt(
        &self,
        address: &str,
        client: IpAddr,
        known: bool,
    ) -> Result<Attempt<'_>, Failure> {
        let address: Box<str> = address.to_lowercase().into();
        let from = Key::AddressFrom(address.clone(), network(client));
        let strict = self.sign_in_address.get();
        let all = (!known).then(|| {
            let limit = strict.saturating_mul(ALL_NETWORKS);
            (Key::Address(address), limit)
        });
        self.sign_in_failures
            .attempt([(from, strict)].into_iter().chain(all))
    }

    fn sweep(&self) {
        let now = self.clock.monotonic().as_secs();
        let last = self.swept.load(Ordering::Relaxed);
        let due = now.saturating_sub(last) >= SWEEP_EVERY.as_secs();
        // Only one of the concurrent requests runs the sweep.
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
    /// Returns `true` if another key can be stored.
    fn can_add_key(&self, now: u64) -> bool {
        if self.keys.fetch_add(1, Ordering::Relaxed) < MAX_KEYS {
            return true;
        }
        // Search for full budgets at most once per second. Otherwise a flood of new keys would cause a search for each key.
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

/// The monotonic clock for the crate `governor`. With the system clock, all clients would be blocked if the system time were set back.
#[derive(Clone)]
struct Ticks(Clock);

impl governor::clock::Clock for Ticks {
    type Instant = Duration;

    fn now(&self) -> Duration {
        self.0.monotonic()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::clock::Timestamp;
    use crate::error::Kind;

    const START: i64 = 1_795_161_600_000;

    fn limits() -> (Limits, Clock) {
        let clock = Clock::manual(Timestamp::from_millis(START));
        let limits = Limits::new(&config::Limits::default(), clock.clone()).unwrap();
        (limits, clock)
    }

    fn session(sid: &str) -> Key {
        Key::Session(sid.into())
    }

    #[test]
    fn a_whole_minutes_budget_may_be_spent_at_once_and_no_more() {
        let (limits, _) = limits();
        for left in (0..60).rev() {
            let verdict = limits.check(Bucket::Mail, &session("a"));
            assert_eq!((verdict.remaining, verdict.retry_after), (left, None));
        }
        let verdict = limits.check(Bucket::Mail, &session("a"));
        assert_eq!(
            verdict,
            Verdict {
                limit: 60,
                remaining: 0,
                reset: START / 1000 + 60,
                retry_after: Some(1),
            }
        );
    }

    #[test]
    fn a_client_that_waits_as_long_as_it_was_told_is_served() {
        let (limits, clock) = limits();
        for _ in 0..5 {
            assert!(limits.check(Bucket::SignIn, &session("a")).admit().is_ok());
        }
        let refused = limits.check(Bucket::SignIn, &session("a"));
        assert_eq!(refused.retry_after, Some(12));
        clock.advance(Duration::from_secs(12));
        assert!(limits.check(Bucket::SignIn, &session("a")).admit().is_ok());
        assert!(limits.check(Bucket::SignIn, &session("a")).admit().is_err());
        clock.advance(Duration::from_mins(1));
        assert_eq!(limits.check(Bucket::SignIn, &session("a")).remaining, 4);
    }

    #[test]
    fn nobody_is_told_to_come_back_at_once() {
        let (limits, clock) = limits();
        for _ in 0..120 {
            let _ = limits.check(Bucket::Mcp, &session("a"));
        }
        // The next request is accepted after half a second, but the header has whole seconds.
        assert_eq!(
            limits.check(Bucket::Mcp, &session("a")).retry_after,
            Some(1)
        );
        clock.advance(Duration::from_secs(1));
        assert_eq!(limits.check(Bucket::Mcp, &session("a")).retry_after, None);
    }

    #[test]
    fn one_credential_cannot_spend_anothers_budget_nor_one_bucket_anothers() {
        let (limits, _) = limits();
        for _ in 0..20 {
            let _ = limits.check(Bucket::Search, &session("a"));
        }
        assert!(limits.check(Bucket::Search, &session("a")).admit().is_err());
        assert!(limits.check(Bucket::Search, &session("b")).admit().is_ok());
        let token = Key::ApiToken("a".into());
        assert!(limits.check(Bucket::Search, &token).admit().is_ok());
        assert!(limits.check(Bucket::Mail, &session("a")).admit().is_ok());
    }

    #[test]
    fn a_client_is_an_ipv4_address_or_a_network_of_ipv6() {
        let key = |text: &str| Key::client(text.parse().unwrap());
        assert!(key("2001:db8:1:2::1") == key("2001:db8:1:2:ffff::9"));
        assert!(key("2001:db8:1:2::1") != key("2001:db8:1:3::1"));
        assert!(key("192.0.2.1") == key("::ffff:192.0.2.1"));
        assert!(key("192.0.2.1") != key("192.0.2.2"));
    }

    #[test]
    fn strangers_use_up_their_own_attempts_on_an_address_and_not_the_owners() {
        let (limits, _) = limits();
        let attempt = |network: u8, known| {
            limits.sign_in_attempt("A@example.org", [192, 0, 2, network].into(), known)
        };
        for _ in 0..5 {
            drop(attempt(1, false).ok().unwrap());
        }
        let failure = attempt(1, false).err().unwrap();
        assert!(matches!(failure.kind, Kind::RateLimited(_)));
        attempt(2, false).ok().unwrap().succeeded();
        for network in 10..29 {
            for _ in 0..5 {
                drop(attempt(network, false).ok().unwrap());
            }
        }
        assert!(attempt(2, false).is_err(), "100 from all networks");
        assert!(attempt(2, true).is_ok());
        assert!(attempt(1, true).is_err());
    }

    #[test]
    fn keys_whose_budget_is_whole_again_are_forgotten() {
        let (limits, clock) = limits();
        for client in 0..1000_u32 {
            let _ = limits.check(
                Bucket::Public,
                &Key::client(IpAddr::from(client.to_be_bytes())),
            );
        }
        assert_eq!(limits.remembered(), 1000);
        clock.advance(Duration::from_secs(61));
        let _ = limits.check(Bucket::Public, &session("a"));
        assert_eq!(limits.remembered(), 1);
    }

    #[test]
    fn a_flood_of_clients_shares_what_is_left_and_takes_no_more_memory() {
        let (limits, clock) = limits();
        let client = |n: u32| Key::client(IpAddr::from((0x0a00_0000 + n).to_be_bytes()));
        let flood = u32::try_from(MAX_KEYS).unwrap();
        for n in 0..flood + 1000 {
            let _ = limits.check(Bucket::SignIn, &client(n));
        }
        assert!(
            limits.remembered() <= MAX_KEYS + 10,
            "{}",
            limits.remembered()
        );
        let neighbours = limits.check(Bucket::SignIn, &client(flood + 2000));
        assert!(neighbours.admit().is_err(), "its region's budget is spent");
        let elsewhere = Key::client([192, 0, 2, 1].into());
        assert!(limits.check(Bucket::SignIn, &elsewhere).admit().is_ok());
        let known = limits.check(Bucket::SignIn, &session("a"));
        assert_eq!(
            known.remaining, 4,
            "a credential has its own, however many come"
        );
        clock.advance(Duration::from_mins(1));
        assert_eq!(limits.check(Bucket::SignIn, &client(1)).remaining, 4);
    }

    #[test]
    fn a_limit_of_nothing_is_refused_by_name() {
        let config = config::Limits {
            search: 0,
            ..config::Limits::default()
        };
        let error = Limits::new(&config, Clock::system()).unwrap_err();
        assert!(error.to_string().contains("limits.search"));
    }

    #[test]
    fn a_reload_changes_limits_and_keeps_the_budgets_of_other_buckets() {
        let (limits, _) = limits();
        let _ = limits.check(Bucket::Mail, &session("a"));
        let _ = limits.check(Bucket::Search, &session("a"));
        let changed = config::Limits {
            search: 7,
            sign_in_address: 1,
            ..config::Limits::default()
        };
        limits.reload(&changed).unwrap();
        assert_eq!(limits.check(Bucket::Mail, &session("a")).remaining, 58);
        assert_eq!(limits.check(Bucket::Search, &session("a")).limit, 7);
        let attempt = || limits.sign_in_attempt("a@example.org", [192, 0, 2, 1].into(), false);
        drop(attempt().ok().unwrap());
        assert!(attempt().is_err());
        let invalid = config::Limits {
            mail: 5,
            admin: 0,
            ..config::Limits::default()
        };
        limits.reload(&invalid).unwrap_err();
        assert_eq!(limits.check(Bucket::Mail, &session("a")).limit, 60);
    }

    #[test]
    fn buckets_are_the_configurations_keys() {
        assert_eq!(Bucket::named("app_passwords"), Some(Bucket::AppPasswords));
        assert_eq!(Bucket::named("mial"), None);
    }
}
