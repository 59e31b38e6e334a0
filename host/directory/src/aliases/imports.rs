//! Aliases that the operator imports from an existing mail server. The limits on the number of
//! aliases do not apply to the operator.

use latchmail_core::caller::Origin;
use latchmail_core::clock::Timestamp;

use super::{Aliases, domain_of};
use crate::db::{Error, Source, Tx};
use crate::domains;
use crate::events::{self, Event, Kind};

const HOLDER: &str = "SELECT a.id, a.address, d.kind = 'alias' AS is_alias FROM addresses d JOIN accounts a ON a.id = d.account_id \
    WHERE d.address = $1 AND d.live";
const EXISTS: &str = "SELECT 1 FROM accounts WHERE id = $1";
const FOUND: &str = "SELECT d.kind, d.live, d.account_id, a.address AS owner FROM addresses d LEFT JOIN accounts a ON a.id = d.account_id \
    WHERE d.address = $1";
/// Inserts an alias, or replaces a reservation of the operator. Changes no row if a concurrent
/// transaction inserted another address.
const INSERT: &str = "INSERT INTO addresses (address, kind, account_id, created_at, changed_at) VALUES ($1, 'alias', $2, $3, $3) \
    ON CONFLICT (address) DO UPDATE SET kind = 'alias', account_id = EXCLUDED.account_id, live = TRUE, active = TRUE, \
        created_at = EXCLUDED.created_at, changed_at = EXCLUDED.changed_at, made_by = NULL, \
        note = NULL, expires_at = NULL \
    WHERE addresses.kind = 'held'";
/// Removes the former owner from the row of a deleted alias, so that the former owner cannot create
/// the alias again.
const DISOWN: &str = "UPDATE addresses SET account_id = NULL, changed_at = $2 WHERE address = $1 AND kind = 'alias' AND NOT live";

/// The result of importing an alias.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum AliasImport {
    /// The alias was created.
    Imported,
    /// The account already has the alias, active or not. Nothing was changed.
    Unchanged,
    /// The address is the address of an account.
    Account,
    /// The address is an alias of the account with this address.
    AliasOf(String),
    /// The address belonged to a deleted account or is a deleted alias. The address stays reserved.
    /// If the address is a deleted alias of another account, that account can no longer create the
    /// alias again.
    Reserved,
    /// An account has verified the domain of the address.
    CustomDomain,
    /// The target account does not exist.
    NoAccount,
}

/// The account that has an address.
#[derive(Clone, Debug, PartialEq, Eq, sqlx_macros::FromRow)]
pub struct AddressHolder {
    /// The id of the account.
    pub id: String,
    /// The address of the account.
    pub address: String,
    /// Whether the queried address is an alias of the account. Otherwise the queried address is the
    /// account's own address.
    pub is_alias: bool,
}

#[derive(sqlx_macros::FromRow)]
struct Found {
    kind: String,
    live: bool,
    account_id: Option<String>,
    owner: Option<String>,
}

impl Aliases {
    /// Returns the account whose own address or alias is `address`. Returns `None` if no account
    /// has the address now.
    ///
    /// # Errors
    /// Returns [`Error`] if the database fails.
    pub async fn address_holder(&self, address: &str) -> Result<Option<AddressHolder>, Error> {
        self.db.optional(HOLDER, [address]).await
    }

    /// Creates an active alias of an account. Replaces a reservation of the operator, because the
    /// operator now assigns the address.
    ///
    /// # Errors
    /// Returns [`Error`] if the database fails. Nothing is changed in that case.
    pub async fn import(
        &self,
        address: &str,
        account_id: &str,
        now: Timestamp,
        origin: &Origin,
    ) -> Result<AliasImport, Error> {
        let mut tx = self.db.begin_locked(account_id).await?;
        tx.lock_domain_shared(domain_of(address)).await?;
        if !tx.exists(EXISTS, [account_id]).await? {
            return Ok(AliasImport::NoAccount);
        }
        if domains::holder(&mut tx, domain_of(address))
            .await?
            .is_some()
        {
            return Ok(AliasImport::CustomDomain);
        }
        let mut was_reserved = false;
        if let Some(found) = find(&mut tx, address).await? {
            match found.obstacle(account_id) {
                Some(AliasImport::Reserved) if found.account_id.as_deref() != Some(account_id) => {
                    tx.execute(DISOWN, (address, now)).await?;
                    tx.commit().await?;
                    return Ok(AliasImport::Reserved);
                }
                Some(obstacle) => return Ok(obstacle),
                None => was_reserved = true,
            }
        }
        let inserted = tx.execute(INSERT, (address, account_id, now)).await?;
        if inserted == 0 {
            // Only a concurrent transaction can have inserted the address.
            let found = find(&mut tx, address).await?;
            let obstacle = found.and_then(|found| found.obstacle(account_id));
            return Ok(obstacle.unwrap_or(AliasImport::Reserved));
        }
        tx.project(Source::Alias(address)).await?;
        let event = Event {
            detail: was_reserved.then_some("reserved before"),
            ..Event::of(Kind::AliasCreated, account_id, now).about(address)
        };
        events::commit(tx, event, origin).await?;
        Ok(AliasImport::Imported)
    }
}

impl Found {
    /// Returns the reason why the account cannot get the alias. Returns `None` for a reservation of
    /// the operator.
    fn obstacle(&self, account_id: &str) -> Option<AliasImport> {
        if !self.live {
            return Some(AliasImport::Reserved);
        }
        match self.kind.as_str() {
            "held" => None,
            "alias" if self.account_id.as_deref() == Some(account_id) => {
                Some(AliasImport::Unchanged)
            }
            "alias" => Some(AliasImport::AliasOf(self.owner.clone().unwrap_or_default())),
            _ => Some(AliasImport::Account),
        }
    }
}

async fn find(tx: &mut Tx, address: &str) -> Result<Option<Found>, Error> {
    tx.optional(FOUND, [address]).await
}

#[cfg(test)]
mod tests;
