//! The budget of steps for matching selectors. It bounds the time that style sheets can take.

use std::cell::Cell;

/// The maximum number of steps for matching selectors. One step takes about 20 ns.
const MAX_STEPS: u32 = 5_000_000;

/// The number of steps left for matching.
#[derive(Debug)]
pub(super) struct Steps(Cell<u32>);

impl Steps {
    pub(super) fn new() -> Self {
        Self(Cell::new(MAX_STEPS))
    }

    /// Uses one step. Returns `false` if none is left.
    pub(super) fn take(&self) -> bool {
        let left = self.0.get();
        self.0.set(left.saturating_sub(1));
        left > 0
    }

    /// Returns `true` if at least one step is left.
    pub(super) fn are_left(&self) -> bool {
        self.0.get() > 0
    }
}
