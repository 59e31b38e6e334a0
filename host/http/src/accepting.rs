//! The task that accepts connections, and its graceful shutdown. This module depends neither on the type of the listener nor on the protocol.

use std::sync::Arc;
use std::time::Duration;

use latchmail_core::changes::Changes;
use tokio::task::JoinHandle;
use tokio::time::timeout;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use super::State;

/// A task that accepts connections. Dropping this value does not end the task; [`Accepting::stop`] does.
#[derive(Debug)]
pub(crate) struct Accepting {
    grace: Duration,
    stop: CancellationToken,
    /// Aborts the connections and the changes in progress.
    cut: CancellationToken,
    task: JoinHandle<()>,
    connections: TaskTracker,
    changes: Changes,
}

impl Accepting {
    /// Starts the task. The accept loop must end when its token is cancelled, and must track every connection.
    pub(crate) fn begin<S: State, A>(
        state: &Arc<S>,
        accept: impl FnOnce(Arc<S>, CancellationToken, TaskTracker) -> A,
    ) -> Self
    where
        A: Future<Output = ()> + Send + 'static,
    {
        let http = state.http();
        let stop = CancellationToken::new();
        let connections = TaskTracker::new();
        Self {
            grace: http.config.shutdown_grace,
            cut: http.cut.clone(),
            changes: http.changes.clone(),
            task: tokio::spawn(accept(Arc::clone(state), stop.clone(), connections.clone())),
            stop,
            connections,
        }
    }

    /// Returns the tracker of the open connections.
    #[cfg(test)]
    pub(crate) fn connections(&self) -> &TaskTracker {
        &self.connections
    }

    /// Stops accepting connections, closes the idle ones, and waits for requests and changes in progress. Aborts what is not finished within
    /// `http.shutdown_grace`, and logs `place` in this case.
    pub(crate) async fn stop(self, place: &str) {
        self.stop.cancel();
        let _ = self.task.await;
        self.connections.close();
        let done = async {
            self.connections.wait().await;
            self.changes.finished().await;
        };
        if timeout(self.grace, done).await.is_err() {
            tracing::warn!(
                connections = self.connections.len(),
                changes = self.changes.len(),
                place,
                "shutdown grace period exceeded, aborting connections and changes"
            );
            self.cut.cancel();
            self.connections.wait().await;
            self.changes.finished().await;
        }
    }
}
