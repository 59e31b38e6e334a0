//! Runs tasks to completion, even if the client disconnects.

use std::future::Future;

use tokio::task::JoinHandle;
use tokio_util::task::TaskTracker;

use crate::error::Failure;
use crate::traces::in_request;

/// A set of running tasks. Clones share the set.
#[derive(Clone, Debug, Default)]
pub struct DetachedTasks(TaskTracker);

impl DetachedTasks {
    /// Starts a task and returns a handle to the result. The task continues if the handle is
    /// dropped. The handle resolves to an error if the task panics, or if the runtime shuts down
    /// first.
    pub fn spawn<T: Send + 'static>(
        &self,
        task: impl Future<Output = T> + Send + 'static,
    ) -> JoinHandle<T> {
        self.0.spawn(in_request(task))
    }

    /// Runs a task to completion, even if the caller is dropped. For example, the connections of a
    /// revoked credential must always be closed.
    ///
    /// # Errors
    /// Returns the error of the task, or [`Failure::internal`] if the task panics.
    pub async fn complete<T: Send + 'static>(
        &self,
        task: impl Future<Output = Result<T, Failure>> + Send + 'static,
    ) -> Result<T, Failure> {
        self.spawn(task).await.map_err(Failure::internal)?
    }

    /// Returns the number of running tasks.
    #[must_use]
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Returns `true` if no task is running.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Waits until no task is running.
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
    async fn a_task_whose_client_disconnected_completes() {
        let tasks = DetachedTasks::default();
        let (go, waiting) = oneshot::channel::<()>();
        let (done, result) = oneshot::channel();
        let task = tasks.spawn(async move {
            waiting.await.unwrap();
            done.send("done").unwrap();
        });
        // As if the client had disconnected.
        drop(task);
        assert_eq!(tasks.len(), 1);
        go.send(()).unwrap();
        tasks.finished().await;
        assert_eq!(result.await.unwrap(), "done");
        assert!(tasks.is_empty());
    }

    #[tokio::test]
    async fn a_panic_is_an_error_of_the_task() {
        let tasks = DetachedTasks::default();
        let error = tasks.spawn(async { panic!("it failed") }).await;
        assert!(error.unwrap_err().is_panic());
        let never = timeout(std::time::Duration::from_millis(1), pending::<()>());
        assert!(tasks.spawn(never).await.unwrap().is_err());
    }
}
