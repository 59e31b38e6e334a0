//! The file that a milter reads, on SQLite: private keys, so in a folder of its own that no other daemon passes through.
//!
//! Opened as [`shared`] says, since a milter may write it. Where there is no milter there is no such file, or an empty one.

use std::path::{Path, PathBuf};

use sqlx::sqlite::SqliteConnection;
use sqlx::{ConnectOptions as _, Connection as _};

use super::{
    Error, MAILSERVER_FOLDER_MODE, MAILSERVER_MODE, make_file, make_folder, shared, shared_options,
    unusable,
};
use crate::config;

const SHAPE: &str = include_str!("../../../../migrations/mailserver/sqlite/milter_file.sql");
const CONNECTION: &str =
    include_str!("../../../../migrations/mailserver/sqlite/milter_connection.sql");
const WITHDRAWN: &str = include_str!("../../../../migrations/mailserver/sqlite/withdrawn.sql");
const WITHDRAW: &str = include_str!("../../../../migrations/mailserver/sqlite/withdraw.sql");
const ANY_WITHDRAWN: &str = "SELECT EXISTS (SELECT 1 FROM temp.withdrawn_keys)";
const ATTACH: &str = "ATTACH DATABASE $1 AS milter";
const JOURNAL_MODE: &str = "PRAGMA milter.journal_mode";
/// What was deleted is overwritten, in the log too.
const EMPTY: &str =
    "PRAGMA secure_delete = ON; DELETE FROM mailserver_dkim_keys; PRAGMA wal_checkpoint(TRUNCATE)";

/// Lets a connection note which keys a transaction withdraws, whether there is a milter or not.
pub(super) async fn note(connection: &mut SqliteConnection) -> Result<(), Error> {
    sqlx::raw_sql(WITHDRAWN).execute(connection).await?;
    Ok(())
}

/// Takes from a milter the keys that the transaction of this connection withdraws.
pub(in crate::directory::db) async fn withdraw(
    connection: &mut SqliteConnection,
) -> Result<(), Error> {
    let any: bool = sqlx::query_scalar(ANY_WITHDRAWN)
        .fetch_one(&mut *connection)
        .await?;
    if any {
        sqlx::raw_sql(WITHDRAW).execute(connection).await?;
    }
    Ok(())
}

/// Where it is.
#[derive(Clone, Debug)]
pub(super) struct MilterFile {
    main: PathBuf,
    file: PathBuf,
}

impl MilterFile {
    /// The configuration's, else the one beside the main file.
    pub(super) fn named_by(
        config: &config::Database,
        main: &Path,
        mailserver: &Path,
    ) -> Result<Self, Error> {
        let file = if config.milter.as_os_str().is_empty() {
            main.with_file_name("milter").join("dkim-keys.db")
        } else {
            std::path::absolute(&config.milter).map_err(|error| unusable(&config.milter, &error))?
        };
        let folders = [main.parent(), mailserver.parent()];
        if folders.contains(&file.parent()) {
            return Err(Error::Unusable(format!(
                "`database.milter` has to name a file in a folder of its own, not {}: it holds private keys",
                file.display()
            )));
        }
        Ok(Self {
            main: main.to_owned(),
            file,
        })
    }

    /// Makes what is missing, with its mode.
    pub(super) fn prepare(&self) -> Result<(), Error> {
        make_folder(&self.file, MAILSERVER_FOLDER_MODE)?;
        make_file(&self.file, MAILSERVER_MODE)?;
        shared::guard(&self.main, &self.file)
    }

    /// Gives the file its table.
    pub(super) async fn shape(&self) -> Result<(), Error> {
        let mut connection = self.open().await?;
        sqlx::raw_sql(SHAPE).execute(&mut connection).await?;
        connection.close().await?;
        Ok(())
    }

    /// Takes away what an earlier configuration left in it.
    pub(super) async fn empty(&self) -> Result<(), Error> {
        if !self.file.exists() {
            return Ok(());
        }
        shared::guard(&self.main, &self.file)?;
        let mut connection = self.open().await?;
        sqlx::raw_sql(SHAPE).execute(&mut connection).await?;
        sqlx::raw_sql(EMPTY).execute(&mut connection).await?;
        connection.close().await?;
        Ok(())
    }

    async fn open(&self) -> Result<SqliteConnection, Error> {
        let mut connection = shared_options(&self.file).connect().await?;
        shared::make_wal(&mut connection, &self.file).await?;
        Ok(connection)
    }

    /// Gives it to a connection, with the triggers that see which keys go.
    pub(super) async fn attach(&self, connection: &mut SqliteConnection) -> Result<(), Error> {
        shared::guard(&self.main, &self.file)?;
        sqlx::query(ATTACH)
            .bind(self.file.to_string_lossy().into_owned())
            .execute(&mut *connection)
            .await?;
        let mode: String = sqlx::query_scalar(JOURNAL_MODE)
            .fetch_one(&mut *connection)
            .await?;
        shared::wal(&mode, &self.file)?;
        shared::keep(connection, &self.file, "milter_keeper").await?;
        sqlx::raw_sql(CONNECTION).execute(connection).await?;
        Ok(())
    }
}
