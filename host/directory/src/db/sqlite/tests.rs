use std::os::unix::fs::{MetadataExt as _, symlink};

use tokio::time::timeout;

use super::*;
use crate::Directory;
use crate::db::{Db, on_tx};
use crate::testing::{Fresh, on_created_sqlite, on_sqlite};

const USERS: &str = "SELECT address, mailbox FROM mailserver_users";

fn mode(path: &Path) -> u32 {
    fs::metadata(path).unwrap().mode() & 0o7777
}

fn beside(path: &Path, suffix: &str) -> PathBuf {
    let mut name = path.to_path_buf().into_os_string();
    name.push(suffix);
    name.into()
}

#[tokio::test]
async fn the_files_have_the_modes_that_keep_them_apart() {
    let body = async |fresh: Fresh| {
        let theirs = fresh.mailserver_file().unwrap();
        let folder = theirs.parent().unwrap();
        let main = folder.parent().unwrap().join("latchmail.db");
        fresh.directory.with("a", "ada@example.org", &["s"]).await;
        assert_eq!(mode(folder.parent().unwrap()), 0o711);
        assert_eq!(mode(folder), 0o2750);
        for suffix in ["", "-wal", "-shm"] {
            assert_eq!(mode(&beside(&main, suffix)), 0o600, "main{suffix}");
            assert_eq!(mode(&beside(&theirs, suffix)), 0o660, "mailserver{suffix}");
        }
        assert_eq!(mode(&folder.join("last-logins.db")), 0o660);
    };
    on_created_sqlite(body).await.unwrap();
}

#[tokio::test]
async fn a_folder_and_a_file_that_exist_keep_their_modes() {
    let body = async |fresh: Fresh| {
        let theirs = fresh.mailserver_file().unwrap();
        let folder = theirs.parent().unwrap();
        fresh.directory.close().await;
        fs::set_permissions(&theirs, Permissions::from_mode(0o600)).unwrap();
        fs::set_permissions(folder, Permissions::from_mode(0o700)).unwrap();
        Directory::open(&fresh.config, &[]).await.unwrap();
        assert_eq!((mode(folder), mode(&theirs)), (0o700, 0o600));
    };
    on_sqlite(body).await.unwrap();
}

/// Writes a journal that makes SQLite delete `victim` when it opens the journal's database.
fn plant_journal(file: &Path, victim: &Path) {
    const PAGE: u32 = 4096;
    let name = victim.to_str().unwrap().as_bytes();
    let mut journal = vec![0xd9, 0xd5, 0x05, 0xf9, 0x20, 0xa1, 0x63, 0xd7];
    for number in [0, 0, 1, 512, PAGE] {
        journal.extend(u32::to_be_bytes(number));
    }
    journal.resize(512, 0);
    journal.extend((0x4000_0000 / PAGE + 1).to_be_bytes());
    journal.extend(name);
    journal.extend(u32::try_from(name.len()).unwrap().to_be_bytes());
    let sum: u32 = name.iter().map(|byte| u32::from(*byte)).sum();
    journal.extend(sum.to_be_bytes());
    journal.extend([0xd9, 0xd5, 0x05, 0xf9, 0x20, 0xa1, 0x63, 0xd7]);
    fs::write(beside(file, "-journal"), journal).unwrap();
}

#[tokio::test]
async fn a_planted_journal_deletes_nothing() {
    let body = async |fresh: Fresh| {
        fresh.directory.with("a", "ada@example.org", &[]).await;
        let theirs = fresh.mailserver_file().unwrap();
        let folder = theirs.parent().unwrap();
        let victim = folder.parent().unwrap().join("victim.key");
        fs::write(&victim, "a key").unwrap();

        // Shows the attack: SQLite itself deletes the file.
        let copy = folder.with_file_name("copy.db");
        fs::copy(&theirs, &copy).unwrap();
        plant_journal(&copy, &victim);
        let mut opened = SqliteConnectOptions::new()
            .filename(&copy)
            .connect()
            .await
            .unwrap();
        let read = "SELECT COUNT(*) FROM sqlite_schema";
        let _ = sqlx::query(read).fetch_one(&mut opened).await;
        assert!(!victim.exists(), "the journal of this test is none");
        fs::write(&victim, "a key").unwrap();

        fresh
            .execute("INSERT INTO app_passwords (id, account_id, kind, label, selector, secret_hash, created_at) \
                VALUES ('phone', 'a', 'app_password', '', 'x', 'x', 0)")
            .await;
        // This directory already has its only connection, so it does not open the file while the
        // journal exists.
        let standing = config::Database {
            max_connections: 1,
            ..fresh.config.clone()
        };
        let standing = Directory::open(&standing, &[]).await.unwrap();
        for name in ["mailserver.db", "last-logins.db"] {
            let file = folder.join(name);
            // A mode that an earlier version set, and that an operator's tools can set again.
            fs::set_permissions(folder, Permissions::from_mode(0o2770)).unwrap();
            plant_journal(&file, &victim);
            let Db::Sqlite(pool, _) = fresh.directory.db() else {
                unreachable!()
            };
            let mut opened = Vec::new();
            while let Ok(Ok(connection)) = timeout(Duration::from_millis(200), pool.acquire()).await
            {
                opened.push(connection);
            }
            drop(opened);
            let _ = standing.credentials.last_logins("a").await.unwrap();
            let now = latchmail_core::clock::Timestamp::from_millis(0);
            standing.sweep(now).await.unwrap();
            let started = Directory::open(&fresh.config, &[]).await;
            let verb = Directory::open_beside_service(&fresh.config).await;
            if name == "mailserver.db" {
                let refused = started.unwrap_err().to_string();
                assert!(refused.contains("mailserver.db-journal"), "{refused}");
                verb.unwrap_err();
            } else {
                started.unwrap();
                verb.unwrap();
            }
            assert!(victim.exists(), "{name}");
            assert_eq!(mode(folder), 0o2750, "no daemon can create another");
            fs::remove_file(beside(&file, "-journal")).unwrap();
        }
        fs::set_permissions(folder, Permissions::from_mode(0o2770)).unwrap();
        Directory::open(&fresh.config, &[]).await.unwrap();
        assert_eq!(mode(folder), 0o2750);
    };
    on_sqlite(body).await.unwrap();
}

/// A daemon could write a journal that the service creates, because it would have the file's mode.
/// Therefore, the service never creates one.
#[tokio::test]
async fn a_file_that_lost_its_log_gets_one_without_a_journal() {
    let body = async |fresh: Fresh| {
        let theirs = fresh.mailserver_file().unwrap();
        fresh.directory.close().await;
        let Db::Sqlite(daemon, _) = fresh.mail_server().await.unwrap() else {
            unreachable!()
        };
        sqlx::raw_sql("PRAGMA journal_mode = DELETE")
            .execute(&daemon)
            .await
            .unwrap();
        daemon.close().await;
        let mut opened = shared_options(&theirs).connect().await.unwrap();
        shared::make_wal(&mut opened, &theirs).await.unwrap();
        opened.close().await.unwrap();
        Directory::open(&fresh.config, &[]).await.unwrap();
        assert!(!beside(&theirs, "-journal").exists());
    };
    on_sqlite(body).await.unwrap();
}

/// Daemons cannot create the logs and cannot read without them.
#[tokio::test]
async fn the_logs_stand_when_the_service_is_gone() {
    let body = async |fresh: Fresh| {
        fresh.directory.with("a", "ada@example.org", &["s"]).await;
        let theirs = fresh.mailserver_file().unwrap();
        let last_logins = theirs.with_file_name("last-logins.db");
        let all_stand = || {
            for (file, suffix) in [&theirs, &last_logins]
                .into_iter()
                .flat_map(|file| [(file, "-wal"), (file, "-shm")])
            {
                assert_eq!(mode(&beside(file, suffix)), 0o660, "{suffix}");
            }
        };
        let now = latchmail_core::clock::Timestamp::from_millis(0);
        fresh.directory.sweep(now).await.unwrap();
        fresh.directory.credentials.last_logins("a").await.unwrap();
        all_stand();
        fresh.directory.close().await;
        all_stand();
        let again = Directory::open(&fresh.config, &[]).await.unwrap();
        again.sweep(now).await.unwrap();
        again.close().await;
        all_stand();
    };
    on_sqlite(body).await.unwrap();
}

#[tokio::test]
async fn a_log_that_is_another_s_is_not_written() {
    let body = async |fresh: Fresh| {
        let theirs = fresh.mailserver_file().unwrap();
        let victim = theirs.parent().unwrap().with_file_name("victim.key");
        fresh.directory.close().await;
        for name in ["-wal", "-shm"] {
            let planted = beside(&theirs, name);
            for link in [true, false] {
                fs::write(&victim, "a key").unwrap();
                let _ = fs::remove_file(&planted);
                if link {
                    symlink(&victim, &planted).unwrap();
                } else {
                    fs::hard_link(&victim, &planted).unwrap();
                }
                let error = Db::open(&fresh.config).await.unwrap_err();
                assert!(matches!(error, Error::Unusable(_)), "{error}");
                assert_eq!(fs::read(&victim).unwrap(), b"a key");
            }
            fs::remove_file(&planted).unwrap();
        }
    };
    on_sqlite(body).await.unwrap();
}

/// The file contains only what a mail daemon needs, and no bytes of anything else that the
/// directory stores about a person.
#[tokio::test]
async fn the_mail_servers_file_holds_no_secret_of_the_service() {
    let body = async |fresh: Fresh| {
        fresh.directory.with("a", "ada@example.org", &["s"]).await;
        let theirs = fresh.mailserver_file().unwrap();
        let mut bytes = fs::read(&theirs).unwrap();
        bytes.extend(fs::read(beside(&theirs, "-wal")).unwrap());
        let holds = |text: &str| bytes.windows(text.len()).any(|w| w == text.as_bytes());
        assert!(holds("ada@example.org"));
        for secret in ["argon2id", "sealed", "s-1", "Lovelace", "Firefox"] {
            assert!(!holds(secret), "{secret}");
        }
    };
    on_sqlite(body).await.unwrap();
}

#[tokio::test]
async fn a_file_that_was_lost_or_tampered_with_is_repaired() {
    let body = async |fresh: Fresh| {
        fresh.directory.with("a", "ada@example.org", &["s"]).await;
        let Db::Sqlite(theirs, _) = fresh.mail_server().await.unwrap() else {
            unreachable!()
        };
        let tamper = "DELETE FROM mailserver_users; UPDATE projected_log_ins SET password = '{PLAIN}x'; \
            INSERT INTO projected_senders VALUES ('ceo@example.org', 'ada@example.org', NULL)";
        sqlx::raw_sql(tamper).execute(&theirs).await.unwrap();
        theirs.close().await;
        fresh
            .directory
            .sweep(latchmail_core::clock::Timestamp::from_millis(0))
            .await
            .unwrap();
        let expected = [("ada@example.org".to_owned(), "a".to_owned())];
        assert_eq!(fresh.as_mail_server(USERS).await, expected);
        let passwords = "SELECT password, '' FROM mailserver_passwords";
        assert_eq!(
            fresh.as_mail_server(passwords).await[0].0,
            "{SHA256.HEX}s-hash"
        );
        let senders = "SELECT address, login FROM mailserver_senders";
        assert_eq!(fresh.as_mail_server(senders).await.len(), 1);

        fresh.directory.close().await;
        fs::remove_dir_all(fresh.mailserver_file().unwrap().parent().unwrap()).unwrap();
        Directory::open(&fresh.config, &[]).await.unwrap();
        assert_eq!(fresh.as_mail_server(USERS).await, expected);
    };
    on_sqlite(body).await.unwrap();
}

/// A Dovecot that has the file open fails its next query whenever the schema changes.
#[tokio::test]
async fn a_start_leaves_a_file_of_the_right_shape_as_it_is() {
    let body = async |fresh: Fresh| {
        let Db::Sqlite(theirs, _) = fresh.mail_server().await.unwrap() else {
            unreachable!()
        };
        let version = || sqlx::query_scalar::<_, i64>("PRAGMA schema_version").fetch_one(&theirs);
        let before = version().await.unwrap();
        Directory::open(&fresh.config, &[]).await.unwrap();
        assert_eq!(version().await.unwrap(), before);
    };
    on_sqlite(body).await.unwrap();
}

/// The service does not depend on the file that mail servers write, so no content of that path
/// prevents a start.
#[tokio::test]
async fn a_service_starts_whatever_stands_where_last_log_ins_belong() {
    let body = async |fresh: Fresh| {
        let file = fresh.mailserver_file().unwrap();
        let file = file.with_file_name("last-logins.db");
        fs::remove_file(&file).unwrap();
        fs::create_dir(&file).unwrap();
        Directory::open(&fresh.config, &[]).await.unwrap();
        fs::remove_dir(&file).unwrap();
        symlink("/etc/passwd", &file).unwrap();
        Directory::open(&fresh.config, &[]).await.unwrap();
        fs::remove_file(&file).unwrap();
        fs::write(
            &file,
            "no database at all, but long enough to be read as if it were one",
        )
        .unwrap();
        Directory::open(&fresh.config, &[]).await.unwrap();
    };
    on_sqlite(body).await.unwrap();
}

#[tokio::test]
async fn the_file_of_last_log_ins_is_no_other_s() {
    let body = async |fresh: Fresh| {
        let mut config = fresh.config.clone();
        config.mailserver = fresh.mailserver_file().unwrap();
        config.mailserver.set_file_name("last-logins.db");
        let refused = Directory::open(&config, &[]).await.unwrap_err().to_string();
        assert!(refused.contains("last-logins.db"), "{refused}");
    };
    on_sqlite(body).await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn several_may_start_at_once() {
    let body = async |fresh: Fresh| {
        fresh.directory.close().await;
        let folder = fresh.mailserver_file().unwrap();
        let folder = folder.parent().unwrap().parent().unwrap();
        for entry in fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                fs::remove_dir_all(path)
            } else {
                fs::remove_file(path)
            }
            .unwrap();
        }
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
    on_sqlite(body).await.unwrap();
}

#[tokio::test]
async fn a_replaced_row_does_not_slip_past_the_projection() {
    let body = async |fresh: Fresh| {
        fresh.directory.with("a", "ada@example.org", &[]).await;
        fresh
            .execute(
                "INSERT OR REPLACE INTO accounts (id, address, password_hash, created_at) VALUES ('a', 'new@example.org', '', 0)",
            )
            .await;
        let seen = fresh.as_mail_server(USERS).await;
        assert_eq!(seen, [("new@example.org".to_owned(), "a".to_owned())]);
    };
    on_sqlite(body).await.unwrap();
}

#[tokio::test]
#[should_panic(expected = "was not projected")]
async fn a_change_without_its_projection_fails_a_test() {
    let body = async |fresh: Fresh| {
        fresh.directory.with("a", "ada@example.org", &[]).await;
        let mut tx = fresh.directory.db().begin().await.unwrap();
        let change = "UPDATE accounts SET active = FALSE";
        on_tx!(&mut tx, db => sqlx::query(change).execute(db).await.map(drop)).unwrap();
        tx.commit().await.unwrap();
    };
    on_sqlite(body).await.unwrap();
}

#[tokio::test]
async fn every_connection_is_durable_strict_and_wary() {
    let body = async |fresh: Fresh| {
        const FULL: i64 = 2;
        for (pragma, value) in [
            ("PRAGMA main.synchronous", FULL),
            ("PRAGMA mailserver.synchronous", FULL),
            ("PRAGMA foreign_keys", 1),
            ("PRAGMA recursive_triggers", 1),
            ("PRAGMA trusted_schema", 0),
            ("PRAGMA main.secure_delete", 1),
            ("PRAGMA mailserver.secure_delete", 1),
        ] {
            assert_eq!(fresh.number(pragma).await, value, "{pragma}");
        }
    };
    on_sqlite(body).await.unwrap();
}

#[tokio::test]
async fn what_is_deleted_is_no_longer_in_the_file() {
    let body = async |fresh: Fresh| {
        let directory = &fresh.directory;
        directory.with("a", "ada@example.org", &[]).await;
        fresh.domain("a", "ada.example", true).await;
        let secret = "a sealed key that is to be destroyed";
        fresh
            .execute("UPDATE domains SET dkim_private_key = 'a sealed key that is to be destroyed'")
            .await;
        let theirs = fresh.mailserver_file().unwrap();
        let main = theirs.parent().unwrap().with_file_name("latchmail.db");
        let holds = || {
            let bytes = fs::read(&main).unwrap();
            memchr::memmem::find(&bytes, secret.as_bytes()).is_some()
        };
        let Db::Sqlite(pool, _) = directory.db() else {
            unreachable!()
        };
        let written = async || {
            let checkpoint = sqlx::raw_sql("PRAGMA main.wal_checkpoint(TRUNCATE)");
            checkpoint.execute(pool).await.unwrap();
        };
        written().await;
        assert!(holds());
        fresh.execute("DELETE FROM domains").await;
        written().await;
        assert!(!holds());
    };
    on_sqlite(body).await.unwrap();
}

#[tokio::test]
async fn a_database_that_mail_servers_could_not_read_is_refused() {
    for (url, mailserver) in [
        ("sqlite::memory:", ""),
        ("sqlite:", ""),
        ("sqlite:/tmp/latchmail-same.db", "/tmp/latchmail-same.db"),
        ("mysql://user:secret@host/db", ""),
        ("latchmail.db", ""),
    ] {
        let config = config::Database {
            url: url.into(),
            mailserver: mailserver.into(),
            ..config::Database::default()
        };
        let error = Db::open(&config).await.unwrap_err();
        assert!(matches!(error, Error::Unusable(_)), "{url}: {error}");
        assert!(!error.to_string().contains("secret"), "{error}");
    }
}

/// Files that a compromised mail daemon could put in place of its own, while the service is stopped
/// or running.
#[tokio::test]
async fn a_planted_file_of_the_mail_servers_is_not_opened() {
    let body = async |fresh: Fresh| {
        let theirs = fresh.mailserver_file().unwrap();
        let folder = theirs.parent().unwrap();
        let main = folder.parent().unwrap().join("latchmail.db");
        let elsewhere = folder.parent().unwrap().join("elsewhere");
        let other_name = format!("sqlite:{}", beside(&main, "-link").display());
        fresh.directory.close().await;
        symlink(&main, beside(&main, "-link")).unwrap();
        let plants: [(&str, &(dyn Fn() + Send + Sync)); 5] = [
            ("plain file", &|| symlink(&main, &theirs).unwrap()),
            ("plain file", &|| symlink(&elsewhere, &theirs).unwrap()),
            ("itself", &|| fs::hard_link(&main, &theirs).unwrap()),
            ("plain file", &|| fs::create_dir(&theirs).unwrap()),
            ("plain file", &|| {
                drop(std::os::unix::net::UnixListener::bind(&theirs).unwrap());
            }),
        ];
        for (reason, plant) in plants {
            fs::remove_file(&theirs).unwrap_or_default();
            plant();
            for url in [&fresh.config.url, &other_name] {
                let config = config::Database {
                    url: url.clone(),
                    mailserver: theirs.clone(),
                    ..config::Database::default()
                };
                let error = Db::open(&config).await.unwrap_err();
                assert!(matches!(error, Error::Unusable(_)), "{error}");
                assert!(error.to_string().contains(reason), "{error}");
            }
            let _ = fs::remove_dir(&theirs);
        }
        assert!(!elsewhere.exists(), "nothing is made elsewhere");
    };
    on_sqlite(body).await.unwrap();
}

#[tokio::test]
async fn a_later_connection_does_not_take_up_a_planted_file_either() {
    let body = async |fresh: Fresh| {
        let theirs = fresh.mailserver_file().unwrap();
        let elsewhere = theirs.with_file_name("elsewhere");
        let Db::Sqlite(pool, _) = fresh.directory.db() else {
            unreachable!()
        };
        fs::remove_file(&theirs).unwrap();
        symlink(&elsewhere, &theirs).unwrap();
        let mut standing = Vec::new();
        while let Some(connection) = pool.try_acquire() {
            standing.push(connection);
        }
        let refused = timeout(Duration::from_millis(200), pool.acquire()).await;
        assert!(!matches!(refused, Ok(Ok(_))));
        assert!(!elsewhere.exists());
        drop(standing);
    };
    on_sqlite(body).await.unwrap();
}
