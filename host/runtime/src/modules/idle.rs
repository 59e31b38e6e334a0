//! Idle sandboxes of a module. With `reuse` these have served requests. Otherwise at most one unused sandbox is made ahead. A sandbox is here only
//! while it serves no request.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::{Duration, Instant};

use super::room::Seat;
use super::sandbox::Instance;
use crate::api::Call;

/// How long an idle sandbox is kept.
const KEPT: Duration = Duration::from_mins(1);

/// The idle sandboxes of one module.
pub(super) struct Idle {
    /// Whether a sandbox serves several requests.
    reuse: bool,
    room: Arc<Mutex<Room>>,
}

#[derive(Default)]
struct Room {
    /// In order of their last use, the most recent at the end. The oldest are dropped first.
    kept: Vec<Kept>,
    /// Whether a sandbox is being made ahead.
    making: bool,
    /// Whether the sweep task is running.
    swept: bool,
    /// Whether the module is retired, so that sandboxes are no longer kept.
    closed: bool,
}

struct Kept {
    instance: Instance,
    since: Instant,
    /// Released after the instance is dropped.
    seat: Seat,
}

/// The right to make one sandbox ahead. While this value exists, no other task makes one for the module.
pub(super) struct Ahead(Arc<Mutex<Room>>);

impl Idle {
    /// Makes an empty set. `reuse` is whether sandboxes serve several requests.
    pub(super) fn new(reuse: bool) -> Self {
        Self {
            reuse,
            room: Arc::default(),
        }
    }

    /// Takes the most recently used sandbox and its permit.
    pub(super) fn take(&self) -> Option<(Seat, Instance)> {
        let Kept { instance, seat, .. } = open(&self.room).kept.pop()?;
        Some((seat, instance))
    }

    /// Returns the right to make a sandbox ahead. Returns `None` with `reuse`, if a sandbox is idle, if another task makes one, or after
    /// [`close`](Self::close).
    pub(super) fn ahead(&self) -> Option<Ahead> {
        let mut room = open(&self.room);
        if self.reuse || room.closed || room.making || !room.kept.is_empty() {
            return None;
        }
        room.making = true;
        Some(Ahead(Arc::clone(&self.room)))
    }

    /// Keeps a sandbox after a successful request, together with its permit. Returns both if the sandbox is not kept. `resting` makes a call
    /// without a request. The number of idle sandboxes never exceeds the highest number of concurrent requests, because every caller holds a
    /// permit.
    pub(super) fn keep(
        &self,
        seat: Seat,
        instance: Instance,
        resting: impl FnOnce() -> Call,
    ) -> Option<(Seat, Instance)> {
        if !self.reuse {
            return Some((seat, instance));
        }
        match instance.rest(resting) {
            Ok(rested) => put(&self.room, seat, rested),
            Err(spent) => Some((seat, spent)),
        }
    }

    /// Drops all idle sandboxes and keeps none from now on.
    pub(super) fn close(&self) {
        let mut room = open(&self.room);
        room.closed = true;
        let kept = std::mem::take(&mut room.kept);
        drop(room);
        drop(kept);
    }
}

impl Ahead {
    /// Keeps the new sandbox and its permit. Returns both after [`Idle::close`].
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

/// Drops sandboxes that were idle for too long. Ends when none is left.
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
