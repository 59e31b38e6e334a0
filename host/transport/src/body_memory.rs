//! The memory budget for request bodies.
//!
//! Each account, each client network and each site (IPv6 /48, IPv4 /24) can use only a part of the
//! budget. Bodies of up to 64 KiB use a separate pool, and a reserve is only for bodies of up to 4
//! KiB. So a client cannot use the memory that the requests of other clients need. This module
//! counts memory, but does not allocate memory.

use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use latchmail_core::account_permits::AccountPermits;
use latchmail_core::codes;
use latchmail_core::network::{network, site};
use tokio::sync::OwnedSemaphorePermit;

use crate::error::RequestError;

/// The maximum size of a body that uses the reserve, in KiB. The reserve is used when the pool for
/// small bodies has no memory for the client.
const TINY: usize = 4;
/// The maximum size of a body that uses the small pool, in KiB.
const SMALL: usize = 64;
/// The size of the large pool divided by the size of the reserve. `SMALL_POOL_DIVISOR` is the same
/// for the small pool.
const RESERVE_DIVISOR: usize = 64;
const SMALL_POOL_DIVISOR: usize = 8;
/// The size of a pool divided by the maximum size that one account can use.
const ACCOUNT_DIVISOR: usize = 4;
/// The size of a pool divided by the maximum size that one client network can use. `SITE_DIVISOR`
/// is the same for one site.
const NETWORK_DIVISOR: usize = 16;
const SITE_DIVISOR: usize = 4;
/// The size of the large pool divided by the maximum size that one client network or one site can
/// use for requests with a caller. The limit is high, because each account has its own limit, and
/// all users of an organization can have the same IP address.
const CALLERS_DIVISOR: usize = 2;
/// The maximum size of a body that does not count as large, in bytes. Only large bodies need a
/// permit of their account.
pub(crate) const LARGE: usize = 1024 * 1024;
/// The maximum number of large bodies of one account that are in memory concurrently.
const LARGE_PER_ACCOUNT: usize = 2;

/// The memory budget for all request bodies.
#[derive(Debug)]
pub struct BodyMemory {
    reserve: Mutex<Pool>,
    small: Mutex<Pool>,
    large: Mutex<Pool>,
    large_body_permits: AccountPermits,
}

/// The name of a pool.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum PoolName {
    Reserve,
    Small,
    Large,
}

impl PoolName {
    /// Returns the pools that a body of `kibibytes` can use, in order of preference.
    fn of(kibibytes: usize) -> &'static [Self] {
        if kibibytes <= TINY {
            &[Self::Small, Self::Reserve]
        } else if kibibytes <= SMALL {
            &[Self::Small]
        } else {
            &[Self::Large]
        }
    }

    /// Returns the maximum size of a body in this pool, in KiB.
    fn max_body(self) -> usize {
        match self {
            Self::Reserve => TINY,
            Self::Small => SMALL,
            Self::Large => usize::MAX,
        }
    }
}

/// A pool of memory. Sizes are in KiB.
#[derive(Debug, Default)]
struct Pool {
    size: usize,
    used: usize,
    /// The used memory of each account, each client network and each site.
    used_by_consumer: HashMap<Consumer, usize>,
}

/// A party with a limited part of each pool.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
enum Consumer {
    Account(String),
    Network(IpAddr),
    Site(IpAddr),
}

/// The reserved memory of one body. Dropping this value releases the memory.
#[derive(Debug)]
pub struct Reservation {
    memory: Arc<BodyMemory>,
    /// The account, if the request has a caller, followed by the client network and the site.
    consumers: Vec<Consumer>,
    /// The maximum size of a request body on the route, in KiB. A consumer can always use at least
    /// this much memory.
    max_body: usize,
    /// The pool and the size of the reserved memory, in KiB.
    used: Option<(PoolName, usize)>,
    large_body_permit: Option<OwnedSemaphorePermit>,
}

impl BodyMemory {
    /// Creates the budget with a pool of `mebibytes` MiB for bodies above 64 KiB. In addition,
    /// there is a pool of an eighth of this size for smaller bodies, and a reserve of a 64th of
    /// this size.
    #[must_use]
    pub fn new(mebibytes: usize) -> Self {
        let pool = |size| {
            Mutex::new(Pool {
                size,
                ..Pool::default()
            })
        };
        let size = mebibytes.saturating_mul(1024);
        Self {
            reserve: pool(size / RESERVE_DIVISOR),
            small: pool(size / SMALL_POOL_DIVISOR),
            large: pool(size),
            large_body_permits: AccountPermits::new(LARGE_PER_ACCOUNT),
        }
    }

    /// Returns an empty reservation for a body of at most `max_body` bytes.
    #[must_use]
    pub fn reserve(
        self: &Arc<Self>,
        account: Option<&str>,
        client: IpAddr,
        max_body: usize,
    ) -> Reservation {
        let account = account.map(|account| Consumer::Account(account.to_owned()));
        let network = Consumer::Network(network(client));
        let site = Consumer::Site(site(client));
        Reservation {
            memory: Arc::clone(self),
            consumers: account.into_iter().chain([network, site]).collect(),
            max_body: max_body.div_ceil(1024),
            used: None,
            large_body_permit: None,
        }
    }

    fn pool(&self, name: PoolName) -> MutexGuard<'_, Pool> {
        let pool = match name {
            PoolName::Reserve => &self.reserve,
            PoolName::Small => &self.small,
            PoolName::Large => &self.large,
        };
        pool.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Pool {
    /// Checks that the pool has `kibibytes` left, and that no consumer exceeds its part of the
    /// pool.
    fn check(
        &self,
        name: PoolName,
        reservation: &Reservation,
        kibibytes: usize,
    ) -> Result<(), RequestError> {
        if self.used.saturating_add(kibibytes) > self.size {
            return Err(RequestError::unavailable(
                codes::SERVICE_BUSY,
                "The service is busy, please try again in a moment",
            ));
        }
        let is_within_limit = |consumer: &Consumer| {
            let used = self.used_by_consumer.get(consumer).copied();
            let max_body = reservation.max_body.min(name.max_body());
            let limit = (self.size / reservation.divisor(name, consumer)).max(max_body);
            used.unwrap_or_default().saturating_add(kibibytes) <= limit
        };
        if reservation.consumers.iter().all(is_within_limit) {
            Ok(())
        } else {
            Err(too_many_large_bodies())
        }
    }

    fn add(&mut self, reservation: &Reservation, kibibytes: usize) {
        self.used += kibibytes;
        for consumer in &reservation.consumers {
            *self.used_by_consumer.entry(consumer.clone()).or_default() += kibibytes;
        }
    }

    fn release(&mut self, reservation: &Reservation, kibibytes: usize) {
        self.used = self.used.saturating_sub(kibibytes);
        for consumer in &reservation.consumers {
            if let Some(used) = self.used_by_consumer.get_mut(consumer) {
                *used = used.saturating_sub(kibibytes);
                if *used == 0 {
                    self.used_by_consumer.remove(consumer);
                }
            }
        }
    }
}

impl Reservation {
    /// Acquires a permit for a large body. Waits if the account has the maximum number of large
    /// bodies. A request without a caller uses the permits of its client network. Dropping the
    /// reservation releases the permit.
    pub(crate) async fn acquire_large_body_permit(&mut self) {
        if self.large_body_permit.is_none()
            && let Some(consumer) = self.consumers.first()
        {
            let name = match consumer {
                Consumer::Account(id) => id.clone(),
                Consumer::Network(address) | Consumer::Site(address) => address.to_string(),
            };
            self.large_body_permit = self.memory.large_body_permits.acquire(&name).await;
        }
    }

    /// Returns the size of a pool divided by the maximum size that a consumer can use.
    fn divisor(&self, name: PoolName, consumer: &Consumer) -> usize {
        let has_caller = matches!(self.consumers.first(), Some(Consumer::Account(_)));
        match consumer {
            Consumer::Account(_) => ACCOUNT_DIVISOR,
            Consumer::Network(_) | Consumer::Site(_) if has_caller && name == PoolName::Large => {
                CALLERS_DIVISOR
            }
            Consumer::Network(_) => NETWORK_DIVISOR,
            Consumer::Site(_) => SITE_DIVISOR,
        }
    }

    /// Checks that the memory for a body of `bytes` is currently available.
    ///
    /// # Errors
    /// Returns 503 if the memory is not available.
    pub(crate) fn check(&self, bytes: usize) -> Result<(), RequestError> {
        let size = bytes.div_ceil(1024);
        self.first_pool(size, |name| self.memory.pool(name).check(name, self, size))
    }

    /// Reserves the memory for a body that has grown to `bytes`.
    ///
    /// # Errors
    /// Returns 503 if the memory is not available.
    pub(crate) fn grow_to(&mut self, bytes: usize) -> Result<(), RequestError> {
        let size = bytes.div_ceil(1024);
        let (current, used) = self.used.unzip();
        let used = used.unwrap_or_default();
        if size <= used {
            return Ok(());
        }
        let mut next = None;
        self.first_pool(size, |name| {
            let stays = current == Some(name);
            let additional = if stays { size - used } else { size };
            let mut pool = self.memory.pool(name);
            pool.check(name, self, additional)?;
            pool.add(self, additional);
            next = Some(name);
            Ok(())
        })?;
        if next != current {
            self.release();
        }
        self.used = next.map(|name| (name, size));
        Ok(())
    }

    /// Applies `action` to the pools that a body of `size` KiB can use, until `action` succeeds.
    /// The current pool of the body is the first one.
    fn first_pool(
        &self,
        size: usize,
        mut action: impl FnMut(PoolName) -> Result<(), RequestError>,
    ) -> Result<(), RequestError> {
        let names = PoolName::of(size);
        let current = self.used.map(|(name, _)| name);
        let current = current.filter(|name| names.contains(name));
        let others = names.iter().copied().filter(|name| Some(*name) != current);
        let mut result = Ok(());
        for name in current.into_iter().chain(others) {
            result = action(name);
            if result.is_ok() {
                break;
            }
        }
        result
    }

    /// Releases the memory.
    fn release(&mut self) {
        if let Some((name, size)) = self.used.take() {
            let memory = Arc::clone(&self.memory);
            memory.pool(name).release(self, size);
        }
    }
}

/// Returns the 503 error for a client that already uses its part of the memory.
pub(crate) fn too_many_large_bodies() -> RequestError {
    RequestError::unavailable(
        codes::TOO_MANY_LARGE_BODIES,
        "Too many requests with large bodies, please try again in a moment",
    )
}

impl Drop for Reservation {
    fn drop(&mut self) {
        self.release();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const HOME: IpAddr = IpAddr::V4(std::net::Ipv4Addr::new(192, 0, 2, 1));
    const AWAY: IpAddr = IpAddr::V4(std::net::Ipv4Addr::new(198, 51, 100, 1));
    const MIB: usize = 1024 * 1024;

    #[test]
    fn an_account_and_a_network_are_limited_to_a_part_of_the_memory() {
        let memory = Arc::new(BodyMemory::new(8));
        let reserve = |account: &str, client| {
            let mut reservation = memory.reserve(Some(account), client, MIB);
            reservation.grow_to(MIB).map(|()| reservation)
        };
        let first: Vec<_> = [reserve("ada", HOME), reserve("ada", HOME)].into();
        assert!(first.iter().all(Result::is_ok));
        assert_eq!(reserve("ada", AWAY).unwrap_err().status, 503);
        let second = [reserve("bob", HOME), reserve("bob", HOME)];
        assert!(second.iter().all(Result::is_ok));
        assert_eq!(reserve("eve", HOME).unwrap_err().status, 503);
        assert!(reserve("eve", AWAY).is_ok());
        drop(first);
        assert!(reserve("ada", HOME).is_ok());
        drop(second);
        assert_eq!(memory.large.lock().unwrap().used, 0);
        assert!(memory.large.lock().unwrap().used_by_consumer.is_empty());
    }

    #[test]
    fn small_bodies_are_accepted_if_the_large_pool_is_used_up() {
        let memory = Arc::new(BodyMemory::new(2));
        let mut large = memory.reserve(Some("ada"), HOME, 2 * MIB);
        large.grow_to(2 * MIB).unwrap();
        let mut small = memory.reserve(Some("ada"), HOME, 2 * MIB);
        small.grow_to(1000).unwrap();
        small.grow_to(SMALL * 1024).unwrap();
        assert_eq!(small.grow_to(SMALL * 1024 + 1).unwrap_err().status, 503);
        drop(large);
        small.grow_to(SMALL * 1024 + 1).unwrap();
        assert_eq!(memory.small.lock().unwrap().used, 0);
        drop(small);
        assert_eq!(memory.large.lock().unwrap().used, 0);
    }

    #[test]
    fn one_body_of_the_maximum_size_of_the_route_always_fits() {
        let memory = Arc::new(BodyMemory::new(2));
        let mut largest = memory.reserve(Some("ada"), HOME, 2 * MIB);
        largest.check(2 * MIB).unwrap();
        largest.grow_to(2 * MIB).unwrap();
        let second = memory.reserve(Some("ada"), HOME, 2 * MIB);
        assert_eq!(second.check(100 * 1024).unwrap_err().status, 503);
    }

    /// Fills the memory of a network with bodies of `size` bytes.
    fn fill(memory: &Arc<BodyMemory>, client: &str, size: usize) -> Vec<Reservation> {
        let client = client.parse().unwrap();
        let body = || {
            let mut reservation = memory.reserve(None, client, 64 * 1024);
            reservation.grow_to(size).map(|()| reservation)
        };
        std::iter::from_fn(|| body().ok()).collect()
    }

    #[test]
    fn two_networks_at_their_limit_do_not_block_a_third() {
        for size in [1, 1024, 4096, 4097, 64 * 1024] {
            let memory = Arc::new(BodyMemory::new(8));
            let held: Vec<_> = ["192.0.2.1", "192.0.2.2"]
                .map(|client| fill(&memory, client, size))
                .into();
            assert!(held.iter().all(|bodies| !bodies.is_empty()), "{size}");
            for third in ["192.0.2.3", "198.51.100.1", "2001:db8::1"] {
                let mut reservation = memory.reserve(None, third.parse().unwrap(), 64 * 1024);
                reservation.check(1024).unwrap();
                reservation.grow_to(1024).unwrap();
            }
            drop(held);
            assert_eq!(memory.small.lock().unwrap().used, 0);
            assert_eq!(memory.reserve.lock().unwrap().used, 0);
        }
    }

    #[test]
    fn the_networks_of_a_site_share_a_part_of_the_memory() {
        let memory = Arc::new(BodyMemory::new(64));
        let held: Vec<_> = (0..100)
            .flat_map(|subnet| fill(&memory, &format!("2001:db8:1:{subnet}::1"), 4096))
            .collect();
        assert_eq!(
            memory.small.lock().unwrap().used,
            64 * 1024 / SMALL_POOL_DIVISOR / SITE_DIVISOR
        );
        let same_site = "2001:db8:1:ffff::1".parse().unwrap();
        let refused = memory.reserve(None, same_site, 1024).check(1);
        assert_eq!(refused.unwrap_err().status, 503);
        assert!(!fill(&memory, "2001:db8:2::1", 64 * 1024).is_empty());
        drop(held);
        assert!(memory.reserve(None, same_site, 1024).check(1).is_ok());
    }

    #[test]
    fn small_bodies_of_one_account_on_a_route_with_large_bodies_leave_memory_for_others() {
        let memory = Arc::new(BodyMemory::new(64));
        let body = |account, client| {
            let mut reservation = memory.reserve(Some(account), client, 40 * MIB);
            reservation.grow_to(SMALL * 1024).map(|()| reservation)
        };
        let held: Vec<_> = std::iter::from_fn(|| body("ada", HOME).ok()).collect();
        assert_eq!(
            held.len() * SMALL,
            64 * 1024 / SMALL_POOL_DIVISOR / NETWORK_DIVISOR
        );
        assert!(body("bob", AWAY).is_ok());
    }

    #[test]
    fn the_reserve_is_only_for_bodies_of_up_to_4_kib() {
        let memory = Arc::new(BodyMemory::new(8));
        let held = fill(&memory, "192.0.2.1", 64 * 1024);
        let mut tiny = memory.reserve(None, HOME, 64 * 1024);
        tiny.grow_to(TINY * 1024).unwrap();
        assert_eq!(memory.reserve.lock().unwrap().used, TINY);
        assert_eq!(tiny.grow_to(TINY * 1024 + 1).unwrap_err().status, 503);
        drop(held);
        tiny.grow_to(TINY * 1024 + 1).unwrap();
        assert_eq!(memory.reserve.lock().unwrap().used, 0);
        assert_eq!(memory.small.lock().unwrap().used, TINY + 1);
    }
}
