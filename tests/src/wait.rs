//! Waiting for conditions.

use std::time::Duration;

use tokio::time::{Instant, sleep};

/// The maximum time that a test waits for a condition. It is long enough for a busy machine.
pub const TEST_TIMEOUT: Duration = Duration::from_secs(30);

/// Waits until `condition` returns true. `what` describes the condition in the message of a
/// failure.
pub async fn wait_until(what: &str, mut condition: impl AsyncFnMut() -> bool) {
    let deadline = Instant::now() + TEST_TIMEOUT;
    while !condition().await {
        assert!(Instant::now() < deadline, "timeout: {what}");
        sleep(Duration::from_millis(10)).await;
    }
}
