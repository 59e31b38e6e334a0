//! The file that mail servers write log-ins to, on SQLite: made where it is missing, and opened anew for every look.
//!
//! Nothing of the service depends on it. Mail daemons write it, whatever they like: it is opened as [`shared`] says, to be read alone where
//! nothing is to be forgotten, only as large as it can honestly be, and only where the table is a plain one, which computes nothing.
//! What is asked of it has an end, and whoever reads it has to check what it says.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use sqlx::sqlite::{SqliteConnectOptions, SqliteConnection};
use sqlx::{ConnectOptions as _, Connection as _};

use super::{BEGIN_SQLITE, Error, MAILSERVER_MODE, make_file, shared, shared_options, unusable};

const SHAPE: &str = include_str!("../../../../migrations/mailserver/sqlite/last_logins.sql");

const NAME: &str = "last-logins.db";

/// A row takes some 100 bytes with its index. What is read of a row, a daemon's own text included, is never more than this.
const LARGEST: u64 = 64 * 1024 * 1024;

/// Neither a view nor a virtual table, no computed column, no index or trigger of anybody's making: each could compute a gigabyte.
const IS_PLAIN: &str = "SELECT EXISTS (SELECT 1 FROM sqlite_schema \
        WHERE name = 'mailserver_last_logins' AND type = 'table' AND rootpage > 0) \
    AND NOT EXISTS (SELECT 1 FROM sqlite_schema \
        WHERE lower(tbl_name) = 'mailserver_last_logins' AND type IN ('index', 'trigger') AND sql IS NOT NULL) \
    AND NOT EXISTS (SELECT 1 FROM pragma_table_xinfo('mailserver_last_logins') WHERE hidden <> 0)";

/// How long it may be locked: whoever waits has something better to do.
const BUSY_TIMEOUT: Duration = Duration::from_millis(250);

/// Some tens of microseconds between two looks whether a query has taken too long.
const STEPS_BETWEEN_LOOKS: i32 = 10_000;

/// Where it is.
#[derive(Clone, Debug)]
pub(in crate::directory) struct LastLoginsFile {
    main: PathBuf,
    file: PathBuf,
}

impl LastLoginsFile {
    /// The one beside the file that mail servers read.
    pub(super) fn beside(main: &Path, mailserver: &Path) -> Result<Self, Error> {
        let file = mailserver.with_file_name(NAME);
        if file == main || file == mailserver {
            return Err(Error::Unusable(format!(
                "neither `database.url` nor `database.mailserver` can name {}: mail servers write log-ins to it",
                file.display()
            )));
        }
        Ok(Self {
            main: main.to_owned(),
            file,
        })
    }

    /// Makes it, with its table.
    pub(super) async fn make(&self) -> Result<(), Error> {
        make_file(&self.file, MAILSERVER_MODE)?;
        shared::guard(&self.main, &self.file)?;
        let options = shared_options(&self.file).busy_timeout(BUSY_TIMEOUT);
        let mut connection = options.connect().await?;
        shared::make_wal(&mut connection, &self.file).await?;
        sqlx::raw_sql(SHAPE).execute(&mut connection).await?;
        connection.close().await?;
        Ok(())
    }

    /// A connection that can only read, on which no query takes much longer than `patience`, whatever the file makes of it.
    pub(in crate::directory) async fn open_to_read(
        &self,
        patience: Duration,
    ) -> Result<SqliteConnection, Error> {
        let mut connection = self.connect(true).await?;
        self.bound(&mut connection, "BEGIN", patience).await?;
        Ok(connection)
    }

    /// The same, for who forgets what is in it.
    pub(in crate::directory) async fn open_to_forget(
        &self,
        patience: Duration,
    ) -> Result<SqliteConnection, Error> {
        let mut connection = self.connect(false).await?;
        shared::make_wal(&mut connection, &self.file).await?;
        self.bound(&mut connection, BEGIN_SQLITE, patience).await?;
        Ok(connection)
    }

    async fn connect(&self, read_only: bool) -> Result<SqliteConnection, Error> {
        shared::guard(&self.main, &self.file)?;
        let too_large = [self.file.clone(), shared::beside(&self.file, "-wal")]
            .iter()
            .any(|file| fs::metadata(file).is_ok_and(|found| found.len() > LARGEST));
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

    /// Begins to count, and the transaction that all is asked in: the table cannot become another one meanwhile.
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
            .set_progress_handler(STEPS_BETWEEN_LOOKS, move || Instant::now() < end);
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
