//! The search indexes of this host. Each account has its own index in a folder. An index is a cache: it can be deleted at any time, and is built again from the
//! mail server.
//!
//! An index contains the immutable data of messages. The folder and the flags of each message come from the directory, and are in memory while the account is in
//! use. [`latchmail_search`] has the format of the files.
//!
//! An index is built in the background after the first search of the account. Until the index is complete, the mail server searches.

mod content;
mod document;
mod files;
mod search;
mod threads;
mod update;

use std::collections::HashMap;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use latchmail_core::clock::Clock;
use latchmail_core::config;
use latchmail_core::metrics;
use tokio::sync::{RwLock, mpsc};

use crate::blocking;
use crate::mail::Mail;
use content::Content;
pub(crate) use search::CurrentIndex;

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

/// The search indexes of this host.
pub(crate) struct Indexes {
    root: PathBuf,
    max_bytes: u64,
    accounts: Mutex<HashMap<String, Arc<AccountIndex>>>,
    /// The accounts whose index must be built.
    queue: mpsc::UnboundedSender<Arc<AccountIndex>>,
    /// The receiver of `queue`, until the indexer runs.
    queued: Mutex<Option<mpsc::UnboundedReceiver<Arc<AccountIndex>>>>,
    fallbacks: AtomicU64,
}

/// The index of an account.
pub(crate) struct AccountIndex {
    account: String,
    folder: PathBuf,
    /// Serializes the updates of the index.
    update: tokio::sync::Mutex<()>,
    /// The open index. `None` if the index is closed or not complete.
    content: Arc<RwLock<Option<Content>>>,
    /// `true` while the index waits for its build or is being built.
    is_queued: AtomicBool,
    used: Mutex<Instant>,
    /// The time of the last successful update, or of the first use.
    updated: Mutex<Instant>,
    /// The time of the last failed update or build.
    failed: Mutex<Option<Instant>>,
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
                update: tokio::sync::Mutex::default(),
                content: Arc::default(),
                is_queued: AtomicBool::new(false),
                used: Mutex::new(Instant::now()),
                updated: Mutex::new(Instant::now()),
                failed: Mutex::default(),
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
        let mut failed = self.failed.lock().unwrap_or_else(PoisonError::into_inner);
        *failed = (!succeeded).then_some(now);
        if succeeded {
            *self.updated.lock().unwrap_or_else(PoisonError::into_inner) = now;
        }
    }

    /// Returns the time since the last successful update.
    fn lag(&self) -> Duration {
        let updated = self.updated.lock().unwrap_or_else(PoisonError::into_inner);
        updated.elapsed()
    }

    /// Returns `true` if the last update failed a short time ago.
    fn has_failed(&self) -> bool {
        let failed = self.failed.lock().unwrap_or_else(PoisonError::into_inner);
        failed.is_some_and(|failed| failed.elapsed() < RETRY_INTERVAL)
    }

    fn used(&self) -> Instant {
        *self.used.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Mail {
    /// Builds and updates the search indexes until the returned future is dropped. Does nothing if the index is disabled.
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
            while let Some(index) = queued.recv().await {
                self.build_index(&index).await;
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

    async fn build_index(&self, index: &Arc<AccountIndex>) {
        let started = Instant::now();
        let built = self.update_index(index, usize::MAX).await;
        index.is_queued.store(false, Ordering::SeqCst);
        let account = &index.account;
        match built {
            Ok(_) => tracing::info!(account, duration = ?started.elapsed(), "search index built"),
            Err(error) => {
                tracing::warn!(account, %error, "failed to build the search index");
            }
        }
    }

    /// Updates the indexes in use, closes and deletes others.
    async fn refresh_indexes(&self, indexes: &Indexes) {
        for index in indexes.close_idle().await {
            if index.content.read().await.is_none() {
                continue;
            }
            if let Err(error) = self.update_index(&index, update::MAX_FOREGROUND).await {
                tracing::debug!(account = index.account, %error, "failed to update the search index");
            }
            if let Err(error) = self.store_threads(&index).await {
                tracing::warn!(account = index.account, %error, "failed to store the threads");
            }
            self.verify_index(&index).await;
        }
        self.delete_indexes(indexes).await;
        indexes.write_status().await;
    }
}
