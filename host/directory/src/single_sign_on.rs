//! Sign-in at an identity provider: unfinished sign-ins, the persons at the provider, sign-in codes, and logout tokens.
//!
//! This module does not verify tokens. The `oidc` crate verifies the tokens of the provider, and callers pass only hashes and sealed texts.

mod codes;
mod identities;
mod logout;
mod pending;

pub use codes::{NewSignInCode, SignInCode};
pub use identities::{Linked, NewIdentity};
pub use logout::ProviderLogout;

pub(super) use codes::consume as consume_code;

use super::db::{Source, Tx, on, on_tx};
use super::events::{self, Event, Kind};
use super::{Directory, Error};
use crate::caller::Origin;
use crate::clock::Timestamp;

const DELETE_APP_PASSWORD: &str = "DELETE FROM app_passwords WHERE id = $1";
const SWEEP: [&str; 3] = [
    "DELETE FROM provider_sign_ins WHERE expires_at <= $1",
    "DELETE FROM sign_in_codes WHERE expires_at <= $1",
    "DELETE FROM logout_tokens WHERE expires_at <= $1",
];

impl Directory {
    /// Deletes unfinished sign-ins, sign-in codes and logout tokens that have expired.
    pub(super) async fn sweep_single_sign_on(&self, now: Timestamp) -> Result<(), Error> {
        for query in SWEEP {
            on!(&self.db, pool => sqlx::query(query).bind(now.millis()).execute(pool).await.map(drop))?;
        }
        Ok(())
    }
}

/// Ends the sessions of one account that have these app passwords. Records one audit event. The caller must lock the account first.
async fn end_sessions(
    tx: &mut Tx,
    account_id: &str,
    app_passwords: &[String],
    reason: &str,
    now: Timestamp,
    origin: &Origin,
) -> Result<(), Error> {
    for id in app_passwords {
        on_tx!(&mut *tx, db => sqlx::query(DELETE_APP_PASSWORD).bind(id).execute(db).await.map(drop))?;
        tx.project(Source::AppPassword(id)).await?;
    }
    let detail = format!("{reason}; web sessions ended: {}", app_passwords.len());
    let event = Event::of(Kind::SignedOutByProvider, account_id, now).detail(&detail);
    events::record(tx, event, origin).await
}

#[cfg(test)]
mod tests;
