//! Approvals of clients. A person approves a client by signing in. The client then gets a code. The
//! client can exchange this code for tokens one time, within a minute. Alternatively, the person
//! approves a waiting device.

use latchmail_core::caller::Origin;
use latchmail_core::clock::Timestamp;

use super::OAuth;
use super::devices;
use super::grants::{self, NewGrant};
use crate::credentials;
use crate::db::{Error, Tx};
use crate::events::{self, Event, Kind};
use crate::two_factor::{self, Consumption, Person};

const INSERT: &str = "INSERT INTO oauth_codes \
    (code_hash, account_id, client_id, client_name, redirect_uri, challenge, resource, scope, expires_at) VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9)";
const USE_CLIENT: &str = "UPDATE oauth_clients SET used_at = $2 WHERE id = $1";
const FIND: &str = "SELECT account_id, client_id, client_name, redirect_uri, challenge, resource, scope FROM oauth_codes WHERE code_hash = $1";
const OWNER: &str = "SELECT account_id FROM oauth_codes WHERE code_hash = $1";
/// Marks a code as exchanged. If two calls exchange the same code concurrently, the statement of
/// the second call changes no row, because the row already has a grant.
const MARK_EXCHANGED: &str = "UPDATE oauth_codes SET grant_id = $2 WHERE code_hash = $1 AND grant_id IS NULL AND expires_at > $3 \
    AND EXISTS (SELECT 1 FROM accounts a WHERE a.id = oauth_codes.account_id AND a.active)";
const APP_PASSWORD_OF_CODE: &str = "SELECT g.app_password_id FROM oauth_codes c JOIN oauth_grants g ON g.id = c.grant_id WHERE c.code_hash = $1";

/// An authorization code to store.
#[derive(Clone, Debug)]
pub struct NewCode {
    /// SHA-256 of the code, lower-case hexadecimal.
    pub hash: String,
    /// The client's id.
    pub client_id: String,
    /// The client's name, chosen by the client.
    pub client_name: String,
    /// The URI to which the person is redirected.
    pub redirect_uri: String,
    /// The code challenge (RFC 7636, S256).
    pub challenge: String,
    /// The resource server (RFC 8707) for which the tokens are valid.
    pub resource: String,
    /// The scopes of the grant, separated by spaces.
    pub scope: String,
    /// The time until which the code can be exchanged.
    pub expires_at: Timestamp,
}

/// An approval.
#[derive(Clone, Copy, Debug)]
pub enum Approval<'a> {
    /// The client gets this code.
    Code(&'a NewCode),
    /// The device with this user code is approved.
    Device(&'a str),
}

/// The result of an approval.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ApprovalOutcome {
    /// The approval was stored, and the second factor's code was consumed.
    Approved,
    /// A concurrent request consumed the second factor's code, or too many wrong codes were tried.
    CodeUsed,
    /// A concurrent request disabled or deleted the account, or changed its password or second
    /// factor.
    AccountChanged,
    /// No waiting device has this user code any longer.
    NoDevice,
}

/// A code that a client sent. The code may have been exchanged or may have expired.
#[derive(Clone, Debug, sqlx_macros::FromRow)]
pub struct Presented {
    /// The account whose mailbox the tokens are for.
    pub account_id: String,
    /// The client that the code was created for.
    pub client_id: String,
    /// The client's name, chosen by the client.
    pub client_name: String,
    /// The URI to which the person was redirected.
    pub redirect_uri: String,
    /// The code challenge.
    pub challenge: String,
    /// The resource server (RFC 8707) for which the tokens are valid.
    pub resource: String,
    /// The scopes of the grant, separated by spaces.
    pub scope: String,
}

/// The result of exchanging a code.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Exchange {
    /// The grant was created.
    Granted {
        /// The ids of the app passwords that were deleted because the account had too many grants.
        ended: Vec<String>,
    },
    /// The code expired or does not exist, or its account is not active.
    Gone,
    /// The code was already exchanged. The grant was ended, because two parties have the code.
    Replayed {
        /// The id of the app password that was deleted with the grant.
        ended: String,
    },
}

impl OAuth {
    /// Stores the approval of a signed-in person and consumes the second factor's code, in one
    /// transaction.
    ///
    /// # Errors
    /// Returns [`Error`] if the database fails. Nothing is stored in that case.
    pub async fn approve(
        &self,
        person: Person<'_>,
        approval: Approval<'_>,
        origin: &Origin,
    ) -> Result<ApprovalOutcome, Error> {
        let mut tx = self.db.begin_locked(person.account_id).await?;
        let with = match two_factor::consume(&mut tx, person).await? {
            Consumption::Valid { with } => with,
            Consumption::Used => return Ok(ApprovalOutcome::CodeUsed),
            Consumption::AccountChanged => return Ok(ApprovalOutcome::AccountChanged),
        };
        let (client_id, client_name) = match approval {
            Approval::Code(code) => {
                insert(&mut tx, person.account_id, code).await?;
                (code.client_id.clone(), code.client_name.clone())
            }
            Approval::Device(user_code) => {
                match devices::approve(&mut tx, user_code, person.account_id, person.at).await? {
                    Some(client) => client,
                    None => return Ok(ApprovalOutcome::NoDevice),
                }
            }
        };
        tx.execute(USE_CLIENT, (&client_id, person.at)).await?;
        let detail = format!("{client_name}{with}");
        let approved = Event::of(Kind::ClientAgreedTo, person.account_id, person.at)
            .about(&client_id)
            .detail(&detail);
        events::commit(tx, approved, origin).await?;
        Ok(ApprovalOutcome::Approved)
    }

    /// Returns the code with this hash. Returns `None` if no code has this hash.
    ///
    /// # Errors
    /// Returns [`Error`] if the database fails.
    pub async fn authorization_code(&self, code_hash: &str) -> Result<Option<Presented>, Error> {
        self.db.optional(FIND, [code_hash]).await
    }

    /// Exchanges a code for `grant`. A code can be exchanged only one time. A second exchange ends
    /// the grant of the code.
    ///
    /// # Errors
    /// Returns [`Error`] if the database fails. The code is unchanged in that case.
    pub async fn exchange_code(
        &self,
        code_hash: &str,
        grant: &NewGrant,
        origin: &Origin,
    ) -> Result<Exchange, Error> {
        let mut tx = self.db.begin().await?;
        let owner: Option<String> = tx.optional_value(OWNER, [code_hash]).await?;
        let Some(owner) = owner.filter(|owner| *owner == grant.account_id) else {
            return Ok(Exchange::Gone);
        };
        tx.lock_account(&owner).await?;
        let taken = tx
            .execute(MARK_EXCHANGED, (code_hash, &grant.id, grant.at))
            .await?;
        if taken == 1 {
            let ended = grants::insert(&mut tx, grant, origin).await?;
            tx.commit().await?;
            return Ok(Exchange::Granted { ended });
        }
        let app_password: Option<String> =
            tx.optional_value(APP_PASSWORD_OF_CODE, [code_hash]).await?;
        let Some(app_password) = app_password else {
            return Ok(Exchange::Gone);
        };
        credentials::delete(&mut tx, &app_password).await?;
        let replayed = Event::of(Kind::OAuthGrantReused, &owner, grant.at)
            .about(&app_password)
            .detail("its code was used a second time");
        events::commit(tx, replayed, origin).await?;
        Ok(Exchange::Replayed {
            ended: app_password,
        })
    }
}

async fn insert(tx: &mut Tx, account_id: &str, code: &NewCode) -> Result<(), Error> {
    let row = (
        &code.hash,
        account_id,
        &code.client_id,
        &code.client_name,
        &code.redirect_uri,
        &code.challenge,
        &code.resource,
        &code.scope,
        code.expires_at,
    );
    tx.execute(INSERT, row).await?;
    Ok(())
}
