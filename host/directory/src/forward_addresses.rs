//! The addresses to which the rules of an account can forward mail. An address is confirmed with
//! the code of a mail that the service sends to this address. The database has only the hash of the
//! code.
//!
//! A deleted address stays in the table for [`LIFETIME`] after its request, because it counts
//! towards the limit of requests.

use std::time::Duration;

use latchmail_core::caller::Origin;
use latchmail_core::clock::Timestamp;

use crate::db::{Db, Error};
use crate::events::{self, Event, Kind};

/// The time in which an address must be confirmed, and the period of [`Limits::requests`].
pub const LIFETIME: Duration = Duration::from_hours(24);

const REQUESTS: &str =
    "SELECT COUNT(*) FROM forward_addresses WHERE account_id = $1 AND requested_at > $2";
const USED: &str = "SELECT COUNT(*) FROM forward_addresses WHERE account_id = $1 AND NOT deleted \
    AND (confirmed_at IS NOT NULL OR requested_at > $2)";
const REPLACE: &str = "UPDATE forward_addresses SET deleted = TRUE \
    WHERE account_id = $1 AND address = $2 AND confirmed_at IS NULL";
const INSERT: &str = "INSERT INTO forward_addresses \
    (id, account_id, address, code_hash, requested_at) VALUES ($1, $2, $3, $4, $5)";
const LIST: &str = "SELECT id, address, requested_at, confirmed_at FROM forward_addresses \
    WHERE account_id = $1 AND NOT deleted AND (confirmed_at IS NOT NULL OR requested_at > $2) \
    ORDER BY requested_at, id";
const FIND: &str = "SELECT id, address, requested_at, confirmed_at FROM forward_addresses \
    WHERE account_id = $1 AND id = $2 AND NOT deleted \
    AND (confirmed_at IS NOT NULL OR requested_at > $3)";
const IS_CONFIRMED: &str = "SELECT COUNT(*) FROM forward_addresses \
    WHERE account_id = $1 AND address = $2 AND confirmed_at IS NOT NULL AND NOT deleted";
const CONFIRM: &str = "UPDATE forward_addresses SET confirmed_at = $4 \
    WHERE account_id = $1 AND id = $2 AND code_hash = $3 AND confirmed_at IS NULL AND NOT deleted";
const ADDRESS: &str = "SELECT address FROM forward_addresses WHERE account_id = $1 AND id = $2";
const DELETE: &str = "UPDATE forward_addresses SET deleted = TRUE \
    WHERE account_id = $1 AND id = $2 AND NOT deleted";
const FORGET: &str = "DELETE FROM forward_addresses WHERE id = $1";
const SWEEP: &str = "DELETE FROM forward_addresses \
    WHERE requested_at <= $1 AND (deleted OR confirmed_at IS NULL)";

/// A request to confirm an address.
#[derive(Clone, Copy, Debug)]
pub struct NewForwardAddress<'a> {
    /// The opaque id.
    pub id: &'a str,
    /// The id of the account.
    pub account: &'a str,
    /// The address in lower case.
    pub address: &'a str,
    /// The hash of the code.
    pub code_hash: &'a str,
}

/// The limits of an account.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// Maximum number of addresses.
    pub addresses: i64,
    /// Maximum number of requests in [`LIFETIME`].
    pub requests: i64,
}

/// The result of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Requested {
    /// The request is stored.
    Stored,
    /// The address is already confirmed.
    Confirmed,
    /// The account has [`Limits::addresses`] addresses.
    TooManyAddresses,
    /// The account made [`Limits::requests`] requests in [`LIFETIME`].
    TooManyRequests,
}

/// An address that is confirmed or can be confirmed.
#[derive(Clone, Debug, PartialEq, Eq, sqlx_macros::FromRow)]
pub struct ForwardAddress {
    /// The opaque id.
    pub id: String,
    /// The address in lower case.
    pub address: String,
    requested_at: i64,
    confirmed_at: Option<i64>,
}

impl ForwardAddress {
    /// Returns the time of the request.
    #[must_use]
    pub fn requested_at(&self) -> Timestamp {
        Timestamp::from_millis(self.requested_at)
    }

    /// Returns the time of the confirmation. Returns `None` if the address is not confirmed.
    #[must_use]
    pub fn confirmed_at(&self) -> Option<Timestamp> {
        self.confirmed_at.map(Timestamp::from_millis)
    }

    /// Returns the time at which the request expires. Returns `None` if the address is confirmed.
    #[must_use]
    pub fn expires_at(&self) -> Option<Timestamp> {
        let is_confirmed = self.confirmed_at.is_some();
        (!is_confirmed).then(|| self.requested_at().plus(LIFETIME))
    }
}

/// The repository of the addresses to which rules can forward mail.
#[derive(Clone, Debug)]
pub struct ForwardAddresses {
    pub(crate) db: Db,
}

impl ForwardAddresses {
    /// Stores a request. An earlier request for the same address can no longer be confirmed.
    ///
    /// # Errors
    /// Returns [`Error`] if the database fails.
    pub async fn request(
        &self,
        new: NewForwardAddress<'_>,
        limits: Limits,
        now: Timestamp,
    ) -> Result<Requested, Error> {
        let (account, since) = (new.account, now.minus(LIFETIME));
        let mut tx = self.db.begin_locked(account).await?;
        let confirmed: i64 = tx.value(IS_CONFIRMED, (account, new.address)).await?;
        if confirmed > 0 {
            return Ok(Requested::Confirmed);
        }
        let requests: i64 = tx.value(REQUESTS, (account, since)).await?;
        if requests >= limits.requests {
            return Ok(Requested::TooManyRequests);
        }
        tx.execute(REPLACE, (account, new.address)).await?;
        let used: i64 = tx.value(USED, (account, since)).await?;
        if used >= limits.addresses {
            return Ok(Requested::TooManyAddresses);
        }
        let row = (new.id, account, new.address, new.code_hash, now);
        tx.execute(INSERT, row).await?;
        tx.commit().await?;
        Ok(Requested::Stored)
    }

    /// Returns the addresses of an account, in the order of their requests.
    ///
    /// # Errors
    /// Returns [`Error`] if the database fails.
    pub async fn list(&self, account: &str, now: Timestamp) -> Result<Vec<ForwardAddress>, Error> {
        self.db.all(LIST, (account, now.minus(LIFETIME))).await
    }

    /// Returns an address of an account.
    ///
    /// # Errors
    /// Returns [`Error`] if the database fails.
    pub async fn find(
        &self,
        account: &str,
        id: &str,
        now: Timestamp,
    ) -> Result<Option<ForwardAddress>, Error> {
        let parameters = (account, id, now.minus(LIFETIME));
        self.db.optional(FIND, parameters).await
    }

    /// Returns `true` if the account has confirmed the address.
    ///
    /// # Errors
    /// Returns [`Error`] if the database fails.
    pub async fn is_confirmed(&self, account: &str, address: &str) -> Result<bool, Error> {
        let count: i64 = self.db.value(IS_CONFIRMED, (account, address)).await?;
        Ok(count > 0)
    }

    /// Confirms an address, and records the confirmation in the audit log. Returns `false`, and
    /// changes nothing, if the code has another hash, or if the address is confirmed or deleted.
    /// The caller must have checked that the request has not expired ([`Self::find`]).
    ///
    /// # Errors
    /// Returns [`Error`] if the database fails.
    pub async fn confirm(
        &self,
        account: &str,
        found: &ForwardAddress,
        code_hash: &str,
        now: Timestamp,
        origin: &Origin,
    ) -> Result<bool, Error> {
        let mut tx = self.db.begin().await?;
        let parameters = (account, &*found.id, code_hash, now);
        if tx.execute(CONFIRM, parameters).await? == 0 {
            return Ok(false);
        }
        let event = Event::of(Kind::ForwardAddressConfirmed, account, now).about(&found.address);
        events::commit(tx, event, origin).await?;
        Ok(true)
    }

    /// Deletes an address, and records the deletion in the audit log. Returns the address, also if
    /// it was deleted before and is still in the table. Returns `None` if there is no such address.
    ///
    /// # Errors
    /// Returns [`Error`] if the database fails.
    pub async fn delete(
        &self,
        account: &str,
        id: &str,
        now: Timestamp,
        origin: &Origin,
    ) -> Result<Option<String>, Error> {
        let mut tx = self.db.begin().await?;
        let address: Option<String> = tx.optional_value(ADDRESS, (account, id)).await?;
        if let Some(address) = &address
            && tx.execute(DELETE, (account, id)).await? == 1
        {
            let event = Event::of(Kind::ForwardAddressDeleted, account, now).about(address);
            events::commit(tx, event, origin).await?;
        }
        Ok(address)
    }

    /// Deletes a request whose mail was not sent. The request does not count towards a limit.
    ///
    /// # Errors
    /// Returns [`Error`] if the database fails.
    pub async fn forget(&self, id: &str) -> Result<(), Error> {
        self.db.execute(FORGET, [id]).await?;
        Ok(())
    }

    /// Deletes expired requests and deleted addresses.
    pub(super) async fn sweep(&self, now: Timestamp) -> Result<(), Error> {
        self.db.execute(SWEEP, [now.minus(LIFETIME)]).await?;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{Fresh, NOW, both};

    const LIMITS: Limits = Limits {
        addresses: 2,
        requests: 4,
    };
    const BOB: &str = "bob@elsewhere.example";
    const CAT: &str = "cat@elsewhere.example";

    async fn request(fresh: &Fresh, id: &str, address: &str, now: Timestamp) -> Requested {
        let new = NewForwardAddress {
            id,
            account: "a",
            address,
            code_hash: id,
        };
        let requested = fresh.directory.forward_addresses.request(new, LIMITS, now);
        requested.await.unwrap()
    }

    /// Confirms an address with the code of the request `code`.
    async fn confirm(fresh: &Fresh, id: &str, code: &str, now: Timestamp) -> bool {
        let addresses = &fresh.directory.forward_addresses;
        let Some(found) = addresses.find("a", id, now).await.unwrap() else {
            return false;
        };
        let origin = Origin::operator();
        let confirmed = addresses.confirm("a", &found, code, now, &origin);
        confirmed.await.unwrap()
    }

    async fn an_address_is_confirmed_with_the_code_of_its_last_request(fresh: Fresh) {
        let addresses = &fresh.directory.forward_addresses;
        fresh.directory.with("a", "ada@example.org", &[]).await;
        fresh.directory.with("b", "bea@example.org", &[]).await;
        assert_eq!(request(&fresh, "one", BOB, NOW).await, Requested::Stored);
        assert_eq!(request(&fresh, "two", BOB, NOW).await, Requested::Stored);
        assert!(!confirm(&fresh, "one", "one", NOW).await);
        assert!(!confirm(&fresh, "two", "one", NOW).await);
        assert!(!addresses.is_confirmed("a", BOB).await.unwrap());
        assert_eq!(addresses.find("b", "two", NOW).await.unwrap(), None);
        assert!(!confirm(&fresh, "two", "two", NOW.plus(LIFETIME)).await);
        let later = NOW.plus(Duration::from_hours(23));
        assert!(confirm(&fresh, "two", "two", later).await);
        assert!(!confirm(&fresh, "two", "two", later).await);
        assert!(addresses.is_confirmed("a", BOB).await.unwrap());
        assert!(!addresses.is_confirmed("b", BOB).await.unwrap());
        assert_eq!(
            request(&fresh, "three", BOB, NOW).await,
            Requested::Confirmed
        );
        let listed = addresses.list("a", NOW.plus(LIFETIME)).await.unwrap();
        assert_eq!((listed.len(), &*listed[0].id), (1, "two"));
        assert_eq!(listed[0].confirmed_at(), Some(later));
        assert_eq!(listed[0].expires_at(), None);
    }

    async fn requests_and_addresses_are_limited_also_after_a_deletion(fresh: Fresh) {
        let addresses = &fresh.directory.forward_addresses;
        let origin = Origin::operator();
        fresh.directory.with("a", "ada@example.org", &[]).await;
        assert_eq!(request(&fresh, "one", BOB, NOW).await, Requested::Stored);
        assert_eq!(request(&fresh, "two", CAT, NOW).await, Requested::Stored);
        let full = request(&fresh, "three", "eve@elsewhere.example", NOW).await;
        assert_eq!(full, Requested::TooManyAddresses);
        assert!(confirm(&fresh, "one", "one", NOW).await);
        for (id, address) in [("one", Some(BOB)), ("two", Some(CAT)), ("none", None)] {
            for _ in 0..2 {
                let deleted = addresses.delete("a", id, NOW, &origin).await.unwrap();
                assert_eq!(deleted.as_deref(), address);
            }
        }
        assert_eq!(addresses.list("a", NOW).await.unwrap(), []);
        assert!(!addresses.is_confirmed("a", BOB).await.unwrap());
        assert_eq!(request(&fresh, "four", BOB, NOW).await, Requested::Stored);
        assert_eq!(request(&fresh, "five", CAT, NOW).await, Requested::Stored);
        assert_eq!(
            request(&fresh, "six", CAT, NOW).await,
            Requested::TooManyRequests
        );
        addresses.forget("five").await.unwrap();
        assert_eq!(request(&fresh, "six", CAT, NOW).await, Requested::Stored);
        assert!(confirm(&fresh, "six", "six", NOW).await);
        let later = NOW.plus(LIFETIME);
        fresh.directory.sweep(later).await.unwrap();
        assert_eq!(addresses.list("a", later).await.unwrap().len(), 1);
        assert_eq!(
            fresh.number("SELECT COUNT(*) FROM forward_addresses").await,
            1
        );
        let recorded =
            "SELECT COUNT(*) FROM security_events WHERE kind = 'forward_address_deleted'";
        assert_eq!(fresh.number(recorded).await, 2);
    }

    both!(
        an_address_is_confirmed_with_the_code_of_its_last_request,
        requests_and_addresses_are_limited_also_after_a_deletion,
    );
}
