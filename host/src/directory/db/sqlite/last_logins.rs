//! The file that mail servers write log-ins to, on SQLite: made where it is missing, and opened anew for every look.
//!
//! Nothing of the service depends on it. Mail daemons write it, whatever they like: it is opened as [`shared`] says, to be read alone where
//! nothing is to be forgotten. What is asked of it has an end, and whoever reads it has to check what it says.

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use sqlx::sqlite::{SqliteConnectOptions, SqliteConnection};
use sqlx::{ConnectOptions as _, Connection as _};

use super::{Error, MAILSERVER_MODE, make_file, shared, shared_options};

const SHAPE: &str = include_str!("../../../../migrations/mailserver/sqlite/last_logins.sql");

const NAME: &str = "last-logins.db";

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
        bound(&mut connection, patience).await?;
        Ok(connection)
    }

    /// The same, for who forgets what is in it.
    pub(in crate::directory) async fn open_to_forget(
        &self,
        patience: Duration,
    ) -> Result<SqliteConnection, Error> {
        let mut connection = self.connect(false).await?;
        shared::make_wal(&mut connection, &self.file).await?;
        bound(&mut connection, patience).await?;
        Ok(connection)
    }

    async fn connect(&self, read_only: bool) -> Result<SqliteConnection, Error> {
        shared::guard(&self.main, &self.file)?;
        let options = SqliteConnectOptions::new()
            .filename(&self.file)
            .read_only(read_only)
            .busy_timeout(BUSY_TIMEOUT)
            .pragma("trusted_schema", "OFF")
            .pragma("temp_store", "MEMORY");
        Ok(options.connect().await?)
    }
}

async fn bound(connection: &mut SqliteConnection, patience: Duration) -> Result<(), Error> {
    let end = Instant::now() + patience;
    connection
        .lock_handle()
        .await?
        .set_progress_handler(STEPS_BETWEEN_LOOKS, move || Instant::now() < end);
    Ok(())
}
