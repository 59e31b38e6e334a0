//! Creates accounts with their addresses and profiles. All accounts and aliases share one namespace
//! of addresses.

pub mod administration;
pub mod imports;
pub mod profiles;
mod quotas;
pub mod removal;
pub mod rename;

use std::collections::HashSet;

use latchmail_core::caller::Origin;
use latchmail_core::clock::Timestamp;
use sqlx::QueryBuilder;

use crate::aliases::domain_of;
use crate::db::{Db, Error, Source, Tx, on};
use crate::debug::debug_fields;
use crate::domains;
use crate::events::{self, Event, Kind};
use crate::message_index::MAX_PER_STATEMENT;
use crate::sessions::{self, NewSession};

/// Inserts no row if the address is taken, even if a concurrent transaction took the address.
const CLAIM_ADDRESS: &str = "INSERT INTO addresses (address, kind, account_id, created_at, changed_at) \
    VALUES ($1, 'account', $2, $3, $3) ON CONFLICT (address) DO NOTHING";
const INSERT: &str = "INSERT INTO accounts (id, address, password_hash, plan, admin, created_at) \
    VALUES ($1, $2, $3, $4, $5, $6)";
/// The service's first message number of a mailbox is 1, or the highest `first_number` of the
/// restores of backups.
const INSERT_MAILBOX: &str = "INSERT INTO mailboxes (account_id, next_uid) SELECT $1, COALESCE(MAX(first_number), 1) FROM restores";
const INSERT_PROFILE: &str = "INSERT INTO profiles (account_id, first_name, last_name, dob, created_at) \
    VALUES ($1, $2, $3, $4, $5)";
const BY_ADDRESS: &str =
    "SELECT id, address, password_hash, login_name, admin, active FROM accounts WHERE address = $1";
const BY_ID: &str = "SELECT id, address, password_hash, login_name, admin, active FROM accounts WHERE id = $1 AND active";
const WITH_CREDENTIALS: &str = "SELECT id, address, password_hash, login_name, admin, active FROM accounts a WHERE active \
    AND EXISTS (SELECT 1 FROM app_passwords p WHERE p.account_id = a.id) ORDER BY address";
const PLAN: &str = "SELECT plan FROM accounts WHERE id = $1";
/// Callers append account ids and `)`.
const EXISTING: &str = "SELECT id FROM accounts WHERE id IN (";
const SET_LOGIN_NAME: &str = "UPDATE accounts SET login_name = $2 WHERE id = $1 AND login_name IS DISTINCT FROM $2 RETURNING address";

/// The default plan of a new account.
pub const DEFAULT_PLAN: &str = "default";

/// An account.
#[derive(Clone, sqlx_macros::FromRow)]
pub struct Account {
    /// An opaque id, which never changes.
    pub id: String,
    /// The account's address, in lower case.
    pub address: String,
    /// The argon2id hash of the password, as a PHC string. If the mail server stores the password:
    /// an empty text, or a fingerprint that shows whether the password has changed
    /// (`latchmail_core::fingerprint`).
    pub password_hash: String,
    /// The mail server's own log-in name of the user, or `None` if the log-in name is the address
    /// or is unknown.
    pub login_name: Option<String>,
    /// Whether the account has administrator rights.
    pub admin: bool,
    /// Whether the account is active. An account that is not active cannot sign in, and its mail
    /// credentials do not work.
    pub active: bool,
}

debug_fields!(Account {
    id,
    address,
    admin,
    active
});

/// An account to create, with an optional profile.
#[derive(Clone)]
pub struct NewAccount {
    /// An opaque id.
    pub id: String,
    /// The account's address, in lower case.
    pub address: String,
    /// The argon2id hash of the password, as a PHC string. If the mail server stores the password:
    /// an empty text, or a fingerprint that shows whether the password has changed
    /// (`latchmail_core::fingerprint`).
    pub password_hash: String,
    /// The profile to create with the account. `None` if the account gets no profile.
    pub profile: Option<NewProfile>,
    /// The account's plan.
    pub plan: String,
    /// Whether the account has administrator rights.
    pub admin: bool,
    /// The time of creation.
    pub created_at: Timestamp,
}

impl NewAccount {
    /// Returns the account of a user whose password the mail server stores: without a profile, on
    /// the default plan. `id` is an opaque id.
    #[must_use]
    pub fn of_mail_server_user(id: String, address: String, now: Timestamp) -> Self {
        Self {
            id,
            address,
            password_hash: String::new(),
            profile: None,
            plan: DEFAULT_PLAN.into(),
            admin: false,
            created_at: now,
        }
    }
}

debug_fields!(NewAccount {
    id,
    address,
    profile,
    created_at
});

/// A profile to create.
#[derive(Clone, Debug)]
pub struct NewProfile {
    /// The first name, 1 to 64 characters.
    pub first_name: String,
    /// The last name, 1 to 64 characters.
    pub last_name: String,
    /// The date of birth, as `YYYY-MM-DD`.
    pub dob: String,
}

/// The result of creating an account.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Creation {
    /// The account was created.
    Created,
    /// The address is not available. An account or an alias has or had the address, the operator
    /// reserves the address, or an account has verified the domain of the address.
    AddressTaken,
}

/// The accounts, their profiles, and the operations of the operator on accounts.
#[derive(Clone, Debug)]
pub struct Accounts {
    pub(crate) db: Db,
}

impl Accounts {
    /// Creates an account with its address and its mailbox row, in one transaction. Also creates a
    /// profile and the first session if the caller passes a profile and a session.
    ///
    /// # Errors
    /// Returns [`Error`] if the database fails. Nothing is created in that case.
    pub async fn create(
        &self,
        account: &NewAccount,
        session: Option<&NewSession>,
        origin: &Origin,
    ) -> Result<Creation, Error> {
        let mut tx = self.db.begin().await?;
        tx.lock_domain_shared(domain_of(&account.address)).await?;
        if create(&mut tx, account, origin).await? == Creation::AddressTaken {
            return Ok(Creation::AddressTaken);
        }
        if let Some(session) = session {
            sessions::insert(&mut tx, session).await?;
        }
        tx.commit().await?;
        Ok(Creation::Created)
    }

    /// Returns the ids in `ids` that belong to an account. The account can be active or not.
    ///
    /// # Errors
    /// Returns [`Error`] if the database fails.
    pub async fn existing(&self, ids: &[&str]) -> Result<HashSet<String>, Error> {
        let mut existing = HashSet::with_capacity(ids.len());
        for ids in ids.chunks(MAX_PER_STATEMENT) {
            let found: Vec<String> = on!(&self.db, pool => {
                let mut query = QueryBuilder::new(EXISTING);
                let mut list = query.separated(", ");
                for id in ids {
                    list.push_bind((*id).to_owned());
                }
                query.push(")").build_query_scalar().fetch_all(pool).await
            })?;
            existing.extend(found);
        }
        Ok(existing)
    }

    /// Returns the account with this address, active or not. Returns `None` if no account has the
    /// address. The address of an alias does not match an account.
    ///
    /// # Errors
    /// Returns [`Error`] if the database fails.
    pub async fn by_address(&self, address: &str) -> Result<Option<Account>, Error> {
        self.db.optional(BY_ADDRESS, [address]).await
    }

    /// Returns the active account with this id.
    ///
    /// # Errors
    /// Returns [`Error`] if the database fails.
    pub async fn active(&self, account_id: &str) -> Result<Option<Account>, Error> {
        self.db.optional(BY_ID, [account_id]).await
    }

    /// Returns all active accounts that have at least one credential, sorted by address.
    ///
    /// # Errors
    /// Returns [`Error`] if the database fails.
    pub async fn with_credentials(&self) -> Result<Vec<Account>, Error> {
        self.db.all(WITH_CREDENTIALS, ()).await
    }

    /// Returns the name of an account's plan, or `None` if the account does not exist.
    ///
    /// # Errors
    /// Returns [`Error`] if the database fails.
    pub async fn plan(&self, account_id: &str) -> Result<Option<String>, Error> {
        self.db.optional_value(PLAN, [account_id]).await
    }

    /// Sets the mail server's own log-in name of an account. `None` means that the log-in name is
    /// the address. Returns `true` if the name was changed.
    ///
    /// # Errors
    /// Returns [`Error`] if the database fails. Nothing is changed in that case.
    pub async fn set_login_name(
        &self,
        account_id: &str,
        login_name: Option<&str>,
    ) -> Result<bool, Error> {
        let mut tx = self.db.begin().await?;
        let changed = set_login_name(&mut tx, account_id, login_name).await?;
        tx.commit().await?;
        Ok(changed)
    }
}

/// Sets the log-in name in a transaction. Returns `true` if the name was changed.
pub(super) async fn set_login_name(
    tx: &mut Tx,
    account_id: &str,
    login_name: Option<&str>,
) -> Result<bool, Error> {
    let changed: Option<String> = tx
        .optional_value(SET_LOGIN_NAME, (account_id, login_name))
        .await?;
    let Some(address) = changed else {
        return Ok(false);
    };
    tx.project(Source::Account(&address)).await?;
    Ok(true)
}

/// Creates an account in a transaction, with its address, its mailbox row, its profile and the
/// audit event. Changes nothing if the address is not available. The caller must call
/// [`Tx::lock_domain_shared`] first.
pub(super) async fn create(
    tx: &mut Tx,
    account: &NewAccount,
    origin: &Origin,
) -> Result<Creation, Error> {
    // The domain was a platform domain when the request was checked. If another account has
    // verified the domain since then, that account owns every address on the domain, so the new
    // account cannot have the address.
    let is_custom = domains::holder(tx, domain_of(&account.address))
        .await?
        .is_some();
    if is_custom {
        return Ok(Creation::AddressTaken);
    }
    let claim = (&account.address, &account.id, account.created_at);
    if tx.execute(CLAIM_ADDRESS, claim).await? == 0 {
        return Ok(Creation::AddressTaken);
    }
    insert(tx, account).await?;
    let made = Event::of(Kind::AccountCreated, &account.id, account.created_at);
    let rank = format!("plan {}, with administrator rights", account.plan);
    let made = if account.admin {
        made.detail(&rank)
    } else {
        made
    };
    events::record(tx, made, origin).await?;
    Ok(Creation::Created)
}

/// Stores an account, its mailbox row and its profile. The caller must insert the address first.
async fn insert(tx: &mut Tx, account: &NewAccount) -> Result<(), Error> {
    let row = (
        &account.id,
        &account.address,
        &account.password_hash,
        &account.plan,
        account.admin,
        account.created_at,
    );
    tx.execute(INSERT, row).await?;
    tx.project(Source::Account(&account.address)).await?;
    tx.execute(INSERT_MAILBOX, [&account.id]).await?;
    if let Some(profile) = &account.profile {
        let row = (
            &account.id,
            &profile.first_name,
            &profile.last_name,
            &profile.dob,
            account.created_at,
        );
        tx.execute(INSERT_PROFILE, row).await?;
    }
    Ok(())
}

#[cfg(test)]
mod tests;
