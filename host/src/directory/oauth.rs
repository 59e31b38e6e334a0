//! The authorization server's tables: clients, what people agreed to by signing in, devices that wait, grants and their tokens.
//!
//! Codes and tokens are kept as hashes, and what acts for a grant at the mail server is sealed under keys that only its tokens yield. What may be asked
//! for, and in which words it is refused, is `oauth`'s.

mod agreements;
mod clients;
mod devices;
mod grants;

pub use agreements::{Agreed, Agreement, Exchange, NewCode, Presented as PresentedCode};
pub use clients::{Client, ClientRow};
pub use devices::{Device, NewDevice, Poll};
pub use grants::{Grant, NewGrant, NewToken, NewTokens, Presented, Rotation};

use super::Error;
use super::db::{Tx, on_tx};

const FORGET_CODES: &str = "DELETE FROM oauth_codes WHERE account_id = $1 AND grant_id IS NULL";
const FORGET_DEVICES: &str = "DELETE FROM oauth_devices WHERE account_id = $1";

/// Forgets what an account agreed to and nothing came of yet: with its grants go those that were about to be made.
pub(super) async fn forget_agreed(tx: &mut Tx, account_id: &str) -> Result<(), Error> {
    for forget in [FORGET_CODES, FORGET_DEVICES] {
        on_tx!(tx, db => sqlx::query(forget).bind(account_id).execute(db).await.map(drop))?;
    }
    Ok(())
}

#[cfg(test)]
mod tests;
