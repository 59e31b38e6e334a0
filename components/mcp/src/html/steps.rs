//! Limits the time for matching selectors. Matching uses steps from a budget.

use std::cell::Cell;

/// The number of steps in the budget. One step takes about 20 ns.
const MAX_STEPS: u32 = 5_000_000;

/// The remaining steps.
#[derive(Debug)]
pub(super) struct Steps(Cell<u32>);

impl Steps {
    pub(super) fn new() -> Self {
        Self(Cell::new(MAX_STEPS))
    }

    /// Uses one step. Returns `false` if no step is left.
    pub(super) fn take(&self) -> bool {
        let left = self.0.get();
        self.0.set(left.saturating_sub(1));
        left > 0
    }

    pub(super) fn are_left(&self) -> bool {
        self.0.get() > 0
    }
}
