//! Changes that must not stop in the middle.

use latchmail_core::changes::Changes;
use latchmail_core::error::Failure;

/// Runs a change to completion, even if the client disconnects. For example, the connections of a
/// revoked credential must always be closed.
pub(super) async fn run_change<T: Send + 'static>(
    changes: &Changes,
    change: impl Future<Output = Result<T, Failure>> + Send + 'static,
) -> Result<T, Failure> {
    changes.run(change).await.map_err(Failure::internal)?
}
