//! Runs computations on blocking threads. Therefore computations do not delay other tasks.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use latchmail_core::cpu::is_multi_threaded;
use tokio::task::block_in_place;

use crate::bounds;

/// Runs `work`, whose duration depends on `bytes`. Up to [`bounds::IN_PLACE_WORK`] bytes are
/// processed on the current thread, because a thread switch would take longer than most work. Above
/// [`bounds::INLINE_WORK`] bytes, the runtime moves the other tasks of this thread to another one.
/// A deadline of the caller cannot stop work on the current thread.
pub(crate) async fn run_sized<T: Send + 'static>(
    bytes: usize,
    work: impl FnOnce() -> T + Send + 'static,
) -> Result<T, String> {
    let in_place = move || {
        if bytes <= bounds::INLINE_WORK {
            work()
        } else {
            in_place(work)
        }
    };
    run_text(bytes, in_place).await
}

/// Runs `work`, which takes the time of a message with text only, on the current thread for up to
/// [`bounds::IN_PLACE_WORK`] bytes. `work` must run slow parts with [`in_place`].
pub(crate) async fn run_text<T: Send + 'static>(
    bytes: usize,
    work: impl FnOnce() -> T + Send + 'static,
) -> Result<T, String> {
    if bytes <= bounds::IN_PLACE_WORK {
        Ok(work())
    } else {
        run(work).await
    }
}

/// Runs `work` on the current thread. The runtime moves the other tasks of this thread to another
/// one, which takes longer than converting a message of 20 kB.
pub(crate) fn in_place<T>(work: impl FnOnce() -> T) -> T {
    if is_multi_threaded() {
        block_in_place(work)
    } else {
        work()
    }
}

/// Runs `work` on a blocking thread. The work starts before the future is polled.
pub(crate) fn run<T: Send + 'static>(
    work: impl FnOnce() -> T + Send + 'static,
) -> impl Future<Output = Result<T, String>> {
    let work = tokio::task::spawn_blocking(work);
    async {
        work.await
            .map_err(|error| format!("a computation failed: {error}"))
    }
}

/// Runs `work` on a blocking thread. If the caller is dropped, for example at the deadline of the
/// request, the argument of `work` becomes `true`. In that case, `work` must end soon.
pub(crate) async fn run_cancellable<T: Send + 'static>(
    work: impl FnOnce(&AtomicBool) -> T + Send + 'static,
) -> Result<T, String> {
    struct CancelOnDrop(Arc<AtomicBool>);
    impl Drop for CancelOnDrop {
        fn drop(&mut self) {
            self.0.store(true, Ordering::Relaxed);
        }
    }
    let cancelled = Arc::new(AtomicBool::new(false));
    let _cancel = CancelOnDrop(Arc::clone(&cancelled));
    run(move || work(&cancelled)).await
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(flavor = "multi_thread")]
    async fn dropping_the_caller_cancels_the_work() {
        let (started, ended) = (std::sync::mpsc::channel(), std::sync::mpsc::channel());
        let work = run_cancellable(move |cancelled| {
            started.0.send(()).unwrap();
            while !cancelled.load(Ordering::Relaxed) {
                std::thread::yield_now();
            }
            ended.0.send(()).unwrap();
        });
        let task = tokio::spawn(work);
        block_in_place(|| started.1.recv().unwrap());
        task.abort();
        block_in_place(|| ended.1.recv().unwrap());
    }
}
