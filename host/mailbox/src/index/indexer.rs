//! Builds and updates the search indexes in the background.

use std::sync::atomic::Ordering;
use std::sync::{Arc, PoisonError};
use std::time::{Duration, Instant};

use tokio::task::JoinSet;
use tokio::time::timeout;

use super::SearchIndex;
use super::indexes::{AccountIndex, Indexes};
use super::update::{MAX_FOREGROUND, Update};
use crate::error::Error;

/// The interval at which indexes in use are updated, and at which unused indexes are closed.
const TICK: Duration = Duration::from_secs(30);

/// Maximum number of concurrent builds. A build that waits for the mail server does not delay the
/// builds of other accounts.
const BUILDS: usize = 16;

/// Timeout for one time slice of a build, including the sync of the mailbox.
const BUILD_TIMEOUT: Duration = Duration::from_mins(10);

/// Maximum number of concurrent periodic updates, and the maximum time of each.
const REFRESHES: usize = 4;
const REFRESH_TIMEOUT: Duration = Duration::from_secs(30);

impl SearchIndex {
    /// Builds and updates the search indexes until the returned future is dropped. Does nothing if
    /// the search indexes are disabled.
    pub async fn run(self: Arc<Self>) {
        let Some(indexes) = self.indexes.as_ref() else {
            return;
        };
        let queued = {
            let mut queued = indexes
                .queued
                .lock()
                .unwrap_or_else(PoisonError::into_inner);
            queued.take()
        };
        let Some(mut queued) = queued else {
            return;
        };
        let build = async {
            let mut builds = JoinSet::new();
            while let Some(index) = queued.recv().await {
                let build = Box::pin(Arc::clone(&self).build_index(index));
                spawn_within(BUILDS, &mut builds, build).await;
            }
        };
        let refresh = async {
            loop {
                tokio::time::sleep(TICK).await;
                self.refresh_indexes(indexes).await;
            }
        };
        tokio::join!(build, refresh);
    }

    /// Builds an index for at most one time slice. If the index is still incomplete after the time
    /// slice, adds the index to the end of the queue.
    async fn build_index(self: Arc<Self>, index: Arc<AccountIndex>) {
        let Some(indexes) = self.indexes.as_ref() else {
            return;
        };
        let started = Instant::now();
        let account = &index.account;
        let update = timeout(BUILD_TIMEOUT, self.update_index(&index, usize::MAX));
        let built = update.await.unwrap_or_else(|_| {
            index.set_updated(false);
            Err(Error::Unavailable("timeout".into()))
        });
        index.is_queued.store(false, Ordering::SeqCst);
        match built {
            Ok(Update::TimeSliceUsed) => indexes.build(&index),
            Ok(_) => tracing::info!(account, duration = ?started.elapsed(), "search index built"),
            Err(error) => {
                tracing::warn!(account, %error, "failed to build the search index");
            }
        }
    }

    /// Updates the indexes in use. Closes unused indexes, and deletes indexes that are no longer
    /// needed or too large.
    async fn refresh_indexes(self: &Arc<Self>, indexes: &Indexes) {
        let mut refreshes = JoinSet::new();
        for index in indexes.close_idle().await {
            let refresh = Box::pin(Arc::clone(self).refresh_index(index));
            spawn_within(REFRESHES, &mut refreshes, refresh).await;
        }
        refreshes.join_all().await;
        self.delete_indexes(indexes).await;
        indexes.write_status().await;
    }

    async fn refresh_index(self: Arc<Self>, index: Arc<AccountIndex>) {
        if index.content.read().await.is_none() {
            return;
        }
        let refresh = async {
            if let Err(error) = self.update_index(&index, MAX_FOREGROUND).await {
                tracing::debug!(account = index.account, %error, "failed to update the search index");
            }
            if let Err(error) = self.store_threads(&index).await {
                tracing::warn!(account = index.account, %error, "failed to store the threads of messages");
            }
            self.verify_index(&index).await;
        };
        if timeout(REFRESH_TIMEOUT, refresh).await.is_err() {
            tracing::warn!(account = index.account, "search index not updated in time");
        }
    }
}

/// Adds a future to `tasks`, whose futures run concurrently. Waits first if `tasks` contains
/// `limit` futures.
async fn spawn_within(
    limit: usize,
    tasks: &mut JoinSet<()>,
    task: impl Future<Output = ()> + Send + 'static,
) {
    while tasks.try_join_next().is_some() {}
    if tasks.len() >= limit {
        tasks.join_next().await;
    }
    tasks.spawn(task);
}
