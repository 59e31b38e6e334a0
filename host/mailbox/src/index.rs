//! The search indexes of this host. Each account has its own index in a folder. An index is a
//! cache: it can be deleted at any time, and is built again from the mail server.
//!
//! An index contains the immutable data of messages. The folder and the flags of each message come
//! from the directory, and are in memory while the account is in use. [`latchmail_search`] has the
//! format of the files.
//!
//! An index is built in the background after the first search of the account. Until the index is
//! complete, the mail server searches.

mod content;
pub(crate) mod credentials;
mod document;
mod files;
mod merged_threads;
mod reading;
pub(crate) mod results;
mod search;
mod threads;
mod unreadable;
mod update;

use std::collections::HashMap;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use latchmail_core::clock::Clock;
use latchmail_core::config;
use latchmail_core::metrics;
use tokio::sync::{RwLock, Semaphore, mpsc};
use tokio::task::JoinSet;
use tokio::time::timeout;

use crate::blocking;
use crate::error::Error;
use crate::mail::Mail;
use content::Content;
use results::IndexStatus;
pub(crate) use search::CurrentIndex;
use unreadable::UnreadableMessages;
use update::Update;

/// The time after which the memory of an unused index is released.
const IDLE: Duration = Duration::from_mins(5);

/// The interval at which indexes in use are updated, and at which unused indexes are closed.
const TICK: Duration = Duration::from_secs(30);

/// The time after a failed update in which the mail server serves the searches.
const RETRY_INTERVAL: Duration = Duration::from_secs(10);

/// The interval at which the checksums of an open index are verified.
const VERIFY_INTERVAL: Duration = Duration::from_hours(1);

/// Maximum number of open indexes.
const MAX_OPEN: usize = 256;

/// Maximum number of concurrent builds. A build that waits for the mail server does not delay the
/// builds of other accounts.
const BUILDS: usize = 16;

/// Maximum number of concurrent builds that add messages to an index, which needs memory and CPU
/// time.
const WRITERS: usize = 4;

/// Time for which a build adds messages. Then the other waiting builds come first.
const TIME_SLICE: Duration = Duration::from_secs(20);

/// Maximum time until a build has used a time slice, including the sync of the mailbox.
const BUILD_TIMEOUT: Duration = Duration::from_mins(10);

/// Maximum number of concurrent periodic updates, and the maximum time of each.
const REFRESHES: usize = 4;
const REFRESH_TIMEOUT: Duration = Duration::from_secs(30);

/// Divisor of the disk space that determines the maximum size of one index.
const ACCOUNT_DIVISOR: u64 = 4;

/// The time after the deletion of an index for lack of disk space in which the index is not built.
const TOO_LARGE_INTERVAL: Duration = Duration::from_hours(24);

/// The search indexes of this host.
pub(crate) struct Indexes {
    root: PathBuf,
    max_bytes: u64,
    accounts: Mutex<HashMap<String, Arc<AccountIndex>>>,
    /// The accounts whose index must be built.
    queue: mpsc::UnboundedSender<Arc<AccountIndex>>,
    /// The receiver of `queue`, until the indexer runs.
    queued: Mutex<Option<mpsc::UnboundedReceiver<Arc<AccountIndex>>>>,
    writer_permits: Semaphore,
    fallbacks: AtomicU64,
}

/// The index of an account.
pub(crate) struct AccountIndex {
    account: String,
    folder: PathBuf,
    /// The maximum size of the index on the disk.
    max_bytes: u64,
    /// Serializes the updates of the index.
    update: tokio::sync::Mutex<()>,
    /// The open index. `None` if the index is closed or not complete.
    content: Arc<RwLock<Option<Content>>>,
    /// `true` while the index waits for its build or is being built.
    is_queued: AtomicBool,
    used: Mutex<Instant>,
    /// The time of the last successful update, or of the first use.
    updated: Mutex<Instant>,
    /// The reason why the mail server serves the searches for some time.
    pause: Mutex<Option<Pause>>,
    /// The messages that the mail server failed to return.
    unreadable: Mutex<UnreadableMessages>,
}

/// The reason why the index is not used or built, and the time of the event.
#[derive(Clone, Copy)]
enum Pause {
    /// The last update or build failed.
    Failed(Instant),
    /// The index needed too much disk space.
    TooLarge(Instant),
}

impl Pause {
    /// Returns the status of the index during the pause. Returns `None` after the pause.
    fn status(self) -> Option<IndexStatus> {
        match self {
            Self::Failed(time) => {
                (time.elapsed() < RETRY_INTERVAL).then_some(IndexStatus::Building)
            }
            Self::TooLarge(time) => {
                (time.elapsed() < TOO_LARGE_INTERVAL).then_some(IndexStatus::Off)
            }
        }
    }
}

impl Indexes {
    pub(crate) fn new(settings: &config::Index) -> Self {
        let (queue, queued) = mpsc::unbounded_channel();
        Self {
            root: settings.path.clone(),
            max_bytes: settings.max_bytes,
            accounts: Mutex::default(),
            queue,
            queued: Mutex::new(Some(queued)),
            writer_permits: Semaphore::new(WRITERS),
            fallbacks: AtomicU64::new(0),
        }
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<String, Arc<AccountIndex>>> {
        // The map is consistent even if a thread panicked while it had locked the map.
        self.accounts.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the index of an account, and records its use.
    pub(crate) fn account(&self, account: &str) -> Arc<AccountIndex> {
        let mut accounts = self.lock();
        let index = accounts.entry(account.to_owned()).or_insert_with(|| {
            Arc::new(AccountIndex {
                account: account.to_owned(),
                folder: files::account_folder(&self.root, account),
                max_bytes: self.max_bytes / ACCOUNT_DIVISOR,
                update: tokio::sync::Mutex::default(),
                content: Arc::default(),
                is_queued: AtomicBool::new(false),
                used: Mutex::new(Instant::now()),
                updated: Mutex::new(Instant::now()),
                pause: Mutex::default(),
                unreadable: Mutex::default(),
            })
        });
        index.touch();
        Arc::clone(index)
    }

    /// Returns the index of an account if the account has used it a short time ago.
    fn open(&self, account: &str) -> Option<Arc<AccountIndex>> {
        self.lock().get(account).cloned()
    }

    /// Builds the index in the background.
    fn build(&self, index: &Arc<AccountIndex>) {
        if !index.is_queued.swap(true, Ordering::SeqCst) {
            // The channel is closed only while the service stops.
            let _ = self.queue.send(Arc::clone(index));
        }
    }

    /// Counts a search that the mail server served although the index is enabled.
    fn count_fallback(&self) {
        self.fallbacks.fetch_add(1, Ordering::Relaxed);
        metrics::INDEX_FALLBACKS.increment([]);
    }

    /// Writes the state of the indexes for `latchmail doctor` and the metrics.
    async fn write_status(&self) {
        let mut open = 0;
        let mut lag = Duration::ZERO;
        let indexes: Vec<_> = self.lock().values().cloned().collect();
        for index in &indexes {
            if index.content.read().await.is_some() {
                open += 1;
                lag = lag.max(index.lag());
            }
        }
        let is_queued = |index: &&Arc<AccountIndex>| index.is_queued.load(Ordering::SeqCst);
        let status = files::Status {
            time: Clock::system().now().seconds(),
            open,
            building: indexes.iter().filter(is_queued).count(),
            fallbacks: self.fallbacks.load(Ordering::Relaxed),
            lag: lag.as_secs(),
        };
        metrics::INDEX_OPEN.set([], status.open);
        metrics::INDEX_BUILDING.set([], status.building);
        metrics::INDEX_LAG.set([], status.lag);
        let root = self.root.clone();
        let written = blocking::run(move || files::write_status(&root, &status)).await;
        if let Ok(Err(error)) = written {
            tracing::warn!(%error, "failed to write the state of the search indexes");
        }
    }

    /// Returns the indexes that are open, and removes the indexes that were not used for some time.
    async fn close_idle(&self) -> Vec<Arc<AccountIndex>> {
        let mut indexes: Vec<_> = self.lock().values().cloned().collect();
        indexes.sort_by_key(|index| std::cmp::Reverse(index.used()));
        let mut open = Vec::new();
        for (rank, index) in indexes.into_iter().enumerate() {
            let is_idle = index.used().elapsed() > IDLE || rank >= MAX_OPEN;
            if !is_idle {
                open.push(index);
            } else if !index.is_queued.load(Ordering::SeqCst) {
                *index.content.write().await = None;
                // The next search must not build an index that is too large again, or read messages
                // again that cannot be read.
                if index.paused() == Some(IndexStatus::Off) || !index.unreadable().is_empty() {
                    continue;
                }
                let mut accounts = self.lock();
                // Keep the entry if a request uses it.
                if Arc::strong_count(&index) <= 2 {
                    accounts.remove(&index.account);
                }
            }
        }
        open
    }
}

impl AccountIndex {
    fn touch(&self) {
        *self.used.lock().unwrap_or_else(PoisonError::into_inner) = Instant::now();
    }

    /// Records the outcome of an update.
    fn set_updated(&self, succeeded: bool) {
        let now = Instant::now();
        self.set_pause((!succeeded).then_some(Pause::Failed(now)));
        if succeeded {
            *self.updated.lock().unwrap_or_else(PoisonError::into_inner) = now;
        }
    }

    fn set_pause(&self, pause: Option<Pause>) {
        *self.pause.lock().unwrap_or_else(PoisonError::into_inner) = pause;
    }

    /// Returns the time since the last successful update.
    fn lag(&self) -> Duration {
        let updated = self.updated.lock().unwrap_or_else(PoisonError::into_inner);
        updated.elapsed()
    }

    /// Returns the status of the index if the mail server serves the searches for some time.
    fn paused(&self) -> Option<IndexStatus> {
        let pause = *self.pause.lock().unwrap_or_else(PoisonError::into_inner);
        pause.and_then(Pause::status)
    }

    fn unreadable(&self) -> MutexGuard<'_, UnreadableMessages> {
        self.unreadable
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }

    fn used(&self) -> Instant {
        *self.used.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Mail {
    /// Builds and updates the search indexes until the returned future is dropped. Does nothing if
    /// the index is disabled.
    pub async fn run_indexer(self: Arc<Self>) {
        let Some(indexes) = self.indexes() else {
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

    /// Builds an index for at most one time slice. If the index is not complete then, it goes to
    /// the end of the queue.
    async fn build_index(self: Arc<Self>, index: Arc<AccountIndex>) {
        let Some(indexes) = self.indexes() else {
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

    /// Updates the indexes in use, closes and deletes others.
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
            if let Err(error) = self.update_index(&index, update::MAX_FOREGROUND).await {
                tracing::debug!(account = index.account, %error, "failed to update the search index");
            }
            if let Err(error) = self.store_threads(&index).await {
                tracing::warn!(account = index.account, %error, "failed to store the threads");
            }
            self.verify_index(&index).await;
        };
        if timeout(REFRESH_TIMEOUT, refresh).await.is_err() {
            tracing::warn!(account = index.account, "search index not updated in time");
        }
    }
}

/// Runs a future concurrently with the others of `tasks`. Waits while there are `limit` others.
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
