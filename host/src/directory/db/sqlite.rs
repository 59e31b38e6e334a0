//! Opening SQLite: two files, their modes, the migrations, and the triggers that keep what mail servers read in step.
//!
//! The main file is the service's alone (0600, with its -wal and -shm). What mail servers read is a file of its own in a folder of
//! its own (0660 in 2770): a reader in WAL mode must be able to write both. Its group is the folder's, which the operator sets;
//! what exists already keeps its mode and group. Since a mail daemon may replace it, it is opened only where it is a plain file and
//! not the main one by another name. Beside it and like it is the file that mail servers write log-ins to, see
//! [`last_logins`].

mod last_logins;

use std::fs::{self, File, OpenOptions, Permissions};
use std::io::{self, ErrorKind};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::str::FromStr;
use std::time::Duration;

use sqlx::sqlite::{
    SqliteConnectOptions, SqliteConnection, SqliteJournalMode, SqlitePoolOptions, SqliteSynchronous,
};
use sqlx::{ConnectOptions, Connection, SqlitePool};

use super::{ACQUIRE_TIMEOUT, BEGIN_SQLITE, Error, migrations};
use crate::config;
pub(in crate::directory) use last_logins::LastLoginsFile;

const MAILSERVER_FILE: &str = include_str!("../../../migrations/mailserver/sqlite/file.sql");
const MAILSERVER_OLDER: &str = include_str!("../../../migrations/mailserver/sqlite/older.sql");
const MAILSERVER_IS_OLDER: &str =
    "SELECT COUNT(*) FROM sqlite_master WHERE name = 'projected_passwords'";
const MAILSERVER_CONNECTION: &str =
    include_str!("../../../migrations/mailserver/sqlite/connection.sql");
const MAILSERVER_REPAIR: &str = include_str!("../../../migrations/mailserver/sqlite/repair.sql");
const ATTACH: &str = "ATTACH DATABASE $1 AS mailserver";

/// How long a writer waits for its turn, a mail daemon's or another service's included.
const BUSY_TIMEOUT: Duration = Duration::from_secs(10);

/// The folder of the main file: mail daemons may pass through it to theirs, and see nothing else.
const FOLDER_MODE: u32 = 0o711;
const MAIN_MODE: u32 = 0o600;
/// setgid, so that the files which a daemon makes there (-wal, -shm) belong to the folder's group too.
const MAILSERVER_FOLDER_MODE: u32 = 0o2770;
const MAILSERVER_MODE: u32 = 0o660;

/// The pool, both files up to date, and the file beside them. Services that start at once take turns.
pub(super) async fn open(config: &config::Database) -> Result<(SqlitePool, LastLoginsFile), Error> {
    let files = Files::named_by(config)?;
    let files = tokio::task::spawn_blocking(move || files.prepare())
        .await
        .map_err(|error| Error::Unusable(error.to_string()))??;

    migrate(&files.main).await?;
    shape_mailserver_file(&files.mailserver).await?;
    if let Err(error) = files.last_logins.make().await {
        tracing::warn!(%error, "when mail clients logged in last cannot be known");
    }

    let attached = files.mailserver.to_string_lossy().into_owned();
    let (main, mailserver) = (files.main.clone(), files.mailserver.clone());
    // One connection always stands, so that the -wal files do: made once, they keep the modes they were made with.
    let pool = SqlitePoolOptions::new()
        .max_connections(config.max_connections.max(1))
        .min_connections(1)
        .idle_timeout(None)
        .max_lifetime(None)
        .test_before_acquire(false)
        .acquire_timeout(ACQUIRE_TIMEOUT)
        .after_connect(move |connection, _| {
            let attached = attached.clone();
            let apart = apart(&main, &mailserver);
            Box::pin(async move {
                apart.map_err(sqlx::Error::config)?;
                sqlx::query(ATTACH)
                    .bind(attached)
                    .execute(&mut *connection)
                    .await?;
                sqlx::raw_sql(MAILSERVER_CONNECTION)
                    .execute(connection)
                    .await?;
                Ok(())
            })
        })
        .connect_with(options(&files.main))
        .await?;
    repair(&pool).await?;
    Ok((pool, files.last_logins.clone()))
}

/// Makes the file that mail servers read what the tables say it is.
pub(super) async fn repair(pool: &SqlitePool) -> Result<(), Error> {
    let mut tx = pool.begin_with(BEGIN_SQLITE).await?;
    sqlx::raw_sql(MAILSERVER_REPAIR).execute(&mut *tx).await?;
    tx.commit().await?;
    Ok(())
}

/// How either file is opened.
///
/// `synchronous` is FULL: in WAL mode NORMAL may lose what was committed last when the power fails, and what was answered (an
/// account, a revoked password, a message's number) must be stored. It costs one fsync a transaction.
fn options(file: &Path) -> SqliteConnectOptions {
    SqliteConnectOptions::new()
        .filename(file)
        .journal_mode(SqliteJournalMode::Wal)
        .synchronous(SqliteSynchronous::Full)
        .foreign_keys(true)
        .busy_timeout(BUSY_TIMEOUT)
        // With it REPLACE fires delete triggers too: no query can slip past the projection.
        .pragma("recursive_triggers", "ON")
        // Mail daemons can write the attached file: what its schema says is not believed.
        .pragma("trusted_schema", "OFF")
        .pragma("temp_store", "MEMORY")
}

/// Runs the migrations in one transaction, without the triggers: a migration may reshape what they watch.
async fn migrate(main: &Path) -> Result<(), Error> {
    let mut connection = options(main).connect().await?;
    let mut tx = connection.begin_with(BEGIN_SQLITE).await?;
    migrations::sqlite(&mut tx).await?;
    tx.commit().await?;
    connection.close().await?;
    Ok(())
}

async fn shape_mailserver_file(mailserver: &Path) -> Result<(), Error> {
    let mut connection: SqliteConnection = options(mailserver).connect().await?;
    let mut tx = connection.begin_with(BEGIN_SQLITE).await?;
    let older: i64 = sqlx::query_scalar(MAILSERVER_IS_OLDER)
        .fetch_one(&mut *tx)
        .await?;
    if older > 0 {
        sqlx::raw_sql(MAILSERVER_OLDER).execute(&mut *tx).await?;
    }
    sqlx::raw_sql(MAILSERVER_FILE).execute(&mut *tx).await?;
    tx.commit().await?;
    connection.close().await?;
    Ok(())
}

/// Where the files are; absolute.
struct Files {
    main: PathBuf,
    mailserver: PathBuf,
    last_logins: LastLoginsFile,
}

/// The same, made, and this start's alone until it is dropped.
struct Prepared {
    main: PathBuf,
    mailserver: PathBuf,
    last_logins: LastLoginsFile,
    _turn: File,
}

impl Files {
    fn named_by(config: &config::Database) -> Result<Self, Error> {
        let options = SqliteConnectOptions::from_str(&config.url)?;
        let named = options.get_filename();
        if named.as_os_str().is_empty() || named.to_string_lossy().starts_with("file:") {
            return Err(Error::Unusable(
                "`database.url` has to name a file: mail servers cannot read a database in memory"
                    .into(),
            ));
        }
        let main = std::path::absolute(named).map_err(|error| unusable(named, &error))?;
        let mailserver = if config.mailserver.as_os_str().is_empty() {
            main.with_file_name("mailserver").join("mailserver.db")
        } else {
            std::path::absolute(&config.mailserver)
                .map_err(|error| unusable(&config.mailserver, &error))?
        };
        if main == mailserver {
            return Err(same(&main));
        }
        let last_logins = LastLoginsFile::beside(&main, &mailserver)?;
        Ok(Self {
            main,
            mailserver,
            last_logins,
        })
    }

    /// Makes what is missing, with its mode; waits for the turn of this start. Turning a new file into a WAL one is what SQLite's
    /// own locks do not order.
    fn prepare(self) -> Result<Prepared, Error> {
        make_folder(&self.main, FOLDER_MODE)?;
        let mut lock = self.main.clone().into_os_string();
        lock.push(".lock");
        let lock = PathBuf::from(lock);
        let turn = OpenOptions::new()
            .write(true)
            .create(true)
            .truncate(false)
            .mode(MAIN_MODE)
            .open(&lock)
            .and_then(|file| file.lock().map(|()| file))
            .map_err(|error| unusable(&lock, &error))?;

        make_file(&self.main, MAIN_MODE)?;
        make_folder(&self.mailserver, MAILSERVER_FOLDER_MODE)?;
        make_file(&self.mailserver, MAILSERVER_MODE)?;
        apart(&self.main, &self.mailserver)?;
        Ok(Prepared {
            main: self.main,
            mailserver: self.mailserver,
            last_logins: self.last_logins,
            _turn: turn,
        })
    }
}

/// Makes the folder of `file` where it is missing, `mode` whatever the umask is.
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

/// Makes an empty file, which is an empty database, where it is missing. SQLite gives -wal and -shm the mode of their file.
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

/// Refuses a file of the mail servers that is a link or nothing like a file, and one that is the main file by another name. SQLite
/// itself follows no link to a -wal or -shm.
fn apart(main: &Path, mailserver: &Path) -> Result<(), Error> {
    let theirs = fs::symlink_metadata(mailserver).map_err(|error| unusable(mailserver, &error))?;
    if !theirs.is_file() {
        return Err(Error::Unusable(format!(
            "{} cannot be used: it is not a plain file, and mail daemons can write in its folder",
            mailserver.display()
        )));
    }
    let ours = fs::metadata(main).map_err(|error| unusable(main, &error))?;
    if (ours.dev(), ours.ino()) == (theirs.dev(), theirs.ino()) {
        return Err(same(main));
    }
    Ok(())
}

fn same(main: &Path) -> Error {
    Error::Unusable(format!(
        "`database.mailserver` names the database itself, {}: mail servers would read everything",
        main.display()
    ))
}

fn unusable(path: &Path, error: &io::Error) -> Error {
    Error::Unusable(format!("{} cannot be used: {error}", path.display()))
}

#[cfg(test)]
mod tests;
