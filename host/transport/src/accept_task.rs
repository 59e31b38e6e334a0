//! The task that accepts connections, and the graceful shutdown of this task. This module does not
//! depend on the type of the listener or on the protocol.

use std::time::Duration;

use latchmail_core::detached_tasks::DetachedTasks;
use tokio::task::JoinHandle;
use tokio::time::timeout;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::handler::Handler;

/// The delay after a failed accept. Usually, the operating system lacks a resource, for example
/// file descriptors, so an immediate retry would also fail.
pub(crate) const RETRY_DELAY: Duration = Duration::from_millis(100);

/// A task that accepts connections. Dropping this value does not end the task. Call
/// [`AcceptTask::stop`] to end the task.
#[derive(Debug)]
pub(crate) struct AcceptTask {
    shutdown_grace: Duration,
    /// The token for a graceful stop. Cancelling the token ends the accept loop, and ends each
    /// connection after its current request.
    stop: CancellationToken,
    /// The token for an abort. Cancelling the token immediately ends all connections and all tasks
    /// that change data.
    abort: CancellationToken,
    task: JoinHandle<()>,
    connections: TaskTracker,
    tasks: DetachedTasks,
}

impl AcceptTask {
    /// Spawns a task that runs the future of `accept`. The future must end when the token is
    /// cancelled, and must add every connection to the tracker.
    pub(crate) fn spawn<H: Handler, A>(
        handler: H,
        accept: impl FnOnce(H, CancellationToken, TaskTracker) -> A,
    ) -> Self
    where
        A: Future<Output = ()> + Send + 'static,
    {
        let server = handler.server();
        let stop = CancellationToken::new();
        let connections = TaskTracker::new();
        Self {
            shutdown_grace: server.config.shutdown_grace,
            abort: server.abort.clone(),
            tasks: server.tasks.clone(),
            task: tokio::spawn(accept(handler, stop.clone(), connections.clone())),
            stop,
            connections,
        }
    }

    /// Returns the number of open connections.
    pub(crate) fn open_connections(&self) -> usize {
        self.connections.len()
    }

    /// Ends the accept loop, closes idle connections, and waits for requests in progress and for
    /// tasks that change data. After `http.shutdown_grace`, aborts the unfinished requests and
    /// tasks, and logs a warning with the name `listener`.
    pub(crate) async fn stop(self, listener: &str) {
        self.stop.cancel();
        let _ = self.task.await;
        self.connections.close();
        let finished = async {
            self.connections.wait().await;
            self.tasks.finished().await;
        };
        if timeout(self.shutdown_grace, finished).await.is_err() {
            tracing::warn!(
                connections = self.connections.len(),
                changes = self.tasks.len(),
                listener,
                "shutdown grace period exceeded, aborting connections and changes"
            );
            self.abort.cancel();
            self.connections.wait().await;
            self.tasks.finished().await;
        }
    }
}
