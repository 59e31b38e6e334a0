//! Addresses that the operator reserves, such as the address of a mailing list. No account can have
//! a reserved address. This service accepts no mail for reserved addresses.

use latchmail_core::caller::Origin;
use latchmail_core::clock::Timestamp;

use super::Aliases;
use crate::db::{Error, Source, Tx};
use crate::events::{self, Event, Kind};

const FOUND: &str = "SELECT kind, live, account_id FROM addresses WHERE address = $1";
const RESERVE: &str = "INSERT INTO addresses (address, kind, live, active, created_at, changed_at) \
    VALUES ($1, 'held', TRUE, FALSE, $2, $2) ON CONFLICT (address) DO NOTHING";
const TAKE_OVER: &str = "UPDATE addresses SET kind = 'held', account_id = NULL, live = TRUE, active = FALSE, \
    note = NULL, expires_at = NULL, changed_at = $2 WHERE address = $1 AND NOT live";
const RELEASE: &str = "DELETE FROM addresses WHERE address = $1 AND kind = 'held'";
const ADDRESS: &str = "SELECT live, account_id FROM addresses WHERE address = $1";
const FREE_ADDRESS: &str = "DELETE FROM addresses WHERE address = $1 AND NOT live";

/// The result of reserving an address.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reservation {
    /// The address was reserved by this call.
    Reserved,
    /// The address was already reserved.
    Already,
    /// An account or an alias has the address.
    Taken,
}

/// The result of releasing an address.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum AddressRelease {
    /// The address can be used for a new account or alias.
    Released,
    /// No account ever had the address, or the address was already released.
    NotReserved,
    /// An account or an alias has the address, or the operator reserves the address.
    InUse,
}

impl Aliases {
    /// Reserves an address. The address must not belong to an account or alias now. The address may
    /// have belonged to a deleted account or alias.
    ///
    /// # Errors
    /// Returns [`Error`] if the database fails. Nothing is changed in that case.
    pub async fn reserve_address(
        &self,
        address: &str,
        now: Timestamp,
        origin: &Origin,
    ) -> Result<Reservation, Error> {
        let mut tx = self.db.begin().await?;
        let found: Option<(String, bool, Option<String>)> = tx.optional(FOUND, [address]).await?;
        let (query, owner) = match found {
            None => (RESERVE, None),
            Some((kind, _, _)) if kind == "held" => return Ok(Reservation::Already),
            Some((_, true, _)) => return Ok(Reservation::Taken),
            Some((_, false, owner)) => (TAKE_OVER, owner),
        };
        let held = tx.execute(query, (address, now)).await?;
        if held == 0 {
            return Ok(Reservation::Taken);
        }
        record_and_commit(tx, Kind::AddressHeld, address, owner, now, origin).await?;
        Ok(Reservation::Reserved)
    }

    /// Releases an address that the operator reserved. Returns `true` if the address was reserved.
    ///
    /// # Errors
    /// Returns [`Error`] if the database fails. Nothing is changed in that case.
    pub async fn release_reserved_address(
        &self,
        address: &str,
        now: Timestamp,
        origin: &Origin,
    ) -> Result<bool, Error> {
        let mut tx = self.db.begin().await?;
        let gone = tx.execute(RELEASE, [address]).await?;
        if gone == 0 {
            return Ok(false);
        }
        record_and_commit(tx, Kind::AddressFreed, address, None, now, origin).await?;
        Ok(true)
    }

    /// Releases the address of a deleted account or alias. Other accounts can then use the address.
    ///
    /// # Errors
    /// Returns [`Error`] if the database fails. Nothing is changed in that case.
    pub async fn free_address(
        &self,
        address: &str,
        now: Timestamp,
        origin: &Origin,
    ) -> Result<AddressRelease, Error> {
        let mut tx = self.db.begin().await?;
        let found: Option<(bool, Option<String>)> = tx.optional(ADDRESS, [address]).await?;
        let owner = match found {
            None => return Ok(AddressRelease::NotReserved),
            Some((true, _)) => return Ok(AddressRelease::InUse),
            Some((false, owner)) => owner,
        };
        let freed = tx.execute(FREE_ADDRESS, [address]).await?;
        if freed == 0 {
            return Ok(AddressRelease::InUse);
        }
        record_and_commit(tx, Kind::AddressFreed, address, owner, now, origin).await?;
        Ok(AddressRelease::Released)
    }
}

/// Copies an address for the mail servers, records an event about it, and commits the transaction.
async fn record_and_commit(
    mut tx: Tx,
    kind: Kind,
    address: &str,
    owner: Option<String>,
    now: Timestamp,
    origin: &Origin,
) -> Result<(), Error> {
    tx.project(Source::Alias(address)).await?;
    let event = Event {
        account: owner.as_deref(),
        address,
        ..Event::of(kind, "", now).about(address)
    };
    events::commit(tx, event, origin).await
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::accounts::Creation;
    use crate::testing::{Fresh, NOW, account, both};

    const LIST: &str = "list@example.org";

    async fn nobody_gets_an_address_that_is_held_until_it_is_let_go(fresh: Fresh) {
        let (directory, operator) = (&fresh.directory, Origin::operator());
        let hold = || directory.aliases.reserve_address(LIST, NOW, &operator);
        assert_eq!(hold().await.unwrap(), Reservation::Reserved);
        assert_eq!(hold().await.unwrap(), Reservation::Already);
        let register = async || {
            let account = account("a", LIST);
            let made = directory.accounts.create(&account, None, &operator).await;
            made.unwrap()
        };
        assert_eq!(register().await, Creation::AddressTaken);
        assert_eq!(
            directory.domains.reserved_on("example.org").await.unwrap(),
            [LIST]
        );
        let freeing = directory.aliases.free_address(LIST, NOW, &operator).await;
        assert_eq!(freeing.unwrap(), AddressRelease::InUse);

        let let_go = || {
            directory
                .aliases
                .release_reserved_address(LIST, NOW, &operator)
        };
        assert!(let_go().await.unwrap());
        assert!(!let_go().await.unwrap());
        assert_eq!(register().await, Creation::Created);
        assert_eq!(hold().await.unwrap(), Reservation::Taken);
        assert!(!let_go().await.unwrap());
    }

    async fn what_is_nobodys_any_more_can_be_held(fresh: Fresh) {
        let (directory, operator) = (&fresh.directory, Origin::operator());
        directory.with("a", LIST, &[]).await;
        directory
            .accounts
            .delete("a", NOW, &operator)
            .await
            .unwrap();
        let held = directory
            .aliases
            .reserve_address(LIST, NOW, &operator)
            .await;
        assert_eq!(held.unwrap(), Reservation::Reserved);
        let rows = "SELECT COUNT(*) FROM addresses WHERE kind = 'held' AND account_id IS NULL AND live AND NOT active";
        assert_eq!(fresh.number(rows).await, 1);
    }

    both!(
        nobody_gets_an_address_that_is_held_until_it_is_let_go,
        what_is_nobodys_any_more_can_be_held,
    );
}
