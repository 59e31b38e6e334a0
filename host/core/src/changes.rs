//! Runs tasks that change data. A task runs to its end, even if the client disconnects.

use std::future::Future;

use tokio::task::JoinHandle;
use tokio_util::task::TaskTracker;

use crate::traces::in_request;

/// The set of tasks in progress that change data. Clones share the set.
#[derive(Clone, Debug, Default)]
pub struct Changes(TaskTracker);

impl Changes {
    /// Runs a change on a separate task and returns a handle to the result. The change continues if
    /// the handle is dropped. The handle resolves to an error if the change panics, or if the
    /// runtime shuts down first.
    pub fn run<T: Send + 'static>(
        &self,
        change: impl Future<Output = T> + Send + 'static,
    ) -> JoinHandle<T> {
        self.0.spawn(in_request(change))
    }

    /// Returns the number of changes in progress.
    #[must_use]
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Returns `true` if no change is in progress.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Waits until no change is in progress.
    pub async fn finished(&self) {
        self.0.close();
        self.0.wait().await;
    }
}

#[cfg(test)]
mod tests {
    use std::future::pending;

    use tokio::sync::oneshot;
    use tokio::time::timeout;

    use super::*;

    #[tokio::test]
    async fn a_change_whose_client_disconnected_completes() {
        let changes = Changes::default();
        let (go, waiting) = oneshot::channel::<()>();
        let (done, result) = oneshot::channel();
        let change = changes.run(async move {
            waiting.await.unwrap();
            done.send("done").unwrap();
        });
        // As if the client had disconnected.
        drop(change);
        assert_eq!(changes.len(), 1);
        go.send(()).unwrap();
        changes.finished().await;
        assert_eq!(result.await.unwrap(), "done");
        assert!(changes.is_empty());
    }

    #[tokio::test]
    async fn a_panic_is_an_error_of_the_change() {
        let changes = Changes::default();
        let error = changes.run(async { panic!("it failed") }).await;
        assert!(error.unwrap_err().is_panic());
        let never = timeout(std::time::Duration::from_millis(1), pending::<()>());
        assert!(changes.run(never).await.unwrap().is_err());
    }
}
