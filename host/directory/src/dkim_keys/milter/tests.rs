//! The data for a milter, as a milter reads it, and the access of other roles.

use crate::Directory;
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;

use latchmail_core::config::Database;
use sqlx::postgres::PgPoolOptions;
use sqlx::sqlite::{SqliteConnectOptions, SqlitePoolOptions};

use super::*;
use crate::db::{on, on_tx};
use crate::testing::{Fresh, both, execute, on_sqlite};

const KEYS: &str =
    "SELECT domain || ' ' || selector || ' ' || private_key FROM mailserver_dkim_keys ORDER BY 1";
const VERIFIED: &str = "INSERT INTO domains (account_id, domain, challenge, created_at, verified_at, \
    dkim_selector, dkim_public_key, dkim_private_key) \
    SELECT id, 'ada.example', 'c', 0, 1, 's', 'k', 'x' FROM accounts WHERE id = 'a'";

fn with_milter(fresh: &Fresh) -> Database {
    Database {
        with_milter: true,
        ..fresh.config.clone()
    }
}

async fn opened(fresh: &Fresh) -> Directory {
    let directory = Directory::open(&with_milter(fresh), &[]).await.unwrap();
    directory.with("a", "ada@example.org", &[]).await;
    directory
}

async fn run(directory: &Directory, query: &'static str) {
    execute(directory.db(), query).await.unwrap();
}

/// Returns what a milter sees: its own file on SQLite, its own role on PostgreSQL.
async fn seen(fresh: &Fresh) -> Vec<String> {
    let db = if let Some(file) = fresh.mailserver_file() {
        let file = milter_file(&file);
        let options = SqliteConnectOptions::new().filename(file);
        let pool = SqlitePoolOptions::new().connect_with(options).await;
        Db::Sqlite(pool.unwrap(), None)
    } else {
        let pool = PgPoolOptions::new()
            .after_connect(|connection, _| {
                Box::pin(async move {
                    sqlx::raw_sql("SET ROLE latchmail_milter")
                        .execute(connection)
                        .await?;
                    Ok(())
                })
            })
            .connect(&fresh.config.url)
            .await;
        Db::Postgres(pool.unwrap())
    };
    let rows: Vec<String> =
        on!(&db, pool => sqlx::query_scalar(KEYS).fetch_all(pool).await).unwrap();
    db.close().await;
    rows
}

fn milter_file(mailserver: &Path) -> std::path::PathBuf {
    let folder = mailserver.parent().unwrap();
    folder.with_file_name("milter").join("dkim-keys.db")
}

fn key(domain: &str, selector: &str, configured: bool) -> MilterKey {
    MilterKey {
        domain: domain.into(),
        selector: selector.into(),
        private_key: "PEM".to_owned().into(),
        configured,
    }
}

async fn a_key_goes_with_its_domain_whichever_way_that_goes(fresh: Fresh) {
    let directory = opened(&fresh).await;
    let given = [key("ada.example", "s", false)];
    for release in [
        "DELETE FROM domains",
        "UPDATE domains SET verified_at = NULL, dkim_selector = NULL, dkim_public_key = NULL, dkim_private_key = NULL",
        "UPDATE domains SET dkim_selector = 'other'",
        "UPDATE domains SET domain = 'other.example'",
        "DELETE FROM accounts",
    ] {
        run(&directory, "DELETE FROM domains").await;
        run(&directory, VERIFIED).await;
        directory.dkim_keys.add_milter_keys(&given).await.unwrap();
        assert_eq!(seen(&fresh).await, ["ada.example s PEM"], "{release}");
        run(
            &directory,
            "UPDATE domains SET dkim_private_key = 'resealed'",
        )
        .await;
        assert_eq!(seen(&fresh).await, ["ada.example s PEM"]);
        run(&directory, release).await;
        assert_eq!(seen(&fresh).await, NOTHING, "{release}");
    }
}

const NOTHING: [&str; 0] = [];

async fn a_release_that_is_undone_leaves_the_key(fresh: Fresh) {
    let directory = opened(&fresh).await;
    run(&directory, VERIFIED).await;
    let given = [key("ada.example", "s", false)];
    directory.dkim_keys.add_milter_keys(&given).await.unwrap();
    let mut tx = directory.db().begin().await.unwrap();
    let release = "DELETE FROM domains";
    on_tx!(&mut tx, db => sqlx::query(release).execute(db).await.map(drop)).unwrap();
    drop(tx);
    assert_eq!(seen(&fresh).await, ["ada.example s PEM"]);
}

async fn only_what_is_verified_under_that_name_is_given(fresh: Fresh) {
    let directory = opened(&fresh).await;
    let keys = [
        key("ada.example", "s", false),
        key("bob.example", "s", false),
    ];
    directory.dkim_keys.add_milter_keys(&keys).await.unwrap();
    assert_eq!(seen(&fresh).await, NOTHING, "neither domain has an owner");
    run(&directory, VERIFIED).await;
    directory.dkim_keys.add_milter_keys(&keys).await.unwrap();
    let late = [key("ada.example", "earlier", false)];
    directory.dkim_keys.add_milter_keys(&late).await.unwrap();
    assert_eq!(seen(&fresh).await, ["ada.example s PEM"]);
}

async fn what_a_milter_reads_becomes_what_it_ought_to_be(fresh: Fresh) {
    let directory = opened(&fresh).await;
    run(&directory, VERIFIED).await;
    let platform =
        "INSERT INTO platform_domains (domain) VALUES ('platform.example'), ('gone.example')";
    run(&directory, platform).await;
    let keys = [
        key("ada.example", "s", false),
        key("platform.example", "2026", true),
    ];
    for before in [
        &[key("platform.example", "2025", true)][..],
        &[key("gone.example", "2025", true)],
        &keys,
    ] {
        directory.dkim_keys.add_milter_keys(before).await.unwrap();
        directory.dkim_keys.set_milter_keys(&keys).await.unwrap();
        let expected = ["ada.example s PEM", "platform.example 2026 PEM"];
        assert_eq!(seen(&fresh).await, expected);
    }
    // The domain was verified after the keys were read.
    directory.dkim_keys.set_milter_keys(&[]).await.unwrap();
    assert_eq!(seen(&fresh).await, ["ada.example s PEM"]);
}

async fn a_configured_key_is_there_while_its_domain_is_the_platforms(fresh: Fresh) {
    const ADD: &str = "INSERT INTO platform_domains (domain) VALUES ('ada.example')";
    const REMOVE: &str = "DELETE FROM platform_domains";
    let directory = opened(&fresh).await;
    let configured = [key("ada.example", "2026", true)];
    let own = [key("ada.example", "s", false)];
    directory
        .dkim_keys
        .set_milter_keys(&configured)
        .await
        .unwrap();
    assert_eq!(seen(&fresh).await, NOTHING, "the domain has no owner");
    run(&directory, VERIFIED).await;
    directory
        .dkim_keys
        .set_milter_keys(&configured)
        .await
        .unwrap();
    assert_eq!(seen(&fresh).await, NOTHING, "an account owns the domain");
    directory.dkim_keys.set_milter_keys(&own).await.unwrap();
    assert_eq!(seen(&fresh).await, ["ada.example s PEM"]);

    // An account had the domain before the configuration named it.
    run(&directory, ADD).await;
    run(&directory, REMOVE).await;
    assert_eq!(seen(&fresh).await, ["ada.example s PEM"]);
    run(&directory, ADD).await;
    directory
        .dkim_keys
        .set_milter_keys(&configured)
        .await
        .unwrap();
    assert_eq!(seen(&fresh).await, ["ada.example 2026 PEM"]);
    run(&directory, "DELETE FROM domains").await;
    assert_eq!(seen(&fresh).await, ["ada.example 2026 PEM"]);
    run(&directory, REMOVE).await;
    assert_eq!(seen(&fresh).await, NOTHING);

    // The account's key cannot be opened. The configured key must not replace it.
    run(&directory, ADD).await;
    directory
        .dkim_keys
        .set_milter_keys(&configured)
        .await
        .unwrap();
    run(&directory, VERIFIED).await;
    run(&directory, REMOVE).await;
    directory.dkim_keys.set_milter_keys(&[]).await.unwrap();
    assert_eq!(seen(&fresh).await, NOTHING);
}

async fn where_there_is_no_milter_any_more_no_key_is_left(fresh: Fresh) {
    let directory = opened(&fresh).await;
    run(&directory, VERIFIED).await;
    let given = [key("ada.example", "s", false)];
    directory.dkim_keys.add_milter_keys(&given).await.unwrap();
    directory.close().await;
    Directory::open(&fresh.config, &[]).await.unwrap();
    assert_eq!(seen(&fresh).await, NOTHING);
}

async fn a_mail_server_does_not_see_the_keys(fresh: Fresh) {
    let directory = opened(&fresh).await;
    run(&directory, VERIFIED).await;
    let given = [key("ada.example", "s", false)];
    directory.dkim_keys.add_milter_keys(&given).await.unwrap();
    let theirs = fresh.mail_server().await.unwrap();
    let read: Result<Vec<String>, _> =
        on!(&theirs, pool => sqlx::query_scalar(KEYS).fetch_all(pool).await);
    assert!(read.is_err(), "{read:?}");
    theirs.close().await;
}

both!(
    a_key_goes_with_its_domain_whichever_way_that_goes,
    a_release_that_is_undone_leaves_the_key,
    only_what_is_verified_under_that_name_is_given,
    what_a_milter_reads_becomes_what_it_ought_to_be,
    a_configured_key_is_there_while_its_domain_is_the_platforms,
    where_there_is_no_milter_any_more_no_key_is_left,
    a_mail_server_does_not_see_the_keys,
);

#[tokio::test(flavor = "multi_thread")]
async fn the_file_is_guarded_and_nothing_of_a_key_is_left_in_it() {
    let body = async |fresh: Fresh| {
        let directory = opened(&fresh).await;
        let file = milter_file(&fresh.mailserver_file().unwrap());
        let mode = |path: &Path| std::fs::metadata(path).unwrap().mode() & 0o7777;
        assert_eq!(mode(file.parent().unwrap()), 0o2750);
        let beside = ["", "-wal", "-shm"].map(|end| file.with_extension(format!("db{end}")));
        for file in &beside {
            assert_eq!(mode(file), 0o660, "{}", file.display());
        }
        run(&directory, VERIFIED).await;
        let secret = "a key that nobody else may see";
        let mut key = key("ada.example", "s", false);
        key.private_key = secret.to_owned().into();
        directory.dkim_keys.add_milter_keys(&[key]).await.unwrap();
        let holds = |file: &std::path::PathBuf| {
            let bytes = std::fs::read(file).unwrap();
            memchr::memmem::find(&bytes, secret.as_bytes()).is_some()
        };
        assert!(beside.iter().any(holds));
        run(&directory, "DELETE FROM domains").await;
        directory.dkim_keys.set_milter_keys(&[]).await.unwrap();
        assert!(!beside.iter().any(holds));
    };
    on_sqlite(body).await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn what_a_mail_daemon_puts_in_its_own_file_keeps_no_key() {
    let body = async |fresh: Fresh| {
        let directory = opened(&fresh).await;
        let platform = "INSERT INTO platform_domains (domain) VALUES ('platform.example')";
        run(&directory, platform).await;
        run(&directory, VERIFIED).await;
        let keys = [
            key("ada.example", "s", false),
            key("platform.example", "2026", true),
        ];
        directory.dkim_keys.set_milter_keys(&keys).await.unwrap();
        let theirs = fresh.mail_server().await.unwrap();
        let Db::Sqlite(pool, _) = &theirs else {
            unreachable!()
        };
        for planted in [
            "CREATE TABLE mailserver_dkim_keys (domain, selector, private_key)",
            "CREATE TABLE withdrawn_keys (domain, selector)",
            "CREATE TRIGGER no BEFORE DELETE ON mailserver_dkim_keys BEGIN SELECT RAISE(ABORT, 'no'); END",
            "INSERT INTO mailserver_dkim_keys VALUES ('ada.example', 's', 'theirs')",
        ] {
            sqlx::raw_sql(planted).execute(pool).await.unwrap();
        }
        theirs.close().await;
        run(&directory, "DELETE FROM domains").await;
        assert_eq!(seen(&fresh).await, ["platform.example 2026 PEM"]);
        run(&directory, "DELETE FROM platform_domains").await;
        assert_eq!(seen(&fresh).await, NOTHING);
    };
    on_sqlite(body).await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_file_beside_another_is_refused() {
    let body = async |fresh: Fresh| {
        let theirs = fresh.mailserver_file().unwrap();
        for file in [
            theirs.with_file_name("keys.db"),
            theirs.parent().unwrap().with_file_name("keys.db"),
        ] {
            let config = Database {
                milter: file,
                ..with_milter(&fresh)
            };
            let refused = Directory::open(&config, &[]).await.unwrap_err();
            assert!(refused.to_string().contains("a folder of its own"));
        }
    };
    on_sqlite(body).await.unwrap();
}
