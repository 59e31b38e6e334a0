//! Accounts, their profiles, and the one namespace of addresses.

use std::fmt;

use super::aliases::domain_of;
use super::db::{Tx, on, on_tx};
use super::domains;
use super::events::{self, Event, Kind};
use super::sessions::{self, NewSession};
use super::{Directory, Error};
use crate::caller::Origin;
use crate::clock::Timestamp;

/// The claim on the namespace: the primary key decides, also between two at once.
const CLAIM_ADDRESS: &str = "INSERT INTO addresses (address, kind, account_id, created_at, changed_at) \
    VALUES ($1, 'account', $2, $3, $3) ON CONFLICT (address) DO NOTHING";
const INSERT: &str = "INSERT INTO accounts (id, address, password_hash, plan, admin, created_at) \
    VALUES ($1, $2, $3, $4, $5, $6)";
const INSERT_MAILBOX: &str = "INSERT INTO mailboxes (account_id) VALUES ($1)";
const INSERT_PROFILE: &str = "INSERT INTO profiles (account_id, first_name, last_name, dob, created_at) \
    VALUES ($1, $2, $3, $4, $5)";
const BY_ADDRESS: &str =
    "SELECT id, address, password_hash, admin, active FROM accounts WHERE address = $1";

/// The plan of an account that nobody put on another.
pub const DEFAULT_PLAN: &str = "default";

/// An account.
#[derive(Clone, sqlx_macros::FromRow)]
pub struct Account {
    /// Opaque; never changes.
    pub id: String,
    /// Lower case.
    pub address: String,
    /// argon2id, as a PHC string.
    pub password_hash: String,
    /// Whether it is an administrator's.
    pub admin: bool,
    /// Whether it may sign in and its mail server credentials work.
    pub active: bool,
}

impl fmt::Debug for Account {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Account")
            .field("id", &self.id)
            .field("address", &self.address)
            .field("admin", &self.admin)
            .field("active", &self.active)
            .finish_non_exhaustive()
    }
}

/// An account to be made, with its profile where the person gave one.
#[derive(Clone)]
pub struct NewAccount {
    /// Opaque.
    pub id: String,
    /// Lower case.
    pub address: String,
    /// argon2id, as a PHC string.
    pub password_hash: String,
    /// Made with it, where given.
    pub profile: Option<NewProfile>,
    /// The plan it is on.
    pub plan: String,
    /// Whether it is an administrator's.
    pub admin: bool,
    /// Now.
    pub created_at: Timestamp,
}

impl fmt::Debug for NewAccount {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("NewAccount")
            .field("id", &self.id)
            .field("address", &self.address)
            .field("profile", &self.profile)
            .field("created_at", &self.created_at)
            .finish_non_exhaustive()
    }
}

/// A profile to be made.
#[derive(Clone, Debug)]
pub struct NewProfile {
    /// 1 to 64 characters.
    pub first_name: String,
    /// 1 to 64 characters.
    pub last_name: String,
    /// `YYYY-MM-DD`.
    pub dob: String,
}

/// What came of making an account.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Creation {
    /// It was made.
    Created,
    /// The address is, or was, somebody's: an account's, an alias's, held by the operator, or on a domain that an account verified.
    AddressTaken,
}

impl Directory {
    /// Makes an account, its address, mailbox row and profile, and (where given) its first session, all or nothing.
    ///
    /// # Errors
    /// Returns [`Error`] if the database fails. Nothing is created in that case.
    pub async fn create_account(
        &self,
        account: &NewAccount,
        session: Option<&NewSession>,
        origin: &Origin,
    ) -> Result<Creation, Error> {
        let mut tx = self.db.begin().await?;
        let domain = domain_of(&account.address);
        tx.keep_domain(domain).await?;
        // It was the platform's when it was chosen. Whoever verified it since has every address on it.
        if domains::holder(&mut tx, domain).await?.is_some() {
            return Ok(Creation::AddressTaken);
        }
        if !claim_address(&mut tx, account).await? {
            return Ok(Creation::AddressTaken);
        }
        insert(&mut tx, account).await?;
        let made = Event::of(Kind::AccountCreated, &account.id, account.created_at);
        let rank = format!("plan {}, an administrator", account.plan);
        let made = if account.admin {
            made.detail(&rank)
        } else {
            made
        };
        events::record(&mut tx, made, origin).await?;
        if let Some(session) = session {
            sessions::insert(&mut tx, session).await?;
        }
        tx.commit().await?;
        Ok(Creation::Created)
    }

    /// The account with this address (an account's own, not an alias), active or not.
    ///
    /// # Errors
    /// Returns [`Error`] if the database fails.
    pub async fn account_by_address(&self, address: &str) -> Result<Option<Account>, Error> {
        Ok(
            on!(&self.db, pool => sqlx::query_as(BY_ADDRESS).bind(address).fetch_optional(pool).await)?,
        )
    }
}

/// Claims the address of an account to be made. Whether it could be had.
async fn claim_address(tx: &mut Tx, account: &NewAccount) -> Result<bool, Error> {
    let claimed = on_tx!(tx, db => sqlx::query(CLAIM_ADDRESS)
        .bind(&account.address)
        .bind(&account.id)
        .bind(account.created_at.millis())
        .execute(db).await.map(|done| done.rows_affected()))?;
    Ok(claimed == 1)
}

/// Makes an account whose address is claimed, with its mailbox row and its profile.
async fn insert(tx: &mut Tx, account: &NewAccount) -> Result<(), Error> {
    on_tx!(tx, db => sqlx::query(INSERT)
        .bind(&account.id)
        .bind(&account.address)
        .bind(&account.password_hash)
        .bind(&account.plan)
        .bind(account.admin)
        .bind(account.created_at.millis())
        .execute(db).await.map(drop))?;
    on_tx!(tx, db => sqlx::query(INSERT_MAILBOX)
        .bind(&account.id)
        .execute(db).await.map(drop))?;
    if let Some(profile) = &account.profile {
        on_tx!(tx, db => sqlx::query(INSERT_PROFILE)
            .bind(&account.id)
            .bind(&profile.first_name)
            .bind(&profile.last_name)
            .bind(&profile.dob)
            .bind(account.created_at.millis())
            .execute(db).await.map(drop))?;
    }
    Ok(())
}

#[cfg(test)]
mod tests;
