//! Grants: the credentials with which programs access a mailbox on behalf of its owner. A grant is
//! an API token or an OAuth grant.
//!
//! The owner can set the policy of a grant, suspend the grant and resume it later. A suspended
//! grant keeps its secrets, but the service and the mail server refuse them. This module does not
//! end grants: [`ApiTokens`](crate::tokens::ApiTokens) and [`OAuth`](crate::oauth::OAuth) do.

use latchmail_core::caller::Origin;
use latchmail_core::clock::Timestamp;
use latchmail_core::policy::Policy;

use crate::db::{Db, Error, Source, Tx};
use crate::events::{self, Event, Kind};
use crate::session_caller::SessionCaller;

/// Lists the grants of an account. Excludes OAuth grants that have expired at $2 and that the sweep
/// has not deleted yet. Includes expired API tokens, because they count towards the limit of
/// tokens.
const LIST: &str = "SELECT g.id AS id, TRUE AS oauth, p.label AS label, g.client_id AS client_id, g.scope AS scopes, \
        p.id AS app_password_id, p.created_at AS created_at, p.last_used_at AS last_used_at, p.expires_at AS expires_at, \
        p.suspended_at AS suspended_at, p.policy AS policy \
    FROM oauth_grants g JOIN app_passwords p ON p.id = g.app_password_id \
    WHERE g.account_id = $1 AND (p.expires_at IS NULL OR p.expires_at > $2) \
    UNION ALL \
    SELECT t.id, FALSE, t.label, NULL, t.scopes, p.id, t.created_at, p.last_used_at, t.expires_at, p.suspended_at, p.policy \
    FROM api_tokens t LEFT JOIN app_passwords p ON p.id = t.app_password_id \
    WHERE t.account_id = $1 AND t.revoked_at IS NULL \
    ORDER BY created_at DESC, id DESC";
/// Finds the app password of a grant of the account $2 that has not ended at $3.
const FIND: &str = "SELECT p.id, p.label, p.suspended_at FROM app_passwords p WHERE p.account_id = $2 AND p.id IN ( \
        SELECT g.app_password_id FROM oauth_grants g WHERE g.id = $1 \
        UNION ALL SELECT t.app_password_id FROM api_tokens t WHERE t.id = $1 AND t.revoked_at IS NULL) \
    AND (p.kind <> 'oauth_grant' OR p.expires_at > $3)";
const SET_POLICY: &str = "UPDATE app_passwords SET policy = $2 WHERE id = $1";
const SET_SUSPENDED: &str = "UPDATE app_passwords SET suspended_at = $2 WHERE id = $1";
/// Adds a suspended app password to the list of app passwords whose sessions must end.
const ADD_ENDED: &str = "INSERT INTO ended_app_passwords (app_password_id, ended_at) VALUES ($1, $2) \
    ON CONFLICT (app_password_id) DO UPDATE SET ended_at = excluded.ended_at";
/// Removes a resumed app password from this list. The condition on the time is always true.
const REMOVE_ENDED: &str =
    "DELETE FROM ended_app_passwords WHERE app_password_id = $1 AND ended_at <= $2";

/// A grant in the list of its owner.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Grant {
    /// An opaque id: the id of the API token or of the OAuth grant.
    pub id: String,
    /// The id of the client of an OAuth grant, or `None` for an API token.
    pub client_id: Option<String>,
    /// The label that people see.
    pub label: String,
    /// The scopes as the directory stores them, separated by spaces.
    pub scopes: String,
    /// The id of the app password with which requests of the grant log in to the mail server.
    pub app_password_id: Option<String>,
    /// The time of creation.
    pub created_at: Timestamp,
    /// The time of the last recorded use, or `None` if no use was recorded.
    pub last_used_at: Option<Timestamp>,
    /// The time at which the grant expires or expired, or `None` if the grant does not expire.
    pub expires_at: Option<Timestamp>,
    /// The time of the suspension, or `None` if the grant is not suspended.
    pub suspended_at: Option<Timestamp>,
    /// The policy, or `None` if only the scopes limit the grant.
    pub policy: Option<Policy>,
}

/// The result of suspending or resuming a grant, or of setting its policy.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Suspension {
    /// The grant is in the requested state.
    Done {
        /// The id of the grant's app password.
        app_password_id: String,
    },
    /// The account has no such grant.
    Unknown,
    /// The caller's session ended.
    SessionOver,
}

#[derive(sqlx_macros::FromRow)]
struct Row {
    id: String,
    oauth: bool,
    label: String,
    client_id: Option<String>,
    scopes: String,
    app_password_id: Option<String>,
    created_at: i64,
    last_used_at: Option<i64>,
    expires_at: Option<i64>,
    suspended_at: Option<i64>,
    policy: Option<String>,
}

/// The grants of accounts.
#[derive(Clone, Debug)]
pub struct Grants {
    pub(crate) db: Db,
}

impl Grants {
    /// Returns an account's grants, newest first.
    ///
    /// # Errors
    /// Returns [`Error`] if the database fails.
    pub async fn list(&self, account_id: &str, now: Timestamp) -> Result<Vec<Grant>, Error> {
        let rows: Vec<Row> = self.db.all(LIST, (account_id, now)).await?;
        let grant = |row: Row| Grant {
            id: row.id,
            client_id: row.client_id.filter(|_| row.oauth),
            label: row.label,
            scopes: row.scopes,
            app_password_id: row.app_password_id,
            created_at: Timestamp::from_millis(row.created_at),
            last_used_at: row.last_used_at.map(Timestamp::from_millis),
            expires_at: row.expires_at.map(Timestamp::from_millis),
            suspended_at: row.suspended_at.map(Timestamp::from_millis),
            policy: row.policy.as_deref().map(Policy::stored),
        };
        Ok(rows.into_iter().map(grant).collect())
    }

    /// Suspends a grant of the caller's account, or resumes a suspended grant. A call without an
    /// effect succeeds. All hosts close the connections of a suspended grant.
    ///
    /// # Errors
    /// Returns [`Error`] if the database fails. Nothing is changed in that case.
    pub async fn set_suspended(
        &self,
        caller: SessionCaller<'_>,
        id: &str,
        suspended: bool,
        origin: &Origin,
    ) -> Result<Suspension, Error> {
        let (account_id, now) = (caller.account_id, caller.at);
        let mut tx = self.db.begin().await?;
        if !caller.lock(&mut tx).await? {
            return Ok(Suspension::SessionOver);
        }
        set_suspended(tx, (account_id, id), suspended, now, origin).await
    }

    /// Sets the policy of a grant of the caller's account. Requests that begin later follow the new
    /// policy.
    ///
    /// # Errors
    /// Returns [`Error`] if the database fails. Nothing is changed in that case.
    pub async fn set_policy(
        &self,
        caller: SessionCaller<'_>,
        id: &str,
        policy: &Policy,
        origin: &Origin,
    ) -> Result<Suspension, Error> {
        let (account_id, now) = (caller.account_id, caller.at);
        let mut tx = self.db.begin().await?;
        if !caller.lock(&mut tx).await? {
            return Ok(Suspension::SessionOver);
        }
        set_policy(tx, (account_id, id, now), policy, origin).await
    }

    /// Sets the policy of a grant of an account for the operator, like [`Grants::set_policy`].
    ///
    /// # Errors
    /// Returns [`Error`] if the database fails. Nothing is changed in that case.
    pub async fn set_policy_as_operator(
        &self,
        account_id: &str,
        id: &str,
        policy: &Policy,
        now: Timestamp,
    ) -> Result<Suspension, Error> {
        let tx = self.db.begin_locked(account_id).await?;
        set_policy(tx, (account_id, id, now), policy, &Origin::operator()).await
    }

    /// Suspends a grant of an account for the operator, or resumes it, like
    /// [`Self::set_suspended`].
    ///
    /// # Errors
    /// Returns [`Error`] if the database fails. Nothing is changed in that case.
    pub async fn set_suspended_by_operator(
        &self,
        account_id: &str,
        id: &str,
        suspended: bool,
        now: Timestamp,
        origin: &Origin,
    ) -> Result<Suspension, Error> {
        let tx = self.db.begin_locked(account_id).await?;
        set_suspended(tx, (account_id, id), suspended, now, origin).await
    }
}

/// Sets the policy of a grant, and commits the transaction. The account is locked.
async fn set_policy(
    mut tx: Tx,
    (account_id, id, now): (&str, &str, Timestamp),
    policy: &Policy,
    origin: &Origin,
) -> Result<Suspension, Error> {
    let found: Option<(String, String, Option<i64>)> =
        tx.optional(FIND, (id, account_id, now)).await?;
    let Some((app_password_id, label, _)) = found else {
        return Ok(Suspension::Unknown);
    };
    let change = (&app_password_id, policy.to_json());
    tx.execute(SET_POLICY, change).await?;
    let event = Event::of(Kind::GrantPolicySet, account_id, now)
        .about(id)
        .detail(&label);
    events::commit(tx, event, origin).await?;
    Ok(Suspension::Done { app_password_id })
}

/// Suspends or resumes a grant, and commits the transaction. The account is locked.
async fn set_suspended(
    mut tx: Tx,
    (account_id, id): (&str, &str),
    suspended: bool,
    now: Timestamp,
    origin: &Origin,
) -> Result<Suspension, Error> {
    let found: Option<(String, String, Option<i64>)> =
        tx.optional(FIND, (id, account_id, now)).await?;
    let Some((app_password_id, label, since)) = found else {
        return Ok(Suspension::Unknown);
    };
    if since.is_some() != suspended {
        let at = suspended.then_some(now);
        tx.execute(SET_SUSPENDED, (&app_password_id, at)).await?;
        tx.project(Source::AppPassword(&app_password_id)).await?;
        // Until the sessions have ended, each host repeats the attempt.
        let sessions = if suspended { ADD_ENDED } else { REMOVE_ENDED };
        tx.execute(sessions, (&app_password_id, now)).await?;
        let kind = if suspended {
            Kind::GrantSuspended
        } else {
            Kind::GrantResumed
        };
        let event = Event::of(kind, account_id, now).about(id).detail(&label);
        events::commit(tx, event, origin).await?;
    }
    Ok(Suspension::Done { app_password_id })
}

#[cfg(test)]
mod tests;
