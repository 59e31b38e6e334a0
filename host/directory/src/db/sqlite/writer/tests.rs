use std::path::PathBuf;

use tokio::task::JoinHandle;
use tokio::time::sleep;

use super::*;
use crate::db::Db;
use crate::testing::{Fresh, number, on_sqlite};

const CREATE: &str = "CREATE TABLE notes (id INTEGER PRIMARY KEY)";
const ADD: &str = "INSERT INTO notes (id) VALUES ($1)";
const COUNT: &str = "SELECT COUNT(*) FROM notes";

fn writer(fresh: &Fresh) -> Writer {
    writer_of(fresh.directory.db())
}

fn writer_of(db: &Db) -> Writer {
    let Db::Sqlite(_, Some(writer)) = db else {
        panic!("the database has no writer");
    };
    writer.clone()
}

async fn add(tx: &mut SqliteTx, id: i64) -> Result<(), sqlx::Error> {
    let added = sqlx::query(ADD).bind(id).execute(&mut **tx).await;
    added.map(drop)
}

/// Adds a row in a transaction of its own.
async fn add_alone(writer: Writer, id: i64) -> Result<(), Error> {
    let mut tx = writer.begin().await?;
    add(&mut tx, id).await?;
    tx.commit().await
}

/// Waits until this number of callers waits for the connection.
async fn until_waiting(writer: &Writer, callers: usize) {
    while writer.turns.capacity() > MAX_WAITING - callers {
        sleep(Duration::from_millis(1)).await;
    }
}

/// Starts one task after the other, so that the tasks wait in this order.
async fn queue<F>(writer: &Writer, tasks: Vec<F>) -> Vec<JoinHandle<F::Output>>
where
    F: Future + Send + 'static,
    F::Output: Send + 'static,
{
    let mut started = Vec::new();
    for task in tasks {
        started.push(tokio::spawn(task));
        until_waiting(writer, started.len()).await;
    }
    started
}

/// Returns the number of commits in the write-ahead log of the main file.
fn commits(fresh: &Fresh) -> usize {
    const HEADER: usize = 32;
    const FRAME: usize = 24 + 4096;
    let main = PathBuf::from(fresh.config.url.strip_prefix("sqlite:").unwrap());
    let log = std::fs::read(super::super::beside(&main, "-wal")).unwrap();
    // The last frame of a commit has the size of the database.
    let is_commit = |frame: &&[u8]| frame.len() == FRAME && frame[4..8] != [0; 4];
    log[HEADER..].chunks(FRAME).filter(is_commit).count()
}

#[tokio::test(flavor = "multi_thread")]
async fn callers_that_wait_share_a_commit_and_get_the_connection_in_their_order() {
    const CALLERS: i64 = 32;
    let body = async |fresh: Fresh| {
        fresh.execute(CREATE).await;
        let writer = writer(&fresh);
        let held = writer.begin().await.unwrap();
        let order = Arc::new(std::sync::Mutex::new(Vec::new()));
        let caller = |id| {
            let (writer, order) = (writer.clone(), Arc::clone(&order));
            async move {
                let mut tx = writer.begin().await.unwrap();
                order.lock().unwrap().push(id);
                add(&mut tx, id).await.unwrap();
                tx.commit().await.unwrap();
            }
        };
        let callers = queue(&writer, (0..CALLERS).map(caller).collect()).await;
        let before = commits(&fresh);
        drop(held);
        for caller in callers {
            caller.await.unwrap();
        }
        let all: Vec<i64> = (0..CALLERS).collect();
        assert_eq!(*order.lock().unwrap(), all);
        assert_eq!(fresh.number(COUNT).await, CALLERS);
        let commits = commits(&fresh) - before;
        assert!((1..=16).contains(&commits), "{commits} commits");
    };
    on_sqlite(body).await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_transaction_that_fails_changes_nothing_of_the_others() {
    let body = async |fresh: Fresh| {
        fresh.execute(CREATE).await;
        let writer = writer(&fresh);
        let held = writer.begin().await.unwrap();
        // Every third caller fails after its first change, and every third one ends without a
        // commit.
        let caller = |id: i64| {
            let writer = writer.clone();
            async move {
                let mut tx = writer.begin().await.unwrap();
                add(&mut tx, id).await.unwrap();
                match id % 3 {
                    0 => tx.commit().await.unwrap(),
                    1 => assert!(add(&mut tx, id).await.is_err()),
                    _ => drop(tx),
                }
            }
        };
        let callers = queue(&writer, (0..12).map(caller).collect()).await;
        drop(held);
        for caller in callers {
            caller.await.unwrap();
        }
        assert_eq!(fresh.number(COUNT).await, 4);
        let others = "SELECT COUNT(*) FROM notes WHERE id % 3 <> 0";
        assert_eq!(fresh.number(others).await, 0);
    };
    on_sqlite(body).await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn callers_that_are_dropped_do_not_stop_the_others() {
    let body = async |fresh: Fresh| {
        fresh.execute(CREATE).await;
        let writer = writer(&fresh);
        let held = writer.begin().await.unwrap();
        let waiting = queue(
            &writer,
            (0..3).map(|id| add_alone(writer.clone(), id)).collect(),
        );
        let waiting = waiting.await;
        waiting[1].abort();
        drop(held);
        for (index, caller) in waiting.into_iter().enumerate() {
            assert_eq!(caller.await.is_ok(), index != 1);
        }
        assert_eq!(fresh.number(COUNT).await, 2);

        // A caller is dropped within its transaction, in the middle of a statement.
        let (began, has_begun) = oneshot::channel();
        let inside = tokio::spawn({
            let writer = writer.clone();
            async move {
                let mut tx = writer.begin().await.unwrap();
                add(&mut tx, 10).await.unwrap();
                began.send(()).unwrap();
                let endless = "WITH RECURSIVE n(i) AS (SELECT 20 UNION ALL SELECT i + 1 FROM n WHERE i < 3000000) \
                    SELECT MAX(i) FROM n";
                sqlx::query(endless).execute(&mut *tx).await.unwrap();
                tx.commit().await
            }
        });
        has_begun.await.unwrap();
        inside.abort();
        add_alone(writer, 11).await.unwrap();
        assert_eq!(fresh.number(COUNT).await, 3);
        let dropped = "SELECT COUNT(*) FROM notes WHERE id = 10";
        assert_eq!(fresh.number(dropped).await, 0);
    };
    on_sqlite(body).await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_commit_does_not_wait_for_a_caller_that_does_not_run() {
    let body = async |fresh: Fresh| {
        fresh.execute(CREATE).await;
        let writer = writer(&fresh);
        let mut first = writer.begin().await.unwrap();
        let mut second = std::pin::pin!(writer.begin());
        // Waits in the queue, and then runs again only after the commit.
        tokio::select! {
            biased;
            _ = &mut second => unreachable!("the first caller has the connection"),
            () = std::future::ready(()) => (),
        }
        add(&mut first, 1).await.unwrap();
        timeout(ACQUIRE_TIMEOUT / 2, first.commit())
            .await
            .unwrap()
            .unwrap();
        let mut second = second.await.unwrap();
        add(&mut second, 2).await.unwrap();
        second.commit().await.unwrap();
        assert_eq!(fresh.number(COUNT).await, 2);
    };
    on_sqlite(body).await.unwrap();
}

/// SQLite itself rolls back a transaction after some errors, for example if the disk is full.
#[tokio::test(flavor = "multi_thread")]
async fn a_group_that_sqlite_rolls_back_is_reported_to_all_its_callers() {
    let body = async |fresh: Fresh| {
        fresh.execute(CREATE).await;
        let writer = writer(&fresh);
        let held = writer.begin().await.unwrap();
        let caller = |id: i64| {
            let writer = writer.clone();
            async move {
                let mut tx = writer.begin().await.unwrap();
                add(&mut tx, id).await.unwrap();
                if id == 2 {
                    sqlx::query("ROLLBACK").execute(&mut *tx).await.unwrap();
                }
                tx.commit().await
            }
        };
        let callers = queue(&writer, (0..3).map(caller).collect()).await;
        drop(held);
        let mut stored = 0;
        let mut last = Ok(());
        for caller in callers {
            last = caller.await.unwrap();
            stored += i64::from(last.is_ok());
        }
        assert!(matches!(last, Err(Error::Commit(_))), "{last:?}");
        // A slow machine can have committed the first callers in an earlier group.
        assert_eq!(fresh.number(COUNT).await, stored);
        add_alone(writer, 9).await.unwrap();
        assert_eq!(fresh.number(COUNT).await, stored + 1);
    };
    on_sqlite(body).await.unwrap();
}

/// A caller that finds a name taken reads the row of the name next.
#[tokio::test(flavor = "multi_thread")]
async fn a_caller_reads_what_its_transaction_saw_although_it_changed_nothing() {
    let body = async |fresh: Fresh| {
        fresh.execute(CREATE).await;
        let writer = writer(&fresh);
        for id in 1..=20 {
            let held = writer.begin().await.unwrap();
            let looks = {
                let (writer, db) = (writer.clone(), fresh.directory.db().clone());
                async move {
                    let mut tx = writer.begin().await.unwrap();
                    let count = sqlx::query_scalar::<_, i64>(COUNT);
                    let seen = count.fetch_one(&mut *tx).await.unwrap();
                    drop(tx);
                    (seen, number(&db, COUNT).await.unwrap())
                }
            };
            let adding = queue(&writer, vec![add_alone(writer.clone(), id)]).await;
            let looking = tokio::spawn(looks);
            until_waiting(&writer, 2).await;
            drop(held);
            assert_eq!(looking.await.unwrap(), (id, id));
            for one in adding {
                one.await.unwrap().unwrap();
            }
        }
    };
    on_sqlite(body).await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_caller_beyond_the_limit_gets_an_error_at_once() {
    let body = async |fresh: Fresh| {
        fresh.execute(CREATE).await;
        let writer = writer(&fresh);
        let held = writer.begin().await.unwrap();
        let waiting: Vec<_> = (0..MAX_WAITING)
            .map(|_| {
                let (turn, begun) = oneshot::channel();
                writer.turns.try_send(turn).unwrap();
                begun
            })
            .collect();
        let refused = writer.begin().await.unwrap_err();
        assert!(matches!(refused, Error::Busy(_)), "{refused}");
        assert!(refused.is_unavailable());
        drop(waiting);
        drop(held);
        // The queue is full until the task has skipped the callers that wait no longer.
        while let Err(error) = add_alone(writer.clone(), 1).await {
            assert!(matches!(error, Error::Busy(_)), "{error}");
            tokio::task::yield_now().await;
        }

        fresh.directory.close().await;
        let closed = add_alone(writer, 2).await.unwrap_err();
        assert!(closed.is_unavailable(), "{closed}");
    };
    on_sqlite(body).await.unwrap();
}

/// The second database has its own writer, as a command of the operator has it.
#[tokio::test(flavor = "multi_thread")]
async fn several_processes_change_one_file() {
    const EACH: i64 = 100;
    let body = async |fresh: Fresh| {
        fresh.execute(CREATE).await;
        let busy = writer(&fresh);
        let load = tokio::spawn(async move {
            for id in 0..EACH {
                add_alone(busy.clone(), id).await.unwrap();
            }
        });
        // Opening migrates and repairs the database, which also changes it.
        let other = Db::open(&fresh.config).await.unwrap();
        let writer = writer_of(&other);
        for id in EACH..2 * EACH {
            add_alone(writer.clone(), id).await.unwrap();
        }
        load.await.unwrap();
        assert_eq!(number(&other, COUNT).await.unwrap(), 2 * EACH);
        other.close().await;
    };
    on_sqlite(body).await.unwrap();
}

#[tokio::test]
async fn the_connections_of_the_pool_cannot_write() {
    let body = async |fresh: Fresh| {
        fresh.execute(CREATE).await;
        let Db::Sqlite(pool, _) = fresh.directory.db() else {
            unreachable!()
        };
        for change in [
            "INSERT INTO notes (id) VALUES (1)",
            "DELETE FROM mailserver.mailserver_users",
            "CREATE TABLE other (id INTEGER)",
        ] {
            let refused = sqlx::query(change).execute(pool).await.unwrap_err();
            assert!(refused.to_string().contains("readonly"), "{refused}");
        }
    };
    on_sqlite(body).await.unwrap();
}
