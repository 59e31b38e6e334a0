use latchmail_core::caller::Origin;
use latchmail_core::config;

use crate::Directory;
use std::os::unix::fs::MetadataExt as _;
use std::path::PathBuf;
use std::time::Duration;

use super::*;
use crate::credentials::AppPasswordKind;
use crate::db::on;
use crate::testing::{Fresh, NOW, both, execute, new_app_password, on_sqlite};

const MAILBOX: &str = "UPDATE mailboxes SET next_uid = 7, version = 5, pruned_version = 1 WHERE account_id = 'a'; \
    INSERT INTO mailbox_changes (account_id, version, uid, changed_at) VALUES ('a', 5, 6, 0)";
const STATE: &str =
    "SELECT next_uid, version, pruned_version FROM mailboxes WHERE account_id = 'a'";
const FIRST: i64 = NOW.millis() * 1000;

fn restore_at(restored_at: Timestamp) -> Restore {
    Restore {
        restored_at,
        backed_up_at: NOW.minus(Duration::from_hours(1)),
        end_sessions: false,
        end_app_passwords: false,
    }
}

async fn run(fresh: &Fresh, restore: Restore) {
    let db = fresh.directory.db();
    let script = match db {
        crate::Db::Sqlite(..) => restore.script(),
        crate::Db::Postgres(_) => postgres_script("public", &restore),
    };
    execute(db, script.leak()).await.unwrap();
}

async fn mailbox(fresh: &Fresh) -> (i64, i64, i64) {
    on!(fresh.directory.db(), pool => sqlx::query_as(STATE).fetch_one(pool).await).unwrap()
}

async fn numbers_and_versions_continue_at_the_time_of_the_restore(fresh: Fresh) {
    for (id, address) in [("a", "ada@example.org"), ("b", "bob@example.org")] {
        fresh.directory.with(id, address, &[]).await;
    }
    fresh.execute(MAILBOX).await;
    run(&fresh, restore_at(NOW)).await;
    assert_eq!(mailbox(&fresh).await, (FIRST, FIRST, FIRST));
    assert_eq!(
        fresh.number("SELECT COUNT(*) FROM mailbox_changes").await,
        0
    );
    // The account of this mailbox can have existed before under another id.
    fresh.directory.with("c", "cleo@example.org", &[]).await;
    let next = "SELECT next_uid FROM mailboxes WHERE account_id = 'c'";
    assert_eq!(fresh.number(next).await, FIRST);
    // This mailbox got its first number or its first log after the backup.
    let started = fresh
        .directory
        .message_index
        .log
        .start_log("b")
        .await
        .unwrap();
    assert_eq!(started, u64::try_from(FIRST).ok());
    let next = "SELECT next_uid FROM mailboxes WHERE account_id = 'b'";
    assert_eq!(fresh.number(next).await, FIRST);
}

async fn a_second_restore_gives_higher_numbers_even_if_the_clock_is_behind(fresh: Fresh) {
    fresh.directory.with("a", "ada@example.org", &[]).await;
    fresh.execute(MAILBOX).await;
    run(&fresh, restore_at(NOW)).await;
    run(&fresh, restore_at(NOW.minus(Duration::from_hours(1)))).await;
    let second = FIRST + 1_000_000_000;
    assert_eq!(mailbox(&fresh).await, (second, second, second));
}

async fn app_passwords_end_only_on_request(fresh: Fresh) {
    fresh.directory.with("a", "ada@example.org", &["s"]).await;
    let old = new_app_password("old", AppPasswordKind::AppPassword);
    fresh.directory.hold("a", &old, NOW).await;
    run(&fresh, restore_at(NOW)).await;
    let valid = fresh
        .directory
        .credentials
        .client_passwords(NOW)
        .await
        .unwrap();
    let [password] = valid.as_slice() else {
        panic!("{valid:?}");
    };
    assert_eq!(
        (&*password.id, &*password.address),
        ("old", "ada@example.org")
    );
    let database = match fresh.directory.db() {
        crate::Db::Sqlite(..) => fresh.config.url.strip_prefix("sqlite:").unwrap(),
        crate::Db::Postgres(_) => fresh.config.url.rsplit('/').next().unwrap(),
    };
    let in_replaced = replaced_client_passwords(&fresh.config, database).await;
    assert_eq!(in_replaced.unwrap(), ["old".to_owned()].into());
    fresh
        .directory
        .credentials
        .end_client_passwords(&valid)
        .await
        .unwrap();
    assert_eq!(
        fresh
            .directory
            .credentials
            .client_passwords(NOW)
            .await
            .unwrap(),
        []
    );

    fresh.directory.hold("a", &old, NOW).await;
    let end = Restore {
        end_app_passwords: true,
        ..restore_at(NOW)
    };
    run(&fresh, end).await;
    let ids = "SELECT COUNT(*) FROM app_passwords WHERE id = 's-password'";
    assert_eq!(
        fresh
            .directory
            .credentials
            .client_passwords(NOW)
            .await
            .unwrap(),
        []
    );
    assert_eq!(fresh.number(ids).await, 1);
    fresh.execute("DELETE FROM accounts").await;
    let empty = replaced_client_passwords(&fresh.config, database).await;
    assert!(
        empty
            .unwrap_err()
            .to_string()
            .contains("contains no account")
    );
}

async fn sessions_end_only_on_request(fresh: Fresh) {
    fresh.directory.with("a", "ada@example.org", &["s"]).await;
    let client = new_app_password("c", AppPasswordKind::AppPassword);
    fresh.directory.hold("a", &client, NOW).await;
    let count = "SELECT COUNT(*) FROM app_passwords";
    run(&fresh, restore_at(NOW)).await;
    assert_eq!(fresh.number(count).await, 2);
    let end_sessions = Restore {
        end_sessions: true,
        ..restore_at(NOW)
    };
    run(&fresh, end_sessions).await;
    assert_eq!(fresh.number(count).await, 1);
    assert_eq!(fresh.number("SELECT COUNT(*) FROM sessions").await, 0);
}

both!(
    numbers_and_versions_continue_at_the_time_of_the_restore,
    a_second_restore_gives_higher_numbers_even_if_the_clock_is_behind,
    app_passwords_end_only_on_request,
    sessions_end_only_on_request,
);

fn folder_of(fresh: &Fresh) -> PathBuf {
    let file = fresh.mailserver_file().unwrap();
    file.ancestors().nth(2).unwrap().to_owned()
}

#[tokio::test]
async fn a_copy_of_a_database_in_use_is_restored_with_its_mail_server_file_and_last_logins() {
    let body = async |fresh: Fresh| {
        let directory = &fresh.directory;
        directory.with("a", "ada@example.org", &["s"]).await;
        let client = new_app_password("c", AppPasswordKind::AppPassword);
        directory.hold("a", &client, NOW).await;
        let logins = [("c".to_owned(), 1000)];
        directory
            .credentials
            .restore_last_logins(&logins)
            .await
            .unwrap();
        let copy = folder_of(&fresh).join("copy.db");
        let version = copy_sqlite(&fresh.config, &copy).await.unwrap();
        assert_eq!(version, schema_version());
        assert_eq!(copy.metadata().unwrap().mode() & 0o777, 0o600);
        let found = last_logins_of_copy(&fresh.config, &copy).await.unwrap();
        assert_eq!(found, logins);
        directory.with("b", "bob@example.org", &[]).await;

        let refused = restore_sqlite(&fresh.config, &copy, restore_at(NOW)).await;
        assert!(refused.unwrap_err().to_string().contains("empty database"));
        std::fs::create_dir(folder_of(&fresh).join("other")).unwrap();
        let other = config::Database {
            url: format!("sqlite:{}/other/new.db", folder_of(&fresh).display()),
            ..config::Database::default()
        };
        let journal = folder_of(&fresh).join("other/new.db-wal");
        std::fs::write(&journal, "a journal").unwrap();
        let refused = restore_sqlite(&other, &copy, restore_at(NOW)).await;
        assert!(refused.unwrap_err().to_string().contains("new.db-wal"));
        std::fs::remove_file(journal).unwrap();
        restore_sqlite(&other, &copy, restore_at(NOW))
            .await
            .unwrap();
        let restored = Directory::open(&other, &[]).await.unwrap();
        assert!(
            restored
                .accounts
                .by_address("ada@example.org")
                .await
                .unwrap()
                .is_some()
        );
        assert!(
            restored
                .accounts
                .by_address("bob@example.org")
                .await
                .unwrap()
                .is_none()
        );
        let restored = Fresh {
            config: other,
            directory: restored,
        };
        let users = restored
            .as_mail_server("SELECT address, mailbox FROM mailserver_users")
            .await;
        assert_eq!(users, [("ada@example.org".to_owned(), "a".to_owned())]);
        restored.directory.close().await;
    };
    on_sqlite(body).await.unwrap();
}

#[tokio::test]
async fn a_copy_names_the_current_key_and_not_a_pending_one() {
    let body = async |fresh: Fresh| {
        let directory = &fresh.directory;
        for (name, current) in [("before.db", None), ("after.db", Some("current"))] {
            let copy = folder_of(&fresh).join(name);
            copy_sqlite(&fresh.config, &copy).await.unwrap();
            let found = current_key_of_copy(&copy).await.unwrap();
            assert_eq!(found.as_deref(), current);
            let keys = directory.keys.register_service_keys(&["current"], "host");
            keys.await.unwrap();
            let pending = directory.keys.add_pending_service_key("pending").await;
            assert_eq!(pending.unwrap().as_deref(), Some("pending"));
        }
    };
    on_sqlite(body).await.unwrap();
}

#[tokio::test]
async fn files_that_root_restores_belong_to_the_owner_of_the_folder() {
    const OWNER: u32 = 1;
    let body = async |fresh: Fresh| {
        let copy = folder_of(&fresh).join("copy.db");
        copy_sqlite(&fresh.config, &copy).await.unwrap();
        let folder = folder_of(&fresh).join("other");
        std::fs::create_dir(&folder).unwrap();
        std::os::unix::fs::chown(&folder, Some(OWNER), Some(OWNER)).unwrap();
        let other = config::Database {
            url: format!("sqlite:{}/new.db", folder.display()),
            ..config::Database::default()
        };
        let restored = restore_sqlite(&other, &copy, restore_at(NOW)).await;
        restored.unwrap();
        let directory = Directory::open(&other, &[]).await.unwrap();
        set_owner(&other).unwrap();
        let owner = |name| folder.join(name).metadata().unwrap().uid();
        for name in [
            "new.db",
            "new.db-wal",
            "new.db.lock",
            "mailserver",
            "mailserver/mailserver.db",
            "mailserver/mailserver.db-shm",
            "mailserver/last-logins.db",
        ] {
            assert_eq!(owner(name), OWNER, "{name}");
        }
        directory.close().await;
    };
    on_sqlite(body).await.unwrap();
}

#[tokio::test]
async fn a_database_in_use_and_a_damaged_copy_are_refused_without_a_trace() {
    let body = async |fresh: Fresh| {
        let folder = folder_of(&fresh);
        let copy = folder.join("copy.db");
        copy_sqlite(&fresh.config, &copy).await.unwrap();
        let refused = restore_sqlite(&fresh.config, &copy, restore_at(NOW)).await;
        assert!(refused.unwrap_err().to_string().contains("another process"));
        fresh.directory.close().await;
        let mut bytes = std::fs::read(&copy).unwrap();
        let end = bytes.len() / 2;
        bytes.truncate(end);
        let damaged = folder.join("damaged.db");
        std::fs::write(&damaged, bytes).unwrap();
        assert!(
            restore_sqlite(&fresh.config, &damaged, restore_at(NOW))
                .await
                .is_err()
        );
        assert!(!folder.join("latchmail.db.restore").exists());
        restore_sqlite(&fresh.config, &copy, restore_at(NOW))
            .await
            .unwrap();
        let reopened = Directory::open(&fresh.config, &[]).await.unwrap();
        let origin = Origin::operator();
        reopened.accounts.delete("x", NOW, &origin).await.unwrap();
        reopened.close().await;
    };
    on_sqlite(body).await.unwrap();
}
