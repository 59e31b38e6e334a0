//! The directory: accounts, their profiles and their credentials, in SQLite or PostgreSQL.
//!
//! Each file covers one table. Each query is a constant at the top of its file, with one text for
//! SQLite and PostgreSQL. This crate contains all SQL of the service. This crate does not connect
//! to a mail server.
//!
//! Callers pass secrets only as hashes or as sealed bytes, with one exception: if `dkim.milter` is
//! set, [`milter`] stores private keys in plain text.

pub mod accounts;
pub mod addresses;
pub mod administration;
pub mod aliases;
pub mod backup;
pub mod credentials;
mod crowd;
pub mod db;
pub mod dkim_keys;
pub mod domains;
pub mod endings;
pub mod events;
pub mod host_events;
pub mod hosts;
pub mod imports;
pub mod index_keys;
mod last_logins;
pub mod mail_server_users;
pub mod mailserver;
#[cfg(test)]
mod mailserver_tests;
pub mod message_index;
pub mod milter;
pub mod modules;
pub mod oauth;
pub mod password;
pub mod platform_domains;
pub mod profiles;
pub mod reserved_addresses;
pub mod results_key;
pub mod sealed;
pub mod sendings;
pub mod service_keys;
pub mod session_caller;
pub mod sessions;
pub mod shared;
pub mod single_sign_on;
pub mod store;
mod sweep;
pub mod teams;
#[cfg(any(test, feature = "testing"))]
pub mod testing;
pub mod tokens;
pub mod two_factor;

use std::sync::{Arc, OnceLock};

use latchmail_core::{caller, clock, config, error, hexadecimal, network, permissions};

pub use db::{Db, Error, Inspection, Schema, SqliteFiles, inspect, sqlite_files};
use db::{LastLogins, Lookup};

/// The service's database.
#[derive(Clone, Debug)]
pub struct Directory {
    db: Db,
    lookup: Lookup,
    last_logins: LastLogins,
    /// The id of the host that uses this directory. Commands of the operator have none.
    own_host: Arc<OnceLock<String>>,
}

impl Directory {
    /// Opens the database and migrates its tables. Repairs the data for mail servers, and writes
    /// the configured platform domains. On SQLite, marks the unfinished sendings of earlier
    /// processes as sendings with an unknown outcome.
    ///
    /// # Errors
    /// Returns [`Error`] if the database cannot be opened or migrated, or if an account has
    /// verified one of `platform_domains`.
    pub async fn open(
        config: &config::Database,
        platform_domains: &[String],
    ) -> Result<Self, Error> {
        let directory = Self::open_beside_service(config).await?;
        directory
            .domains
            .set_platform_domains(platform_domains)
            .await?;
        directory.sendings.abandon().await?;
        Ok(directory)
    }

    /// Opens and migrates the database for a program that can run at the same time as the service.
    /// Does not write the platform domains. Does not change unfinished sendings.
    ///
    /// # Errors
    /// Returns [`Error`] if the database cannot be opened or migrated.
    pub async fn open_beside_service(config: &config::Database) -> Result<Self, Error> {
        let db::Opened {
            db,
            lookup,
            last_logins,
        } = Db::open_all(config).await?;
        Ok(Self {
            db,
            lookup,
            last_logins,
            own_host: Arc::default(),
        })
    }

    /// Checks that the database responds.
    ///
    /// # Errors
    /// Returns [`Error`] if the database does not respond.
    pub async fn ping(&self) -> Result<(), Error> {
        self.db.ping().await
    }

    /// Waits until the current operations have ended, and closes all connections.
    pub async fn close(&self) {
        self.lookup.close();
        self.db.close().await;
    }

    /// Returns the database. The functions of [`message_index`] and [`endings`] need this value.
    #[must_use]
    pub fn db(&self) -> &Db {
        &self.db
    }
}
