//! App passwords: the secrets that the mail server accepts. Every session, API token, OAuth grant
//! and mail client has its own app password. The directory stores only a selector and a hash of
//! each app password.

pub mod endings;
pub mod index_keys;
pub(crate) mod last_logins;
pub mod mail_server_users;
pub mod password;
pub mod presented;

use std::collections::HashMap;

use latchmail_core::caller::{Origin, Scope};
use latchmail_core::clock::Timestamp;
use latchmail_core::error::Failure;
use latchmail_core::secrets::{self, AppPassword};

use crate::db::{Db, Error, LastLogins, Lookup, Parameters, Source, Tx};
use crate::debug::debug_fields;
use crate::events::{self, Event, Kind};
use crate::session_caller::SessionCaller;

/// Maximum number of rows that one transaction updates.
const BATCH: usize = 100;

/// Maximum number of app passwords for mail clients that an account can have.
pub const MAX_APP_PASSWORDS: u32 = 100;

const INSERT: &str = "INSERT INTO app_passwords (id, account_id, kind, label, selector, secret_hash, created_at, expires_at, policy) \
    VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9)";
const SET_END: &str = "UPDATE app_passwords SET expires_at = $2 WHERE id = $1";
const DELETE: &str = "DELETE FROM app_passwords WHERE id = $1";
const VALID: &str = "SELECT p.expires_at FROM app_passwords p JOIN accounts a ON a.id = p.account_id \
    WHERE p.id = $1 AND a.active AND p.suspended_at IS NULL \
    AND (p.expires_at IS NULL OR p.expires_at > $2)";
const COUNT: &str =
    "SELECT COUNT(*) FROM app_passwords WHERE account_id = $1 AND kind = 'app_password'";
/// Lists the app passwords of an account. Includes OAuth grants and the credentials of the
/// service only if $3 is true. Only the operator sets $3 to true. Excludes ended web sessions that
/// the sweep has not deleted yet.
const LIST: &str = "SELECT p.id, p.kind, p.label, p.created_at, p.last_used_at, p.expires_at, p.suspended_at, t.id AS token_id, t.scopes \
    FROM app_passwords p LEFT JOIN api_tokens t ON t.app_password_id = p.id \
    WHERE p.account_id = $1 AND ((p.kind NOT IN ('oauth_grant', 'index') \
        AND NOT EXISTS (SELECT 1 FROM outbox_keys k WHERE k.app_password_id = p.id)) OR $3) AND (p.kind <> 'web_session' OR p.expires_at > $2) \
    ORDER BY p.created_at DESC, p.id DESC";
const FIND: &str = "SELECT p.kind, p.label, t.id FROM app_passwords p LEFT JOIN api_tokens t ON t.app_password_id = p.id \
    WHERE p.id = $1 AND p.account_id = $2 AND p.kind NOT IN ('oauth_grant', 'index') \
        AND NOT EXISTS (SELECT 1 FROM outbox_keys k WHERE k.app_password_id = p.id)";
const SET_LAST_USED: &str = "UPDATE app_passwords SET last_used_at = $2 \
    WHERE id = $1 AND (last_used_at IS NULL OR last_used_at < $2)";

/// The purpose of an app password.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AppPasswordKind {
    /// A web session.
    WebSession,
    /// A personal API token.
    ApiToken,
    /// A mail client.
    AppPassword,
    /// An OAuth grant.
    OAuthGrant,
    /// The access of all members to a shared mailbox, or of the service for the outbox.
    TeamKey,
    /// The access of the service to a mailbox for the search index. The mail server accepts this
    /// app password over IMAP only.
    Index,
}

impl AppPasswordKind {
    const ALL: [Self; 6] = [
        Self::WebSession,
        Self::ApiToken,
        Self::AppPassword,
        Self::OAuthGrant,
        Self::TeamKey,
        Self::Index,
    ];

    /// Returns the kind with this name in the database. A constraint of the column excludes other
    /// names.
    fn named(name: &str) -> Self {
        let kind = Self::ALL.into_iter().find(|kind| kind.name() == name);
        kind.unwrap_or(Self::AppPassword)
    }

    /// Returns the kind's name in the database.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::WebSession => "web_session",
            Self::ApiToken => "api_token",
            Self::AppPassword => "app_password",
            Self::OAuthGrant => "oauth_grant",
            Self::TeamKey => "team_key",
            Self::Index => "index",
        }
    }
}

/// An app password to store.
#[derive(Clone)]
pub struct NewAppPassword {
    /// An opaque id.
    pub id: String,
    /// The purpose of the app password.
    pub kind: AppPasswordKind,
    /// The label that people see.
    pub label: String,
    /// The public first half of the secret. The selector is unique among all app passwords.
    pub selector: String,
    /// SHA-256 of the whole secret, lower-case hexadecimal.
    pub secret_hash: String,
    /// The time at which the app password expires, or `None` if it does not expire. Ignored for web
    /// sessions, API tokens and OAuth grants, whose app passwords expire together with them.
    pub expires_at: Option<Timestamp>,
    /// The policy of an API token or of an OAuth grant, as JSON.
    pub policy: Option<String>,
}

debug_fields!(NewAppPassword {
    id,
    kind,
    label,
    selector,
    expires_at
});

impl NewAppPassword {
    /// Returns an app password to store, with a new id and without an expiry.
    ///
    /// # Errors
    /// Returns an internal error if the operating system provides no randomness.
    pub fn of(
        secret: &AppPassword,
        kind: AppPasswordKind,
        label: impl Into<String>,
    ) -> Result<Self, Failure> {
        Ok(Self {
            id: secrets::id()?,
            kind,
            label: label.into(),
            selector: secret.selector().to_owned(),
            secret_hash: secret.hash(),
            expires_at: None,
            policy: None,
        })
    }
}

/// A credential that gives access to an account.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Credential {
    /// The app password's id.
    pub id: String,
    /// The purpose of the app password.
    pub kind: AppPasswordKind,
    /// The label that people see.
    pub label: String,
    /// The time at which the credential was created.
    pub created_at: Timestamp,
    /// The time of the last use that is stored in the app password's row. `None` if the row
    /// contains no such time.
    pub last_used_at: Option<Timestamp>,
    /// The time at which the credential expires or expired, or `None` if it does not expire.
    pub expires_at: Option<Timestamp>,
    /// The time at which the owner suspended the API token or the OAuth grant. `None` if the
    /// credential is not suspended.
    pub suspended_at: Option<Timestamp>,
    /// The id and the scopes of the API token, if the app password belongs to an API token.
    pub token: Option<(String, Vec<Scope>)>,
}

/// The result of creating a credential of an account.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CredentialCreation {
    /// The credential was created.
    Created,
    /// The account has reached its limit of credentials of this kind.
    Full,
    /// The caller's session ended.
    SessionOver,
}

/// The result of revoking an app password.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Revocation {
    /// The app password of this kind was deleted. The session or other credential with this app
    /// password was deleted too.
    Revoked(AppPasswordKind),
    /// The app password belongs to an API token. The caller must revoke the API token instead.
    /// Nothing was changed.
    BacksToken {
        /// The token's id.
        id: String,
        /// The token's label.
        label: String,
    },
    /// The account has no app password with this id.
    Unknown,
}

#[derive(sqlx_macros::FromRow)]
struct Row {
    id: String,
    kind: String,
    label: String,
    created_at: i64,
    last_used_at: Option<i64>,
    expires_at: Option<i64>,
    suspended_at: Option<i64>,
    token_id: Option<String>,
    scopes: Option<String>,
}

/// The app passwords, the credentials that depend on app passwords, and the passwords of accounts.
#[derive(Clone, Debug)]
pub struct Credentials {
    pub(crate) db: Db,
    pub(crate) lookup: Lookup,
    pub(crate) last_logins: LastLogins,
}

impl Credentials {
    /// Stores an app password for a mail client. The account must have fewer than
    /// [`MAX_APP_PASSWORDS`] such app passwords.
    ///
    /// # Errors
    /// Returns [`Error`] if the database fails. Nothing is stored in that case.
    pub async fn create_app_password(
        &self,
        caller: SessionCaller<'_>,
        password: &NewAppPassword,
        origin: &Origin,
    ) -> Result<CredentialCreation, Error> {
        let (account_id, now) = (caller.account_id, caller.at);
        let mut tx = self.db.begin().await?;
        if !caller.lock(&mut tx).await? {
            return Ok(CredentialCreation::SessionOver);
        }
        let held: i64 = tx.value(COUNT, [account_id]).await?;
        if held >= i64::from(MAX_APP_PASSWORDS) {
            return Ok(CredentialCreation::Full);
        }
        insert(&mut tx, account_id, password, now, password.expires_at).await?;
        let made = Event::of(Kind::AppPasswordCreated, account_id, now)
            .about(&password.id)
            .detail(&password.label);
        events::commit(tx, made, origin).await?;
        Ok(CredentialCreation::Created)
    }

    /// Returns the time at which the app password with this id expires: the last possible timestamp
    /// if it does not expire. Returns `None` if the mail server does not accept the app password at
    /// `now`.
    ///
    /// # Errors
    /// Returns [`Error`] if the database fails.
    pub async fn valid_until(
        &self,
        app_password: &str,
        now: Timestamp,
    ) -> Result<Option<Timestamp>, Error> {
        let found: Option<Option<i64>> = self.db.optional_value(VALID, (app_password, now)).await?;
        Ok(found.map(|end| Timestamp::from_millis(end.unwrap_or(i64::MAX))))
    }

    /// Returns the credentials that give access to an account at `now`, newest first. Excludes
    /// OAuth grants and the credential of the search index.
    ///
    /// # Errors
    /// Returns [`Error`] if the database fails.
    pub async fn list(&self, account_id: &str, now: Timestamp) -> Result<Vec<Credential>, Error> {
        self.list_credentials(account_id, now, false).await
    }

    /// Returns the credentials that give access to an account at `now`, newest first. Includes
    /// OAuth grants and the credential of the search index.
    ///
    /// # Errors
    /// Returns [`Error`] if the database fails.
    pub async fn list_with_grants(
        &self,
        account_id: &str,
        now: Timestamp,
    ) -> Result<Vec<Credential>, Error> {
        self.list_credentials(account_id, now, true).await
    }

    async fn list_credentials(
        &self,
        account_id: &str,
        now: Timestamp,
        grants: bool,
    ) -> Result<Vec<Credential>, Error> {
        let rows: Vec<Row> = self.db.all(LIST, (account_id, now, grants)).await?;
        let credential = |row: Row| Credential {
            kind: AppPasswordKind::named(&row.kind),
            token: row
                .token_id
                .map(|id| (id, Scope::read_list(&row.scopes.unwrap_or_default()))),
            id: row.id,
            label: row.label,
            created_at: Timestamp::from_millis(row.created_at),
            last_used_at: row.last_used_at.map(Timestamp::from_millis),
            expires_at: row.expires_at.map(Timestamp::from_millis),
            suspended_at: row.suspended_at.map(Timestamp::from_millis),
        };
        Ok(rows.into_iter().map(credential).collect())
    }

    /// Revokes an app password of an account. Does not revoke the app password of an API token.
    /// Revoking the app password of a web session ends the session.
    ///
    /// # Errors
    /// Returns [`Error`] if the database fails. Nothing is changed in that case.
    pub async fn revoke_app_password(
        &self,
        account_id: &str,
        id: &str,
        now: Timestamp,
        origin: &Origin,
    ) -> Result<Revocation, Error> {
        let mut tx = self.db.begin_locked(account_id).await?;
        let own: Option<(String, String, Option<String>)> =
            tx.optional(FIND, (id, account_id)).await?;
        let Some((kind, label, token)) = own else {
            return Ok(Revocation::Unknown);
        };
        if let Some(id) = token {
            return Ok(Revocation::BacksToken { id, label });
        }
        delete(&mut tx, id).await?;
        let kind = AppPasswordKind::named(&kind);
        let event = match kind {
            AppPasswordKind::WebSession => Kind::SessionRevoked,
            _ => Kind::AppPasswordRevoked,
        };
        let revoked = Event::of(event, account_id, now).about(id).detail(&label);
        events::commit(tx, revoked, origin).await?;
        Ok(Revocation::Revoked(kind))
    }

    /// Records the last uses of app passwords. An earlier time does not replace a later time.
    ///
    /// # Errors
    /// Returns [`Error`] if the database fails. Some rows may already be written. Writing these
    /// rows again is harmless.
    pub async fn write_uses(&self, uses: &HashMap<String, Timestamp>) -> Result<(), Error> {
        let uses: Vec<_> = uses.iter().collect();
        for batch in uses.chunks(BATCH) {
            match &self.db {
                // Keep the transactions short, because on SQLite other writers wait until a
                // transaction ends.
                Db::Sqlite(..) => {
                    let mut tx = self.db.begin().await?;
                    for &(id, at) in batch {
                        tx.execute(SET_LAST_USED, (id, *at)).await?;
                    }
                    tx.commit().await?;
                }
                // Each statement locks a single row, so the statements cannot deadlock.
                Db::Postgres(_) => {
                    for &(id, at) in batch {
                        self.db.execute(SET_LAST_USED, (id, *at)).await?;
                    }
                }
            }
        }
        Ok(())
    }

    /// Stores an app password for an account on behalf of the operator. The audit log contains the
    /// label.
    ///
    /// # Errors
    /// Returns [`Error`] if the database fails. Nothing is stored in that case.
    pub async fn create_app_password_for(
        &self,
        account_id: &str,
        password: &NewAppPassword,
        now: Timestamp,
        origin: &Origin,
    ) -> Result<(), Error> {
        let mut tx = self.db.begin_locked(account_id).await?;
        insert(&mut tx, account_id, password, now, password.expires_at).await?;
        let created = Event::of(Kind::AppPasswordCreated, account_id, now)
            .about(&password.id)
            .detail(&password.label);
        events::commit(tx, created, origin).await
    }
}

/// Stores an app password of an account.
pub(super) async fn insert(
    tx: &mut Tx,
    account_id: &str,
    password: &NewAppPassword,
    created_at: Timestamp,
    expires_at: Option<Timestamp>,
) -> Result<(), Error> {
    let row = (
        &password.id,
        account_id,
        password.kind.name(),
        &password.label,
        &password.selector,
        &password.secret_hash,
        created_at,
        expires_at,
        &password.policy,
    );
    tx.execute(INSERT, row).await?;
    tx.project(Source::AppPassword(&password.id)).await
}

/// Changes the expiry of an app password.
pub(super) async fn set_end(tx: &mut Tx, id: &str, expires_at: Timestamp) -> Result<(), Error> {
    tx.execute(SET_END, (id, expires_at)).await?;
    tx.project(Source::AppPassword(id)).await
}

/// Runs `query`, which must delete app passwords and return their ids. Because of foreign keys, the
/// database also deletes all rows that refer to these app passwords. Returns the ids.
pub(super) async fn delete_by<'p>(
    tx: &mut Tx,
    query: &'static str,
    parameters: impl Parameters<'p>,
) -> Result<Vec<String>, Error> {
    let ended: Vec<String> = tx.values(query, parameters).await?;
    for id in &ended {
        tx.project(Source::AppPassword(id)).await?;
    }
    Ok(ended)
}

/// Deletes an app password. Because of foreign keys, the database also deletes all rows that refer
/// to the app password.
pub(super) async fn delete(tx: &mut Tx, id: &str) -> Result<(), Error> {
    tx.execute(DELETE, [id]).await?;
    tx.project(Source::AppPassword(id)).await
}

#[cfg(test)]
mod tests;
