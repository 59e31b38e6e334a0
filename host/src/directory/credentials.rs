//! App passwords: what the mail server accepts. The directory keeps a selector and a hash of each, never the secret.

use std::fmt;

use super::Error;
use super::db::{Tx, on_tx};
use crate::clock::Timestamp;

const INSERT: &str = "INSERT INTO app_passwords (id, account_id, kind, label, selector, secret_hash, created_at, expires_at) \
    VALUES ($1, $2, $3, $4, $5, $6, $7, $8)";
const SET_END: &str = "UPDATE app_passwords SET expires_at = $2 WHERE id = $1";
const DELETE: &str = "DELETE FROM app_passwords WHERE id = $1";

/// What an app password acts for.
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
    /// A mailbox shared with others.
    TeamKey,
}

impl AppPasswordKind {
    /// As the database spells it.
    const fn name(self) -> &'static str {
        match self {
            Self::WebSession => "web_session",
            Self::ApiToken => "api_token",
            Self::AppPassword => "app_password",
            Self::OAuthGrant => "oauth_grant",
            Self::TeamKey => "team_key",
        }
    }
}

/// An app password to be kept.
#[derive(Clone)]
pub struct NewAppPassword {
    /// Opaque.
    pub id: String,
    /// What it acts for.
    pub kind: AppPasswordKind,
    /// For people to tell it by.
    pub label: String,
    /// The public first half of the secret, unique.
    pub selector: String,
    /// SHA-256 of the whole secret, lower-case hexadecimal.
    pub secret_hash: String,
    /// When it stops working, where it does. A web session's ends with the session, whatever stands here.
    pub expires_at: Option<Timestamp>,
}

impl fmt::Debug for NewAppPassword {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("NewAppPassword")
            .field("id", &self.id)
            .field("kind", &self.kind)
            .field("label", &self.label)
            .field("selector", &self.selector)
            .field("expires_at", &self.expires_at)
            .finish_non_exhaustive()
    }
}

/// Keeps an app password of `account_id`.
pub(super) async fn insert(
    tx: &mut Tx,
    account_id: &str,
    password: &NewAppPassword,
    created_at: Timestamp,
    expires_at: Option<Timestamp>,
) -> Result<(), Error> {
    on_tx!(tx, db => sqlx::query(INSERT)
        .bind(&password.id)
        .bind(account_id)
        .bind(password.kind.name())
        .bind(&password.label)
        .bind(&password.selector)
        .bind(&password.secret_hash)
        .bind(created_at.millis())
        .bind(expires_at.map(Timestamp::millis))
        .execute(db).await.map(drop))?;
    Ok(())
}

/// Moves an app password's end.
pub(super) async fn set_end(tx: &mut Tx, id: &str, expires_at: Timestamp) -> Result<(), Error> {
    on_tx!(tx, db => sqlx::query(SET_END)
        .bind(id)
        .bind(expires_at.millis())
        .execute(db).await.map(drop))?;
    Ok(())
}

/// Forgets an app password, and by reference whatever held it.
pub(super) async fn delete(tx: &mut Tx, id: &str) -> Result<(), Error> {
    on_tx!(tx, db => sqlx::query(DELETE).bind(id).execute(db).await.map(drop))?;
    Ok(())
}
