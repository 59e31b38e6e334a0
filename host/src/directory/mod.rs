//! The directory: accounts, their profiles, and what acts for them, in SQLite or PostgreSQL.
//!
//! One file a table. Every query is a constant on top of the file that uses it, one text for both databases. The directory
//! knows neither HTTP nor secrets in the clear: it keeps hashes and sealed bytes that it is handed.

pub mod accounts;
pub mod addresses;
pub mod administration;
pub mod aliases;
pub mod credentials;
pub mod db;
pub mod dkim_keys;
pub mod domains;
pub(crate) mod endings;
pub mod events;
pub mod held;
mod last_logins;
#[cfg(test)]
mod mailserver_tests;
pub mod milter;
pub mod modules;
pub mod oauth;
pub mod password;
pub mod platform_domains;
pub mod profiles;
pub mod sendings;
pub mod sessions;
pub mod shared;
pub mod store;
mod sweep;
pub mod teams;
#[cfg(any(test, feature = "testing"))]
pub mod testing;
pub mod tokens;
pub mod two_factor;

use db::LookUp;
pub use db::{Db, Error};
use last_logins::LastLogins;

use crate::config;

/// The service's database.
#[derive(Clone, Debug)]
pub struct Directory {
    db: Db,
    look_up: LookUp,
    last_logins: LastLogins,
}

impl Directory {
    /// Opens the database, brings its tables up to date, repairs what mail servers read, and writes the platform's domains there.
    ///
    /// # Errors
    /// [`Error`] where the database cannot be opened or brought up to date.
    pub async fn open(
        config: &config::Database,
        platform_domains: &[String],
    ) -> Result<Self, Error> {
        let directory = Self::beside(config).await?;
        directory.set_platform_domains(platform_domains).await?;
        directory.abandon_sendings().await?;
        Ok(directory)
    }

    /// Opens the database of a service that may be running: what a start does beside that is left alone.
    ///
    /// # Errors
    /// [`Error`] where the database cannot be opened or brought up to date.
    pub async fn beside(config: &config::Database) -> Result<Self, Error> {
        let db::Opened {
            db,
            look_up,
            last_logins,
        } = Db::open_whole(config).await?;
        Ok(Self {
            db,
            look_up,
            last_logins,
        })
    }

    /// Whether the database answers.
    ///
    /// # Errors
    /// [`Error`] where it does not.
    pub async fn ping(&self) -> Result<(), Error> {
        self.db.ping().await
    }

    /// Closes every connection once what is under way has ended.
    pub async fn close(&self) {
        self.look_up.close();
        self.db.close().await;
    }

    /// The database itself, for the room that keeps its own tables in it (`mail::index`).
    #[must_use]
    pub fn db(&self) -> &Db {
        &self.db
    }
}
