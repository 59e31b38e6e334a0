//! Sandboxes that wait for a request: those that served one, where the operator lets a module keep them; elsewhere one that served none and was made
//! ahead. Each serves one request at a time: it is in here only while it serves none.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::{Duration, Instant};

use super::room::Seat;
use super::sandbox::Instance;
use crate::api::Call;

/// How long a sandbox is kept that nobody needs.
const KEPT: Duration = Duration::from_mins(1);

/// The sandboxes of one module that serve nobody at this moment.
pub(super) struct Idle {
    /// Whether those that served may serve again.
    reuse: bool,
    room: Arc<Mutex<Room>>,
}

#[derive(Default)]
struct Room {
    /// Those used last at the end, so that those that are not needed grow old at the beginning.
    kept: Vec<Kept>,
    /// Whether one is being made.
    making: bool,
    /// Whether somebody looks after the old ones.
    swept: bool,
    /// Whether none is kept any more.
    closed: bool,
}

struct Kept {
    instance: Instance,
    since: Instant,
    /// Given up after the instance.
    seat: Seat,
}

/// The making of one sandbox ahead: nobody else makes one for this module until it is dropped.
pub(super) struct Ahead(Arc<Mutex<Room>>);

impl Idle {
    /// For a module that may keep its sandboxes, or may not.
    pub(super) fn new(reuse: bool) -> Self {
        Self {
            reuse,
            room: Arc::default(),
        }
    }

    /// One to use, in the place that it has.
    pub(super) fn take(&self) -> Option<(Seat, Instance)> {
        let Kept { instance, seat, .. } = open(&self.room).kept.pop()?;
        Some((seat, instance))
    }

    /// What makes one ahead, where none waits, nobody else makes one, and those that served do not serve again.
    pub(super) fn ahead(&self) -> Option<Ahead> {
        let mut room = open(&self.room);
        if self.reuse || room.closed || room.making || !room.kept.is_empty() {
            return None;
        }
        room.making = true;
        Some(Ahead(Arc::clone(&self.room)))
    }

    /// Keeps one whose request ended well, and its place; answers both where it is not kept. `nobody` is the call of no request. There are never more
    /// than were at work at once, as long as their callers hold a place each.
    pub(super) fn keep(
        &self,
        seat: Seat,
        instance: Instance,
        nobody: impl FnOnce() -> Call,
    ) -> Option<(Seat, Instance)> {
        if !self.reuse {
            return Some((seat, instance));
        }
        match instance.rest(nobody) {
            Ok(rested) => put(&self.room, seat, rested),
            Err(spent) => Some((seat, spent)),
        }
    }

    /// Drops those that there are, and keeps none from now on.
    pub(super) fn close(&self) {
        let mut room = open(&self.room);
        room.closed = true;
        let kept = std::mem::take(&mut room.kept);
        drop(room);
        drop(kept);
    }
}

impl Ahead {
    /// Keeps what was made, and its place; answers both where nothing is kept any more.
    pub(super) fn made(self, seat: Seat, instance: Instance) -> Option<(Seat, Instance)> {
        put(&self.0, seat, instance)
    }
}

impl Drop for Ahead {
    fn drop(&mut self) {
        open(&self.0).making = false;
    }
}

fn put(shared: &Arc<Mutex<Room>>, seat: Seat, instance: Instance) -> Option<(Seat, Instance)> {
    let since = Instant::now();
    let mut room = open(shared);
    if room.closed {
        return Some((seat, instance));
    }
    room.kept.push(Kept {
        instance,
        since,
        seat,
    });
    if !room.swept {
        room.swept = true;
        tokio::spawn(sweep(Arc::downgrade(shared)));
    }
    None
}

/// Drops what nobody needs, for as long as there is something.
async fn sweep(room: Weak<Mutex<Room>>) {
    loop {
        tokio::time::sleep(KEPT).await;
        let Some(shared) = room.upgrade() else { return };
        let mut room = open(&shared);
        let young = room
            .kept
            .partition_point(|kept| kept.since.elapsed() > KEPT);
        let old: Vec<Kept> = room.kept.drain(..young).collect();
        room.swept = !room.kept.is_empty();
        let done = !room.swept;
        drop(room);
        drop(old);
        if done {
            return;
        }
    }
}

fn open(shared: &Mutex<Room>) -> MutexGuard<'_, Room> {
    shared.lock().unwrap_or_else(PoisonError::into_inner)
}
