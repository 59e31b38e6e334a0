//! The tables of the authorization server: clients, approvals, waiting devices, grants and tokens.
//!
//! Codes and tokens are stored as hashes. Each row of a token also contains the app password of the
//! grant, encrypted with a key that is derived from the token. The `oauth` crate validates requests
//! and writes the error messages.

mod approvals;
mod clients;
mod devices;
mod grants;

pub use approvals::{Approval, ApprovalOutcome, Exchange, NewCode, Presented as PresentedCode};
pub use clients::{Client, ClientRow};
pub use devices::{Device, NewDevice, Poll};
pub use grants::{Grant, NewGrant, NewToken, NewTokens, Presented, Rotation};

use crate::db::{Db, Error, Lookup, Tx};

const FORGET_CODES: &str = "DELETE FROM oauth_codes WHERE account_id = $1 AND grant_id IS NULL";
const FORGET_DEVICES: &str = "DELETE FROM oauth_devices WHERE account_id = $1";
const FORGET_SIGN_INS: &str = "DELETE FROM sign_in_codes WHERE account_id = $1";

/// The clients of the authorization server, with their approvals, grants and tokens.
#[derive(Clone, Debug)]
pub struct OAuth {
    pub(crate) db: Db,
    pub(crate) lookup: Lookup,
}

/// Deletes the approvals of an account that have not led to a grant, and the codes of sign-ins that
/// have not led to a session. Callers that end all grants of an account must call this function
/// too.
pub(super) async fn delete_approvals(tx: &mut Tx, account_id: &str) -> Result<(), Error> {
    for forget in [FORGET_CODES, FORGET_DEVICES, FORGET_SIGN_INS] {
        tx.execute(forget, [account_id]).await?;
    }
    Ok(())
}

#[cfg(test)]
mod tests;
