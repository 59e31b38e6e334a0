//! The idle sandboxes of a module. Each idle sandbox has a permit. With the setting `reuse`, idle
//! sandboxes have already served requests. Without `reuse`, at most one sandbox is idle. This
//! sandbox was created in advance and has not served a request.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::{Duration, Instant};

use super::sandbox::Instance;
use super::sandbox_permits::SandboxPermit;
use crate::api::Call;

/// The interval of the sweep task. The task drops sandboxes that were idle for longer than this
/// time.
const MAX_IDLE: Duration = Duration::from_mins(1);

/// The idle sandboxes of one module.
pub(super) struct IdleSandboxes {
    /// Whether a sandbox can serve several requests.
    reuse: bool,
    state: Arc<Mutex<State>>,
}

#[derive(Default)]
struct State {
    /// The idle sandboxes in the order of their last use. The most recently used sandbox is the
    /// last.
    sandboxes: Vec<IdleSandbox>,
    /// Whether a task is creating a sandbox in advance.
    is_preparing: bool,
    /// Whether the sweep task is running.
    is_sweeping: bool,
    /// Whether the module is retired. A retired module has no idle sandboxes.
    is_closed: bool,
}

struct IdleSandbox {
    // This field is declared before the permit, so that the instance is dropped before the permit
    // is released.
    instance: Instance,
    since: Instant,
    permit: SandboxPermit,
}

/// The right to create one sandbox in advance. While this value exists, no other task creates a
/// sandbox in advance for the module.
pub(super) struct Preparation(Arc<Mutex<State>>);

impl IdleSandboxes {
    pub(super) fn new(reuse: bool) -> Self {
        Self {
            reuse,
            state: Arc::default(),
        }
    }

    /// Removes the most recently used sandbox from the set, and returns it with its permit.
    pub(super) fn take(&self) -> Option<(SandboxPermit, Instance)> {
        let IdleSandbox {
            instance, permit, ..
        } = lock(&self.state).sandboxes.pop()?;
        Some((permit, instance))
    }

    /// Returns the number of idle sandboxes.
    pub(super) fn count(&self) -> usize {
        lock(&self.state).sandboxes.len()
    }

    /// Returns the right to create a sandbox in advance. Returns `None` if sandboxes are reused, or
    /// if a sandbox is idle. Also returns `None` if another task is creating a sandbox, or after
    /// [`close`](Self::close).
    pub(super) fn prepare(&self) -> Option<Preparation> {
        let mut state = lock(&self.state);
        if self.reuse || state.is_closed || state.is_preparing || !state.sandboxes.is_empty() {
            return None;
        }
        state.is_preparing = true;
        Some(Preparation(Arc::clone(&self.state)))
    }

    /// Makes a sandbox idle after a successful request. Returns the sandbox and its permit if the
    /// sandbox cannot serve another request. `idle_call` creates a call state without a caller,
    /// which replaces the call state of the finished request.
    ///
    /// The calling task has a call permit of the module, so the number of idle sandboxes never
    /// exceeds the maximum number of concurrent requests.
    pub(super) fn keep(
        &self,
        permit: SandboxPermit,
        mut instance: Instance,
        idle_call: impl FnOnce() -> Call,
    ) -> Option<(SandboxPermit, Instance)> {
        if !self.reuse || !instance.clear(idle_call) {
            return Some((permit, instance));
        }
        add(&self.state, permit, instance)
    }

    /// Drops all idle sandboxes. After this call, no sandbox becomes idle.
    pub(super) fn close(&self) {
        let mut state = lock(&self.state);
        state.is_closed = true;
        let sandboxes = std::mem::take(&mut state.sandboxes);
        // Dropping an instance takes a long time, so the lock is released first.
        drop(state);
        drop(sandboxes);
    }
}

impl Preparation {
    /// Makes the new sandbox idle. If [`IdleSandboxes::close`] was called, returns the sandbox and
    /// its permit instead.
    pub(super) fn finish(
        self,
        permit: SandboxPermit,
        instance: Instance,
    ) -> Option<(SandboxPermit, Instance)> {
        add(&self.0, permit, instance)
    }
}

impl Drop for Preparation {
    fn drop(&mut self) {
        lock(&self.0).is_preparing = false;
    }
}

/// Adds a sandbox to the set. Returns the sandbox and its permit if the set is closed.
fn add(
    shared: &Arc<Mutex<State>>,
    permit: SandboxPermit,
    instance: Instance,
) -> Option<(SandboxPermit, Instance)> {
    let since = Instant::now();
    let mut state = lock(shared);
    if state.is_closed {
        return Some((permit, instance));
    }
    state.sandboxes.push(IdleSandbox {
        instance,
        since,
        permit,
    });
    if !state.is_sweeping {
        state.is_sweeping = true;
        tokio::spawn(sweep(Arc::downgrade(shared)));
    }
    None
}

/// Drops sandboxes that were idle for longer than [`MAX_IDLE`]. Ends when no sandbox is idle.
async fn sweep(state: Weak<Mutex<State>>) {
    loop {
        tokio::time::sleep(MAX_IDLE).await;
        let Some(shared) = state.upgrade() else {
            return;
        };
        let mut state = lock(&shared);
        let expired = state
            .sandboxes
            .partition_point(|sandbox| sandbox.since.elapsed() > MAX_IDLE);
        let expired: Vec<IdleSandbox> = state.sandboxes.drain(..expired).collect();
        state.is_sweeping = !state.sandboxes.is_empty();
        let done = !state.is_sweeping;
        drop(state);
        drop(expired);
        if done {
            return;
        }
    }
}

fn lock(shared: &Mutex<State>) -> MutexGuard<'_, State> {
    shared.lock().unwrap_or_else(PoisonError::into_inner)
}
