//! The state of the search indexes of this host.

use std::collections::HashMap;
use std::fmt;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use latchmail_core::clock::Clock;
use latchmail_core::config;
use latchmail_core::metrics;
use tokio::sync::{RwLock, Semaphore, mpsc};

use super::content::Content;
use super::files;
use super::results::IndexStatus;
use super::unreadable::UnreadableMessages;
use crate::blocking;

/// The time after which the memory of an unused index is released.
pub(super) const IDLE: Duration = Duration::from_mins(5);

/// The time after a failed update during which searches run on the mail server.
const RETRY_INTERVAL: Duration = Duration::from_secs(10);

/// Maximum number of open indexes.
const MAX_OPEN: usize = 256;

/// Maximum number of concurrent builds that add messages to an index, which needs memory and CPU
/// time.
const WRITERS: usize = 4;

/// The time during which an index is not built again after the index was deleted because of its
/// size.
const TOO_LARGE_INTERVAL: Duration = Duration::from_hours(24);

/// The search indexes of this host.
pub(super) struct Indexes {
    pub(super) root: PathBuf,
    pub(super) max_bytes: u64,
    pub(super) accounts: Mutex<HashMap<String, Arc<AccountIndex>>>,
    /// The accounts whose index must be built.
    pub(super) queue: mpsc::UnboundedSender<Arc<AccountIndex>>,
    /// The receiver of `queue`. `None` after the indexer has started.
    pub(super) queued: Mutex<Option<mpsc::UnboundedReceiver<Arc<AccountIndex>>>>,
    pub(super) writer_permits: Semaphore,
    pub(super) fallbacks: AtomicU64,
}

/// The index of an account.
pub(super) struct AccountIndex {
    pub(super) account: String,
    pub(super) folder: PathBuf,
    /// The maximum size of the index on the disk, in bytes.
    pub(super) max_bytes: u64,
    /// Serializes the updates of the index.
    pub(super) update: tokio::sync::Mutex<()>,
    /// The open index. `None` if the index is closed or not complete.
    pub(super) content: Arc<RwLock<Option<Content>>>,
    /// `true` while the index waits for its build or is being built.
    pub(super) is_queued: AtomicBool,
    pub(super) used: Mutex<Instant>,
    /// The time of the last successful update, or of the first use.
    pub(super) updated: Mutex<Instant>,
    /// The reason why searches temporarily run on the mail server. `None` if there is no such
    /// reason.
    pub(super) pause: Mutex<Option<Pause>>,
    /// The messages that the mail server failed to return.
    pub(super) unreadable: Mutex<UnreadableMessages>,
}

/// The reason why a search index is temporarily not used or built, and the time of the event.
#[derive(Clone, Copy)]
pub(super) enum Pause {
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

impl fmt::Debug for Indexes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Indexes")
            .field("root", &self.root)
            .finish_non_exhaustive()
    }
}

impl Indexes {
    pub(super) fn new(settings: &config::Index) -> Self {
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

    /// Returns the index of an account, and records the use of the index.
    pub(super) fn account(&self, account: &str) -> Arc<AccountIndex> {
        let mut accounts = self.lock();
        let index = accounts.entry(account.to_owned()).or_insert_with(|| {
            Arc::new(AccountIndex {
                account: account.to_owned(),
                folder: files::account_folder(&self.root, account),
                max_bytes: self.max_bytes / files::ACCOUNT_DIVISOR,
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

    /// Returns the index of an account if the account has recently used the index.
    pub(super) fn open(&self, account: &str) -> Option<Arc<AccountIndex>> {
        self.lock().get(account).cloned()
    }

    /// Builds the index in the background.
    pub(super) fn build(&self, index: &Arc<AccountIndex>) {
        if !index.is_queued.swap(true, Ordering::SeqCst) {
            // The channel is closed only while the service stops.
            let _ = self.queue.send(Arc::clone(index));
        }
    }

    /// Counts a search that runs on the mail server although the search index is enabled.
    pub(super) fn count_fallback(&self) {
        self.fallbacks.fetch_add(1, Ordering::Relaxed);
        metrics::INDEX_FALLBACKS.increment([]);
    }

    /// Writes the state of the indexes for `latchmail doctor` and the metrics.
    pub(super) async fn write_status(&self) {
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

    /// Closes the indexes that were not used for [`IDLE`], and the least recently used indexes
    /// beyond [`MAX_OPEN`]. Returns the other indexes.
    pub(super) async fn close_idle(&self) -> Vec<Arc<AccountIndex>> {
        let mut indexes: Vec<_> = self.lock().values().cloned().collect();
        indexes.sort_by_key(|index| std::cmp::Reverse(index.used()));
        let mut open = Vec::new();
        for (rank, index) in indexes.into_iter().enumerate() {
            let is_idle = index.used().elapsed() > IDLE || rank >= MAX_OPEN;
            if !is_idle {
                open.push(index);
            } else if !index.is_queued.load(Ordering::SeqCst) {
                *index.content.write().await = None;
                // Keep the entry of an index that is too large or has unreadable messages. Without
                // the entry, the next search would build the index again or read these messages
                // again.
                if index.paused() == Some(IndexStatus::Off) || !index.unreadable().is_empty() {
                    continue;
                }
                let mut accounts = self.lock();
                // Keep the entry if a request uses the index. Without a request, only the map and
                // this function refer to the index.
                if Arc::strong_count(&index) <= 2 {
                    accounts.remove(&index.account);
                }
            }
        }
        open
    }
}

impl AccountIndex {
    pub(super) fn touch(&self) {
        *self.used.lock().unwrap_or_else(PoisonError::into_inner) = Instant::now();
    }

    /// Records the outcome of an update.
    pub(super) fn set_updated(&self, succeeded: bool) {
        let now = Instant::now();
        self.set_pause((!succeeded).then_some(Pause::Failed(now)));
        if succeeded {
            *self.updated.lock().unwrap_or_else(PoisonError::into_inner) = now;
        }
    }

    pub(super) fn set_pause(&self, pause: Option<Pause>) {
        *self.pause.lock().unwrap_or_else(PoisonError::into_inner) = pause;
    }

    /// Returns the time since the last successful update.
    fn lag(&self) -> Duration {
        let updated = self.updated.lock().unwrap_or_else(PoisonError::into_inner);
        updated.elapsed()
    }

    /// Returns the status of the index if searches temporarily run on the mail server.
    pub(super) fn paused(&self) -> Option<IndexStatus> {
        let pause = *self.pause.lock().unwrap_or_else(PoisonError::into_inner);
        pause.and_then(Pause::status)
    }

    pub(super) fn unreadable(&self) -> MutexGuard<'_, UnreadableMessages> {
        self.unreadable
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn used(&self) -> Instant {
        *self.used.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
