//! The persons at the identity provider. Several persons can have access to the same mailbox. A
//! person has access to one mailbox at a time.

use latchmail_core::caller::Origin;
use latchmail_core::clock::Timestamp;

use super::SingleSignOn;
use super::end_sessions;
use crate::db::Error;

const FIND: &str = "SELECT id, account_id FROM identities WHERE issuer = $1 AND subject = $2";
/// Inserts no row if the person already has a row, for example from a concurrent sign-in.
const INSERT: &str = "INSERT INTO identities (id, issuer, subject, account_id, created_at) VALUES ($1, $2, $3, $4, $5) \
    ON CONFLICT (issuer, subject) DO NOTHING";
const SET_ACCOUNT: &str = "UPDATE identities SET account_id = $2 WHERE id = $1";
const SESSIONS: &str =
    "SELECT app_password_id FROM sessions WHERE identity_id = $1 AND account_id = $2";
const DELETE_CODES: &str = "DELETE FROM sign_in_codes WHERE identity_id = $1 AND account_id = $2";

/// A person who signed in at the identity provider.
#[derive(Clone, Copy, Debug)]
pub struct NewIdentity<'a> {
    /// An opaque id, which is stored if the database does not contain the person yet.
    pub id: &'a str,
    /// The provider's issuer identifier.
    pub issuer: &'a str,
    /// The provider's id of the person.
    pub subject: &'a str,
    /// The account of the person's mailbox.
    pub account_id: &'a str,
    /// The address of the account.
    pub address: &'a str,
    /// The current time.
    pub at: Timestamp,
}

/// A known person.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Linked {
    /// The id of the identity.
    pub identity_id: String,
    /// The ids of the app passwords that were deleted, because the person had sessions of another
    /// mailbox.
    pub ended: Vec<String>,
}

impl SingleSignOn {
    /// Stores the account of a person. If the person had another account before, ends the person's
    /// web sessions of that account.
    ///
    /// # Errors
    /// Returns [`Error`] if the database fails. Nothing is changed in that case.
    pub async fn link_identity(
        &self,
        new: NewIdentity<'_>,
        origin: &Origin,
    ) -> Result<Linked, Error> {
        let mut tx = self.db.begin().await?;
        tx.execute(
            INSERT,
            (new.id, new.issuer, new.subject, new.account_id, new.at),
        )
        .await?;
        let (identity_id, before): (String, String) =
            tx.one(FIND, (new.issuer, new.subject)).await?;
        if before == new.account_id {
            tx.commit().await?;
            let ended = Vec::new();
            return Ok(Linked { identity_id, ended });
        }
        tx.lock_account(&before).await?;
        tx.execute(SET_ACCOUNT, (&identity_id, new.account_id))
            .await?;
        tx.execute(DELETE_CODES, (&identity_id, &before)).await?;
        let ended: Vec<String> = tx.values(SESSIONS, (&identity_id, &before)).await?;
        let reason = format!("the mailbox of the person is now {}", new.address);
        end_sessions(&mut tx, &before, &ended, &reason, new.at, origin).await?;
        tx.commit().await?;
        Ok(Linked { identity_id, ended })
    }
}
