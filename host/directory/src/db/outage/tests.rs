use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use latchmail_core::error::{Failure, Kind};
use sqlx::sqlite::{SqliteConnectOptions, SqliteConnection};
use sqlx::{ConnectOptions as _, PgPool};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};

use super::super::{Db, Error};
use super::*;
use crate::testing::{Fresh, on_postgres, on_sqlite};

fn kind(error: Error) -> Kind {
    Failure::from(error).kind
}

#[test]
fn a_database_that_does_not_respond_is_unavailable() {
    let io = |kind: ErrorKind| sqlx::Error::Io(kind.into());
    for error in [
        sqlx::Error::PoolTimedOut,
        sqlx::Error::PoolClosed,
        io(ErrorKind::ConnectionReset),
        io(ErrorKind::ConnectionRefused),
    ] {
        assert_eq!(kind(error.into()), Kind::Unavailable);
    }
    assert_eq!(kind(sqlx::Error::RowNotFound.into()), Kind::Internal);
    let changed = |error| kind(Err::<(), _>(error).changed().unwrap_err());
    for error in [sqlx::Error::PoolTimedOut, io(ErrorKind::ConnectionRefused)] {
        assert_eq!(changed(error), Kind::Unavailable);
    }
    for error in [io(ErrorKind::UnexpectedEof), sqlx::Error::WorkerCrashed] {
        assert_eq!(changed(error), Kind::Unknown);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_locked_file_is_unavailable() {
    on_sqlite(async |fresh: Fresh| {
        let file = fresh.config.url.strip_prefix("sqlite:").unwrap();
        let options = SqliteConnectOptions::new()
            .filename(file)
            .busy_timeout(Duration::ZERO);
        let begin = async |connection: &mut SqliteConnection| {
            let begin = sqlx::query("BEGIN IMMEDIATE");
            begin.execute(connection).await
        };
        let mut first = options.connect().await.unwrap();
        let mut second = options.connect().await.unwrap();
        begin(&mut first).await.unwrap();
        let busy = begin(&mut second).await.changed().unwrap_err();
        assert_eq!(kind(busy), Kind::Unavailable);
    })
    .await
    .unwrap();
}

/// Forwards connections to the server. If `is_broken` is set, closes a connection when the client
/// sends something.
async fn proxy(server: String, is_broken: Arc<AtomicBool>) -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = listener.local_addr().unwrap().port();
    tokio::spawn(async move {
        while let Ok((client, _)) = listener.accept().await {
            let (server, is_broken) = (server.clone(), Arc::clone(&is_broken));
            tokio::spawn(async move {
                let server = TcpStream::connect(server).await.unwrap();
                let (mut from_client, mut to_client) = client.into_split();
                let (mut from_server, mut to_server) = server.into_split();
                let back = tokio::spawn(async move {
                    let _ = tokio::io::copy(&mut from_server, &mut to_client).await;
                });
                let mut buffer = [0; 4096];
                while let Ok(length @ 1..) = from_client.read(&mut buffer).await {
                    if is_broken.load(Ordering::SeqCst) {
                        break;
                    }
                    to_server.write_all(&buffer[..length]).await.unwrap();
                }
                back.abort();
            });
        }
    });
    port
}

#[tokio::test(flavor = "multi_thread")]
async fn the_outcome_of_a_change_is_unknown_if_the_connection_is_lost() {
    on_postgres(async |fresh: Fresh| {
        let options = fresh.config.url.parse::<sqlx::postgres::PgConnectOptions>();
        let options = options.unwrap();
        let is_broken = Arc::new(AtomicBool::new(false));
        let server = format!("{}:{}", options.get_host(), options.get_port());
        let port = proxy(server, Arc::clone(&is_broken)).await;
        let options = options.host("127.0.0.1").port(port);
        let pool = PgPool::connect_with(options).await.unwrap();
        let db = Db::Postgres(pool.clone());

        let tx = db.begin().await.unwrap();
        is_broken.store(true, Ordering::SeqCst);
        assert_eq!(kind(tx.commit().await.unwrap_err()), Kind::Unknown);
        is_broken.store(false, Ordering::SeqCst);

        // Without a commit, nothing was changed.
        let mut connection = pool.acquire().await.unwrap();
        is_broken.store(true, Ordering::SeqCst);
        let read = sqlx::query("SELECT 1").execute(&mut *connection).await;
        assert_eq!(kind(read.unwrap_err().into()), Kind::Unavailable);
        is_broken.store(false, Ordering::SeqCst);

        let end = sqlx::query("SELECT pg_terminate_backend(pg_backend_pid())");
        let ended = end.execute(&pool).await.unwrap_err();
        assert_eq!(kind(ended.into()), Kind::Unavailable);
    })
    .await
    .unwrap();
}
