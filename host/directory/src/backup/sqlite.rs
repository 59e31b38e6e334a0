//! Copies an SQLite database while the service uses the database, and restores a copy.

use std::fs::{self, File, OpenOptions};
use std::io;
use std::os::unix::fs::{MetadataExt as _, OpenOptionsExt as _, fchown, lchown};
use std::path::Path;
use std::time::Duration;

use latchmail_core::config;
use rusqlite::{Connection, ErrorCode, OpenFlags, OptionalExtension as _};
use sqlx::Connection as _;

use super::{Restore, in_use, not_empty, require_current};
use crate::credentials::last_logins;
use crate::db::{
    APPLIED, BUSY_TIMEOUT, Error, LastLoginsFile, Schema, SqlitePaths, beside, compare_sqlite,
    unusable,
};
use crate::keys::service_keys::CURRENT;

/// Copies the database in one read transaction, so the copy contains only complete transactions.
/// Writers do not wait.
const COPY: &str = "VACUUM INTO ?1";
const CLIENTS: &str = "SELECT id FROM app_passwords WHERE kind = 'app_password'";
const HAS_TABLES: &str = "SELECT EXISTS (SELECT 1 FROM sqlite_schema WHERE name = 'accounts')";
const HAS_DATA: &str = "SELECT EXISTS (SELECT 1 FROM accounts) OR EXISTS (SELECT 1 FROM addresses)";
const CHECK: &str = "PRAGMA quick_check(1)";
/// Succeeds only if no other connection uses the database. Also removes the write-ahead log.
const LEAVE_WAL: &str = "PRAGMA journal_mode = DELETE";
const ADD_LAST_LOGIN: &str =
    "INSERT OR IGNORE INTO mailserver_last_logins (app_password_id, last_login) VALUES ($1, $2)";

/// Maximum time to wait for other connections before a restore.
const RESTORE_TIMEOUT: Duration = Duration::from_secs(2);
/// Time limit for writing the last log-ins.
const LAST_LOGINS_TIMEOUT: Duration = Duration::from_secs(30);

/// Copies the database to the new file `copy`, while the service uses the database. The copy has
/// mode 0600. Returns the version of the schema.
///
/// # Errors
/// Returns [`Error`] if the database cannot be read, if its schema is not current, or if the file
/// cannot be written.
pub async fn copy_sqlite(config: &config::Database, copy: &Path) -> Result<i64, Error> {
    let main = SqlitePaths::of(config)?.main;
    let copy = copy.to_owned();
    blocking(move || {
        // The flags do not contain CREATE, so that SQLite does not create a missing database.
        let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX;
        fs::metadata(&main).map_err(|error| unusable(&main, &error))?;
        let connection = Connection::open_with_flags(&main, flags)?;
        connection.busy_timeout(BUSY_TIMEOUT)?;
        let (schema, version) = schema(&connection)?;
        require_current(schema)?;
        // SQLite accepts an existing empty file, which has the right mode from the beginning.
        create(&copy).map_err(|error| unusable(&copy, &error))?;
        connection.execute(COPY, [copy.to_string_lossy()])?;
        File::open(&copy)
            .and_then(|file| file.sync_all())
            .map_err(|error| unusable(&copy, &error))?;
        Ok(version)
    })
    .await
}

/// Returns the last log-ins of the app passwords in `copy`. The mail server records the log-ins in
/// a separate file. The times are in seconds since the Unix epoch.
///
/// # Errors
/// Returns [`Error`] if the copy or the file of the mail server cannot be read.
pub async fn last_logins_of_copy(
    config: &config::Database,
    copy: &Path,
) -> Result<Vec<(String, i64)>, Error> {
    let paths = SqlitePaths::of(config)?;
    let copy = copy.to_owned();
    let clients: Vec<String> = blocking(move || {
        let connection = Connection::open_with_flags(&copy, OpenFlags::SQLITE_OPEN_READ_ONLY)?;
        let mut statement = connection.prepare(CLIENTS)?;
        let clients = statement.query_map([], |row| row.get(0))?;
        Ok(clients.collect::<Result<_, _>>()?)
    })
    .await?;
    last_logins::of_clients(&paths.last_logins, &clients).await
}

/// Returns the id of the service's current key in `copy`. Returns `None` if no host has used the
/// database yet.
///
/// # Errors
/// Returns [`Error`] if the copy cannot be read.
pub async fn current_key_of_copy(copy: &Path) -> Result<Option<String>, Error> {
    let copy = copy.to_owned();
    blocking(move || {
        let connection = Connection::open_with_flags(&copy, OpenFlags::SQLITE_OPEN_READ_ONLY)?;
        let current = connection.query_row(CURRENT, [], |row| row.get(0));
        Ok(current.optional()?)
    })
    .await
}

pub(super) async fn restore_last_logins(
    file: &LastLoginsFile,
    logins: &[(String, i64)],
) -> Result<(), Error> {
    if logins.is_empty() {
        return Ok(());
    }
    let mut connection = file.open_writable(LAST_LOGINS_TIMEOUT).await?;
    for (id, at) in logins {
        sqlx::query(ADD_LAST_LOGIN)
            .bind(id)
            .bind(at)
            .execute(&mut connection)
            .await?;
    }
    sqlx::raw_sql("COMMIT").execute(&mut connection).await?;
    connection.close().await?;
    Ok(())
}

/// Restores the copy `copy` to the configured database file. The change is atomic: other processes
/// see either the old database or the new database.
///
/// # Errors
/// Returns [`Error`] if the configured database contains data or is in use, if the copy is damaged
/// or newer than this program, or if a file cannot be written. Nothing is changed in that case.
pub async fn restore_sqlite(
    config: &config::Database,
    copy: &Path,
    restore: Restore,
) -> Result<(), Error> {
    let main = SqlitePaths::of(config)?.main;
    let copy = copy.to_owned();
    blocking(move || {
        // Services and commands wait for this lock at their start.
        let _lock = SqlitePaths::lock(&main)?;
        let owner = require_empty(&main)?;
        let draft = beside(&main, ".restore");
        let done = prepare(&copy, &draft, owner, &restore).and_then(|()| {
            fs::rename(&draft, &main)
                .and_then(|()| main.parent().map_or(Ok(()), sync_folder))
                .map_err(|error| unusable(&main, &error))
        });
        if done.is_err() {
            let _ = fs::remove_file(&draft);
        }
        done
    })
    .await
}

/// Checks that the database does not exist, or that the database is empty and no other process uses
/// the database. Returns the ids of the user and the group that own the new file.
fn require_empty(main: &Path) -> Result<(u32, u32), Error> {
    let metadata = match fs::metadata(main) {
        Ok(metadata) => metadata,
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            require_no_journal(main)?;
            let folder = main.parent().unwrap_or(Path::new("/"));
            let folder = fs::metadata(folder).map_err(|error| unusable(folder, &error))?;
            return Ok((folder.uid(), folder.gid()));
        }
        Err(error) => return Err(unusable(main, &error)),
    };
    let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let connection = Connection::open_with_flags(main, flags)?;
    connection.busy_timeout(RESTORE_TIMEOUT)?;
    if is_true(&connection, HAS_TABLES)? && is_true(&connection, HAS_DATA)? {
        return Err(not_empty());
    }
    let mode = connection.query_row(LEAVE_WAL, [], |row| row.get::<_, String>(0));
    match mode {
        Ok(mode) if mode == "delete" => Ok((metadata.uid(), metadata.gid())),
        Err(error) if error.sqlite_error_code() != Some(ErrorCode::DatabaseBusy) => {
            Err(error.into())
        }
        _ => Err(in_use()),
    }
}

/// Checks that no journal of an earlier database exists. `SQLite` would apply such a journal to the
/// restored database.
fn require_no_journal(main: &Path) -> Result<(), Error> {
    for suffix in ["-wal", "-shm", "-journal"] {
        let journal = beside(main, suffix);
        if fs::symlink_metadata(&journal).is_ok() {
            return Err(Error::Unusable(format!(
                "{} belongs to a database file that does not exist any longer; move this file to the folder of that database",
                journal.display()
            )));
        }
    }
    Ok(())
}

/// Writes the restored database to the file `draft`.
fn prepare(copy: &Path, draft: &Path, owner: (u32, u32), restore: &Restore) -> Result<(), Error> {
    let written = remove_if_exists(draft)
        .and_then(|()| create(draft))
        .and_then(|mut file| {
            io::copy(&mut File::open(copy)?, &mut file)?;
            if rustix::process::geteuid().is_root() {
                fchown(&file, Some(owner.0), Some(owner.1))?;
            }
            Ok(())
        });
    written.map_err(|error| unusable(draft, &error))?;
    let mut connection = Connection::open_with_flags(draft, OpenFlags::SQLITE_OPEN_READ_WRITE)?;
    connection.pragma_update(None, "foreign_keys", true)?;
    connection.pragma_update(None, "secure_delete", true)?;
    let check: String = connection.query_row(CHECK, [], |row| row.get(0))?;
    if check != "ok" {
        return Err(Error::Unusable(format!(
            "the database in the backup is damaged: {check}"
        )));
    }
    let (schema, _) = schema(&connection)?;
    if matches!(schema, Schema::Newer | Schema::Different) {
        return Err(Error::Unusable(
            "another version of Latchmail made the backup; restore it with that version or a later one".into(),
        ));
    }
    let tx = connection.transaction()?;
    tx.execute_batch(&restore.script())?;
    tx.commit()?;
    connection.close().map_err(|(_, error)| error)?;
    File::open(draft)
        .and_then(|file| file.sync_all())
        .map_err(|error| unusable(draft, &error))
}

/// Gives the files of the database to the owner of their folder, if root created the files.
///
/// # Errors
/// Returns [`Error`] if the owner of a file cannot be changed.
pub fn set_owner(config: &config::Database) -> Result<(), Error> {
    let paths = SqlitePaths::of(config)?;
    let Some(folder) = paths.main.parent() else {
        return Ok(());
    };
    let folder = fs::metadata(folder).map_err(|error| unusable(folder, &error))?;
    if !rustix::process::geteuid().is_root() || folder.uid() == 0 {
        return Ok(());
    }
    for (file, is_shared) in paths.all() {
        match fs::symlink_metadata(&file) {
            // A shared file keeps its group, because the mail servers read the file as this group.
            Ok(found) if found.uid() == 0 => {
                let group = (!is_shared).then_some(folder.gid());
                lchown(&file, Some(folder.uid()), group)
                    .map_err(|error| unusable(&file, &error))?;
            }
            _ => {}
        }
    }
    Ok(())
}

fn schema(connection: &Connection) -> Result<(Schema, i64), Error> {
    let mut statement = connection.prepare(APPLIED)?;
    let rows = statement.query_map([], |row| Ok((row.get(0)?, row.get(1)?)))?;
    let applied: Vec<(i64, Vec<u8>)> = rows.collect::<Result<_, _>>()?;
    let version = applied.iter().map(|one| one.0).max().unwrap_or(0);
    Ok((compare_sqlite(&applied), version))
}

fn is_true(connection: &Connection, query: &str) -> Result<bool, Error> {
    Ok(connection.query_row(query, [], |row| row.get(0))?)
}

fn create(file: &Path) -> io::Result<File> {
    let mut options = OpenOptions::new();
    options.write(true).create_new(true).mode(0o600).open(file)
}

fn remove_if_exists(file: &Path) -> io::Result<()> {
    match fs::remove_file(file) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
        _ => Ok(()),
    }
}

fn sync_folder(folder: &Path) -> io::Result<()> {
    File::open(folder)?.sync_all()
}

pub(super) async fn blocking<T: Send + 'static>(
    body: impl FnOnce() -> Result<T, Error> + Send + 'static,
) -> Result<T, Error> {
    tokio::task::spawn_blocking(body)
        .await
        .map_err(|error| Error::Unusable(error.to_string()))?
}
