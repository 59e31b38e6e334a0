//! The aliases of all accounts, for programs of the operator. The limit on new aliases of one
//! credential does not apply to them.

use latchmail_core::caller::Origin;
use latchmail_core::clock::Timestamp;
use latchmail_core::secrets;

use super::update::change;
use super::{
    AVAILABILITY, Alias, AliasUpdate, Aliases, Availability, DELETED_BEFORE, DomainOwner, INSERT,
    Obstacle, Row, domain_of, end, owner_of,
};
use crate::db::{Error, Source, Tx};
use crate::events::{self, Event, Kind};
use crate::operator_tokens::{self, Begun, RequestKey};
use crate::routes::causes_loop;

/// The number of hexadecimal digits of a version.
const VERSION_LENGTH: usize = 32;

/// Selects aliases with their accounts. `$rest` follows the first conditions.
macro_rules! select {
    ($rest:literal) => {
        concat!(
            "SELECT d.address, d.active, d.created_at, d.changed_at, d.made_by, d.note, d.expires_at, \
            a.id AS account_id, a.address AS account FROM addresses d JOIN accounts a ON a.id = d.account_id \
            WHERE d.kind = 'alias' AND d.live AND ",
            $rest
        )
    };
}
const ONE: &str = select!("d.address = $1");
const AFTER: &str = select!("d.address > $1 ORDER BY d.address LIMIT $2");
const OF_ACCOUNT_AFTER: &str =
    select!("d.account_id = $3 AND d.address > $1 ORDER BY d.address LIMIT $2");
const EXISTS: &str = "SELECT 1 FROM accounts WHERE id = $1";

/// An alias with its account.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OwnedAlias {
    /// The alias.
    pub alias: Alias,
    /// The id of the account.
    pub account_id: String,
    /// The address of the account.
    pub account: String,
}

impl OwnedAlias {
    /// Returns an entity tag without quotation marks. It changes with the alias, but not with the
    /// mail that the alias receives.
    #[must_use]
    pub fn version(&self) -> String {
        let alias = &self.alias;
        let fields = format!(
            "{}\0{}\0{}\0{:?}\0{}",
            alias.address,
            self.account,
            alias.active,
            alias.expires_at.map(Timestamp::millis),
            alias.note
        );
        let mut digest = secrets::sha256_hex(&fields);
        digest.truncate(VERSION_LENGTH);
        digest
    }
}

/// An alias to create.
#[derive(Clone, Copy, Debug)]
pub struct NewOwnedAlias<'a> {
    /// The id of the account.
    pub account_id: &'a str,
    /// The address, in lower case.
    pub address: &'a str,
    /// The state, the note and the expiry.
    pub settings: &'a AliasUpdate,
}

/// The reason why an alias was not created or not changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AliasRefusal {
    /// There is no such account.
    NoAccount,
    /// There is no such alias.
    Unknown,
    /// The alias has none of the required versions.
    VersionMismatch,
    /// The idempotency key was used for another request.
    KeyReused,
    /// The alias cannot be created.
    Obstacle(Obstacle),
}

#[derive(sqlx_macros::FromRow)]
struct OwnedRow {
    #[sqlx(flatten)]
    alias: Row,
    account_id: String,
    account: String,
}

impl From<OwnedRow> for OwnedAlias {
    fn from(row: OwnedRow) -> Self {
        Self {
            alias: row.alias.into(),
            account_id: row.account_id,
            account: row.account,
        }
    }
}

impl Aliases {
    /// Returns the alias with this address, or `None` if the address is no alias.
    ///
    /// # Errors
    /// Returns [`Error`] if the database fails.
    pub async fn owned(&self, address: &str) -> Result<Option<OwnedAlias>, Error> {
        let row: Option<OwnedRow> = self.db.optional(ONE, [address]).await?;
        let Some(row) = row else {
            return Ok(None);
        };
        let found = self.with_receipts(vec![row.into()]).await?;
        Ok(found.into_iter().next())
    }

    /// Returns at most `limit` aliases whose address follows `after`, in the order of the database.
    /// With `account_id`, returns only aliases of this account.
    ///
    /// # Errors
    /// Returns [`Error`] if the database fails.
    pub async fn owned_after(
        &self,
        after: &str,
        account_id: Option<&str>,
        limit: u32,
    ) -> Result<Vec<OwnedAlias>, Error> {
        let rows: Vec<OwnedRow> = match account_id {
            None => self.db.all(AFTER, (after, limit)).await?,
            Some(account) => {
                let parameters = (after, limit, account);
                self.db.all(OF_ACCOUNT_AFTER, parameters).await?
            }
        };
        self.with_receipts(rows.into_iter().map(Into::into).collect())
            .await
    }

    async fn with_receipts(&self, mut aliases: Vec<OwnedAlias>) -> Result<Vec<OwnedAlias>, Error> {
        // The order of the database can follow the rules of a human language.
        let mut sorted: Vec<Alias> = aliases.iter().map(|one| one.alias.clone()).collect();
        sorted.sort_by(|a, b| a.address.cmp(&b.address));
        self.add_receipts(&mut sorted).await?;
        for owned in &mut aliases {
            let address = &owned.alias.address;
            let found = sorted.binary_search_by(|alias| alias.address.cmp(address));
            if let Some(alias) = found.ok().and_then(|index| sorted.get(index)) {
                owned.alias = alias.clone();
            }
        }
        Ok(aliases)
    }

    /// Creates an alias, or restores a deleted alias of the account. With `key`, a repeated request
    /// returns the alias that the first request created.
    ///
    /// # Errors
    /// Returns [`Error`] if the database fails. Nothing is created in that case.
    pub async fn create_owned(
        &self,
        new: NewOwnedAlias<'_>,
        key: Option<&RequestKey>,
        now: Timestamp,
        origin: &Origin,
    ) -> Result<Result<OwnedAlias, AliasRefusal>, Error> {
        let (account_id, address) = (new.account_id, new.address);
        let mut tx = self.db.begin_locked(account_id).await?;
        match operator_tokens::begin(&mut tx, key, address, now).await? {
            Begun::First => {}
            Begun::Reused => return Ok(Err(AliasRefusal::KeyReused)),
            Begun::Repeated(address) => {
                drop(tx);
                let found = self.owned(&address).await?;
                return Ok(found.ok_or(AliasRefusal::Unknown));
            }
        }
        if !tx.exists(EXISTS, [account_id]).await? {
            return Ok(Err(AliasRefusal::NoAccount));
        }
        if let Some(obstacle) = insert(&mut tx, account_id, address, now, origin).await? {
            return Ok(Err(AliasRefusal::Obstacle(obstacle)));
        }
        let Some(created) = one(&mut tx, address).await? else {
            return Ok(Err(AliasRefusal::Unknown));
        };
        let alias = change(
            &mut tx,
            account_id,
            &created.alias,
            new.settings,
            (now, origin),
        );
        let alias = alias.await?;
        tx.commit().await?;
        Ok(Ok(OwnedAlias {
            alias,
            account_id: created.account_id,
            account: created.account,
        }))
    }

    /// Changes an alias. With `versions`, the alias must have one of these versions
    /// ([`OwnedAlias::version`]).
    ///
    /// # Errors
    /// Returns [`Error`] if the database fails. Nothing is changed in that case.
    pub async fn update_owned(
        &self,
        address: &str,
        update: &AliasUpdate,
        versions: Option<&[String]>,
        now: Timestamp,
        origin: &Origin,
    ) -> Result<Result<OwnedAlias, AliasRefusal>, Error> {
        let mut tx = self.db.begin().await?;
        let found = match locked(&mut tx, address, versions).await? {
            Ok(found) => found,
            Err(refusal) => return Ok(Err(refusal)),
        };
        let account_id = &found.account_id;
        change(&mut tx, account_id, &found.alias, update, (now, origin)).await?;
        tx.commit().await?;
        Ok(self.owned(address).await?.ok_or(AliasRefusal::Unknown))
    }

    /// Deletes an alias. With `versions`, the alias must have one of these versions.
    ///
    /// # Errors
    /// Returns [`Error`] if the database fails. Nothing is changed in that case.
    pub async fn delete_owned(
        &self,
        address: &str,
        versions: Option<&[String]>,
        now: Timestamp,
        origin: &Origin,
    ) -> Result<Result<(), AliasRefusal>, Error> {
        let mut tx = self.db.begin().await?;
        let found = match locked(&mut tx, address, versions).await? {
            Ok(found) => found,
            Err(refusal) => return Ok(Err(refusal)),
        };
        end(&mut tx, &found.account_id, address, now, origin).await?;
        tx.commit().await?;
        self.forget_receipts(address).await;
        Ok(Ok(()))
    }
}

/// Inserts an alias, and records an event. Returns the reason if the alias cannot be created.
async fn insert(
    tx: &mut Tx,
    account_id: &str,
    address: &str,
    now: Timestamp,
    origin: &Origin,
) -> Result<Option<Obstacle>, Error> {
    tx.lock_domain_shared(domain_of(address)).await?;
    let owner = owner_of(tx, account_id, address).await?;
    let is_own = owner == DomainOwner::Own;
    let availability: Availability = tx.one(AVAILABILITY, (account_id, address, is_own)).await?;
    if let Some(obstacle) = availability.obstacle(owner) {
        return Ok(Some(obstacle));
    }
    let made_by: Option<&str> = None;
    let row = (address, account_id, now, made_by);
    if tx.execute(INSERT, row).await? == 0 || causes_loop(tx, account_id).await? {
        return Ok(Some(Obstacle::Taken));
    }
    tx.project(Source::Alias(address)).await?;
    let event = Event {
        detail: availability.was_own.then_some(DELETED_BEFORE),
        ..Event::of(Kind::AliasCreated, account_id, now).about(address)
    };
    events::record(tx, event, origin).await?;
    Ok(None)
}

async fn one(tx: &mut Tx, address: &str) -> Result<Option<OwnedAlias>, Error> {
    let row: Option<OwnedRow> = tx.optional(ONE, [address]).await?;
    Ok(row.map(Into::into))
}

/// Returns an alias whose account is locked.
async fn locked(
    tx: &mut Tx,
    address: &str,
    versions: Option<&[String]>,
) -> Result<Result<OwnedAlias, AliasRefusal>, Error> {
    let Some(found) = one(tx, address).await? else {
        return Ok(Err(AliasRefusal::Unknown));
    };
    tx.lock_account(&found.account_id).await?;
    // Another transaction can have changed the alias before the account was locked.
    let current = one(tx, address).await?;
    let Some(current) = current.filter(|one| one.account_id == found.account_id) else {
        return Ok(Err(AliasRefusal::Unknown));
    };
    if versions.is_some_and(|versions| !versions.contains(&current.version())) {
        return Ok(Err(AliasRefusal::VersionMismatch));
    }
    Ok(Ok(current))
}
