//! New databases for tests. Each test body runs on a new SQLite file and on a new database of a
//! PostgreSQL server.
//!
//! `LATCHMAIL_TEST_POSTGRES` is the URL of the server. The role in the URL must be able to create
//! databases and roles. Without this variable, the PostgreSQL tests fail. These tests are never
//! skipped.
//!
//! ```text
//! async fn an_account_is_found_by_its_address(fresh: Fresh) { … }
//!
//! both!(an_account_is_found_by_its_address);
//! ```

use std::path::{Path, PathBuf};
use std::str::FromStr;

use anyhow::Context as _;
use latchmail_core::config;
use sqlx::postgres::{PgConnectOptions, PgPoolOptions};
use sqlx::sqlite::{SqliteConnectOptions, SqlitePoolOptions};
use sqlx::{AssertSqlSafe, Connection, PgConnection};

use crate::Directory;
use crate::db::{Db, Source, migrations, on, on_tx};

const SERVER: &str = "LATCHMAIL_TEST_POSTGRES";

/// Creates two tests of each body: `sqlite::…` and `postgres::…`.
#[cfg(test)]
macro_rules! both {
    ($($body:ident),+ $(,)?) => {
        mod sqlite {
            $(#[tokio::test(flavor = "multi_thread")]
            async fn $body() {
                $crate::testing::on_sqlite(super::$body).await.unwrap();
            })+
        }
        mod postgres {
            $(#[tokio::test(flavor = "multi_thread")]
            async fn $body() {
                $crate::testing::on_postgres(super::$body).await.unwrap();
            })+
        }
    };
}

#[cfg(test)]
pub(crate) use both;

/// A new, open database without platform domains.
#[derive(Debug)]
pub struct Fresh {
    /// The configuration of the database. Tests use this value to open the database a second time.
    pub config: config::Database,
    /// The directory in the database.
    pub directory: Directory,
}

impl Fresh {
    /// Returns the path of the file for mail servers. Returns `None` on PostgreSQL.
    #[must_use]
    pub fn mailserver_file(&self) -> Option<PathBuf> {
        let main = Path::new(self.config.url.strip_prefix("sqlite:")?);
        Some(main.with_file_name("mailserver").join("mailserver.db"))
    }

    /// Returns a pool with the access rights of a mail daemon. On SQLite, opens the file for mail
    /// servers. On PostgreSQL, uses the role of mail servers.
    ///
    /// # Errors
    /// Returns an error if the pool cannot be opened.
    pub async fn mail_server(&self) -> anyhow::Result<Db> {
        if let Some(file) = self.mailserver_file() {
            let options = SqliteConnectOptions::new().filename(file);
            let pool = SqlitePoolOptions::new().connect_with(options).await?;
            return Ok(Db::Sqlite(pool, None));
        }
        let pool = PgPoolOptions::new()
            .after_connect(|connection, _| {
                Box::pin(async move {
                    sqlx::raw_sql("SET ROLE latchmail_mailserver")
                        .execute(connection)
                        .await?;
                    Ok(())
                })
            })
            .connect(&self.config.url)
            .await?;
        Ok(Db::Postgres(pool))
    }
}

/// Runs `body` on a new SQLite file, and then removes the file.
///
/// # Errors
/// Returns an error if the database cannot be created. Panics if the body panics.
pub async fn on_sqlite<F>(body: impl FnOnce(Fresh) -> F) -> anyhow::Result<()>
where
    F: Future<Output = ()> + Send + 'static,
{
    let folder = std::env::temp_dir().join(fresh_name()?);
    std::fs::create_dir(&folder)?;
    copy_sqlite(&folder.join("latchmail.db")).await?;
    in_folder(&folder, body).await
}

/// Runs `body` on an SQLite file that [`Directory::open`] creates together with its folder. The
/// file is not a copy of a template.
#[cfg(test)]
pub(crate) async fn on_created_sqlite<F>(body: impl FnOnce(Fresh) -> F) -> anyhow::Result<()>
where
    F: Future<Output = ()> + Send + 'static,
{
    in_folder(&std::env::temp_dir().join(fresh_name()?), body).await
}

async fn in_folder<F>(folder: &Path, body: impl FnOnce(Fresh) -> F) -> anyhow::Result<()>
where
    F: Future<Output = ()> + Send + 'static,
{
    let fresh = open(config::Database {
        url: format!("sqlite:{}", folder.join("latchmail.db").display()),
        ..config::Database::default()
    })
    .await?;
    run(fresh, body, async || Ok(std::fs::remove_dir_all(folder)?)).await
}

/// Runs `body` on a new database of the PostgreSQL server, and then drops the database.
///
/// # Errors
/// Returns an error if no server is configured or the database cannot be created. Panics if the
/// body panics.
pub async fn on_postgres<F>(body: impl FnOnce(Fresh) -> F) -> anyhow::Result<()>
where
    F: Future<Output = ()> + Send + 'static,
{
    let database = PostgresDatabase::create().await?;
    let fresh = open(config::Database {
        url: database.url.clone(),
        ..config::Database::default()
    })
    .await?;
    run(fresh, body, async || database.drop().await).await
}

/// Creates `file` as a copy of an SQLite database that has all tables and no rows. The migrations
/// run only one time per schema, because the migrated database is stored next to the test binaries.
///
/// # Errors
/// Returns an error if the database cannot be created or copied.
pub async fn copy_sqlite(file: &Path) -> anyhow::Result<()> {
    let binary = std::env::current_exe()?;
    let profile = binary
        .ancestors()
        .nth(2)
        .context("the test binary is in no folder")?;
    let templates = profile.join("templates");
    let template = templates.join(format!("{}.db", migrations::digest()));
    if !template.exists() {
        let folder = templates.join(fresh_name()?);
        std::fs::create_dir_all(&folder)?;
        let new = folder.join("latchmail.db");
        let directory = open_directory(format!("sqlite:{}", new.display())).await?;
        // Closing the last connection moves the write-ahead log into the file.
        directory.close().await;
        std::fs::rename(&new, &template)?;
        std::fs::remove_dir_all(&folder)?;
    }
    std::fs::copy(&template, file)?;
    Ok(())
}

/// A database of the PostgreSQL server, with every table and no row.
#[derive(Debug)]
pub struct PostgresDatabase {
    /// The database's URL.
    pub url: String,
    name: String,
}

impl PostgresDatabase {
    /// Copies a new database from a template. The first test on a server creates the template.
    ///
    /// # Errors
    /// Returns an error if no server is configured or the database cannot be created.
    pub async fn create() -> anyhow::Result<Self> {
        let mut administrator = administrator().await?;
        let template = template(&mut administrator).await?;
        let name = fresh_name()?;
        execute_on(
            &mut administrator,
            format!("CREATE DATABASE {name} TEMPLATE {template}"),
        )
        .await?;
        administrator.close().await?;
        let url = postgres_url(&name)?;
        Ok(Self { url, name })
    }

    /// Drops the database and ends all connections to the database.
    ///
    /// # Errors
    /// Returns an error if the server cannot drop the database.
    pub async fn drop(self) -> anyhow::Result<()> {
        let mut administrator = administrator().await?;
        execute_on(
            &mut administrator,
            format!("DROP DATABASE {} WITH (FORCE)", self.name),
        )
        .await?;
        Ok(administrator.close().await?)
    }
}

/// Removes every row from a database, except the record of its migrations. Connections of mail
/// servers to the database remain open.
///
/// # Errors
/// Returns an error if the database fails.
pub async fn empty_postgres(url: &str) -> anyhow::Result<()> {
    let mut connection = PgConnection::connect(url).await?;
    let tables: Option<String> = sqlx::query_scalar(
        "SELECT string_agg(quote_ident(tablename), ', ') FROM pg_tables WHERE schemaname = 'public' AND tablename <> '_sqlx_migrations'",
    )
    .fetch_one(&mut connection)
    .await?;
    if let Some(tables) = tables {
        execute_on(
            &mut connection,
            format!("TRUNCATE {tables} RESTART IDENTITY CASCADE"),
        )
        .await?;
    }
    Ok(connection.close().await?)
}

fn server() -> anyhow::Result<String> {
    std::env::var(SERVER).with_context(|| {
        format!("{SERVER} must be the URL of a PostgreSQL server on which databases can be created; `./just test` starts one")
    })
}

async fn administrator() -> anyhow::Result<PgConnection> {
    let options = PgConnectOptions::from_str(&server()?)
        .with_context(|| format!("{SERVER} is not the URL of a PostgreSQL server"))?;
    PgConnection::connect_with(&options)
        .await
        .with_context(|| format!("the PostgreSQL server in {SERVER} does not respond"))
}

/// Returns the server's URL with another database. Edits the URL as text, because mail daemons also
/// read the URL and do not support sqlx's own parameters.
fn postgres_url(name: &str) -> anyhow::Result<String> {
    let server = server()?;
    let (address, options) = server.split_at(server.find('?').unwrap_or(server.len()));
    let host = address.rsplit_once('/').map_or(address, |(host, _)| host);
    Ok(format!("{host}/{name}{options}"))
}

/// Returns the name of the server's template. Creates the template if it is missing. Test processes
/// wait for each other.
async fn template(administrator: &mut PgConnection) -> anyhow::Result<String> {
    const EXISTS: &str = "SELECT EXISTS (SELECT FROM pg_database WHERE datname = $1)";
    let name = format!("latchmail_template_{}", migrations::digest());
    let exists = async |connection: &mut PgConnection| {
        sqlx::query_scalar::<_, bool>(EXISTS)
            .bind(&name)
            .fetch_one(connection)
            .await
    };
    if exists(&mut *administrator).await? {
        return Ok(name);
    }
    // If the connection ends, the lock is released too.
    sqlx::query("SELECT pg_advisory_lock(6016254203)")
        .execute(&mut *administrator)
        .await?;
    if !exists(&mut *administrator).await? {
        let new = fresh_name()?;
        // A template with a connected client cannot be copied. Therefore the database is copied
        // from template0, because no client can connect to template0.
        execute_on(
            &mut *administrator,
            format!("CREATE DATABASE {new} TEMPLATE template0"),
        )
        .await?;
        let directory = open_directory(postgres_url(&new)?).await?;
        directory.close().await;
        execute_on(
            &mut *administrator,
            format!("ALTER DATABASE {new} RENAME TO {name}"),
        )
        .await?;
    }
    sqlx::query("SELECT pg_advisory_unlock(6016254203)")
        .execute(&mut *administrator)
        .await?;
    Ok(name)
}

async fn execute_on(connection: &mut PgConnection, query: String) -> anyhow::Result<()> {
    sqlx::raw_sql(AssertSqlSafe(query))
        .execute(connection)
        .await?;
    Ok(())
}

async fn open_directory(url: String) -> anyhow::Result<Directory> {
    let config = config::Database {
        url,
        ..config::Database::default()
    };
    Ok(Directory::open(&config, &[]).await?)
}

async fn open(config: config::Database) -> anyhow::Result<Fresh> {
    let directory = Directory::open(&config, &[]).await?;
    Ok(Fresh { config, directory })
}

/// Runs the body in a separate task, so that the database is removed even if the body panics.
async fn run<F>(
    fresh: Fresh,
    body: impl FnOnce(Fresh) -> F,
    remove: impl AsyncFnOnce() -> anyhow::Result<()>,
) -> anyhow::Result<()>
where
    F: Future<Output = ()> + Send + 'static,
{
    let db = fresh.directory.db().clone();
    let outcome = tokio::spawn(body(fresh)).await;
    db.close().await;
    remove().await?;
    match outcome {
        Err(error) if error.is_panic() => std::panic::resume_unwind(error.into_panic()),
        outcome => Ok(outcome?),
    }
}

/// Runs `query` on the tables and copies all data for mail servers to their file, in one
/// transaction.
///
/// # Errors
/// Returns an error if the database fails.
pub async fn execute(db: &Db, query: &'static str) -> anyhow::Result<()> {
    let mut tx = db.begin().await?;
    on_tx!(&mut tx, db => sqlx::raw_sql(query).execute(db).await.map(drop))?;
    tx.project(Source::Everything).await?;
    Ok(tx.commit().await?)
}

/// Returns the number in the single row that a query returns.
///
/// # Errors
/// Returns an error if the database fails.
pub async fn number(db: &Db, query: &'static str) -> anyhow::Result<i64> {
    Ok(on!(db, pool => sqlx::query_scalar(query).fetch_one(pool).await)?)
}

/// Returns a name that is valid for a file and for a database.
fn fresh_name() -> anyhow::Result<String> {
    Ok(format!("latchmail_test_{:016x}", getrandom::u64()?))
}

pub use fixtures::*;

/// Rows for tests.
#[allow(
    clippy::missing_panics_doc,
    clippy::unwrap_used,
    reason = "a failure ends the test"
)]
mod fixtures {
    use std::time::Duration;

    use super::Fresh;
    use crate::Directory;
    use crate::accounts::{Creation, DEFAULT_PLAN, NewAccount, NewProfile};
    use crate::credentials::{self, AppPasswordKind, NewAppPassword};
    use crate::db::{Source, on, on_tx};
    use crate::sessions::NewSession;
    use latchmail_core::caller::Origin;
    use latchmail_core::clock::Timestamp;

    /// One day.
    pub const DAY: Duration = Duration::from_hours(24);
    /// 30 days.
    pub const MONTH: Duration = Duration::from_hours(30 * 24);
    /// The current time in tests: 2099-01-01T00:00:00Z. An app password that expires after this
    /// time is also valid by the database's own clock.
    pub const NOW: Timestamp = Timestamp::from_millis(4_070_908_800_000);

    /// Returns a new account.
    #[must_use]
    pub fn account(id: &str, address: &str) -> NewAccount {
        NewAccount {
            id: id.into(),
            address: address.into(),
            password_hash: "$argon2id$secret".into(),
            profile: Some(NewProfile {
                first_name: "Ada".into(),
                last_name: "Lovelace".into(),
                dob: "1990-12-10".into(),
            }),
            plan: DEFAULT_PLAN.into(),
            admin: false,
            created_at: NOW,
        }
    }

    /// Returns an app password with the selector `<id>-selector` and the hash `<id>-hash`.
    #[must_use]
    pub fn new_app_password(id: &str, kind: AppPasswordKind) -> NewAppPassword {
        NewAppPassword {
            id: id.into(),
            kind,
            label: "Firefox".into(),
            selector: format!("{id}-selector"),
            secret_hash: format!("{id}-hash"),
            expires_at: None,
            policy: None,
        }
    }

    /// Returns a session `sid` that begins at `now`, with the app password `<sid>-password` and the
    /// refresh token `<sid>-1`.
    #[must_use]
    pub fn session(sid: &str, account_id: &str, now: Timestamp) -> NewSession {
        NewSession {
            sid: sid.into(),
            account_id: account_id.into(),
            app_password: NewAppPassword {
                id: format!("{sid}-password"),
                kind: AppPasswordKind::WebSession,
                label: "Firefox".into(),
                selector: format!("{sid}-selector"),
                secret_hash: format!("{sid}-hash"),
                expires_at: None,
                policy: None,
            },
            sealed_password: b"sealed".to_vec(),
            refresh_hash: format!("{sid}-1"),
            created_at: now,
            expires_at: now.plus(MONTH),
            provider: None,
        }
    }

    impl Directory {
        /// Stores an app password without checking a session.
        pub async fn hold(&self, account_id: &str, password: &NewAppPassword, at: Timestamp) {
            let mut tx = self.db().begin().await.unwrap();
            let kept = credentials::insert(&mut tx, account_id, password, at, password.expires_at);
            kept.await.unwrap();
            tx.commit().await.unwrap();
        }

        /// Creates an account with sessions that have these ids and begin at [`NOW`].
        pub async fn with(&self, id: &str, address: &str, sessions: &[&str]) {
            let made = self
                .accounts
                .create(&account(id, address), None, &Origin::default())
                .await;
            assert_eq!(made.unwrap(), Creation::Created);
            for sid in sessions {
                self.sessions
                    .begin(&session(sid, id, NOW), &Origin::default())
                    .await
                    .unwrap();
            }
        }
    }

    impl Fresh {
        /// Runs a query of two text columns with the access of a mail daemon, and returns the rows.
        pub async fn as_mail_server(&self, query: &'static str) -> Vec<(String, String)> {
            let db = self.mail_server().await.unwrap();
            let rows = on!(&db, pool => sqlx::query_as(query).fetch_all(pool).await).unwrap();
            db.close().await;
            rows
        }

        /// Stores a domain of an account: a verified domain if `verified` is `true`, otherwise a
        /// pending claim.
        pub async fn domain(&self, account_id: &str, domain: &str, verified: bool) {
            const INSERT: &str = "INSERT INTO domains (account_id, domain, challenge, created_at, verified_at, \
                dkim_selector, dkim_public_key, dkim_private_key) VALUES ($1, $2, 'c', 0, $3, $4, $4, $5)";
            let key = verified.then_some("k");
            let mut tx = self.directory.db().begin().await.unwrap();
            on_tx!(&mut tx, db => sqlx::query(INSERT)
                .bind(account_id)
                .bind(domain)
                .bind(verified.then_some(0_i64))
                .bind(key)
                .bind(key.map(str::as_bytes))
                .execute(db).await.map(drop))
            .unwrap();
            tx.project(Source::Domain(domain)).await.unwrap();
            tx.commit().await.unwrap();
        }

        /// Runs `query` on the tables, see [`execute`](super::execute).
        pub async fn execute(&self, query: &'static str) {
            super::execute(self.directory.db(), query).await.unwrap();
        }

        /// Returns the number in the single row that a query returns.
        pub async fn number(&self, query: &'static str) -> i64 {
            super::number(self.directory.db(), query).await.unwrap()
        }
    }
}
