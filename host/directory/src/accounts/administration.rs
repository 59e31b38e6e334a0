//! Operations of the operator on accounts, for example to disable or delete an account. Each
//! operation runs in one transaction.

mod listing;
mod records;

use latchmail_core::caller::Origin;
use latchmail_core::clock::Timestamp;
use sqlx_macros::FromRow;

pub use self::listing::Listed;
pub use self::records::{
    Names, NamesUpdate, NewForward, NewRecord, Provision, Record, RecordUpdate, Refusal, Updated,
};
use super::Accounts;
use crate::db::{Error, Source, Tx};
use crate::events::{self, Event, Kind};
use crate::teams;

const OVERVIEW: &str = "SELECT a.id, a.address, a.active, a.admin, a.plan, a.created_at, a.forward_to, a.deletes_at, \
    EXISTS (SELECT 1 FROM two_factor t WHERE t.account_id = a.id) AS two_factor, \
    EXISTS (SELECT 1 FROM profiles p WHERE p.account_id = a.id) AS profile \
    FROM accounts a WHERE ($1 = '' OR a.address = $1) ORDER BY a.address";

const DISABLE: &str =
    "UPDATE accounts SET active = FALSE WHERE id = $1 AND active RETURNING address";
/// An account whose deletion has begun cannot be enabled.
const ENABLE: &str = "UPDATE accounts SET active = TRUE, deletes_at = NULL \
    WHERE id = $1 AND NOT active AND NOT removing RETURNING address";
const SET_PLAN: &str =
    "UPDATE accounts SET plan = $2 WHERE id = $1 AND plan <> $2 RETURNING address";
const SET_ADMIN: &str = "UPDATE accounts SET admin = $2 WHERE id = $1 AND admin <> $2";
const DELETE: &str = "DELETE FROM accounts WHERE id = $1 RETURNING address";
const DOMAINS: &str =
    "SELECT domain FROM domains WHERE account_id = $1 AND verified_at IS NOT NULL";

const RESERVE_ADDRESSES: &str =
    "UPDATE addresses SET live = FALSE, changed_at = $2 WHERE account_id = $1";

/// A summary of an account.
#[derive(Clone, Debug, FromRow)]
#[expect(clippy::struct_excessive_bools, reason = "each is a fact of its own")]
pub struct Overview {
    /// An opaque id. The folder of the mailbox on the mail server has this id as its name.
    pub id: String,
    /// The account's address, in lower case.
    pub address: String,
    /// Whether the account is active. An account that is not active cannot sign in, and its mail
    /// credentials do not work.
    pub active: bool,
    /// Whether the account has administrator rights.
    pub admin: bool,
    /// The name of the account's plan.
    pub plan: String,
    /// Whether the account has a second factor.
    pub two_factor: bool,
    /// Whether the account has a profile.
    pub profile: bool,
    /// The time of creation, in milliseconds since the epoch.
    pub created_at: i64,
    /// The address to which copies of the account's mail are forwarded.
    pub forward_to: Option<String>,
    /// The time at which the account is deleted, in milliseconds since the epoch. `None` if its
    /// deletion is not planned.
    pub deletes_at: Option<i64>,
}

impl Accounts {
    /// Returns a summary of the account with this address. If `address` is empty, returns summaries
    /// of all accounts, sorted by address.
    ///
    /// # Errors
    /// Returns [`Error`] if the database fails.
    pub async fn overview(&self, address: &str) -> Result<Vec<Overview>, Error> {
        self.db.all(OVERVIEW, [address]).await
    }

    /// Disables an account. Deletes all its app passwords and revokes its API tokens. Deleting the
    /// app passwords also ends the sessions and OAuth grants. Returns `true` if anything was
    /// changed.
    ///
    /// # Errors
    /// Returns [`Error`] if the database fails. Nothing is changed in that case.
    pub async fn disable(
        &self,
        account_id: &str,
        now: Timestamp,
        origin: &Origin,
    ) -> Result<bool, Error> {
        let mut tx = self.db.begin_locked(account_id).await?;
        let changed = records::disable_in(&mut tx, account_id, now, origin).await?;
        tx.commit().await?;
        Ok(changed.is_some())
    }

    /// Enables an account, and cancels its planned deletion. The account then has only its
    /// password, because disabling the account deleted all other credentials. Returns `false` if
    /// the account was already enabled, or if its deletion has begun.
    ///
    /// # Errors
    /// Returns [`Error`] if the database fails. Nothing is changed in that case.
    pub async fn enable(
        &self,
        account_id: &str,
        now: Timestamp,
        origin: &Origin,
    ) -> Result<bool, Error> {
        let mut tx = self.db.begin_locked(account_id).await?;
        let address: Option<String> = tx.optional_value(ENABLE, [account_id]).await?;
        let Some(address) = address else {
            return Ok(false);
        };
        tx.project(Source::Account(&address)).await?;
        let enabled = Event::of(Kind::AccountEnabled, account_id, now);
        events::commit(tx, enabled, origin).await?;
        Ok(true)
    }

    /// Deletes an account and all data that refers to the account. The addresses of the account
    /// remain reserved until the operator releases them. Returns `false` if the account does not
    /// exist.
    ///
    /// # Errors
    /// Returns [`Error`] if the database fails. Nothing is changed in that case.
    pub async fn delete(
        &self,
        account_id: &str,
        now: Timestamp,
        origin: &Origin,
    ) -> Result<bool, Error> {
        let mut tx = self.db.begin().await?;
        teams::lock_with_mailboxes(&mut tx, account_id).await?;
        teams::leave_all(&mut tx, account_id, now, origin).await?;
        // Record the event before the deletion, because the event contains the account's address.
        let deleted = Event::of(Kind::AccountDeleted, account_id, now).about(account_id);
        events::record(&mut tx, deleted, origin).await?;
        tx.execute(RESERVE_ADDRESSES, (account_id, now)).await?;
        let domains: Vec<String> = tx.values(DOMAINS, [account_id]).await?;
        let address: Option<String> = tx.optional_value(DELETE, [account_id]).await?;
        let Some(address) = address else {
            return Ok(false);
        };
        tx.project(Source::Account(&address)).await?;
        for domain in &domains {
            tx.project(Source::Domain(domain)).await?;
        }
        tx.commit().await?;
        Ok(true)
    }

    /// Changes an account's plan. Returns `false` if the account already has this plan.
    ///
    /// # Errors
    /// Returns [`Error`] if the database fails. Nothing is changed in that case.
    pub async fn set_plan(
        &self,
        account_id: &str,
        plan: &str,
        now: Timestamp,
        origin: &Origin,
    ) -> Result<bool, Error> {
        let mut tx = self.db.begin().await?;
        let set: Option<String> = tx.optional_value(SET_PLAN, (account_id, plan)).await?;
        if let Some(address) = &set {
            tx.project(Source::Account(address)).await?;
        }
        commit_change(
            tx,
            set.is_some(),
            account_id,
            &format!("plan {plan}"),
            now,
            origin,
        )
        .await
    }

    /// Grants administrator rights to an account, or revokes these rights. Returns `false` if
    /// nothing was changed.
    ///
    /// # Errors
    /// Returns [`Error`] if the database fails. Nothing is changed in that case.
    pub async fn set_admin(
        &self,
        account_id: &str,
        admin: bool,
        now: Timestamp,
        origin: &Origin,
    ) -> Result<bool, Error> {
        let mut tx = self.db.begin().await?;
        let set = tx.execute(SET_ADMIN, (account_id, admin)).await?;
        let detail = if admin {
            "administrator rights granted"
        } else {
            "administrator rights revoked"
        };
        commit_change(tx, set == 1, account_id, detail, now, origin).await
    }
}

/// Disables an account without ending its credentials. Returns `true` if the account was active.
pub(super) async fn set_inactive(tx: &mut Tx, account_id: &str) -> Result<bool, Error> {
    let address: Option<String> = tx.optional_value(DISABLE, [account_id]).await?;
    let Some(address) = address else {
        return Ok(false);
    };
    tx.project(Source::Account(&address)).await?;
    Ok(true)
}

async fn commit_change(
    tx: Tx,
    set: bool,
    account_id: &str,
    detail: &str,
    now: Timestamp,
    origin: &Origin,
) -> Result<bool, Error> {
    if !set {
        return Ok(false);
    }
    let event = Event::of(Kind::AccountChanged, account_id, now).detail(detail);
    events::commit(tx, event, origin).await?;
    Ok(true)
}

#[cfg(test)]
mod tests;
