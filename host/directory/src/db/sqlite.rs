//! Opens an SQLite database. Creates the files with their modes, and runs the migrations.
//! [`projection`] copies data to the file of the mail servers.
//!
//! The main file has mode 0600. Only the service can access the main file and the main file's -wal
//! and -shm files.
//!
//! The data for mail servers is in a separate file (mode 0660) in a separate folder (mode 2750).
//! This file also has a -wal file and a -shm file. In WAL mode, a reader of a database must be able
//! to write to these two files.
//!
//! The file of the mail servers has the same group as its folder. The operator sets this group.
//! Existing files and folders keep their mode and group, with one exception: the service restricts
//! write access to the folder to the owner.
//!
//! [`shared`] describes how the service opens a file that mail daemons can write. The file for
//! log-ins is in the same folder, see [`last_logins`]. The file for a milter is in another folder,
//! see [`milter`].

mod last_logins;
mod milter;
pub(super) mod projection;
mod shared;
pub(super) mod writer;

use std::fs::{self, File, OpenOptions, Permissions};
use std::io::{self, ErrorKind};
use std::os::unix::fs::{OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::str::FromStr;
use std::sync::Arc;
use std::time::Duration;

use latchmail_core::config;
use sqlx::sqlite::{
    SqliteConnectOptions, SqliteConnection, SqliteJournalMode, SqlitePoolOptions, SqliteSynchronous,
};
use sqlx::{ConnectOptions, Connection};
use tokio::time::{Instant, sleep};

use super::{ACQUIRE_TIMEOUT, BEGIN_SQLITE, COMMIT_SQLITE, Db, Error, lookup, migrations, outage};
pub(crate) use last_logins::LastLoginsFile;
use milter::MilterFile;
pub(super) use milter::withdraw;
pub(crate) use shared::beside;
use writer::{Uncommitted, Writer};

/// Tables that an earlier version created in the file of the mail servers, and that are views now.
/// Their rows are copied, so that the mail server finds the aliases while the service starts. These
/// aliases do not expire.
const FORMER_TABLES: [(&str, &str); 2] = [
    (
        "mailserver_aliases",
        "CREATE TABLE IF NOT EXISTS projected_aliases \
             (address TEXT PRIMARY KEY, destination TEXT NOT NULL, expires_at BIGINT); \
         INSERT OR IGNORE INTO projected_aliases (address, destination) \
             SELECT address, destination FROM mailserver_aliases; \
         DROP TABLE mailserver_aliases",
    ),
    (
        "mailserver_senders",
        "CREATE TABLE IF NOT EXISTS projected_senders (address TEXT NOT NULL, \
             login TEXT NOT NULL, expires_at BIGINT, PRIMARY KEY (address, login)); \
         INSERT OR IGNORE INTO projected_senders (address, login) \
             SELECT address, login FROM mailserver_senders; \
         DROP TABLE mailserver_senders",
    ),
];
const IS_TABLE: &str =
    "SELECT EXISTS (SELECT 1 FROM sqlite_schema WHERE name = $1 AND type = 'table')";
const MAILSERVER_FILE: &str = include_str!("../../migrations/mailserver/sqlite/file.sql");
const MAILSERVER_CONNECTION: &str =
    include_str!("../../migrations/mailserver/sqlite/connection.sql");
const MAILSERVER_JOURNAL_MODE: &str = "PRAGMA mailserver.journal_mode";
const ATTACH: &str = "ATTACH DATABASE $1 AS mailserver";

/// Maximum time that a query waits for a locked file. A mail daemon or another process of the
/// service can have the lock.
pub(crate) const BUSY_TIMEOUT: Duration = Duration::from_secs(10);

/// The delay before the next attempt to begin a transaction, if another process is writing. SQLite
/// itself waits up to 100 ms between two attempts. While a service commits one group after the
/// other, the file is unlocked only for short times, which such attempts can miss for long.
const AGAIN: Duration = Duration::from_millis(1);
/// SQLite does not wait for a locked file. [`begin`] waits instead.
const NO_WAIT: &str = "PRAGMA busy_timeout = 0";
/// Every change fails with an error.
const READ_ONLY: &str = "PRAGMA query_only = ON";

/// The mode of the main file's folder. Mail daemons can enter the folder to reach their own folder,
/// but cannot list the files in the folder.
const FOLDER_MODE: u32 = 0o711;
const MAIN_MODE: u32 = 0o600;
/// The mode of the folder for mail servers. Because of setgid, new files in the folder get the
/// folder's group.
const MAILSERVER_FOLDER_MODE: u32 = 0o2750;
const MAILSERVER_MODE: u32 = 0o660;

/// Creates missing files, migrates the database and opens it. Returns the database, the source of
/// lookups, and the location of the last log-ins. Services that start concurrently wait for each
/// other.
pub(super) async fn open(
    config: &config::Database,
) -> Result<(Db, lookup::File, LastLoginsFile), Error> {
    let files = Arc::new(SqlitePaths::of(config)?);
    let preparing = Arc::clone(&files);
    let _lock = tokio::task::spawn_blocking(move || preparing.prepare())
        .await
        .map_err(|error| Error::Unusable(error.to_string()))??;

    migrate(&files.main).await?;
    create_mailserver_tables(&files.mailserver).await?;
    if let Err(error) = files.last_logins.make().await {
        tracing::warn!(%error, "failed to create the file of last log-ins");
    }

    if files.with_milter {
        files.milter.create_table().await?;
    } else {
        files.milter.empty().await?;
    }

    let uncommitted = Uncommitted::new();
    let readers = pool_options(&files, config.max_connections.max(1), READ_ONLY);
    let waiting = uncommitted.clone();
    let readers = readers.before_acquire(move |_, _| {
        let waiting = waiting.clone();
        Box::pin(async move {
            waiting.committed().await;
            Ok(true)
        })
    });
    let readers = readers.connect_with(options(&files.main)).await?;
    let writer = pool_options(&files, 1, NO_WAIT);
    let writer = writer.connect_with(options(&files.main)).await?;
    let writer = Writer::start(writer, files.with_milter, uncommitted.clone());
    let db = Db::Sqlite(readers, Some(writer));
    db.repair_mailserver().await?;
    let lookup = lookup::File::new(files.main.clone(), uncommitted);
    Ok((db, lookup, files.last_logins.clone()))
}

/// Returns the options of a pool of connections to all files. Each new connection runs the query
/// `last` at the end.
fn pool_options(
    files: &Arc<SqlitePaths>,
    max_connections: u32,
    last: &'static str,
) -> SqlitePoolOptions {
    let attached = Arc::clone(files);
    // At least one connection remains open. Therefore SQLite does not remove the -wal files, and
    // the files keep their modes.
    SqlitePoolOptions::new()
        .max_connections(max_connections)
        .min_connections(1)
        .idle_timeout(None)
        .max_lifetime(None)
        .test_before_acquire(false)
        .acquire_timeout(ACQUIRE_TIMEOUT)
        .after_connect(move |connection, _| {
            let files = Arc::clone(&attached);
            Box::pin(async move {
                let attached = files.attach(connection).await;
                attached.map_err(sqlx::Error::config)?;
                sqlx::query(last).execute(connection).await?;
                Ok(())
            })
        })
}

/// Attaches the file of the mail servers to a connection.
async fn attach(connection: &mut SqliteConnection, mailserver: &Path) -> Result<(), Error> {
    sqlx::query(ATTACH)
        .bind(mailserver.to_string_lossy().into_owned())
        .execute(&mut *connection)
        .await?;
    let mode: String = sqlx::query_scalar(MAILSERVER_JOURNAL_MODE)
        .fetch_one(&mut *connection)
        .await?;
    shared::wal(&mode, mailserver)?;
    shared::keep(connection, mailserver, "keeper").await?;
    sqlx::raw_sql(MAILSERVER_CONNECTION)
        .execute(connection)
        .await?;
    Ok(())
}

/// Runs `statement`, which begins a write transaction. While another process is writing, repeats
/// the statement for [`BUSY_TIMEOUT`]. The connection must have the setting [`NO_WAIT`].
async fn begin(
    connection: &mut SqliteConnection,
    statement: &'static str,
) -> Result<(), sqlx::Error> {
    let started = Instant::now();
    loop {
        match sqlx::query(statement).execute(&mut *connection).await {
            Err(error) if is_locked(&error, started) => {}
            done => return done.map(drop),
        }
        sleep(AGAIN).await;
    }
}

/// Returns `true` if another process is writing, and the caller must try again.
fn is_locked(error: &sqlx::Error, started: Instant) -> bool {
    outage::is_outage(error) && started.elapsed() < BUSY_TIMEOUT
}

/// Returns the options for opening the main file.
///
/// `synchronous` is FULL. In WAL mode, NORMAL can lose the latest commits in a power failure. A
/// change must not be lost after the service has confirmed the change to a client. FULL costs one
/// fsync per transaction.
fn options(file: &Path) -> SqliteConnectOptions {
    shared_options(file).journal_mode(SqliteJournalMode::Wal)
}

/// Returns the options for opening a file. If mail daemons can write the file, the caller must call
/// [`shared::guard`] before opening the file. After opening the file, the caller must call
/// [`shared::make_wal`].
fn shared_options(file: &Path) -> SqliteConnectOptions {
    SqliteConnectOptions::new()
        .filename(file)
        .synchronous(SqliteSynchronous::Full)
        .foreign_keys(true)
        .busy_timeout(BUSY_TIMEOUT)
        // With this setting, REPLACE also fires delete triggers. So no query can bypass the
        // triggers of `milter_connection.sql`.
        .pragma("recursive_triggers", "ON")
        // Mail daemons can write the attached file. Therefore the schema of the file is not
        // trusted.
        .pragma("trusted_schema", "OFF")
        .pragma("temp_store", "MEMORY")
        // Overwrite deleted data, also in attached databases. Deleted keys, secrets and hashes must
        // not remain in the files.
        .pragma("secure_delete", "ON")
}

/// Runs the migrations in one transaction. The connection must not have the temporary views and
/// triggers of the pool's connections. A migration can change the tables that these views and
/// triggers use.
async fn migrate(main: &Path) -> Result<(), Error> {
    let mut connection = options(main).connect().await?;
    sqlx::query(NO_WAIT).execute(&mut connection).await?;
    let started = Instant::now();
    // The migrator needs a transaction of sqlx.
    let mut tx = loop {
        match connection.begin_with(BEGIN_SQLITE).await {
            Err(error) if is_locked(&error, started) => {}
            begun => break begun?,
        }
        sleep(AGAIN).await;
    };
    migrations::sqlite(&mut tx).await?;
    tx.commit().await?;
    connection.close().await?;
    Ok(())
}

async fn create_mailserver_tables(mailserver: &Path) -> Result<(), Error> {
    let mut connection: SqliteConnection = shared_options(mailserver).connect().await?;
    shared::make_wal(&mut connection, mailserver).await?;
    sqlx::query(NO_WAIT).execute(&mut connection).await?;
    begin(&mut connection, BEGIN_SQLITE).await?;
    for (table, convert) in FORMER_TABLES {
        let is_table: bool = sqlx::query_scalar(IS_TABLE)
            .bind(table)
            .fetch_one(&mut connection)
            .await?;
        if is_table {
            sqlx::raw_sql(convert).execute(&mut connection).await?;
        }
    }
    sqlx::raw_sql(MAILSERVER_FILE)
        .execute(&mut connection)
        .await?;
    sqlx::query(COMMIT_SQLITE).execute(&mut connection).await?;
    connection.close().await?;
    Ok(())
}

/// Returns the absolute path of the main file.
///
/// # Errors
/// Returns [`Error::Unusable`] if `database.url` contains no file name.
pub(super) fn main_file(config: &config::Database) -> Result<PathBuf, Error> {
    let options = SqliteConnectOptions::from_str(&config.url)?;
    let named = options.get_filename();
    if named.as_os_str().is_empty() || named.to_string_lossy().starts_with("file:") {
        return Err(Error::Unusable(
            "`database.url` must name a file: mail servers cannot read a database in memory".into(),
        ));
    }
    std::path::absolute(named).map_err(|error| unusable(named, &error))
}

/// Returns the absolute path of the SQLite database that the mail servers read.
///
/// # Errors
/// Returns [`Error::Unusable`] if `database.url` contains no file name.
pub(crate) fn mailserver_file(config: &config::Database) -> Result<PathBuf, Error> {
    if config.mailserver.as_os_str().is_empty() {
        let main = main_file(config)?;
        return Ok(main.with_file_name("mailserver").join("mailserver.db"));
    }
    std::path::absolute(&config.mailserver).map_err(|error| unusable(&config.mailserver, &error))
}

/// The absolute paths of all files of the database.
pub(crate) struct SqlitePaths {
    pub(crate) main: PathBuf,
    pub(crate) mailserver: PathBuf,
    pub(crate) last_logins: LastLoginsFile,
    milter: MilterFile,
    with_milter: bool,
}

impl SqlitePaths {
    /// Returns the paths from the configuration.
    pub(crate) fn of(config: &config::Database) -> Result<Self, Error> {
        let main = main_file(config)?;
        let mailserver = mailserver_file(config)?;
        if main == mailserver {
            return Err(same_file(&main));
        }
        let last_logins = LastLoginsFile::beside(&main, &mailserver)?;
        let milter = MilterFile::from_config(config, &main, &mailserver)?;
        Ok(Self {
            main,
            mailserver,
            last_logins,
            milter,
            with_milter: config.with_milter,
        })
    }

    /// Attaches the files of the mail servers to a connection.
    async fn attach(&self, connection: &mut SqliteConnection) -> Result<(), Error> {
        shared::guard(&self.main, &self.mailserver)?;
        attach(connection, &self.mailserver).await?;
        milter::create_withdrawn_table(connection).await?;
        if self.with_milter {
            self.milter.attach(connection).await?;
        }
        Ok(())
    }

    /// Waits until no service is starting. Services that start wait until the returned file is
    /// closed. Creates the folder if it is missing.
    pub(crate) fn lock(main: &Path) -> Result<File, Error> {
        make_folder(main, FOLDER_MODE)?;
        let lock = beside(main, ".lock");
        OpenOptions::new()
            .write(true)
            .create(true)
            .truncate(false)
            .mode(MAIN_MODE)
            .open(&lock)
            .and_then(|file| file.lock().map(|()| file))
            .map_err(|error| unusable(&lock, &error))
    }

    /// Waits until no other service is starting. Creates the missing files with their modes. Other
    /// services wait at their start until the returned file is closed. A separate lock is
    /// necessary, because SQLite's own locks allow two services to convert a new file to WAL mode
    /// concurrently.
    fn prepare(&self) -> Result<File, Error> {
        let lock = Self::lock(&self.main)?;
        make_file(&self.main, MAIN_MODE)?;
        make_folder(&self.mailserver, MAILSERVER_FOLDER_MODE)?;
        make_file(&self.mailserver, MAILSERVER_MODE)?;
        shared::guard(&self.main, &self.mailserver)?;
        if self.with_milter {
            self.milter.prepare()?;
        }
        Ok(lock)
    }

    /// Returns all files and the folders of the shared files. The second value is `true` if mail
    /// servers use the file or folder.
    pub(crate) fn all(&self) -> Vec<(PathBuf, bool)> {
        let shared = [
            self.mailserver.as_path(),
            self.last_logins.path(),
            self.milter.path(),
        ];
        let folders = shared.iter().filter_map(|file| file.parent());
        let mut all: Vec<(PathBuf, bool)> = folders.map(|one| (one.to_owned(), true)).collect();
        for suffix in ["", "-wal", "-shm"] {
            all.extend(shared.iter().map(|file| (beside(file, suffix), true)));
            all.push((beside(&self.main, suffix), false));
        }
        all.push((beside(&self.main, ".lock"), false));
        all
    }
}

/// Creates the folder of `file` with the mode `mode`, independent of the umask. Does nothing if the
/// folder exists.
fn make_folder(file: &Path, mode: u32) -> Result<(), Error> {
    let Some(folder) = file.parent() else {
        return Ok(());
    };
    if folder.is_dir() {
        return Ok(());
    }
    fs::create_dir_all(folder)
        .and_then(|()| fs::set_permissions(folder, Permissions::from_mode(mode)))
        .map_err(|error| unusable(folder, &error))
}

/// Creates the file with the mode `mode`. Does nothing if the file exists. An empty file is a valid
/// SQLite database. SQLite creates the -wal and the -shm files with the mode of the database file.
fn make_file(file: &Path, mode: u32) -> Result<(), Error> {
    match OpenOptions::new()
        .write(true)
        .create_new(true)
        .mode(MAIN_MODE)
        .open(file)
    {
        Ok(new) => new
            .set_permissions(Permissions::from_mode(mode))
            .map_err(|error| unusable(file, &error)),
        Err(error) if error.kind() == ErrorKind::AlreadyExists => Ok(()),
        Err(error) => Err(unusable(file, &error)),
    }
}

fn same_file(main: &Path) -> Error {
    Error::Unusable(format!(
        "`database.mailserver` names the database itself, {}: mail servers could read all data of the service",
        main.display()
    ))
}

pub(crate) fn unusable(path: &Path, error: &io::Error) -> Error {
    Error::Unusable(format!("{} cannot be used: {error}", path.display()))
}

#[cfg(test)]
mod tests;
