//! The memory budget for request bodies.
//!
//! Each account and each client network can use only a part of the budget. Bodies of up to 64 KiB use a separate pool. So a client cannot use the memory that
//! the requests of other clients need. This module counts memory, but does not allocate memory.

use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use latchmail_core::account_permits::AccountPermits;
use latchmail_core::network::network;
use tokio::sync::OwnedSemaphorePermit;

use crate::rejection::Rejection;

/// The maximum size of a body that uses the small pool, in KiB.
const SMALL: usize = 64;
/// The size of the large pool divided by the size of the small pool.
const SMALL_POOL_DIVISOR: usize = 8;
/// The size of a pool divided by the maximum size that one account can use.
const ACCOUNT_DIVISOR: usize = 4;
/// The size of a pool divided by the maximum size that one client network can use.
const NETWORK_DIVISOR: usize = 2;
/// The maximum size of a body that does not count as large, in bytes. Only large bodies need a permit of their account.
pub(crate) const LARGE: usize = 1024 * 1024;
/// The maximum number of large bodies of one account that are in memory concurrently.
const LARGE_PER_ACCOUNT: usize = 2;

/// The memory budget for all request bodies.
#[derive(Debug)]
pub(crate) struct BodyMemory {
    small: Mutex<Pool>,
    large: Mutex<Pool>,
    large_body_permits: AccountPermits,
}

/// A pool of memory. Sizes are in KiB.
#[derive(Debug, Default)]
struct Pool {
    size: usize,
    used: usize,
    /// The used memory of each account and each client network, by name.
    used_by_consumer: HashMap<String, usize>,
}

/// An account or a client network.
#[derive(Debug)]
struct Consumer {
    name: String,
    /// The size of a pool divided by the maximum size that the consumer can use.
    divisor: usize,
}

/// The reserved memory of one body. Dropping this value releases the memory.
#[derive(Debug)]
pub(crate) struct Reservation {
    memory: Arc<BodyMemory>,
    /// The account, if the request has a caller, followed by the client network.
    consumers: Vec<Consumer>,
    /// The maximum size of a request body on the route, in KiB. A consumer can always use at least this much memory.
    max_body: usize,
    /// The reserved memory, in KiB.
    used: usize,
    large_body_permit: Option<OwnedSemaphorePermit>,
}

impl BodyMemory {
    /// Creates the budget with a pool of `mebibytes` MiB for bodies above 64 KiB. An additional pool for smaller bodies has an eighth of this size.
    #[must_use]
    pub(crate) fn new(mebibytes: usize) -> Self {
        let pool = |size| {
            Mutex::new(Pool {
                size,
                ..Pool::default()
            })
        };
        let size = mebibytes.saturating_mul(1024);
        Self {
            small: pool(size / SMALL_POOL_DIVISOR),
            large: pool(size),
            large_body_permits: AccountPermits::new(LARGE_PER_ACCOUNT),
        }
    }

    /// Returns an empty reservation for a body of at most `max_body` bytes.
    #[must_use]
    pub(crate) fn reserve(
        self: &Arc<Self>,
        account: Option<&str>,
        client: IpAddr,
        max_body: usize,
    ) -> Reservation {
        let account = account.map(|account| Consumer {
            name: account.to_owned(),
            divisor: ACCOUNT_DIVISOR,
        });
        let network = Consumer {
            name: network(client).to_string(),
            divisor: NETWORK_DIVISOR,
        };
        Reservation {
            memory: Arc::clone(self),
            consumers: account.into_iter().chain([network]).collect(),
            max_body: max_body.div_ceil(1024),
            used: 0,
            large_body_permit: None,
        }
    }

    fn pool(&self, kibibytes: usize) -> MutexGuard<'_, Pool> {
        let pool = if kibibytes <= SMALL {
            &self.small
        } else {
            &self.large
        };
        pool.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Pool {
    /// Checks that the pool has `kibibytes` left, and that no consumer exceeds its part of the pool.
    fn check(&self, reservation: &Reservation, kibibytes: usize) -> Result<(), Rejection> {
        if self.used.saturating_add(kibibytes) > self.size {
            return Err(Rejection::unavailable(
                "The service is busy, please try again in a moment",
            ));
        }
        let is_within_limit = |consumer: &Consumer| {
            let used = self.used_by_consumer.get(&consumer.name).copied();
            let limit = (self.size / consumer.divisor).max(reservation.max_body);
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
        for Consumer { name, .. } in &reservation.consumers {
            *self.used_by_consumer.entry(name.clone()).or_default() += kibibytes;
        }
    }

    fn release(&mut self, reservation: &Reservation, kibibytes: usize) {
        self.used = self.used.saturating_sub(kibibytes);
        for Consumer { name, .. } in &reservation.consumers {
            if let Some(used) = self.used_by_consumer.get_mut(name) {
                *used = used.saturating_sub(kibibytes);
                if *used == 0 {
                    self.used_by_consumer.remove(name);
                }
            }
        }
    }
}

impl Reservation {
    /// Acquires a permit for a large body. Waits if the account has the maximum number of large bodies. A request without a caller uses the permits of its
    /// client network. Dropping the reservation releases the permit.
    pub(crate) async fn acquire_large_body_permit(&mut self) {
        if self.large_body_permit.is_none()
            && let Some(consumer) = self.consumers.first()
        {
            self.large_body_permit = self.memory.large_body_permits.acquire(&consumer.name).await;
        }
    }

    /// Checks that the memory for a body of `bytes` is currently available.
    ///
    /// # Errors
    /// Returns 503 if the memory is not available.
    pub(crate) fn check(&self, bytes: usize) -> Result<(), Rejection> {
        let size = bytes.div_ceil(1024);
        self.memory.pool(size).check(self, size)
    }

    /// Reserves the memory for a body that has grown to `bytes`.
    ///
    /// # Errors
    /// Returns 503 if the memory is not available.
    pub(crate) fn grow_to(&mut self, bytes: usize) -> Result<(), Rejection> {
        let size = bytes.div_ceil(1024);
        if size <= self.used {
            return Ok(());
        }
        let memory = Arc::clone(&self.memory);
        let changes_pool = self.used <= SMALL && size > SMALL;
        let additional = if changes_pool { size } else { size - self.used };
        {
            let mut pool = memory.pool(size);
            pool.check(self, additional)?;
            pool.add(self, additional);
        }
        if changes_pool {
            memory.pool(self.used).release(self, self.used);
        }
        self.used = size;
        Ok(())
    }
}

/// Returns the 503 error for a client that already uses its part of the memory.
pub(crate) fn too_many_large_bodies() -> Rejection {
    Rejection::unavailable("Too many requests with large bodies, please try again in a moment")
}

impl Drop for Reservation {
    fn drop(&mut self) {
        if self.used > 0 {
            let memory = Arc::clone(&self.memory);
            memory.pool(self.used).release(self, self.used);
        }
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
}
