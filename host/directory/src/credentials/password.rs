//! Changes an account's password. Ends the credentials that must not remain valid after the change.

use latchmail_core::caller::Origin;
use latchmail_core::clock::Timestamp;

use super::Credentials;
use crate::credentials::{self, NewAppPassword};
use crate::db::{Error, Tx};
use crate::events::{self, Event, Kind};
use crate::{oauth, tokens};

const HASH: &str = "SELECT password_hash FROM accounts WHERE id = $1 AND active";
/// Replaces the password hash if the stored hash is still the one that the caller checked. If two
/// requests change the password concurrently, the statement of the second request changes no row.
const REPLACE: &str =
    "UPDATE accounts SET password_hash = $2 WHERE id = $1 AND password_hash = $3 AND active";
const EXISTS: &str = "SELECT 1 FROM accounts WHERE id = $1";
const SET: &str = "UPDATE accounts SET password_hash = $2 WHERE id = $1";
const SESSION: &str = "SELECT s.app_password_id, p.label, p.created_at, p.expires_at, p.last_used_at \
    FROM sessions s JOIN app_passwords p ON p.id = s.app_password_id \
    WHERE s.sid = $1 AND s.account_id = $2 AND s.expires_at > $3";
const MOVE_SESSION: &str =
    "UPDATE sessions SET app_password_id = $2, sealed_password = $3 WHERE sid = $1";
const SET_LAST_USED: &str = "UPDATE app_passwords SET last_used_at = $2 WHERE id = $1";
const END: &str = "DELETE FROM app_passwords WHERE account_id = $1 AND id <> $2 \
    AND kind IN ('web_session', 'oauth_grant', 'api_token') RETURNING id";

/// A change of a password.
#[derive(Clone)]
pub struct Change<'a> {
    /// The account's id.
    pub account_id: &'a str,
    /// The stored password hash against which the caller checked the current password.
    pub checked: &'a str,
    /// The argon2id hash of the new password, as a PHC string.
    pub password_hash: &'a str,
    /// The session that requests the change. This session remains valid.
    pub session: Renewed<'a>,
    /// The current time.
    pub at: Timestamp,
}

/// The result of a change.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// The password was changed, and the app passwords with these ids were deleted.
    Changed(Vec<String>),
    /// A concurrent request changed the password after the caller checked the old password.
    AnotherPassword,
    /// The caller's session ended, for example because its account was deleted.
    SessionOver,
}

/// A session that gets a new app password.
#[derive(Clone)]
pub struct Renewed<'a> {
    /// The session's id.
    pub sid: &'a str,
    /// The new app password. Its label and expiry are copied from the previous app password.
    pub app_password: &'a NewAppPassword,
    /// The new app password, encrypted with the service's key.
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

impl Credentials {
    /// Returns the password hash of an account, or `None` if no active account has this id.
    ///
    /// # Errors
    /// Returns [`Error`] if the database fails.
    pub async fn password_hash(&self, account_id: &str) -> Result<Option<String>, Error> {
        self.db.optional_value(HASH, [account_id]).await
    }

    /// Sets a password and replaces the app password of the caller's session. Ends every other web
    /// session, every OAuth grant and every API token. The app passwords of mail clients remain
    /// valid. The app password for the members of the mailbox remains valid too.
    ///
    /// # Errors
    /// Returns [`Error`] if the database fails. Nothing is changed in that case.
    pub async fn change_password(
        &self,
        change: &Change<'_>,
        origin: &Origin,
    ) -> Result<Outcome, Error> {
        let mut tx = self.db.begin_locked(change.account_id).await?;
        let set = tx
            .execute(
                REPLACE,
                (change.account_id, change.password_hash, change.checked),
            )
            .await?;
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
        let detail = event_detail(ended.len(), tokens);
        let changed =
            Event::of(Kind::PasswordChanged, change.account_id, change.at).detail(&detail);
        events::commit(tx, changed, origin).await?;
        Ok(Outcome::Changed(ended))
    }

    /// Sets an account's password. Ends all web sessions and OAuth grants of the account, and
    /// revokes all its API tokens. The app passwords of mail clients remain valid. The app password
    /// for the members of the mailbox remains valid too.
    ///
    /// Deletes the app passwords of the ended sessions, the ended grants and the revoked tokens.
    /// Returns the ids of these app passwords, or `None` if the account does not exist.
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
        let mut tx = self.db.begin_locked(account_id).await?;
        if !tx.exists(EXISTS, [account_id]).await? {
            return Ok(None);
        }
        let ended = set_in(&mut tx, account_id, password_hash, now, origin).await?;
        tx.commit().await?;
        Ok(Some(ended))
    }
}

/// Sets an account's password in a transaction, like [`Credentials::set_password`]. The caller must
/// lock the account first.
pub(crate) async fn set_in(
    tx: &mut Tx,
    account_id: &str,
    password_hash: &str,
    now: Timestamp,
    origin: &Origin,
) -> Result<Vec<String>, Error> {
    tx.execute(SET, (account_id, password_hash)).await?;
    let tokens = tokens::revoke_all(tx, account_id, now).await?;
    let ended = end_all(tx, account_id, "").await?;
    let detail = event_detail(ended.len(), tokens);
    let changed = Event::of(Kind::PasswordChanged, account_id, now).detail(&detail);
    events::record(tx, changed, origin).await?;
    Ok(ended)
}

/// Returns the event detail with the number of ended app passwords and the number of revoked API
/// tokens.
pub(crate) fn event_detail(passwords: usize, tokens: u64) -> String {
    format!("app passwords ended: {passwords}, API tokens revoked: {tokens}")
}

/// Stores the new app password of the caller's session and deletes the old app password. Returns
/// the id of the old app password. Returns `None` if the session is not live.
async fn renew(tx: &mut Tx, change: &Change<'_>) -> Result<Option<String>, Error> {
    let Renewed {
        sid,
        app_password,
        sealed_password,
    } = &change.session;
    let before: Option<Session> = tx
        .optional(SESSION, (sid, change.account_id, change.at))
        .await?;
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
    tx.execute(SET_LAST_USED, (&after.id, before.last_used_at))
        .await?;
    tx.execute(MOVE_SESSION, (sid, &after.id, *sealed_password))
        .await?;
    credentials::delete(tx, &before.app_password_id).await?;
    Ok(Some(before.app_password_id))
}

/// Deletes the app passwords of all web sessions, OAuth grants and API tokens of an account. Keeps
/// the app password with the id `kept`. Also deletes pending approvals of OAuth clients. Returns
/// the ids of the deleted app passwords.
pub(crate) async fn end_all(
    tx: &mut Tx,
    account_id: &str,
    kept: &str,
) -> Result<Vec<String>, Error> {
    oauth::delete_approvals(tx, account_id).await?;
    credentials::delete_by(tx, END, (account_id, kept)).await
}

#[cfg(test)]
mod tests;
