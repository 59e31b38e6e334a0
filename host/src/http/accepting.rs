//! What takes connections, and how it ends in good order. From where the connections come, and what is spoken over them, is others' matter.

use std::sync::Arc;
use std::time::Duration;

use tokio::task::JoinHandle;
use tokio::time::timeout;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use super::State;

/// A task that takes connections. It goes on when this is dropped; [`Accepting::stop`] ends it.
#[derive(Debug)]
pub(super) struct Accepting {
    grace: Duration,
    stop: CancellationToken,
    /// Ends the connections and the changes that are under way.
    cut: CancellationToken,
    task: JoinHandle<()>,
    connections: TaskTracker,
    changes: TaskTracker,
}

impl Accepting {
    /// Begins. What accepts has to end when its token is cancelled, and to track every connection.
    pub(super) fn begin<S: State, A>(
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
            changes: http.tasks.clone(),
            task: tokio::spawn(accept(Arc::clone(state), stop.clone(), connections.clone())),
            stop,
            connections,
        }
    }

    /// The connections that there are.
    #[cfg(test)]
    pub(super) fn connections(&self) -> &TaskTracker {
        &self.connections
    }

    /// Accepts no more connections, ends the idle ones, finishes the requests in flight and the changes under way, and cuts off what is not done within
    /// `http.shutdown_grace`. `place` is named in the log where something was.
    pub(super) async fn stop(self, place: &str) {
        self.stop.cancel();
        let _ = self.task.await;
        self.connections.close();
        self.changes.close();
        let done = async {
            self.connections.wait().await;
            self.changes.wait().await;
        };
        if timeout(self.grace, done).await.is_err() {
            tracing::warn!(
                connections = self.connections.len(),
                changes = self.changes.len(),
                place,
                "cut off what was not done in time"
            );
            self.cut.cancel();
            self.connections.wait().await;
            self.changes.wait().await;
        }
    }
}
