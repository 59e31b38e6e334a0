//! Budgets that several hosts share. This crate has no network, so another crate implements
//! [`SharedBudgets`].
//!
//! If the shared budgets are unavailable, each host uses its own budgets.

use std::fmt;
use std::net::IpAddr;
use std::num::NonZeroU32;
use std::pin::Pin;
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use sha2::{Digest as _, Sha256};

use super::{Bucket, Key};

/// The length of the hash of a key in the name of a budget, in bytes before base64url encoding.
const HASH_LENGTH: usize = 16;

/// A boxed future.
pub type BoxFuture<'a, T> = Pin<Box<dyn Future<Output = T> + Send + 'a>>;

/// The store of shared budgets.
///
/// The store keeps one time for each budget: the time at which the budget is completely refilled. A
/// request moves this time forward by [`SharedBudget::interval`] (generic cell rate algorithm,
/// GCRA).
pub trait SharedBudgets: fmt::Debug + Send + Sync {
    /// Returns `true` if the store is available. If it is unavailable, each host must use its own
    /// budgets.
    fn is_available(&self) -> bool;

    /// Counts one request towards each budget. If a budget rejects the request, the request counts
    /// towards no budget. Returns `None` if the store is unavailable.
    fn take<'a>(&'a self, budgets: &'a [SharedBudget]) -> BoxFuture<'a, Option<Taken>>;

    /// Reverts [`take`](Self::take): removes one request from the count of each budget. Does
    /// nothing if the store is unavailable.
    fn give_back<'a>(&'a self, budgets: &'a [SharedBudget]) -> BoxFuture<'a, ()>;
}

/// A budget in the store.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SharedBudget {
    /// The name of the budget. All hosts use the same name. The name contains no mail address,
    /// client address or id.
    pub name: String,
    /// The time in which the budget refills by one request.
    pub interval: Duration,
    /// The budget accepts a request only if the time until the budget is completely refilled is at
    /// most this duration.
    pub tolerance: Duration,
}

/// The result of [`SharedBudgets::take`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Taken {
    /// All budgets accept the request.
    Accepted {
        /// The time until the first of the passed budgets is completely refilled.
        full_in: Duration,
    },
    /// A budget rejects the request.
    Rejected {
        /// The index of the rejecting budget among the passed budgets.
        index: usize,
        /// The time until the rejecting budget is completely refilled.
        full_in: Duration,
    },
}

impl SharedBudget {
    /// Creates the budget of a key in a bucket. `server` identifies the server, because each server
    /// of a host has its own budgets. The name contains the limit, so clients start with a full
    /// budget after a change of the limit, and hosts with different limits do not affect each
    /// other.
    #[must_use]
    pub fn of_requests(server: &str, bucket: Bucket, limit: NonZeroU32, key: &Key) -> Self {
        let interval = super::interval(limit);
        Self {
            name: format!("{server}:{}:{limit}:{}", bucket.name(), hash(key)),
            interval,
            tolerance: interval.saturating_mul(limit.get() - 1),
        }
    }

    /// Creates the budget of a key for failed attempts. The name does not contain the limit, so
    /// counted failures stay after a change of the limit.
    pub(super) fn of_failures(purpose: &str, limit: NonZeroU32, key: &Key) -> Self {
        let interval = super::interval(limit);
        Self {
            name: format!("{purpose}:{}", hash(key)),
            interval,
            tolerance: super::MINUTE.saturating_sub(interval),
        }
    }

    /// Returns the time until the budget accepts a request that it rejected.
    pub(super) fn wait(&self, full_in: Duration) -> Duration {
        full_in.saturating_sub(self.tolerance)
    }

    /// Returns the number of further requests that the budget accepts immediately.
    pub(super) fn remaining(&self, full_in: Duration) -> u32 {
        let free = (self.tolerance + self.interval).saturating_sub(full_in);
        let remaining = free.as_nanos() / self.interval.as_nanos().max(1);
        u32::try_from(remaining).unwrap_or(u32::MAX)
    }
}

/// Returns a hash of a key. All hosts compute the same hash. A person who reads the store does not
/// see mail addresses and client addresses.
fn hash(key: &Key) -> String {
    let mut hasher = Sha256::new();
    let mut add = |kind: &str, text: &str, address: Option<IpAddr>| {
        hasher.update(kind);
        if let Some(address) = address {
            hasher.update(address.to_string());
        }
        hasher.update([0]);
        hasher.update(text);
    };
    match key {
        Key::Session(sid) => add("session ", sid, None),
        Key::ApiToken(id) => add("token ", id, None),
        Key::OAuth(id) => add("oauth ", id, None),
        Key::AppPassword(id) => add("app password ", id, None),
        Key::Operator(id) => add("operator token ", id, None),
        Key::Account(id) => add("account ", id, None),
        Key::Client(address) => add("client ", "", Some(*address)),
        Key::Address(address) => add("address ", address, None),
        Key::AddressFrom(address, network) => add("address from ", address, Some(*network)),
        Key::AddressFromSite(address, site) => add("address from site ", address, Some(*site)),
        Key::Receiver(receiver, None) => add("receiver ", receiver, None),
        Key::Receiver(receiver, Some(id)) => {
            add("receiver of credential ", &format!("{id} {receiver}"), None);
        }
        Key::Region(address) => add("region ", "", Some(*address)),
        Key::Addresses(hash) => add("addresses ", &hash.to_string(), None),
    }
    let digest = hasher.finalize();
    URL_SAFE_NO_PAD.encode(&digest[..HASH_LENGTH])
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;
    use std::sync::Mutex;
    use std::sync::atomic::{AtomicBool, Ordering};

    use super::super::tests::done;
    use super::super::{Failures, Limits};
    use super::*;
    use crate::clock::{Clock, Timestamp};
    use crate::config;
    use crate::error::Kind;

    const START: Timestamp = Timestamp::from_millis(1_795_161_600_000);

    /// A store in the memory, without an own clock.
    #[derive(Debug, Default)]
    struct Store {
        full_in: Mutex<std::collections::HashMap<String, Duration>>,
        is_down: AtomicBool,
    }

    impl SharedBudgets for Store {
        fn is_available(&self) -> bool {
            true
        }

        fn take<'a>(&'a self, budgets: &'a [SharedBudget]) -> BoxFuture<'a, Option<Taken>> {
            let mut stored = self.full_in.lock().unwrap();
            let full_in =
                |budget: &SharedBudget| stored.get(&budget.name).copied().unwrap_or_default();
            let rejecting = budgets.iter().position(|one| full_in(one) > one.tolerance);
            let taken = if let Some(index) = rejecting {
                let full_in = full_in(&budgets[index]);
                Taken::Rejected { index, full_in }
            } else {
                for budget in budgets {
                    *stored.entry(budget.name.clone()).or_default() += budget.interval;
                }
                let full_in = stored[&budgets[0].name];
                Taken::Accepted { full_in }
            };
            drop(stored);
            let is_down = self.is_down.load(Ordering::Relaxed);
            Box::pin(async move { (!is_down).then_some(taken) })
        }

        fn give_back<'a>(&'a self, budgets: &'a [SharedBudget]) -> BoxFuture<'a, ()> {
            for budget in budgets {
                *self.full_in.lock().unwrap().get_mut(&budget.name).unwrap() -= budget.interval;
            }
            Box::pin(async {})
        }
    }

    fn host(store: &std::sync::Arc<Store>) -> Limits {
        let clock = Clock::manual(START);
        let limits = Limits::new(&config::Limits::default(), clock).unwrap();
        limits.with_shared(std::sync::Arc::clone(store) as _, "api")
    }

    #[test]
    fn hosts_count_together_and_alone_without_the_store() {
        let store = std::sync::Arc::new(Store::default());
        let hosts = [host(&store), host(&store)];
        let key = Key::Session("a".into());
        let check = |host: usize| done(hosts[host].check(Bucket::SignIn, &key));
        for n in 0..5 {
            let status = check(n % 2);
            let left = 4 - u32::try_from(n).unwrap();
            assert_eq!((status.remaining, status.retry_after), (left, None));
        }
        let refused = check(1);
        assert_eq!(refused.retry_after, Some(12));
        assert_eq!(refused.reset, START.seconds() + 60);
        store.is_down.store(true, Ordering::Relaxed);
        assert_eq!(check(0).remaining, 4);
        assert_eq!(check(1).remaining, 4);
    }

    #[test]
    fn hosts_count_failed_attempts_together() {
        let store = std::sync::Arc::new(Store::default());
        let hosts = [host(&store), host(&store)];
        let attempt = |host: usize| {
            done(hosts[host].sign_in_attempt("A@example.org", [192, 0, 2, 1].into(), false))
        };
        done(attempt(0).ok().unwrap().succeeded());
        for n in 0..5 {
            drop(attempt(n % 2).ok().unwrap());
        }
        for host in 0..2 {
            let refused = attempt(host).err().unwrap();
            let Kind::RateLimited(status) = refused.kind else {
                panic!("{refused:?}");
            };
            assert_eq!((status.limit, status.retry_after), (5, Some(12)));
        }
        let names: Vec<_> = store.full_in.lock().unwrap().keys().cloned().collect();
        assert!(
            names.iter().all(|name| !name.contains("example")),
            "{names:?}"
        );
    }

    #[test]
    fn an_attempt_that_was_counted_by_the_host_is_reverted_by_the_host() {
        let store = std::sync::Arc::new(Store::default());
        store.is_down.store(true, Ordering::Relaxed);
        let failures = Failures::new(Clock::manual(START))
            .with_shared(std::sync::Arc::clone(&store) as _, "test");
        let key = || [(Key::Address("a".into()), NonZeroU32::MIN)];
        let attempt = done(failures.attempt(key())).ok().unwrap();
        assert!(done(failures.attempt(key())).is_err());
        done(attempt.succeeded());
        assert!(done(failures.attempt(key())).is_ok());
    }

    #[test]
    fn keys_have_different_hashes_of_the_same_length() {
        let network = IpAddr::from([192, 0, 2, 0]);
        let keys = [
            Key::Session("a".into()),
            Key::ApiToken("a".into()),
            Key::OAuth("a".into()),
            Key::AppPassword("a".into()),
            Key::Account("a".into()),
            Key::Client(network),
            Key::Address("a".into()),
            Key::AddressFrom("a".into(), network),
            Key::AddressFrom("a".into(), [192, 0, 2, 1].into()),
            Key::Receiver("a".into(), None),
            Key::Receiver("a".into(), Some("a".into())),
            Key::Region(network),
            Key::Addresses(7),
        ];
        let hashes: HashSet<_> = keys.iter().map(hash).collect();
        assert_eq!(hashes.len(), keys.len());
        assert!(hashes.iter().all(|hash| hash.len() == 22));
        // All versions of the service on the hosts must compute the same hash.
        assert_eq!(hash(&keys[0]), "HA5VeD_m42qNM01rymsfqA");
    }
}
