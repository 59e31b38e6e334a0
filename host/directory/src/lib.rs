//! The directory: accounts, their profiles and their credentials, in SQLite or PostgreSQL.
//!
//! [`Directory`] opens the database. [`Directory`] contains one repository for each kind of data,
//! for example [`Aliases`]. Each query is a constant at the top of its file, with one text for
//! SQLite and PostgreSQL. This crate contains all SQL of the service. This crate does not connect
//! to a mail server.
//!
//! Callers pass secrets only as hashes or as encrypted bytes, with one exception: if `dkim.milter`
//! is set, [`dkim_keys::milter`] stores private keys in plain text.

pub mod accounts;
pub mod aliases;
pub mod backup;
pub mod credentials;
mod crowd;
pub mod db;
mod debug;
pub mod deliveries;
pub mod dkim_keys;
pub mod domains;
pub mod events;
pub mod exports;
pub mod forward_addresses;
pub mod grant_changes;
pub mod grants;
pub mod hosts;
pub mod imports;
pub mod jobs;
pub mod keys;
pub mod mailserver;
#[cfg(test)]
mod mailserver_tests;
pub mod message_index;
pub mod module_handlers;
pub mod modules;
pub mod oauth;
pub mod operator_tokens;
pub mod outbox;
pub mod policies;
pub mod routes;
pub mod sendings;
pub mod session_caller;
pub mod sessions;
pub mod single_sign_on;
mod sweep;
pub mod teams;
#[cfg(any(test, feature = "testing"))]
pub mod testing;
pub mod tickets;
pub mod tokens;
pub mod two_factor;
pub mod uploads;
pub mod webhooks;

use std::sync::Arc;

use latchmail_core::config;

use crate::accounts::Accounts;
use crate::aliases::Aliases;
use crate::credentials::Credentials;
use crate::db::Lookup;
pub use crate::db::{Db, Error, Inspection, Schema, SqliteFiles, inspect, sqlite_files};
use crate::deliveries::Deliveries;
use crate::dkim_keys::DkimKeys;
use crate::domains::Domains;
use crate::events::Events;
use crate::exports::Exports;
use crate::forward_addresses::ForwardAddresses;
use crate::grant_changes::GrantChanges;
use crate::grants::Grants;
use crate::hosts::Hosts;
use crate::imports::Imports;
use crate::jobs::Jobs;
use crate::keys::Keys;
use crate::message_index::{ChangeLog, MessageIndex};
use crate::module_handlers::ModuleHandlers;
use crate::modules::Modules;
use crate::oauth::OAuth;
use crate::operator_tokens::OperatorTokens;
use crate::outbox::Outbox;
use crate::policies::Policies;
use crate::sendings::Sendings;
use crate::sessions::Sessions;
use crate::single_sign_on::SingleSignOn;
use crate::teams::Teams;
use crate::tickets::Tickets;
use crate::tokens::ApiTokens;
use crate::two_factor::SecondFactors;
use crate::uploads::Uploads;
use crate::webhooks::Webhooks;

/// The service's database, with one repository for each kind of data. A repository can be cloned,
/// so that a caller holds only the repositories that the caller needs.
#[derive(Clone, Debug)]
#[expect(missing_docs, reason = "the types describe the repositories")]
pub struct Directory {
    db: Db,
    lookup: Lookup,
    pub accounts: Accounts,
    pub aliases: Aliases,
    pub credentials: Credentials,
    pub deliveries: Deliveries,
    pub dkim_keys: DkimKeys,
    pub domains: Domains,
    pub events: Events,
    pub exports: Exports,
    pub forward_addresses: ForwardAddresses,
    pub grant_changes: GrantChanges,
    pub grants: Grants,
    pub hosts: Hosts,
    pub imports: Imports,
    pub jobs: Jobs,
    pub keys: Keys,
    pub message_index: MessageIndex,
    pub module_handlers: ModuleHandlers,
    pub modules: Modules,
    pub oauth: OAuth,
    pub operator_tokens: OperatorTokens,
    pub outbox: Outbox,
    pub policies: Policies,
    pub second_factors: SecondFactors,
    pub sendings: Sendings,
    pub sessions: Sessions,
    pub single_sign_on: SingleSignOn,
    pub teams: Teams,
    pub tickets: Tickets,
    pub tokens: ApiTokens,
    pub uploads: Uploads,
    pub webhooks: Webhooks,
}

impl Directory {
    /// Opens the database and migrates its tables. Repairs the data that mail servers read, and
    /// writes the configured platform domains. On SQLite, marks the unfinished sendings of earlier
    /// processes as sendings with an unknown outcome, and ends the leases of their jobs.
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
        directory.jobs.abandon().await?;
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
        let hosts = Hosts {
            db: db.clone(),
            own: Arc::default(),
        };
        Ok(Self {
            accounts: Accounts { db: db.clone() },
            aliases: Aliases {
                db: db.clone(),
                lookup: lookup.clone(),
                receipts: last_logins.clone(),
            },
            credentials: Credentials {
                db: db.clone(),
                lookup: lookup.clone(),
                last_logins: last_logins.clone(),
            },
            deliveries: Deliveries {
                db: db.clone(),
                reports: last_logins.clone(),
            },
            dkim_keys: DkimKeys {
                db: db.clone(),
                lookup: lookup.clone(),
            },
            domains: Domains { db: db.clone() },
            events: Events { db: db.clone() },
            exports: Exports { db: db.clone() },
            forward_addresses: ForwardAddresses { db: db.clone() },
            grant_changes: GrantChanges { db: db.clone() },
            grants: Grants { db: db.clone() },
            keys: Keys {
                db: db.clone(),
                hosts: hosts.clone(),
            },
            hosts,
            imports: Imports { db: db.clone() },
            jobs: Jobs { db: db.clone() },
            message_index: MessageIndex {
                db: db.clone(),
                lookup: lookup.clone(),
                log: ChangeLog { db: db.clone() },
            },
            module_handlers: ModuleHandlers { db: db.clone() },
            modules: Modules { db: db.clone() },
            oauth: OAuth {
                db: db.clone(),
                lookup: lookup.clone(),
            },
            operator_tokens: OperatorTokens { db: db.clone() },
            outbox: Outbox {
                db: db.clone(),
                submissions: last_logins.clone(),
            },
            policies: Policies {
                db: db.clone(),
                milter: last_logins,
            },
            second_factors: SecondFactors { db: db.clone() },
            sendings: Sendings { db: db.clone() },
            sessions: Sessions {
                db: db.clone(),
                lookup: lookup.clone(),
            },
            single_sign_on: SingleSignOn { db: db.clone() },
            teams: Teams { db: db.clone() },
            tickets: Tickets { db: db.clone() },
            tokens: ApiTokens {
                db: db.clone(),
                lookup: lookup.clone(),
            },
            uploads: Uploads { db: db.clone() },
            webhooks: Webhooks { db: db.clone() },
            db,
            lookup,
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

    /// Returns the number of open connections to the database, and the number of connections in
    /// use.
    #[must_use]
    pub fn connections(&self) -> (usize, usize) {
        self.db.connections()
    }

    /// Returns the database. Tests run their own queries with this value.
    #[cfg(any(test, feature = "testing"))]
    #[must_use]
    pub fn db(&self) -> &Db {
        &self.db
    }
}
