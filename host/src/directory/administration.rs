//! What the operator does to whole accounts, each change with everything that follows from it in one transaction.

use sqlx_macros::FromRow;

use super::db::{Tx, on, on_tx};
use super::events::{self, Event, Kind};
use super::{Directory, Error, oauth, password, teams, tokens};
use crate::caller::Origin;
use crate::clock::Timestamp;

const OVERVIEW: &str = "SELECT a.id, a.address, a.active, a.admin, a.plan, a.created_at, \
    EXISTS (SELECT 1 FROM two_factor t WHERE t.account_id = a.id) AS two_factor, \
    EXISTS (SELECT 1 FROM profiles p WHERE p.account_id = a.id) AS profile \
    FROM accounts a WHERE ($1 = '' OR a.address = $1) ORDER BY a.address";

const SET_ACTIVE: &str = "UPDATE accounts SET active = $2 WHERE id = $1 AND active <> $2";
const SET_PASSWORD: &str = "UPDATE accounts SET password_hash = $2 WHERE id = $1";
const SET_PLAN: &str = "UPDATE accounts SET plan = $2 WHERE id = $1 AND plan <> $2";
const SET_ADMIN: &str = "UPDATE accounts SET admin = $2 WHERE id = $1 AND admin <> $2";
const DELETE: &str = "DELETE FROM accounts WHERE id = $1";

/// Sessions, and whatever else holds an app password, go with it: by reference.
const END_EVERY: &str = "DELETE FROM app_passwords WHERE account_id = $1 RETURNING id";

const KEEP_ADDRESSES: &str =
    "UPDATE addresses SET live = FALSE, changed_at = $2 WHERE account_id = $1";
const ADDRESS: &str = "SELECT live, account_id FROM addresses WHERE address = $1";
const FREE_ADDRESS: &str = "DELETE FROM addresses WHERE address = $1 AND NOT live";

/// An account at a glance.
#[derive(Clone, Debug, FromRow)]
#[expect(clippy::struct_excessive_bools, reason = "each is a fact of its own")]
pub struct Overview {
    /// Opaque; the name of the mailbox's folder on the mail server.
    pub id: String,
    /// Lower case.
    pub address: String,
    /// Whether it may sign in and its mail credentials work.
    pub active: bool,
    /// Whether it is an administrator's.
    pub admin: bool,
    /// Its plan's name.
    pub plan: String,
    /// Whether signing in takes a second factor.
    pub two_factor: bool,
    /// Whether it has a profile.
    pub profile: bool,
    /// When it was made, in milliseconds since the epoch.
    pub created_at: i64,
}

/// What came of freeing an address.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Freeing {
    /// Anybody may have it.
    Freed,
    /// Nobody ever had it, or it was freed before.
    Free,
    /// It is somebody's, or held by the operator.
    Live,
}

impl Directory {
    /// Every account by its address; only the one with `address` where it is not empty.
    ///
    /// # Errors
    /// Returns [`Error`] if the database fails.
    pub async fn overview(&self, address: &str) -> Result<Vec<Overview>, Error> {
        Ok(on!(&self.db, pool => sqlx::query_as(OVERVIEW)
            .bind(address)
            .fetch_all(pool).await)?)
    }

    /// Gives an account another password. Every web session and OAuth grant of it ends, every API token is revoked; mail clients' app
    /// passwords and a shared mailbox's standing key stay. Answers the app passwords that died; nothing where there is no such account.
    ///
    /// # Errors
    /// Returns [`Error`] if the database fails. Nothing is changed in that case.
    pub async fn set_password(
        &self,
        account_id: &str,
        password_hash: &str,
        now: Timestamp,
        origin: &Origin,
    ) -> Result<Option<Vec<String>>, Error> {
        let mut tx = self.db.begin().await?;
        tx.lock_account(account_id).await?;
        let set = on_tx!(&mut tx, db => sqlx::query(SET_PASSWORD)
            .bind(account_id)
            .bind(password_hash)
            .execute(db).await.map(|done| done.rows_affected()))?;
        if set == 0 {
            return Ok(None);
        }
        let tokens = tokens::revoke_all(&mut tx, account_id, now).await?;
        let died = password::end_all(&mut tx, account_id, "").await?;
        let detail = password::in_words(died.len(), tokens);
        let changed = Event::of(Kind::PasswordChanged, account_id, now).detail(&detail);
        events::commit(tx, changed, origin).await?;
        Ok(Some(died))
    }

    /// Disables an account: every credential of it ends, API tokens are revoked. Whether there was anything to do.
    ///
    /// # Errors
    /// Returns [`Error`] if the database fails. Nothing is changed in that case.
    pub async fn disable(
        &self,
        account_id: &str,
        now: Timestamp,
        origin: &Origin,
    ) -> Result<bool, Error> {
        let mut tx = self.db.begin().await?;
        tx.lock_account(account_id).await?;
        let was_active = set_active(&mut tx, account_id, false).await?;
        let tokens = tokens::revoke_all(&mut tx, account_id, now).await?;
        oauth::forget_agreed(&mut tx, account_id).await?;
        let died: Vec<String> = on_tx!(&mut tx, db => sqlx::query_scalar(END_EVERY)
            .bind(account_id)
            .fetch_all(db).await)?;
        if !was_active && died.is_empty() && tokens == 0 {
            return Ok(false);
        }
        let detail = password::in_words(died.len(), tokens);
        let disabled = Event::of(Kind::AccountDisabled, account_id, now).detail(&detail);
        events::commit(tx, disabled, origin).await?;
        Ok(true)
    }

    /// Enables an account, with nothing but its password. Whether it did: not where it was enabled.
    ///
    /// # Errors
    /// Returns [`Error`] if the database fails. Nothing is changed in that case.
    pub async fn enable(
        &self,
        account_id: &str,
        now: Timestamp,
        origin: &Origin,
    ) -> Result<bool, Error> {
        let mut tx = self.db.begin().await?;
        tx.lock_account(account_id).await?;
        if !set_active(&mut tx, account_id, true).await? {
            return Ok(false);
        }
        let enabled = Event::of(Kind::AccountEnabled, account_id, now);
        events::commit(tx, enabled, origin).await?;
        Ok(true)
    }

    /// Deletes an account and everything that refers to it. Every address it had is kept from other people until it is freed. Whether it
    /// did: not where there is none.
    ///
    /// # Errors
    /// Returns [`Error`] if the database fails. Nothing is changed in that case.
    pub async fn delete_account(
        &self,
        account_id: &str,
        now: Timestamp,
        origin: &Origin,
    ) -> Result<bool, Error> {
        let mut tx = self.db.begin().await?;
        teams::lock_with_mailboxes(&mut tx, account_id).await?;
        teams::leave_all(&mut tx, account_id, now, origin).await?;
        // While the account is there: the record takes its address from it.
        let deleted = Event::of(Kind::AccountDeleted, account_id, now).about(account_id);
        events::record(&mut tx, deleted, origin).await?;
        on_tx!(&mut tx, db => sqlx::query(KEEP_ADDRESSES)
            .bind(account_id)
            .bind(now.millis())
            .execute(db).await.map(drop))?;
        let gone = on_tx!(&mut tx, db => sqlx::query(DELETE)
            .bind(account_id)
            .execute(db).await.map(|done| done.rows_affected()))?;
        if gone == 0 {
            return Ok(false);
        }
        tx.commit().await?;
        Ok(true)
    }

    /// Lets anybody have an address that somebody had.
    ///
    /// # Errors
    /// Returns [`Error`] if the database fails. Nothing is changed in that case.
    pub async fn free_address(
        &self,
        address: &str,
        now: Timestamp,
        origin: &Origin,
    ) -> Result<Freeing, Error> {
        let mut tx = self.db.begin().await?;
        let found: Option<(bool, Option<String>)> = on_tx!(&mut tx, db => sqlx::query_as(ADDRESS)
            .bind(address)
            .fetch_optional(db).await)?;
        let owner = match found {
            None => return Ok(Freeing::Free),
            Some((true, _)) => return Ok(Freeing::Live),
            Some((false, owner)) => owner,
        };
        let freed = on_tx!(&mut tx, db => sqlx::query(FREE_ADDRESS)
            .bind(address)
            .execute(db).await.map(|done| done.rows_affected()))?;
        if freed == 0 {
            return Ok(Freeing::Live);
        }
        let event = Event {
            account: owner.as_deref(),
            address,
            ..Event::of(Kind::AddressFreed, "", now).about(address)
        };
        events::commit(tx, event, origin).await?;
        Ok(Freeing::Freed)
    }

    /// Puts an account on a plan. Whether it did: not where it is on it.
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
        let set = on_tx!(&mut tx, db => sqlx::query(SET_PLAN)
            .bind(account_id)
            .bind(plan)
            .execute(db).await.map(|done| done.rows_affected()))?;
        changed(
            tx,
            set == 1,
            account_id,
            &format!("plan {plan}"),
            now,
            origin,
        )
        .await
    }

    /// Makes an account an administrator's, or no longer. Whether it did: not where it is so.
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
        let set = on_tx!(&mut tx, db => sqlx::query(SET_ADMIN)
            .bind(account_id)
            .bind(admin)
            .execute(db).await.map(|done| done.rows_affected()))?;
        let detail = if admin {
            "an administrator"
        } else {
            "no administrator"
        };
        changed(tx, set == 1, account_id, detail, now, origin).await
    }
}

/// Whether it was otherwise before.
async fn set_active(tx: &mut Tx, account_id: &str, active: bool) -> Result<bool, Error> {
    let set = on_tx!(tx, db => sqlx::query(SET_ACTIVE)
        .bind(account_id)
        .bind(active)
        .execute(db).await.map(|done| done.rows_affected()))?;
    Ok(set == 1)
}

async fn changed(
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
