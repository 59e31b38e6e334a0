//! The writer of an SQLite database: the one connection of this process that changes the database.
//!
//! SQLite has one writer at a time. Connections that wait for its lock try again after pauses that
//! grow, so some of them wait much longer than others. Here, callers wait in a queue, and get the
//! connection in the order of their calls.
//!
//! A task owns the connection. The task lends the connection to one caller after the other, and
//! commits their transactions as one group, with one fsync per file. A group ends as soon as no
//! caller waits, so a single caller does not wait for others. Each transaction is a savepoint: a
//! transaction that fails, or whose caller is dropped, changes nothing and does not affect the
//! others. A caller learns that its transaction is committed after the commit of the group. If this
//! commit fails, it fails for all transactions of the group.
//!
//! A transaction sees the changes of the earlier transactions of its group, so it depends on their
//! commit. Readers use other connections, which see only committed groups. If a transaction ends
//! without a commit, its caller knows uncommitted changes, for example that an address is taken. So
//! readers wait for the commit of such a group, see [`Uncommitted`].
//!
//! Other processes can change the database too, for example the operator's commands. The task tries
//! again until it gets SQLite's lock. It releases the lock after each group.

use std::ops::{Deref, DerefMut};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Weak};
use std::time::Duration;

use latchmail_core::metrics;
use sqlx::pool::PoolConnection;
use sqlx::{Sqlite, SqliteConnection, SqlitePool};
use tokio::sync::mpsc::error::TrySendError;
use tokio::sync::{Mutex, OwnedMutexGuard, mpsc, oneshot, watch};
use tokio::time::{Instant, timeout};

use super::{ACQUIRE_TIMEOUT, COMMIT_SQLITE, Error, begin};

/// Maximum number of callers that wait for the connection. The calls of further callers fail.
const MAX_WAITING: usize = 1024;

/// Maximum number of transactions in a group.
const MAX_MEMBERS: usize = 64;

/// Maximum age of a group to which a transaction is added. The first caller of a group waits for
/// this time, for the last transaction of the group and for the commit.
const MAX_AGE: Duration = Duration::from_millis(10);

/// Maximum time in which a caller takes the connection. After this time, the next caller gets it,
/// and the caller waits again. For example, a task can wait for its commit while another of its
/// futures waits for the connection. This future does not run, so the commit must not wait for it.
const MAX_OFFER: Duration = Duration::from_millis(100);

/// A transaction that takes longer is logged, because all other callers wait for it.
const SLOW: Duration = Duration::from_secs(1);

/// Begins a group and its first transaction.
const BEGIN: &str = "BEGIN IMMEDIATE; SAVEPOINT member";
/// Ends a transaction, and begins the next one.
const NEXT: &str = "RELEASE member; SAVEPOINT member";
/// Undoes the changes of a transaction. The next transaction can begin.
const UNDO: &str = "ROLLBACK TO member";
const ROLLBACK: &str = "ROLLBACK";

/// A caller that waits for the connection.
type Turn = oneshot::Sender<Result<Offer, sqlx::Error>>;
/// The result of the commit of a group.
type Committed = Result<(), Arc<sqlx::Error>>;
/// A caller that waits for the commit of its group.
type Member = oneshot::Sender<Committed>;
/// The connection. Only one caller at a time locks it, so the task never waits for the lock.
type Shared = Arc<Mutex<PoolConnection<Sqlite>>>;

/// Whether a transaction has ended without a commit after it saw uncommitted changes. Until the
/// commit of these changes, readers wait, so that its caller does not read an older state.
#[derive(Clone, Debug)]
pub(in crate::db) struct Uncommitted(Arc<watch::Sender<bool>>);

impl Uncommitted {
    pub(in crate::db) fn new() -> Self {
        Self(Arc::new(watch::Sender::new(false)))
    }

    /// Waits until the changes are committed, but at most for [`MAX_OFFER`]. A task that has begun
    /// a transaction itself must not wait for its own group.
    pub(in crate::db) async fn committed(&self) {
        if *self.0.borrow() {
            let mut changes = self.0.subscribe();
            let committed = changes.wait_for(|is_seen| !is_seen);
            // The time can end, or the service can stop. A reader then reads the committed state.
            let _ = timeout(MAX_OFFER, committed).await;
        }
    }

    fn set(&self, is_seen: bool) {
        self.0
            .send_if_modified(|now| std::mem::replace(now, is_seen) != is_seen);
    }
}

/// Marks uncommitted changes as seen when it is dropped, unless the transaction is committed.
#[derive(Debug)]
struct Seen(Option<Uncommitted>);

impl Drop for Seen {
    fn drop(&mut self) {
        if let Some(uncommitted) = &self.0 {
            uncommitted.set(true);
        }
    }
}

/// The connection, which a caller can take. Dropping the offer declines it.
#[derive(Debug)]
struct Offer {
    /// Whether the group has earlier transactions.
    sees_uncommitted: bool,
    connection: Weak<Mutex<PoolConnection<Sqlite>>>,
    end: oneshot::Sender<Member>,
    /// Set by the caller that takes the connection, or by the task that withdraws the offer. The
    /// first one decides.
    is_decided: Arc<AtomicBool>,
}

/// The queue of the callers that change the database.
#[derive(Clone, Debug)]
pub struct Writer {
    turns: mpsc::Sender<Turn>,
    /// A pool of one connection, which the task uses. If the connection breaks, the pool opens a
    /// new one.
    pool: SqlitePool,
    has_milter: bool,
    uncommitted: Uncommitted,
}

/// A transaction of a group. Dropping the transaction without a commit undoes its changes.
#[derive(Debug)]
pub struct SqliteTx {
    // The fields are dropped in this order, so the task can use the connection when it learns of
    // the end, and readers wait before that.
    seen: Seen,
    connection: OwnedMutexGuard<PoolConnection<Sqlite>>,
    end: oneshot::Sender<Member>,
    /// `true` if the milter's file is attached to the connection.
    pub(in crate::db) has_milter: bool,
}

impl Writer {
    /// Starts the task. `pool` must have at most one connection. `has_milter` states that the
    /// milter's file is attached to the connection.
    pub(super) fn start(pool: SqlitePool, has_milter: bool, uncommitted: Uncommitted) -> Self {
        let (turns, waiting) = mpsc::channel(MAX_WAITING);
        tokio::spawn(run(pool.clone(), waiting, uncommitted.clone()));
        Self {
            turns,
            pool,
            has_milter,
            uncommitted,
        }
    }

    /// Waits for the connection and begins a transaction.
    ///
    /// # Errors
    /// Returns [`Error::Busy`] if too many callers wait, or if the call has waited for
    /// [`ACQUIRE_TIMEOUT`]. Returns [`Error::Database`] if the database fails or is closed.
    pub(in crate::db) async fn begin(&self) -> Result<SqliteTx, Error> {
        let started = Instant::now();
        let _waiting = metrics::DATABASE_WRITES_WAITING.begin();
        let begun = timeout(ACQUIRE_TIMEOUT, self.take_turn()).await;
        let begun =
            begun.map_err(|_| Error::busy("a transaction has waited too long for the writer"));
        let tx = begun??;
        metrics::DATABASE_WRITE_WAIT.observe([], started.elapsed());
        Ok(tx)
    }

    async fn take_turn(&self) -> Result<SqliteTx, Error> {
        loop {
            let (turn, offered) = oneshot::channel();
            self.turns.try_send(turn).map_err(|error| match error {
                TrySendError::Full(_) => Error::busy("too many transactions wait for the writer"),
                TrySendError::Closed(_) => sqlx::Error::PoolClosed.into(),
            })?;
            // The task drops the callers that wait when the database is closed.
            let offer = offered.await.map_err(|_| sqlx::Error::PoolClosed)??;
            if offer.is_decided.swap(true, Ordering::AcqRel) {
                continue;
            }
            let connection = offer.connection.upgrade().ok_or(sqlx::Error::PoolClosed)?;
            let seen = offer.sees_uncommitted.then(|| self.uncommitted.clone());
            return Ok(SqliteTx {
                seen: Seen(seen),
                connection: connection.lock_owned().await,
                end: offer.end,
                has_milter: self.has_milter,
            });
        }
    }

    /// Waits until the current group is committed, and closes the connection.
    pub(in crate::db) async fn close(&self) {
        self.pool.close().await;
    }
}

impl Deref for SqliteTx {
    type Target = SqliteConnection;

    fn deref(&self) -> &SqliteConnection {
        &self.connection
    }
}

impl DerefMut for SqliteTx {
    fn deref_mut(&mut self) -> &mut SqliteConnection {
        &mut self.connection
    }
}

impl SqliteTx {
    /// Ends the transaction, and waits until its group is committed.
    ///
    /// # Errors
    /// Returns [`Error::Commit`] if the group was not committed. Returns [`Error::Unknown`] if the
    /// task has ended.
    pub(in crate::db) async fn commit(self) -> Result<(), Error> {
        let Self {
            mut seen,
            connection,
            end,
            ..
        } = self;
        seen.0 = None;
        drop(connection);
        let (member, committed) = oneshot::channel();
        // If the task has ended, `member` is dropped.
        let _ = end.send(member);
        let committed = committed
            .await
            .map_err(|_| Error::Unknown(sqlx::Error::WorkerCrashed))?;
        committed.map_err(Error::not_committed)
    }
}

/// Runs the groups until the pool is closed or no [`Writer`] exists any longer.
async fn run(pool: SqlitePool, mut turns: mpsc::Receiver<Turn>, uncommitted: Uncommitted) {
    let mut closed = pool.close_event();
    let mut idle: Option<Shared> = None;
    while let Ok(Some(first)) = closed.do_until(turns.recv()).await {
        if first.is_closed() {
            continue;
        }
        let connection = match idle.take() {
            Some(connection) => connection,
            None => match pool.acquire().await {
                Ok(connection) => Arc::new(Mutex::new(connection)),
                Err(error) => {
                    let _ = first.send(Err(error));
                    continue;
                }
            },
        };
        let ended = run_group(&connection, first, &mut turns).await;
        uncommitted.set(false);
        match ended {
            Ok(()) => idle = Some(connection),
            Err(error) => {
                tracing::warn!(%error, "failed to write to the database");
                // The state of the connection is unknown. Closing it rolls back its transaction.
                connection.lock().await.close_on_drop();
            }
        }
    }
}

/// Runs the transactions of a group, beginning with that of the caller `first`, and commits them.
///
/// # Errors
/// Returns an error if the connection must not be used any longer. All callers of the group have
/// got an error in that case.
async fn run_group(
    connection: &Shared,
    first: Turn,
    turns: &mut mpsc::Receiver<Turn>,
) -> Result<(), Arc<sqlx::Error>> {
    let begun = begin(&mut **connection.lock().await, BEGIN).await;
    if let Err(error) = begun {
        let reason = error.to_string();
        let _ = first.send(Err(error));
        return Err(Arc::new(sqlx::Error::Protocol(reason)));
    }
    let mut members = Vec::new();
    let ended = match run_members(connection, first, turns, &mut members).await {
        Ok(()) if members.is_empty() => execute(connection, ROLLBACK).await,
        Ok(()) => commit(connection, members.len()).await,
        Err(error) => Err(error),
    };
    let ended = ended.map_err(Arc::new);
    for member in members {
        let _ = member.send(ended.clone());
    }
    ended
}

/// Lends the connection to one caller after the other. Adds the callers whose transactions must be
/// committed to `members`.
async fn run_members(
    connection: &Shared,
    first: Turn,
    turns: &mut mpsc::Receiver<Turn>,
    members: &mut Vec<Member>,
) -> Result<(), sqlx::Error> {
    let started = Instant::now();
    let mut next = Some(first);
    while let Some(turn) = next {
        let member = lend(connection, turn, !members.is_empty()).await;
        let is_undone = member.is_none();
        members.extend(member);
        let is_open = members.len() < MAX_MEMBERS && started.elapsed() < MAX_AGE;
        let continues = is_open && !turns.is_empty();
        // Otherwise, the end of the group also ends the transaction.
        if continues || (is_undone && !members.is_empty()) {
            // Fails if SQLite has rolled back the group because of an error, such as a full disk.
            execute(connection, if is_undone { UNDO } else { NEXT }).await?;
        }
        next = if continues { waiting(turns) } else { None };
    }
    Ok(())
}

/// Returns the next caller that still waits. Returns `None` if no caller waits.
fn waiting(turns: &mut mpsc::Receiver<Turn>) -> Option<Turn> {
    std::iter::from_fn(|| turns.try_recv().ok()).find(|turn| !turn.is_closed())
}

/// Lends the connection to a caller until the end of its transaction. Returns the caller if the
/// transaction must be committed. `sees_uncommitted` states that the group has earlier
/// transactions.
async fn lend(connection: &Shared, turn: Turn, sees_uncommitted: bool) -> Option<Member> {
    let started = Instant::now();
    let (end, mut ended) = oneshot::channel();
    let is_decided = Arc::new(AtomicBool::new(false));
    // If the caller does not wait any longer, the offer is dropped.
    let _ = turn.send(Ok(Offer {
        sees_uncommitted,
        connection: Arc::downgrade(connection),
        end,
        is_decided: Arc::clone(&is_decided),
    }));
    let member = match timeout(MAX_OFFER, &mut ended).await {
        Ok(member) => member.ok(),
        Err(_) if !is_decided.swap(true, Ordering::AcqRel) => None,
        Err(_) => ended.await.ok(),
    };
    let elapsed = started.elapsed();
    if elapsed >= SLOW {
        tracing::warn!(?elapsed, "a transaction delayed all other writers");
    }
    member
}

async fn commit(connection: &Shared, members: usize) -> Result<(), sqlx::Error> {
    let started = Instant::now();
    execute(connection, COMMIT_SQLITE).await?;
    metrics::DATABASE_COMMIT_DURATION.observe([], started.elapsed());
    let written = metrics::DATABASE_WRITES.with([]);
    written.inc_by(f64::from(u32::try_from(members).unwrap_or(u32::MAX)));
    Ok(())
}

async fn execute(connection: &Shared, statement: &'static str) -> Result<(), sqlx::Error> {
    let mut connection = connection.lock().await;
    sqlx::query(statement).execute(&mut **connection).await?;
    Ok(())
}

#[cfg(test)]
mod tests;
