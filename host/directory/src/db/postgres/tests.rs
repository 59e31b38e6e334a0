use super::*;
use crate::Directory;
use crate::db::Db;
use crate::testing::{Fresh, on_postgres};

/// Every table, view and column of the service that the role may read.
const READABLE: &str = "SELECT DISTINCT c.relname::text FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace \
    WHERE n.nspname = current_schema() AND c.relkind IN ('r', 'v', 'm', 'p') \
    AND (has_table_privilege('latchmail_mailserver', c.oid, 'SELECT, INSERT, UPDATE, DELETE, TRUNCATE, REFERENCES, TRIGGER') \
        OR has_any_column_privilege('latchmail_mailserver', c.oid, 'SELECT, INSERT, UPDATE, REFERENCES')) ORDER BY 1";

#[tokio::test]
async fn the_mail_servers_role_sees_the_contract_and_nothing_else() {
    let body = async |fresh: Fresh| {
        let Db::Postgres(pool) = fresh.directory.db() else {
            unreachable!()
        };
        let readable: Vec<String> = sqlx::query_scalar(READABLE).fetch_all(pool).await.unwrap();
        let contract = [
            "addresses",
            "alias_receipts",
            "aliases",
            "catch_alls",
            "custom_domains",
            "delivery_reports",
            "domains",
            "forwards",
            "last_logins",
            "login_names",
            "passwords",
            "quotas",
            "removals",
            "results_key",
            "senders",
            "sent_mail",
            "separators",
            "submissions",
            "users",
            "version",
        ];
        assert_eq!(readable, contract.map(|name| format!("mailserver_{name}")));

        let Db::Postgres(theirs) = fresh.mail_server().await.unwrap() else {
            unreachable!()
        };
        let tell = "INSERT INTO mailserver_last_logins (last_login, app_password_id) VALUES (1, 'p') \
            ON CONFLICT (app_password_id) DO UPDATE SET last_login = 1";
        for _ in 0..2 {
            sqlx::query(tell).execute(&theirs).await.unwrap();
        }
        for refused in [
            "SELECT 1 FROM accounts",
            "SELECT 1 FROM app_passwords",
            "DELETE FROM mailserver_users",
            "UPDATE mailserver_users SET mailbox = 'x'",
            "DELETE FROM mailserver_last_logins",
            "UPDATE mailserver_last_logins SET app_password_id = 'x'",
            "DELETE FROM mailserver_alias_receipts",
            "UPDATE mailserver_alias_receipts SET address = 'x'",
            "DELETE FROM mailserver_submissions",
            "UPDATE mailserver_submissions SET accepted_at = 0",
            "DELETE FROM mailserver_delivery_reports",
            "UPDATE mailserver_delivery_reports SET recipient = 'x'",
            "DELETE FROM mailserver_sent_mail",
            "UPDATE mailserver_sent_mail SET people = '[]'",
            "BEGIN; LOCK TABLE mailserver_last_logins IN ROW EXCLUSIVE MODE",
            "CREATE TABLE mine (x int)",
        ] {
            let error = sqlx::raw_sql(refused).execute(&theirs).await.unwrap_err();
            let code = error
                .as_database_error()
                .and_then(|e| e.code().map(String::from));
            assert_eq!(code.as_deref(), Some("42501"), "{refused}: {error}");
        }
        theirs.close().await;
    };
    on_postgres(body).await.unwrap();
}

#[tokio::test]
async fn grants_that_were_lost_come_back_with_the_next_start() {
    let body = async |fresh: Fresh| {
        fresh
            .execute("REVOKE ALL ON mailserver_users FROM latchmail_mailserver")
            .await;
        Directory::open(&fresh.config, &[]).await.unwrap();
        let users = "SELECT address, mailbox FROM mailserver_users";
        assert_eq!(fresh.as_mail_server(users).await, []);
    };
    on_postgres(body).await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn several_may_start_at_once() {
    let body = async |fresh: Fresh| {
        fresh
            .execute("DROP SCHEMA public CASCADE; CREATE SCHEMA public")
            .await;
        let starts: Vec<_> = (0..6)
            .map(|_| {
                let config = fresh.config.clone();
                tokio::spawn(async move { Directory::open(&config, &["x.example".into()]).await })
            })
            .collect();
        for start in starts {
            start.await.unwrap().unwrap().ping().await.unwrap();
        }
    };
    on_postgres(body).await.unwrap();
}

/// The role belongs to the whole server, so it is removed in a transaction that is rolled back.
#[tokio::test]
async fn a_service_that_may_not_make_the_role_starts_without() {
    let body = async |fresh: Fresh| {
        let Db::Postgres(pool) = fresh.directory.db() else {
            unreachable!()
        };
        let mut tx = pool.begin().await.unwrap();
        let without = "ALTER ROLE latchmail_mailserver RENAME TO latchmail_test_renamed;
            CREATE ROLE latchmail_test_plain; SET LOCAL ROLE latchmail_test_plain";
        sqlx::raw_sql(without).execute(&mut *tx).await.unwrap();
        sqlx::raw_sql(GRANTS).execute(&mut *tx).await.unwrap();
        let made = "SELECT COUNT(*) FROM pg_roles WHERE rolname = 'latchmail_mailserver'";
        let made: i64 = sqlx::query_scalar(made).fetch_one(&mut *tx).await.unwrap();
        assert_eq!(made, 0);
        tx.rollback().await.unwrap();
    };
    on_postgres(body).await.unwrap();
}

#[test]
fn unencrypted_connections_to_other_machines_are_found() {
    let host =
        |url: &str| unencrypted(&PgConnectOptions::from_str(url).unwrap()).map(ToOwned::to_owned);
    for url in [
        "postgres://db.example.com/a",
        "postgresql://db.example.com/a?sslmode=prefer",
        "postgres://[2001:db8::1]/a",
    ] {
        assert!(host(url).is_some(), "{url}");
    }
    for url in [
        "postgres://localhost/a",
        "postgres://[::1]/a",
        "postgres:///a?host=/run/postgresql",
        "postgres://%2Frun%2Fpostgresql/a",
        "postgres://db.example.com/a?sslmode=require",
        "postgres://db.example.com/a?sslmode=verify-full",
    ] {
        assert_eq!(host(url), None, "{url}");
    }
}
