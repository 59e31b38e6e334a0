//! The memory budget for request bodies, and the share of it that each client can use.
//!
//! Each account and each client network is limited to a share, and bodies of up to 64 KiB have a separate pool, so no client can use up the memory that the
//! requests of others need. This module counts memory; it does not allocate any.

use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use latchmail_core::account_permits::AccountPermits;
use latchmail_core::network::network;
use tokio::sync::OwnedSemaphorePermit;

use super::module;
use crate::rejection::Rejection;

/// The largest body that draws from the pool of small bodies, in KiB.
const SMALL: usize = 64;
/// The size of the large pool divided by the size of the pool of small bodies, which is additional.
const SMALL_PART: usize = 8;
/// One account can use a pool's size divided by this number.
const ACCOUNT_PART: usize = 4;
/// One client network can use a pool's size divided by this number.
const NETWORK_PART: usize = 2;
/// A body above this size, in bytes, needs a permit of its account.
pub(crate) const LARGE: usize = 1024 * 1024;
/// The number of large bodies of one account that are read or held at a time.
const LARGE_PER_ACCOUNT: usize = 2;

/// The memory for all bodies.
#[derive(Debug)]
pub(crate) struct BodyMemory {
    small: Mutex<Pool>,
    large: Mutex<Pool>,
    permits: AccountPermits,
}

/// A pool of memory. Sizes are in KiB.
#[derive(Debug, Default)]
struct Pool {
    size: usize,
    used: usize,
    payers: HashMap<String, usize>,
}

/// The memory that one body uses. It is returned when this value is dropped.
#[derive(Debug)]
pub(crate) struct Share {
    memory: Arc<BodyMemory>,
    /// The account's id, if the request has a caller, and the client network, each with the divisor of the pool size that limits it.
    payers: Vec<(String, usize)>,
    /// The maximum body size of the route, in KiB. One body of that size always fits the share of a payer.
    cap: usize,
    /// The memory that this body uses, in KiB.
    used: usize,
    permit: Option<OwnedSemaphorePermit>,
}

impl BodyMemory {
    /// Creates a pool of `mebibytes` MiB for bodies above 64 KiB, and a pool of an eighth of that size for smaller bodies.
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
            small: pool(size / SMALL_PART),
            large: pool(size),
            permits: AccountPermits::new(LARGE_PER_ACCOUNT),
        }
    }

    /// Returns an empty share for a body of at most `cap` bytes.
    #[must_use]
    pub(crate) fn share(
        self: &Arc<Self>,
        account: Option<&str>,
        client: IpAddr,
        cap: usize,
    ) -> Share {
        let account = account.map(|account| (account.to_owned(), ACCOUNT_PART));
        let network = (network(client).to_string(), NETWORK_PART);
        Share {
            memory: Arc::clone(self),
            payers: account.into_iter().chain([network]).collect(),
            cap: cap.div_ceil(1024),
            used: 0,
            permit: None,
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
    fn fits(&self, share: &Share, more: usize) -> Result<(), Rejection> {
        if self.used.saturating_add(more) > self.size {
            return Err(module::busy(
                "The service is busy, please try again in a moment",
            ));
        }
        let within = |(payer, part): &(String, usize)| {
            let used = self.payers.get(payer).copied().unwrap_or_default();
            used.saturating_add(more) <= (self.size / part).max(share.cap)
        };
        if share.payers.iter().all(within) {
            Ok(())
        } else {
            Err(module::busy(
                "Too many requests with large bodies, please try again in a moment",
            ))
        }
    }

    fn take(&mut self, share: &Share, more: usize) {
        self.used += more;
        for (payer, _) in &share.payers {
            *self.payers.entry(payer.clone()).or_default() += more;
        }
    }

    fn release(&mut self, share: &Share, less: usize) {
        self.used = self.used.saturating_sub(less);
        for (payer, _) in &share.payers {
            if let Some(used) = self.payers.get_mut(payer) {
                *used = used.saturating_sub(less);
                if *used == 0 {
                    self.payers.remove(payer);
                }
            }
        }
    }
}

impl Share {
    /// Waits until the account, or the network of a request without a caller, has fewer large bodies than its limit. The permit ends with the share.
    pub(crate) async fn admit_large(&mut self) {
        if self.permit.is_none()
            && let Some((payer, _)) = self.payers.first()
        {
            self.permit = self.memory.permits.acquire(payer).await;
        }
    }

    /// Checks that a body of `bytes` currently fits.
    ///
    /// # Errors
    /// Returns 503 if it does not fit.
    pub(crate) fn check(&self, bytes: usize) -> Result<(), Rejection> {
        let wanted = bytes.div_ceil(1024);
        self.memory.pool(wanted).fits(self, wanted)
    }

    /// Counts a body that has grown to `bytes`.
    ///
    /// # Errors
    /// Returns 503 if the pool or the share of a payer is used up.
    pub(crate) fn grow_to(&mut self, bytes: usize) -> Result<(), Rejection> {
        let wanted = bytes.div_ceil(1024);
        if wanted <= self.used {
            return Ok(());
        }
        let memory = Arc::clone(&self.memory);
        let moves = self.used <= SMALL && wanted > SMALL;
        let more = if moves { wanted } else { wanted - self.used };
        {
            let mut pool = memory.pool(wanted);
            pool.fits(self, more)?;
            pool.take(self, more);
        }
        if moves {
            memory.pool(self.used).release(self, self.used);
        }
        self.used = wanted;
        Ok(())
    }
}

impl Drop for Share {
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
    fn an_account_and_a_network_can_use_their_share_and_no_more() {
        let memory = Arc::new(BodyMemory::new(8));
        let share = |account: &str, client| {
            let mut share = memory.share(Some(account), client, MIB);
            share.grow_to(MIB).map(|()| share)
        };
        let held: Vec<_> = [share("ada", HOME), share("ada", HOME)].into();
        assert!(held.iter().all(Result::is_ok));
        assert_eq!(share("ada", AWAY).unwrap_err().status, 503);
        let more = [share("bob", HOME), share("bob", HOME)];
        assert!(more.iter().all(Result::is_ok));
        assert_eq!(share("eve", HOME).unwrap_err().status, 503);
        assert!(share("eve", AWAY).is_ok());
        drop(held);
        assert!(share("ada", HOME).is_ok());
        drop(more);
        assert_eq!(memory.large.lock().unwrap().used, 0);
        assert!(memory.large.lock().unwrap().payers.is_empty());
    }

    #[test]
    fn small_bodies_fit_while_large_ones_use_everything() {
        let memory = Arc::new(BodyMemory::new(2));
        let mut large = memory.share(Some("ada"), HOME, 2 * MIB);
        large.grow_to(2 * MIB).unwrap();
        let mut small = memory.share(Some("ada"), HOME, 2 * MIB);
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
    fn one_body_of_the_routes_size_fits_whatever_the_share_is() {
        let memory = Arc::new(BodyMemory::new(2));
        let mut largest = memory.share(Some("ada"), HOME, 2 * MIB);
        largest.check(2 * MIB).unwrap();
        largest.grow_to(2 * MIB).unwrap();
        let second = memory.share(Some("ada"), HOME, 2 * MIB);
        assert_eq!(second.check(100 * 1024).unwrap_err().status, 503);
    }
}
