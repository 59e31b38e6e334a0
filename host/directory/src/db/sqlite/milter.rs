//! The SQLite file for a milter. The file contains private keys. Therefore the file is in a
//! separate folder that no other daemon can access.
//!
//! A milter can write the file, so the service opens the file as described in [`shared`]. If no
//! milter is configured, the file does not exist or contains no keys.

use std::path::{Path, PathBuf};

use latchmail_core::config;
use sqlx::sqlite::SqliteConnection;
use sqlx::{ConnectOptions as _, Connection as _};

use super::{
    Error, MAILSERVER_FOLDER_MODE, MAILSERVER_MODE, make_file, make_folder, shared, shared_options,
    unusable,
};

const CREATE_TABLE: &str = include_str!("../../../migrations/mailserver/sqlite/milter_file.sql");
const CONNECTION: &str =
    include_str!("../../../migrations/mailserver/sqlite/milter_connection.sql");
const WITHDRAWN: &str = include_str!("../../../migrations/mailserver/sqlite/withdrawn.sql");
const WITHDRAW: &str = include_str!("../../../migrations/mailserver/sqlite/withdraw.sql");
const ANY_WITHDRAWN: &str = "SELECT EXISTS (SELECT 1 FROM temp.withdrawn_keys)";
const ATTACH: &str = "ATTACH DATABASE $1 AS milter";
const JOURNAL_MODE: &str = "PRAGMA milter.journal_mode";
/// Deletes all keys. Overwrites the deleted data in the file and in the write-ahead log.
const EMPTY: &str =
    "PRAGMA secure_delete = ON; DELETE FROM mailserver_dkim_keys; PRAGMA wal_checkpoint(TRUNCATE)";

/// Creates the temporary table for withdrawn keys. If a transaction makes a key invalid, for
/// example by releasing the key's domain, a trigger adds the key to this table. Every connection
/// has the table, even if no milter is configured.
pub(super) async fn create_withdrawn_table(connection: &mut SqliteConnection) -> Result<(), Error> {
    sqlx::raw_sql(WITHDRAWN).execute(connection).await?;
    Ok(())
}

/// Deletes the keys in the table of withdrawn keys from the milter's file. The connection's
/// transaction has made these keys invalid.
pub(in crate::db) async fn withdraw(connection: &mut SqliteConnection) -> Result<(), Error> {
    let any: bool = sqlx::query_scalar(ANY_WITHDRAWN)
        .fetch_one(&mut *connection)
        .await?;
    if any {
        sqlx::raw_sql(WITHDRAW).execute(connection).await?;
    }
    Ok(())
}

/// The paths of the milter's file and of the main file.
#[derive(Clone, Debug)]
pub(super) struct MilterFile {
    main: PathBuf,
    file: PathBuf,
}

impl MilterFile {
    /// Returns the path of the milter's file from the configuration. By default, the file is in a
    /// folder next to the main file.
    pub(super) fn from_config(
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
                "`database.milter` must name a file in a folder of its own, not {}: the file contains private keys",
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

    /// Creates the folder and the file with their modes if they are missing.
    pub(super) fn prepare(&self) -> Result<(), Error> {
        make_folder(&self.file, MAILSERVER_FOLDER_MODE)?;
        make_file(&self.file, MAILSERVER_MODE)?;
        shared::guard(&self.main, &self.file)
    }

    /// Creates the table in the milter's file.
    pub(super) async fn create_table(&self) -> Result<(), Error> {
        let mut connection = self.open().await?;
        sqlx::raw_sql(CREATE_TABLE).execute(&mut connection).await?;
        connection.close().await?;
        Ok(())
    }

    /// Deletes all keys from the file if the file exists. The keys come from an earlier
    /// configuration with a milter.
    pub(super) async fn empty(&self) -> Result<(), Error> {
        if !self.file.exists() {
            return Ok(());
        }
        shared::guard(&self.main, &self.file)?;
        let mut connection = self.open().await?;
        sqlx::raw_sql(CREATE_TABLE).execute(&mut connection).await?;
        sqlx::raw_sql(EMPTY).execute(&mut connection).await?;
        connection.close().await?;
        Ok(())
    }

    async fn open(&self) -> Result<SqliteConnection, Error> {
        let mut connection = shared_options(&self.file).connect().await?;
        shared::make_wal(&mut connection, &self.file).await?;
        Ok(connection)
    }

    /// Attaches the file to a connection. Creates the triggers that record the withdrawn keys of a
    /// transaction.
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
