//! The memory of recordings.

use std::fmt::{self, Debug, Write as _};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

/// The maximum memory of one recording, in bytes.
const MAX_RECORDING: usize = 4 * 1024 * 1024;

/// The maximum memory of all recordings of a comparison that exist at the same time, in bytes.
const MAX_POOL: usize = 64 * 1024 * 1024;

/// The memory in use by the recordings of a comparison, in bytes.
pub(crate) type Pool = Arc<AtomicUsize>;

/// The memory of one recording. The memory is released when the value is dropped.
#[derive(Debug)]
pub(crate) struct Charge {
    pool: Pool,
    taken: AtomicUsize,
    is_exceeded: AtomicBool,
}

impl Charge {
    pub(crate) fn new(pool: Pool) -> Self {
        Self {
            pool,
            taken: AtomicUsize::new(0),
            is_exceeded: AtomicBool::new(false),
        }
    }

    /// Takes memory. Returns `false` if the recording, or all recordings together, are too large
    /// now or were too large before.
    pub(crate) fn take(&self, bytes: usize) -> bool {
        if self.is_exceeded() {
            return false;
        }
        let taken = self.taken.fetch_add(bytes, Ordering::Relaxed) + bytes;
        let in_use = self.pool.fetch_add(bytes, Ordering::Relaxed) + bytes;
        let fits = taken <= MAX_RECORDING && in_use <= MAX_POOL;
        if !fits {
            self.is_exceeded.store(true, Ordering::Relaxed);
        }
        fits
    }

    /// Takes memory for a copy of `value`. The length of its form `Debug` is the estimate.
    pub(super) fn take_copy(&self, value: &dyn Debug) -> bool {
        let mut counter = Counter(0);
        // Counting ends with an error if the value is too large. The limit of `take` then fails.
        let _ = write!(counter, "{value:?}");
        self.take(counter.0)
    }

    pub(super) fn is_exceeded(&self) -> bool {
        self.is_exceeded.load(Ordering::Relaxed)
    }
}

impl Drop for Charge {
    fn drop(&mut self) {
        let taken = self.taken.load(Ordering::Relaxed);
        self.pool.fetch_sub(taken, Ordering::Relaxed);
    }
}

/// Counts bytes of text. Fails above the maximum of a recording.
struct Counter(usize);

impl fmt::Write for Counter {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        self.0 += text.len();
        if self.0 > MAX_RECORDING {
            return Err(fmt::Error);
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_recording_has_a_maximum_and_releases_its_memory() {
        let pool = Pool::default();
        let charge = Charge::new(Arc::clone(&pool));
        assert!(charge.take(MAX_RECORDING));
        assert!(!charge.take(1));
        assert!(!charge.take(0), "it stays exceeded");
        drop(charge);
        assert_eq!(pool.load(Ordering::Relaxed), 0);
    }

    #[test]
    fn all_recordings_together_have_a_maximum() {
        let pool = Pool::default();
        let fits = || {
            let charge = Charge::new(Arc::clone(&pool));
            charge.take(MAX_RECORDING).then_some(charge)
        };
        let charges: Vec<_> = (0..MAX_POOL / MAX_RECORDING)
            .filter_map(|_| fits())
            .collect();
        assert_eq!(charges.len(), MAX_POOL / MAX_RECORDING);
        assert!(fits().is_none());
        drop(charges);
        assert!(fits().is_some());
    }

    #[test]
    fn a_large_value_is_counted_up_to_the_maximum() {
        let charge = Charge::new(Pool::default());
        assert!(charge.take_copy(&"text"));
        assert!(!charge.take_copy(&"x".repeat(2 * MAX_RECORDING)));
    }
}
