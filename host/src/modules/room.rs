//! Room for sandboxes. The pool is made once, at the start, and each of its places is somebody's from then on: a module that the configuration names has its
//! own, the others share some, and a few are kept for asking new modules what they are. So no module takes what another was promised.

use std::collections::BTreeMap;
use std::sync::Arc;

use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use crate::config::Config;

/// Places of all modules together that the configuration does not name, where there may be such.
const UNNAMED: u32 = 256;

/// The same where there may be none: for a module that gets a section of its own while the service runs.
const LATER: u32 = 32;

/// Places for asking a module what it is, and for trying it, while all others are at work.
const SPARE: u32 = 4;

/// A place for one sandbox. It is to be given up after the sandbox.
pub(super) type Seat = OwnedSemaphorePermit;

/// All the room there is.
#[derive(Debug)]
pub(super) struct Rooms {
    named: BTreeMap<String, Room>,
    unnamed: Room,
    spare: Room,
}

/// A part of it.
#[derive(Clone, Debug)]
pub(super) struct Room {
    seats: Arc<Semaphore>,
    size: u32,
    shared: bool,
}

impl Rooms {
    /// As the configuration has it.
    pub(super) fn new(config: &Config) -> Self {
        let own = |(name, ceiling): (&String, &crate::config::Module)| {
            (name.clone(), Room::new(ceiling.concurrency, false))
        };
        let unnamed = config.new_modules.as_ref().map_or(LATER, |_| UNNAMED);
        Self {
            named: config.modules.iter().map(own).collect(),
            unnamed: Room::new(unnamed, true),
            spare: Room::new(SPARE, true),
        }
    }

    /// How many sandboxes there may be at a time.
    pub(super) fn size(&self) -> u32 {
        let named = self.named.values().map(|room| room.size).sum::<u32>();
        named + self.unnamed.size + self.spare.size
    }

    /// That of a module's.
    pub(super) fn of_module(&self, name: &str) -> &Room {
        self.named.get(name).unwrap_or(&self.unnamed)
    }

    /// That for what does not serve yet.
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

    /// How many sandboxes it holds.
    pub(super) fn size(&self) -> u32 {
        self.size
    }

    /// Waits for a place. Always one in the end.
    pub(super) async fn seat(&self) -> Option<Seat> {
        Arc::clone(&self.seats).acquire_owned().await.ok()
    }

    /// Whether a sandbox may keep its place between two requests. Where several modules share the room half of it is for those at work.
    pub(super) fn may_rest(&self) -> bool {
        !self.shared || self.seats.available_permits() * 2 >= self.size as usize
    }
}
