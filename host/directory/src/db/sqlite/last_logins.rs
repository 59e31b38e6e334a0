//! The SQLite file to which mail servers write log-ins, and the milter the mail of aliases,
//! submissions, sent mail and delivery reports. The service creates the file if it is missing. The
//! service opens the file for every access and closes the file after the access.
//!
//! The service also works without this file. Mail daemons can write any data to the file, so the
//! service opens the file as described in [`shared`].
//!
//! The service refuses a file that exceeds a maximum size. The tables must be plain tables without
//! computed columns. Reads use a read-only connection. Queries have a time limit, and callers must
//! validate the data.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use sqlx::sqlite::{SqliteConnectOptions, SqliteConnection};
use sqlx::{ConnectOptions as _, Connection as _};

use super::{BEGIN_SQLITE, Error, MAILSERVER_MODE, make_file, shared, shared_options, unusable};

const CREATE_TABLE: &str = include_str!("../../../migrations/mailserver/sqlite/last_logins.sql");

const NAME: &str = "last-logins.db";

/// Maximum size of the file. A row takes about 100 bytes with its index. The maximum also limits
/// the size of a row, because a daemon can write a text of any length.
const MAX_SIZE: u64 = 64 * 1024 * 1024;

/// Returns `true` if the tables are plain tables. A view, a virtual table, computed columns,
/// additional indexes and triggers are not allowed. Each of these objects could compute a value of
/// a gigabyte.
const IS_PLAIN: &str = "SELECT EXISTS (SELECT 1 FROM sqlite_schema WHERE name = 'mailserver_last_logins') \
    AND NOT EXISTS (SELECT 1 FROM sqlite_schema \
        WHERE lower(name) IN \
        ('mailserver_last_logins', 'mailserver_alias_receipts', 'mailserver_submissions', 'mailserver_delivery_reports', 'mailserver_sent_mail') AND NOT (type = 'table' AND rootpage > 0)) \
    AND NOT EXISTS (SELECT 1 FROM sqlite_schema \
        WHERE lower(tbl_name) IN \
        ('mailserver_last_logins', 'mailserver_alias_receipts', 'mailserver_submissions', 'mailserver_delivery_reports', 'mailserver_sent_mail') AND type IN ('index', 'trigger') AND sql IS NOT NULL) \
    AND NOT EXISTS (SELECT 1 FROM pragma_table_xinfo('mailserver_last_logins') WHERE hidden <> 0) \
    AND NOT EXISTS (SELECT 1 FROM pragma_table_xinfo('mailserver_alias_receipts') WHERE hidden <> 0) \
    AND NOT EXISTS (SELECT 1 FROM pragma_table_xinfo('mailserver_submissions') WHERE hidden <> 0) \
    AND NOT EXISTS (SELECT 1 FROM pragma_table_xinfo('mailserver_delivery_reports') WHERE hidden <> 0) \
    AND NOT EXISTS (SELECT 1 FROM pragma_table_xinfo('mailserver_sent_mail') WHERE hidden <> 0)";

/// Maximum time to wait for a locked file.
const BUSY_TIMEOUT: Duration = Duration::from_millis(250);

/// The number of steps of SQLite's virtual machine between two checks of the time limit. SQLite
/// runs these steps in some tens of microseconds.
const STEPS_PER_CHECK: i32 = 10_000;

/// The paths of the file of last log-ins and of the main file.
#[derive(Clone, Debug)]
pub(crate) struct LastLoginsFile {
    main: PathBuf,
    file: PathBuf,
}

impl LastLoginsFile {
    /// Returns the location of the file. The file is in the folder of the file for mail servers.
    pub(crate) fn beside(main: &Path, mailserver: &Path) -> Result<Self, Error> {
        let file = mailserver.with_file_name(NAME);
        if file == main || file == mailserver {
            return Err(Error::Unusable(format!(
                "`database.url` and `database.mailserver` must not be {}: mail servers store the \
                 last log-ins in this file; choose another name",
                file.display()
            )));
        }
        Ok(Self {
            main: main.to_owned(),
            file,
        })
    }

    pub(super) fn path(&self) -> &Path {
        &self.file
    }

    /// Creates the file and its table if they are missing.
    pub(super) async fn make(&self) -> Result<(), Error> {
        make_file(&self.file, MAILSERVER_MODE)?;
        shared::guard(&self.main, &self.file)?;
        let options = shared_options(&self.file).busy_timeout(BUSY_TIMEOUT);
        let mut connection = options.connect().await?;
        shared::make_wal(&mut connection, &self.file).await?;
        sqlx::raw_sql(CREATE_TABLE).execute(&mut connection).await?;
        connection.close().await?;
        Ok(())
    }

    /// Opens a read-only connection. `patience` limits the total time of the connection's queries,
    /// for any content of the file.
    pub(crate) async fn open_to_read(&self, patience: Duration) -> Result<SqliteConnection, Error> {
        let mut connection = self.connect(true).await?;
        self.bound(&mut connection, "BEGIN", patience).await?;
        Ok(connection)
    }

    /// Opens a connection that can delete rows. `patience` limits the total time of the
    /// connection's queries.
    pub(crate) async fn open_writable(
        &self,
        patience: Duration,
    ) -> Result<SqliteConnection, Error> {
        let mut connection = self.connect(false).await?;
        shared::make_wal(&mut connection, &self.file).await?;
        self.bound(&mut connection, BEGIN_SQLITE, patience).await?;
        Ok(connection)
    }

    /// Opens a connection for the milter, which can write rows and has no access to the main file.
    pub(crate) async fn open_for_milter(
        mailserver: &Path,
        patience: Duration,
    ) -> Result<SqliteConnection, Error> {
        let file = mailserver.with_file_name(NAME);
        let options = shared_options(&file)
            .create_if_missing(false)
            .busy_timeout(BUSY_TIMEOUT);
        let mut connection = options.connect().await?;
        shared::make_wal(&mut connection, &file).await?;
        let this = Self {
            main: PathBuf::new(),
            file,
        };
        this.bound(&mut connection, BEGIN_SQLITE, patience).await?;
        Ok(connection)
    }

    async fn connect(&self, read_only: bool) -> Result<SqliteConnection, Error> {
        shared::guard(&self.main, &self.file)?;
        let too_large = [self.file.clone(), shared::beside(&self.file, "-wal")]
            .iter()
            .any(|file| fs::metadata(file).is_ok_and(|found| found.len() > MAX_SIZE));
        if too_large {
            return Err(unusable(&self.file, &io::ErrorKind::FileTooLarge.into()));
        }
        let options = SqliteConnectOptions::new()
            .filename(&self.file)
            .read_only(read_only)
            .busy_timeout(BUSY_TIMEOUT)
            .pragma("trusted_schema", "OFF")
            .pragma("temp_store", "MEMORY");
        Ok(options.connect().await?)
    }

    /// Starts the time limit and a transaction for all queries of the connection. Checks that the
    /// table is a plain table. Because of the transaction, mail daemons cannot replace the table
    /// after the check.
    async fn bound(
        &self,
        connection: &mut SqliteConnection,
        begin: &'static str,
        patience: Duration,
    ) -> Result<(), Error> {
        let end = Instant::now() + patience;
        connection
            .lock_handle()
            .await?
            .set_progress_handler(STEPS_PER_CHECK, move || Instant::now() < end);
        sqlx::raw_sql(begin).execute(&mut *connection).await?;
        let plain: bool = sqlx::query_scalar(IS_PLAIN).fetch_one(connection).await?;
        if plain {
            return Ok(());
        }
        Err(Error::Unusable(format!(
            "{} cannot be used: it has no plain table of last log-ins",
            self.file.display()
        )))
    }
}
