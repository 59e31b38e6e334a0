//! Plausible data from the mail server is returned, and unreadable data causes no failure.

use std::collections::HashMap;
use std::fs;
use std::path::PathBuf;

use sqlx::sqlite::{SqliteConnectOptions, SqliteJournalMode};
use sqlx::{AssertSqlSafe, ConnectOptions as _, Connection as _, SqliteConnection};

use super::super::credentials::AppPasswordKind;
use super::super::db::on;
use super::super::testing::{Fresh, NOW, account, both, new_app_password, on_sqlite};
use super::*;
use crate::caller::Origin;

/// Creates an account `a` with two mail clients and a web session, and an account `b` with one mail
/// client.
async fn clients(fresh: &Fresh) {
    let directory = &fresh.directory;
    directory.with("a", "ada@example.org", &["s"]).await;
    directory
        .accounts
        .create(&account("b", "bob@example.org"), None, &Origin::default())
        .await
        .unwrap();
    for (account, id) in [("a", "phone"), ("a", "desk"), ("b", "other")] {
        let password = new_app_password(id, AppPasswordKind::AppPassword);
        directory.hold(account, &password, NOW).await;
    }
}

fn file(fresh: &Fresh) -> Option<PathBuf> {
    Some(fresh.mailserver_file()?.with_file_name("last-logins.db"))
}

/// Opens the file as a mail daemon does.
async fn opened(fresh: &Fresh) -> SqliteConnection {
    let options = SqliteConnectOptions::new().filename(file(fresh).unwrap());
    options.connect().await.unwrap()
}

/// Runs a query that a mail daemon may run.
async fn tell(fresh: &Fresh, query: &str) {
    let query = AssertSqlSafe(query);
    if file(fresh).is_some() {
        let mut theirs = opened(fresh).await;
        sqlx::raw_sql(query).execute(&mut theirs).await.unwrap();
        theirs.close().await.unwrap();
    } else {
        let theirs = fresh.mail_server().await.unwrap();
        on!(&theirs, pool => sqlx::raw_sql(query).execute(pool).await.map(drop)).unwrap();
        theirs.close().await;
    }
}

async fn tell_of(fresh: &Fresh, id: &str, seconds: i64) {
    let query = format!(
        "INSERT INTO mailserver_last_logins (last_login, app_password_id) VALUES ({seconds}, '{id}') \
         ON CONFLICT (app_password_id) DO UPDATE SET last_login = excluded.last_login"
    );
    tell(fresh, &query).await;
}

/// Returns the ids of all rows.
async fn told(fresh: &Fresh) -> Vec<String> {
    const ALL: &str = "SELECT app_password_id FROM mailserver_last_logins ORDER BY 1";
    if file(fresh).is_some() {
        let mut theirs = opened(fresh).await;
        return sqlx::query_scalar(ALL)
            .fetch_all(&mut theirs)
            .await
            .unwrap();
    }
    on!(fresh.directory.db(), pool => sqlx::query_scalar(ALL).fetch_all(pool).await).unwrap()
}

async fn of_ada(fresh: &Fresh) -> HashMap<String, Timestamp> {
    fresh.directory.credentials.last_logins("a").await.unwrap()
}

async fn an_account_is_told_of_its_own_mail_clients(fresh: Fresh) {
    clients(&fresh).await;
    assert_eq!(of_ada(&fresh).await, HashMap::new());
    for id in ["phone", "other", "s-password", "nobody"] {
        tell_of(&fresh, id, 1_700_000_000).await;
    }
    let at = |seconds: i64| Timestamp::from_millis(seconds * 1000);
    let expected = HashMap::from([("phone".to_owned(), at(1_700_000_000))]);
    assert_eq!(of_ada(&fresh).await, expected);
    tell_of(&fresh, "phone", 1_700_000_060).await;
    tell_of(&fresh, "desk", 1_700_000_000).await;
    let expected = HashMap::from([
        ("phone".to_owned(), at(1_700_000_060)),
        ("desk".to_owned(), at(1_700_000_000)),
    ]);
    assert_eq!(of_ada(&fresh).await, expected);
}

async fn what_cannot_be_true_is_not_told(fresh: Fresh) {
    clients(&fresh).await;
    let now = Clock::system().now().seconds();
    for seconds in [now + 3600, i64::MAX, i64::MIN, i64::MAX / 1000 + 1, 0, -1] {
        tell_of(&fresh, "phone", seconds).await;
        assert_eq!(of_ada(&fresh).await, HashMap::new(), "{seconds}");
    }
    // A clock that is slightly ahead is accepted, but no returned time is in the future.
    tell_of(&fresh, "phone", now + 30).await;
    let at = of_ada(&fresh).await["phone"];
    assert!(at <= Clock::system().now() && at.seconds() >= now, "{at}");
}

async fn the_last_log_ins_of_what_is_gone_are_forgotten(fresh: Fresh) {
    clients(&fresh).await;
    let now = Clock::system().now();
    for id in ["phone", "desk", "s-password", "nobody"] {
        tell_of(&fresh, id, 1_700_000_000).await;
    }
    // The app password of a recent log-in may be newer than the list of app passwords.
    tell_of(&fresh, "new", now.seconds()).await;
    // An intruder in a mail server can write anything about any account.
    tell_of(&fresh, "future", now.seconds() + 3600).await;
    tell_of(&fresh, "never", i64::MAX).await;
    if file(&fresh).is_some() {
        let text = "INSERT INTO mailserver_last_logins VALUES ('text', 'tomorrow')";
        tell(&fresh, text).await;
    }
    fresh
        .execute("DELETE FROM app_passwords WHERE id = 'desk'")
        .await;
    fresh.directory.sweep(now).await.unwrap();
    assert_eq!(told(&fresh).await, ["new", "phone"]);
}

both!(
    an_account_is_told_of_its_own_mail_clients,
    what_cannot_be_true_is_not_told,
    the_last_log_ins_of_what_is_gone_are_forgotten,
);

/// Tables that a compromised mail daemon may create.
#[tokio::test(flavor = "multi_thread")]
async fn a_file_that_lies_costs_an_answer_and_no_more() {
    let body = async |fresh: Fresh| {
        clients(&fresh).await;
        let table = "CREATE TABLE mailserver_last_logins (app_password_id, last_login); INSERT INTO mailserver_last_logins VALUES";
        let endless = "CREATE VIEW mailserver_last_logins AS WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n) \
            SELECT 'phone' AS app_password_id, i AS last_login FROM n WHERE i < 0";
        let lies = [
            format!("{table} ('phone', 'yesterday')"),
            format!("{table} ('phone', x'00'), (NULL, 1), (x'00', 1)"),
            format!("{table} ('phone', 1e300)"),
            "CREATE TABLE mailserver_last_logins (x)".to_owned(),
            "SELECT 1".to_owned(),
            endless.to_owned(),
            // The column is computed, and its value can have a gigabyte.
            "CREATE VIEW mailserver_last_logins AS SELECT 'phone' AS app_password_id, 1 AS last_login".to_owned(),
            "CREATE TABLE mailserver_last_logins (x, app_password_id AS ('phone'), last_login AS (1)); \
                INSERT INTO mailserver_last_logins VALUES (1)"
                .to_owned(),
            format!("{table} ('phone', 1); CREATE INDEX computed ON mailserver_last_logins (last_login + 1)"),
            format!("{table} ('phone', 1); CREATE INDEX shortened ON mailserver_last_logins (rtrim(app_password_id))"),
        ];
        let mut drop = "DROP TABLE IF EXISTS mailserver_last_logins";
        for lie in lies {
            tell(&fresh, drop).await;
            drop = if lie.starts_with("CREATE VIEW") {
                "DROP VIEW mailserver_last_logins"
            } else {
                "DROP TABLE IF EXISTS mailserver_last_logins"
            };
            tell(&fresh, &lie).await;
            let asked = std::time::Instant::now();
            assert_eq!(of_ada(&fresh).await, HashMap::new(), "{lie}");
            assert!(asked.elapsed() < READ_TIMEOUT * 4, "{lie}");
            fresh.directory.sweep(NOW).await.unwrap();
        }
    };
    on_sqlite(body).await.unwrap();
}

/// Many rows that are equal by a collation that the daemon chose.
#[tokio::test(flavor = "multi_thread")]
async fn a_file_of_long_or_many_rows_is_answered_with_the_service_s_own_texts() {
    let body = async |fresh: Fresh| {
        clients(&fresh).await;
        let shape = "DROP TABLE mailserver_last_logins; \
            CREATE TABLE mailserver_last_logins (app_password_id TEXT COLLATE RTRIM, last_login BIGINT); \
            INSERT INTO mailserver_last_logins SELECT printf('%-20000s', 'phone'), 5 FROM generate";
        let shape = shape.replace(
            "FROM generate",
            "FROM (WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 100) SELECT i FROM n)",
        );
        tell(&fresh, &shape).await;
        let file = fresh.directory.last_logins.clone();
        let LastLogins::File(file) = file else {
            unreachable!()
        };
        let clients = ["phone".to_owned(), "desk".to_owned()];
        let told = in_file(&file, &clients).await.unwrap();
        assert_eq!(told, [("phone".to_owned(), 5)]);

        let large = "INSERT INTO mailserver_last_logins VALUES (zeroblob(70000000), 5)";
        tell(&fresh, large).await;
        assert_eq!(of_ada(&fresh).await, HashMap::new(), "it is not read");
    };
    on_sqlite(body).await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_file_that_cannot_be_read_is_no_failure() {
    let body = async |fresh: Fresh| {
        clients(&fresh).await;
        tell_of(&fresh, "phone", 1_700_000_000).await;
        let file = file(&fresh).unwrap();

        // Another process locks the file.
        let options = SqliteConnectOptions::new()
            .filename(&file)
            .journal_mode(SqliteJournalMode::Wal)
            .pragma("locking_mode", "EXCLUSIVE");
        let mut holder = options.connect().await.unwrap();
        let hold = "BEGIN EXCLUSIVE; UPDATE mailserver_last_logins SET last_login = 2";
        sqlx::raw_sql(hold).execute(&mut holder).await.unwrap();
        let asked = std::time::Instant::now();
        of_ada(&fresh).await;
        assert!(asked.elapsed() < READ_TIMEOUT * 4);
        drop(holder);

        let main = file.with_file_name("../latchmail.db");
        for place in ["link", "folder", "noise", "nothing"] {
            if file.is_dir() {
                fs::remove_dir(&file).unwrap();
            } else {
                fs::remove_file(&file).unwrap();
            }
            match place {
                "link" => std::os::unix::fs::symlink(&main, &file).unwrap(),
                "folder" => fs::create_dir(&file).unwrap(),
                "noise" => fs::write(&file, [b'x'; 8192]).unwrap(),
                _ => break,
            }
            assert_eq!(of_ada(&fresh).await, HashMap::new(), "{place}");
            fresh.directory.sweep(NOW).await.unwrap();
        }
        assert_eq!(of_ada(&fresh).await, HashMap::new());
        assert!(!file.exists(), "reading makes no file");
    };
    on_sqlite(body).await.unwrap();
}
