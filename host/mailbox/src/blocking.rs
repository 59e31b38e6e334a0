//! Runs computations on blocking threads. Therefore computations do not delay other tasks.

use crate::bounds;

/// Runs `work`, whose duration depends on `bytes`. Uses the current thread for few bytes, because a thread switch would take longer than the work.
pub(crate) async fn run_sized<T: Send + 'static>(
    bytes: usize,
    work: impl FnOnce() -> T + Send + 'static,
) -> Result<T, String> {
    if bytes <= bounds::INLINE_WORK {
        Ok(work())
    } else {
        run(work).await
    }
}

/// Runs `work` on a blocking thread.
pub(crate) async fn run<T: Send + 'static>(
    work: impl FnOnce() -> T + Send + 'static,
) -> Result<T, String> {
    tokio::task::spawn_blocking(work)
        .await
        .map_err(|error| format!("a computation failed: {error}"))
}
