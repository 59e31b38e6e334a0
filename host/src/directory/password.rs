//! A change of an account's password, and what ends with it.

use super::credentials::{self, NewAppPassword};
use super::db::{Tx, on, on_tx};
use super::events::{self, Event, Kind};
use super::{Directory, Error, oauth, tokens};
use crate::caller::Origin;
use crate::clock::Timestamp;

const HASH: &str = "SELECT password_hash FROM accounts WHERE id = $1 AND active";
/// Of two changes at once that were checked against the same password, the second finds another one.
const SET: &str =
    "UPDATE accounts SET password_hash = $2 WHERE id = $1 AND password_hash = $3 AND active";
const SESSION: &str = "SELECT s.app_password_id, p.label, p.created_at, p.expires_at, p.last_used_at \
    FROM sessions s JOIN app_passwords p ON p.id = s.app_password_id \
    WHERE s.sid = $1 AND s.account_id = $2 AND s.expires_at > $3";
const MOVE_SESSION: &str =
    "UPDATE sessions SET app_password_id = $2, sealed_password = $3 WHERE sid = $1";
const KEEP_USE: &str = "UPDATE app_passwords SET last_used_at = $2 WHERE id = $1";
const END: &str = "DELETE FROM app_passwords WHERE account_id = $1 AND id <> $2 \
    AND kind IN ('web_session', 'oauth_grant', 'api_token') RETURNING id";

/// A new password.
#[derive(Clone)]
pub struct Change<'a> {
    /// Whose.
    pub account_id: &'a str,
    /// The hash that the current password was checked against.
    pub checked: &'a str,
    /// The new one's: argon2id, as a PHC string.
    pub password_hash: &'a str,
    /// The session that asks for it, and stays.
    pub session: Renewed<'a>,
    /// Now.
    pub at: Timestamp,
}

/// What came of a change.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// It is made, and these app passwords died.
    Changed(Vec<String>),
    /// The password was changed meanwhile: the one that was checked is no longer it.
    AnotherPassword,
    /// The session that asked is over, or the account is.
    SessionOver,
}

/// A session with another app password.
#[derive(Clone)]
pub struct Renewed<'a> {
    /// Its id.
    pub sid: &'a str,
    /// What acts for it from now on. Its label and end are those of the one before.
    pub app_password: &'a NewAppPassword,
    /// The app password, sealed.
    pub sealed_password: &'a [u8],
}

#[derive(sqlx_macros::FromRow)]
struct Session {
    app_password_id: String,
    label: String,
    created_at: i64,
    expires_at: Option<i64>,
    last_used_at: Option<i64>,
}

impl Directory {
    /// The hash of an active account's password.
    ///
    /// # Errors
    /// Returns [`Error`] if the database fails.
    pub async fn password_hash(&self, account_id: &str) -> Result<Option<String>, Error> {
        Ok(on!(&self.db, pool => sqlx::query_scalar(HASH)
            .bind(account_id)
            .fetch_optional(pool).await)?)
    }

    /// Sets a password. The asking session gets another app password; every other web session, every OAuth grant and every API token
    /// ends; mail clients' app passwords and a shared mailbox's key stay.
    ///
    /// # Errors
    /// Returns [`Error`] if the database fails. Nothing is changed in that case.
    pub async fn change_password(
        &self,
        change: &Change<'_>,
        origin: &Origin,
    ) -> Result<Outcome, Error> {
        let mut tx = self.db.begin().await?;
        tx.lock_account(change.account_id).await?;
        let set = on_tx!(&mut tx, db => sqlx::query(SET)
            .bind(change.account_id)
            .bind(change.password_hash)
            .bind(change.checked)
            .execute(db).await.map(|done| done.rows_affected()))?;
        let Some(before) = renew(&mut tx, change).await? else {
            return Ok(Outcome::SessionOver);
        };
        if set == 0 {
            return Ok(Outcome::AnotherPassword);
        }
        let tokens = tokens::revoke_all(&mut tx, change.account_id, change.at).await?;
        let kept = &change.session.app_password.id;
        let mut ended = end_all(&mut tx, change.account_id, kept).await?;
        ended.push(before);
        let detail = in_words(ended.len(), tokens);
        let changed =
            Event::of(Kind::PasswordChanged, change.account_id, change.at).detail(&detail);
        events::commit(tx, changed, origin).await?;
        Ok(Outcome::Changed(ended))
    }
}

/// What was ended with a change, for the record.
pub(super) fn in_words(passwords: usize, tokens: u64) -> String {
    format!("app passwords ended: {passwords}, API tokens revoked: {tokens}")
}

/// Gives the asking session, where there is one, its other app password. Answers the one that died.
async fn renew(tx: &mut Tx, change: &Change<'_>) -> Result<Option<String>, Error> {
    let Renewed {
        sid,
        app_password,
        sealed_password,
    } = &change.session;
    let before: Option<Session> = on_tx!(tx, db => sqlx::query_as(SESSION)
        .bind(sid)
        .bind(change.account_id)
        .bind(change.at.millis())
        .fetch_optional(db).await)?;
    let Some(before) = before else {
        return Ok(None);
    };
    let after = NewAppPassword {
        label: before.label,
        ..(*app_password).clone()
    };
    credentials::insert(
        tx,
        change.account_id,
        &after,
        Timestamp::from_millis(before.created_at),
        before.expires_at.map(Timestamp::from_millis),
    )
    .await?;
    on_tx!(tx, db => sqlx::query(KEEP_USE)
        .bind(&after.id)
        .bind(before.last_used_at)
        .execute(db).await.map(drop))?;
    on_tx!(tx, db => sqlx::query(MOVE_SESSION)
        .bind(sid)
        .bind(&after.id)
        .bind(*sealed_password)
        .execute(db).await.map(drop))?;
    credentials::delete(tx, &before.app_password_id).await?;
    Ok(Some(before.app_password_id))
}

/// Ends the app passwords that a new password ends, but for `kept`, and answers them.
pub(super) async fn end_all(
    tx: &mut Tx,
    account_id: &str,
    kept: &str,
) -> Result<Vec<String>, Error> {
    oauth::forget_agreed(tx, account_id).await?;
    Ok(on_tx!(tx, db => sqlx::query_scalar(END)
        .bind(account_id)
        .bind(kept)
        .fetch_all(db).await)?)
}

#[cfg(test)]
mod tests;
