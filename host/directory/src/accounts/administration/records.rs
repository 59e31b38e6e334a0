//! Accounts as programs of the operator see and create them: the admin API and SCIM. A record has
//! no data of the mailbox and no password.

mod names;
mod update;

use latchmail_core::caller::Origin;
use latchmail_core::clock::Timestamp;
use latchmail_core::secrets;
use sqlx_macros::FromRow;

pub use self::names::{Names, NamesUpdate};
pub(super) use self::update::disable_in;
use self::update::forward_in;
pub use self::update::{NewForward, RecordUpdate, Refusal, Updated};
use crate::accounts::{self, Accounts, Creation, NewAccount};
use crate::aliases::domain_of;
use crate::db::{Error, Tx};
use crate::debug::debug_fields;
use crate::operator_tokens::{self, Begun, RequestKey};

/// The number of hexadecimal digits of a version.
const VERSION_LENGTH: usize = 32;

/// Selects records. `$rest` begins after the joins.
macro_rules! select {
    ($rest:literal) => {
        concat!(
            "SELECT a.id, a.address, a.active, a.admin, a.plan, a.created_at, a.forward_to, a.deletes_at, \
            n.external_id, n.user_name, n.display_name, COALESCE(p.first_name, n.first_name) AS first_name, \
            COALESCE(p.last_name, n.last_name) AS last_name, COALESCE(p.dob, n.dob) AS dob \
            FROM accounts a LEFT JOIN profiles p ON p.account_id = a.id LEFT JOIN account_names n ON n.account_id = a.id ",
            $rest
        )
    };
}
const ONE: &str = select!("WHERE a.id = $1");
const BY_ADDRESS: &str = select!("WHERE a.address = $1");
const BY_EXTERNAL_ID: &str = select!("WHERE n.external_id = $1");
const AFTER: &str = select!("WHERE a.id > $1 ORDER BY a.id LIMIT $2");
const OF_STATE_AFTER: &str = select!("WHERE a.id > $1 AND a.active = $3 ORDER BY a.id LIMIT $2");
/// Selects a page by the position of its first row. The inner query reads the ids of the skipped
/// rows only. Excludes accounts that will be deleted.
const AT: &str = select!(
    "WHERE a.id IN (SELECT id FROM accounts WHERE deletes_at IS NULL ORDER BY id LIMIT $1 OFFSET $2) ORDER BY a.id"
);
const OF_STATE_AT: &str = select!(
    "WHERE a.id IN (SELECT id FROM accounts WHERE deletes_at IS NULL AND active = $3 ORDER BY id LIMIT $1 OFFSET $2) ORDER BY a.id"
);
const COUNT: &str = "SELECT COUNT(*) FROM accounts WHERE deletes_at IS NULL";
const COUNT_OF_STATE: &str =
    "SELECT COUNT(*) FROM accounts WHERE deletes_at IS NULL AND active = $1";

/// An account as programs of the operator see it.
#[derive(Clone, PartialEq, Eq, FromRow)]
pub struct Record {
    /// An opaque id, which never changes.
    pub id: String,
    /// The account's address, in lower case.
    pub address: String,
    /// Whether the account is active.
    pub active: bool,
    /// Whether the account has administrator rights.
    pub admin: bool,
    /// The name of the account's plan.
    pub plan: String,
    /// The time of creation, in milliseconds since the epoch.
    pub created_at: i64,
    /// The address to which the mail server forwards the account's mail, or `None`.
    pub forward_to: Option<String>,
    /// The time from which the account is deleted, in milliseconds since the epoch. `None` if the
    /// account is not about to be deleted.
    pub deletes_at: Option<i64>,
    /// The names of the person, and the names at the identity provider.
    #[sqlx(flatten)]
    pub names: Names,
}

debug_fields!(Record {
    id,
    address,
    active
});

impl Record {
    /// Returns `false` if the account's time of deletion has passed, so that its deletion has begun
    /// or is about to begin.
    #[must_use]
    pub fn is_visible(&self, now: Timestamp) -> bool {
        self.deletes_at.is_none_or(|at| at > now.millis())
    }

    /// Returns an entity tag without quotation marks. It changes with every field.
    #[must_use]
    pub fn version(&self) -> String {
        let names = &self.names;
        let text =
            |value: Option<&str>| value.map_or_else(|| "-".to_owned(), |value| format!("+{value}"));
        let deletes_at = self.deletes_at.map(|at| at.to_string());
        let fields = [
            self.id.clone(),
            self.address.clone(),
            self.active.to_string(),
            self.admin.to_string(),
            self.plan.clone(),
            text(self.forward_to.as_deref()),
            text(deletes_at.as_deref()),
            text(names.external_id.as_deref()),
            text(names.user_name.as_deref()),
            text(names.display_name.as_deref()),
            text(names.first_name.as_deref()),
            text(names.last_name.as_deref()),
            text(names.dob.as_deref()),
        ];
        // No field contains a NUL, because names have no control characters.
        let mut digest = secrets::sha256_hex(&fields.join("\0"));
        digest.truncate(VERSION_LENGTH);
        digest
    }
}

/// An account to create.
#[derive(Clone, Debug)]
pub struct NewRecord {
    /// The account. The profile is `None`, because `names` contains its values.
    pub account: NewAccount,
    /// Whether the account is active.
    pub active: bool,
    /// The address to which the mail server forwards the account's mail. `None` if mail is not
    /// forwarded.
    pub forward: Option<NewForward>,
    /// The names.
    pub names: Names,
}

/// The result of creating an account.
#[derive(Clone, Debug)]
pub enum Provision {
    /// The account was created.
    Created(Record),
    /// An earlier request with the same idempotency key created an account. Returns the current
    /// state of the account, or `None` if it no longer exists.
    Repeated(Option<Record>),
    /// The idempotency key was used for another request.
    KeyReused,
    /// The account was not created.
    Refused(Refusal),
}

impl Accounts {
    /// Returns the account with this id, active or not.
    ///
    /// # Errors
    /// Returns [`Error`] if the database fails.
    pub async fn record(&self, id: &str) -> Result<Option<Record>, Error> {
        self.db.optional(ONE, [id]).await
    }

    /// Returns the account with this address, which must be in lower case.
    ///
    /// # Errors
    /// Returns [`Error`] if the database fails.
    pub async fn record_by_address(&self, address: &str) -> Result<Option<Record>, Error> {
        self.db.optional(BY_ADDRESS, [address]).await
    }

    /// Returns the account with this id at the identity provider.
    ///
    /// # Errors
    /// Returns [`Error`] if the database fails.
    pub async fn record_by_external_id(&self, id: &str) -> Result<Option<Record>, Error> {
        self.db.optional(BY_EXTERNAL_ID, [id]).await
    }

    /// Returns at most `limit` accounts whose id is greater than `after`, sorted by id. With
    /// `active`, returns only accounts in this state.
    ///
    /// # Errors
    /// Returns [`Error`] if the database fails.
    pub async fn records_after(
        &self,
        after: &str,
        active: Option<bool>,
        limit: u32,
    ) -> Result<Vec<Record>, Error> {
        match active {
            None => self.db.all(AFTER, (after, limit)).await,
            Some(active) => self.db.all(OF_STATE_AFTER, (after, limit, active)).await,
        }
    }

    /// Returns the number of accounts, and at most `limit` of them, sorted by id, after the first
    /// `skip` accounts. Excludes accounts that will be deleted. With `active`, returns and counts
    /// only accounts in this state.
    ///
    /// # Errors
    /// Returns [`Error`] if the database fails.
    pub async fn records_at(
        &self,
        skip: u32,
        active: Option<bool>,
        limit: u32,
    ) -> Result<(i64, Vec<Record>), Error> {
        let total = match active {
            None => self.db.value(COUNT, ()).await?,
            Some(active) => self.db.value(COUNT_OF_STATE, [active]).await?,
        };
        let page = match active {
            _ if limit == 0 => Vec::new(),
            None => self.db.all(AT, (limit, skip)).await?,
            Some(active) => self.db.all(OF_STATE_AT, (limit, skip, active)).await?,
        };
        Ok((total, page))
    }

    /// Creates an account with all its data, in one transaction. With `key`, a repeated request
    /// creates nothing.
    ///
    /// # Errors
    /// Returns [`Error`] if the database fails. Nothing is created in that case.
    pub async fn create_record(
        &self,
        new: &NewRecord,
        key: Option<&RequestKey>,
        origin: &Origin,
    ) -> Result<Provision, Error> {
        let account = &new.account;
        let (id, now) = (&account.id, account.created_at);
        let mut tx = self.db.begin().await?;
        match operator_tokens::begin(&mut tx, key, id, now).await? {
            Begun::First => {}
            Begun::Reused => return Ok(Provision::KeyReused),
            Begun::Repeated(id) => {
                return Ok(Provision::Repeated(tx.optional(ONE, [&id]).await?));
            }
        }
        tx.lock_domain_shared(domain_of(&account.address)).await?;
        if accounts::create(&mut tx, account, origin).await? == Creation::AddressTaken {
            return Ok(Provision::Refused(Refusal::AddressTaken));
        }
        if new.names != Names::default() && !names::write(&mut tx, id, &new.names, now).await? {
            return Ok(Provision::Refused(Refusal::ExternalIdTaken));
        }
        if !new.active {
            let _: Option<Vec<String>> = disable_in(&mut tx, id, now, origin).await?;
        }
        if let Some(forward) = &new.forward
            && let Some(refusal) = forward_in(&mut tx, id, forward, now, origin).await?
        {
            return Ok(Provision::Refused(refusal));
        }
        let record = tx.one(ONE, [id]).await?;
        tx.commit().await?;
        Ok(Provision::Created(record))
    }
}

async fn record(tx: &mut Tx, id: &str) -> Result<Option<Record>, Error> {
    tx.optional(ONE, [id]).await
}

#[cfg(test)]
mod tests;
