//! Permits for sandboxes. The pool is made once, at the start, and divided: each module with a section in the configuration has its own permits, the
//! other modules share a group, and a few spare permits are for examining new modules. So no module uses the permits of another.

use std::collections::BTreeMap;
use std::sync::Arc;

use latchmail_core::config::Config;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

/// The permits that all modules without a section share, if such modules are allowed.
const UNNAMED: u32 = 256;

/// The same number if such modules are not allowed: for a module that gets a section while the service runs.
const LATER: u32 = 32;

/// The permits for examining and testing a module while all others are in use.
const SPARE: u32 = 4;

/// A permit for one sandbox. It must be released after the sandbox is dropped.
pub(super) type Seat = OwnedSemaphorePermit;

/// All permits of the pool.
#[derive(Debug)]
pub(super) struct Rooms {
    named: BTreeMap<String, Room>,
    unnamed: Room,
    spare: Room,
}

/// The permits of one module or of one group of modules.
#[derive(Clone, Debug)]
pub(super) struct Room {
    seats: Arc<Semaphore>,
    size: u32,
    shared: bool,
}

impl Rooms {
    /// Divides the pool as the configuration says.
    pub(super) fn new(config: &Config) -> Self {
        let own = |(name, ceiling): (&String, &latchmail_core::config::Module)| {
            (name.clone(), Room::new(ceiling.concurrency, false))
        };
        let unnamed = config.new_modules.as_ref().map_or(LATER, |_| UNNAMED);
        Self {
            named: config.modules.iter().map(own).collect(),
            unnamed: Room::new(unnamed, true),
            spare: Room::new(SPARE, true),
        }
    }

    /// Returns the size of the pool: the maximum number of sandboxes at a time.
    pub(super) fn size(&self) -> u32 {
        let named = self.named.values().map(|room| room.size).sum::<u32>();
        named + self.unnamed.size + self.spare.size
    }

    /// Returns the permits that a module uses.
    pub(super) fn of_module(&self, name: &str) -> &Room {
        self.named.get(name).unwrap_or(&self.unnamed)
    }

    /// Returns the spare permits, for modules that do not serve yet.
    pub(super) fn spare(&self) -> &Room {
        &self.spare
    }
}

impl Room {
    fn new(size: u32, shared: bool) -> Self {
        Self {
            seats: Arc::new(Semaphore::new(size as usize)),
            size,
            shared,
        }
    }

    /// Returns the total number of permits.
    pub(super) fn size(&self) -> u32 {
        self.size
    }

    /// Waits for a permit. The result is always `Some`, because the semaphore is never closed.
    pub(super) async fn seat(&self) -> Option<Seat> {
        Arc::clone(&self.seats).acquire_owned().await.ok()
    }

    /// Returns whether an idle sandbox may hold a permit. In a shared group at least half of the permits must be free.
    pub(super) fn may_rest(&self) -> bool {
        !self.shared || self.seats.available_permits() * 2 >= self.size as usize
    }
}
