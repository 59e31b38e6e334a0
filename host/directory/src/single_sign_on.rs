//! Sign-in at an identity provider: unfinished sign-ins, the persons at the provider, sign-in
//! codes, and logout tokens.
//!
//! This module does not verify tokens. The `oidc` crate verifies the tokens of the provider, and
//! callers pass only hashes and encrypted texts.

mod codes;
mod identities;
mod logout;
mod pending;
mod recheck;

pub use codes::{NewSignInCode, SignInCode};
pub use identities::{Linked, NewIdentity};
pub use logout::ProviderLogout;
pub use recheck::DueSession;

pub(super) use codes::consume as consume_code;

use latchmail_core::caller::Origin;
use latchmail_core::clock::Timestamp;

use crate::credentials;
use crate::db::{Db, Error, Tx};
use crate::events::{self, Event, Kind};

const SWEEP: [&str; 3] = [
    "DELETE FROM provider_sign_ins WHERE expires_at <= $1",
    "DELETE FROM sign_in_codes WHERE expires_at <= $1",
    "DELETE FROM logout_tokens WHERE expires_at <= $1",
];

/// The sign-ins at the identity provider, and the sessions that began with such a sign-in.
#[derive(Clone, Debug)]
pub struct SingleSignOn {
    pub(crate) db: Db,
}

impl SingleSignOn {
    /// Deletes unfinished sign-ins, sign-in codes and logout tokens that have expired.
    pub(super) async fn sweep(&self, now: Timestamp) -> Result<(), Error> {
        for query in SWEEP {
            self.db.execute(query, [now]).await?;
        }
        Ok(())
    }
}

/// Ends the sessions of one account that have these app passwords. Records one audit event. The
/// caller must lock the account first.
async fn end_sessions(
    tx: &mut Tx,
    account_id: &str,
    app_passwords: &[String],
    reason: &str,
    now: Timestamp,
    origin: &Origin,
) -> Result<(), Error> {
    for id in app_passwords {
        credentials::delete(tx, id).await?;
    }
    let detail = format!("{reason}; web sessions ended: {}", app_passwords.len());
    let event = Event::of(Kind::SignedOutByProvider, account_id, now).detail(&detail);
    events::record(tx, event, origin).await
}

/// Ends sessions. Each entry of `sessions` contains the id of the account and the id of the app
/// password. The entries must be sorted by account. Returns the ids of the deleted app passwords.
async fn end_grouped(
    tx: &mut Tx,
    sessions: Vec<(String, String)>,
    reason: &str,
    now: Timestamp,
    origin: &Origin,
) -> Result<Vec<String>, Error> {
    for of_account in sessions.chunk_by(|(one, _), (other, _)| one == other) {
        let Some((account_id, _)) = of_account.first() else {
            continue;
        };
        let ids: Vec<String> = of_account.iter().map(|(_, id)| id.clone()).collect();
        tx.lock_account(account_id).await?;
        end_sessions(tx, account_id, &ids, reason, now, origin).await?;
    }
    Ok(sessions.into_iter().map(|(_, id)| id).collect())
}

#[cfg(test)]
mod tests;
