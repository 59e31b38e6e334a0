//! The time and the randomness of a sandbox whose call can be repeated.

use std::fmt;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use latchmail_core::error::Failure;
use latchmail_core::secrets;
use wasmtime_wasi::{Deterministic, HostWallClock, WasiCtxBuilder};

/// The number of random bytes of each of the two generators. A generator starts again after its
/// last byte. Wasmtime uses four of these bytes for each byte that a guest requests.
const RANDOM: usize = 8 * 1024;

/// The size of the seed for hash tables, in bytes.
const SEED: usize = 16;

/// The time and the randomness of a call. Two sandboxes with the same values return the same
/// results for the same calls. The monotonic clock is the real one, because guests wait with it.
#[derive(Clone)]
pub(crate) struct Ambient {
    /// The time since the epoch. It does not advance.
    now: Duration,
    random: Arc<[u8]>,
}

impl Ambient {
    /// Returns the current time and new randomness.
    ///
    /// # Errors
    /// Returns an internal error if the operating system provides no randomness.
    pub(crate) fn new() -> Result<Self, Failure> {
        let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
        Ok(Self {
            now: now.map_err(Failure::internal)?,
            random: random()?,
        })
    }

    /// Returns the same time with other randomness.
    ///
    /// # Errors
    /// Returns an internal error if the operating system provides no randomness.
    pub(crate) fn with_other_randomness(&self) -> Result<Self, Failure> {
        Ok(Self {
            now: self.now,
            random: random()?,
        })
    }

    /// Sets the clock and the generators of a sandbox.
    pub(crate) fn apply(&self, builder: &mut WasiCtxBuilder) {
        let (secure, rest) = self.random.split_at(RANDOM);
        let (insecure, seed) = rest.split_at(RANDOM);
        let seed = seed.first_chunk().copied().unwrap_or_default();
        builder
            .wall_clock(StoppedClock(self.now))
            .secure_random(Deterministic::new(secure.to_vec()))
            .insecure_random(Deterministic::new(insecure.to_vec()))
            .insecure_random_seed(u128::from_le_bytes(seed));
    }
}

fn random() -> Result<Arc<[u8]>, Failure> {
    let bytes = secrets::random::<{ 2 * RANDOM + SEED }>()?;
    Ok(Arc::from(bytes.as_slice()))
}

impl fmt::Debug for Ambient {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Ambient")
            .field("now", &self.now)
            .finish_non_exhaustive()
    }
}

/// A clock that always returns the same time.
struct StoppedClock(Duration);

impl HostWallClock for StoppedClock {
    fn resolution(&self) -> Duration {
        Duration::from_nanos(1)
    }

    fn now(&self) -> Duration {
        self.0
    }
}
