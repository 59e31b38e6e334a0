//! Second factors: time-based codes and recovery codes. Each code can be used one time, and wrong
//! codes are rate-limited.
//!
//! The `accounts` crate decrypts the secrets and checks codes. This module marks a code as used in
//! the same transaction that creates the session. So a sign-in that fails for another reason does
//! not consume the code.

use std::fmt;
use std::time::Duration;

use latchmail_core::caller::Origin;
use latchmail_core::clock::Timestamp;

use crate::db::{Db, Error, Tx};
use crate::events::{self, Event, Kind};
use crate::sessions::{self, NewSession};
use crate::single_sign_on;

/// Maximum number of consecutive wrong codes. After this number, codes are refused for some time.
const MAX_WRONG_CODES: u32 = 10;
/// The duration for which codes are refused after [`MAX_WRONG_CODES`]. Each further wrong code
/// doubles the duration.
const FIRST_WAIT: Duration = Duration::from_mins(1);
const LONGEST_WAIT: Duration = Duration::from_hours(24);

const FIND: &str = "SELECT sealed_secret, created_at, last_step, refused_until FROM two_factor WHERE account_id = $1";
const RECOVERY_CODES: &str = "SELECT code_hash FROM recovery_codes WHERE account_id = $1";
const INSERT: &str = "INSERT INTO two_factor (account_id, sealed_secret, created_at) VALUES ($1, $2, $3) \
    ON CONFLICT (account_id) DO NOTHING";
const DELETE: &str = "DELETE FROM two_factor WHERE account_id = $1";
const INSERT_CODE: &str = "INSERT INTO recovery_codes (account_id, code_hash) VALUES ($1, $2)";
const DELETE_CODES: &str = "DELETE FROM recovery_codes WHERE account_id = $1";
const COUNT_CODES: &str = "SELECT COUNT(*) FROM recovery_codes WHERE account_id = $1";
const IS_ENABLED: &str = "SELECT 1 FROM two_factor WHERE account_id = $1";

/// Returns a row if the account is active and its password has not changed since the check of the
/// password.
const UNCHANGED: &str = "SELECT 1 FROM accounts WHERE id = $1 AND active AND password_hash = $2";
/// Marks the time step of a code as used. Concurrent sign-ins update the row one after the other.
/// So the second sign-in with the same code matches no row.
///
/// The query also matches no row if too many wrong codes were tried, or if the secret was replaced
/// after the check of the code. `created_at` identifies the secret, because encrypting the secret
/// again with another key does not change `created_at`.
const CONSUME_STEP: &str = "UPDATE two_factor SET last_step = $2, wrong_codes = 0, refused_until = 0 \
    WHERE account_id = $1 AND last_step < $2 AND refused_until <= $3 AND created_at = $4";
const RESET_WRONG_CODES: &str =
    "UPDATE two_factor SET wrong_codes = 0, refused_until = 0 WHERE account_id = $1";
const ADDRESS: &str = "SELECT address FROM accounts WHERE id = $1";
const COUNT_WRONG: &str = "UPDATE two_factor SET wrong_codes = wrong_codes + 1 \
    WHERE account_id = $1 RETURNING wrong_codes";
const REFUSE_UNTIL: &str = "UPDATE two_factor SET refused_until = $2 WHERE account_id = $1";
const CONSUME_CODE: &str = "DELETE FROM recovery_codes WHERE account_id = $1 AND code_hash = $2";

/// An account's second factor.
#[derive(Clone)]
pub struct TwoFactor {
    /// The secret, encrypted with the service's key.
    pub sealed_secret: Vec<u8>,
    /// The time at which the account got the secret.
    pub created_at: Timestamp,
    /// The latest time step with an accepted code.
    pub last_step: i64,
    /// The time until which codes are refused after too many consecutive wrong codes. Recovery
    /// codes are accepted during this time.
    pub refused_until: Timestamp,
    /// SHA-256 of each unused recovery code, lower-case hexadecimal.
    pub recovery_codes: Vec<String>,
}

impl fmt::Debug for TwoFactor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TwoFactor")
            .field("created_at", &self.created_at)
            .field("last_step", &self.last_step)
            .field("refused_until", &self.refused_until)
            .field("recovery_codes", &self.recovery_codes.len())
            .finish_non_exhaustive()
    }
}

/// The second factor in a sign-in request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Factor {
    /// No factor, because the account has no second factor.
    None,
    /// A time-based code.
    Code {
        /// The time step of the code.
        step: i64,
        /// The time at which the account got the secret. The code was checked with this secret.
        since: Timestamp,
    },
    /// The recovery code with this hash.
    RecoveryCode(String),
    /// The person signed in at the identity provider, which is responsible for second factors. The
    /// service checks no second factor of its own.
    Provider {
        /// The hash of the sign-in code that the person's client exchanges. `None` if the sign-in
        /// needs no code.
        code: Option<String>,
    },
}

/// A person whose password and code were correct.
#[derive(Clone, Copy, Debug)]
pub struct Person<'a> {
    /// The account's id.
    pub account_id: &'a str,
    /// The password hash with which the password was checked.
    pub password_hash: &'a str,
    /// The second factor.
    pub factor: &'a Factor,
    /// The current time.
    pub at: Timestamp,
}

/// The result of consuming a second factor. The transaction still holds the lock on the account's
/// row.
pub(super) enum Consumption {
    /// The factor is valid, and its code was consumed. The caller appends the text `with` to the
    /// detail of its event.
    Valid { with: String },
    /// A concurrent request consumed the code or replaced the factor, or too many wrong codes were
    /// tried.
    Used,
    /// A concurrent request disabled or deleted the account, or changed its password or second
    /// factor.
    AccountChanged,
}

/// The result of a sign-in with a correct password and a correct code.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SignIn {
    /// The session was created and the code was consumed.
    Begun,
    /// A concurrent request consumed the code or replaced the factor, or too many wrong codes were
    /// tried.
    CodeUsed,
    /// A concurrent request disabled or deleted the account, or changed its password or second
    /// factor.
    AccountChanged,
}

/// The second factors of accounts.
#[derive(Clone, Debug)]
pub struct SecondFactors {
    pub(crate) db: Db,
}

impl SecondFactors {
    /// Returns the second factor of an account. Returns `None` if the account has no second factor.
    ///
    /// # Errors
    /// Returns [`Error`] if the database fails.
    pub async fn find(&self, account_id: &str) -> Result<Option<TwoFactor>, Error> {
        let found: Option<(Vec<u8>, i64, i64, i64)> = self.db.optional(FIND, [account_id]).await?;
        let Some((sealed_secret, created_at, last_step, refused_until)) = found else {
            return Ok(None);
        };
        let recovery_codes = self.db.values(RECOVERY_CODES, [account_id]).await?;
        Ok(Some(TwoFactor {
            sealed_secret,
            created_at: Timestamp::from_millis(created_at),
            last_step,
            refused_until: Timestamp::from_millis(refused_until),
            recovery_codes,
        }))
    }

    /// Creates a session and consumes the code, in one transaction. If two sign-ins use the same
    /// code concurrently, only one sign-in succeeds. The account must not have changed since its
    /// password was checked against `password_hash`.
    ///
    /// # Errors
    /// Returns [`Error`] if the database fails. No session is created and no code is consumed in
    /// that case.
    pub async fn sign_in(
        &self,
        session: &NewSession,
        password_hash: &str,
        factor: &Factor,
        origin: &Origin,
    ) -> Result<SignIn, Error> {
        let account = &session.account_id;
        let mut tx = self.db.begin_locked(account).await?;
        let person = Person {
            account_id: account,
            password_hash,
            factor,
            at: session.created_at,
        };
        let with = match consume(&mut tx, person).await? {
            Consumption::Valid { with } => with,
            Consumption::Used => return Ok(SignIn::CodeUsed),
            Consumption::AccountChanged => return Ok(SignIn::AccountChanged),
        };
        let detail = format!("{}{with}", session.app_password.label);
        sessions::insert(&mut tx, session).await?;
        let begun = Event::of(Kind::SignedIn, account, session.created_at)
            .about(&session.app_password.id)
            .detail(&detail);
        events::commit(tx, begun, origin).await?;
        Ok(SignIn::Begun)
    }

    /// Counts a wrong code in a sign-in with a correct password. Records the failed sign-in. From
    /// the tenth consecutive wrong code, codes are refused for some time. Each further wrong code
    /// doubles this time, up to one day. A correct code or a recovery code resets the count.
    ///
    /// # Errors
    /// Returns [`Error`] if the database fails. Nothing is counted in that case.
    pub async fn wrong_code(
        &self,
        account_id: &str,
        now: Timestamp,
        origin: &Origin,
    ) -> Result<(), Error> {
        let mut tx = self.db.begin_locked(account_id).await?;
        let wrong: Option<i64> = tx.optional_value(COUNT_WRONG, [account_id]).await?;
        let mut detail = "wrong two-factor code".to_owned();
        let wrong = wrong.and_then(|wrong| u32::try_from(wrong).ok());
        if let Some(wrong) = wrong.filter(|wrong| *wrong >= MAX_WRONG_CODES) {
            let until = now.plus(wait_after(wrong));
            tx.execute(REFUSE_UNTIL, (account_id, until)).await?;
            detail = format!("{detail}, {wrong} in a row: codes are refused until {until}");
        }
        let address: Option<String> = tx.optional_value(ADDRESS, [account_id]).await?;
        let failed = Event {
            address: address.as_deref().unwrap_or_default(),
            ..Event::of(Kind::SignInFailed, account_id, now).detail(&detail)
        };
        events::commit(tx, failed, origin).await
    }

    /// Consumes a factor for another purpose than a sign-in. Returns `true` if the factor is valid.
    /// [`Factor::None`] is always valid.
    ///
    /// # Errors
    /// Returns [`Error`] if the database fails. No code is consumed in that case.
    pub async fn use_factor(&self, person: Person<'_>) -> Result<bool, Error> {
        if *person.factor == Factor::None {
            return Ok(true);
        }
        let mut tx = self.db.begin_locked(person.account_id).await?;
        let right = matches!(consume(&mut tx, person).await?, Consumption::Valid { .. });
        tx.commit().await?;
        Ok(right)
    }

    /// Adds a second factor to an account. Returns `false` if the account already has a second
    /// factor.
    ///
    /// # Errors
    /// Returns [`Error`] if the database fails. Nothing is changed in that case.
    pub async fn set(
        &self,
        account_id: &str,
        sealed_secret: &[u8],
        recovery_codes: &[String],
        now: Timestamp,
        origin: &Origin,
    ) -> Result<bool, Error> {
        let mut tx = self.db.begin_locked(account_id).await?;
        let set = tx.execute(INSERT, (account_id, sealed_secret, now)).await?;
        if set == 0 {
            return Ok(false);
        }
        insert_codes(&mut tx, account_id, recovery_codes).await?;
        let on = Event::of(Kind::TwoFactorOn, account_id, now);
        events::commit(tx, on, origin).await?;
        Ok(true)
    }

    /// Removes an account's second factor and its recovery codes. Returns `true` if the account had
    /// a second factor.
    ///
    /// # Errors
    /// Returns [`Error`] if the database fails. Nothing is changed in that case.
    pub async fn remove(
        &self,
        account_id: &str,
        now: Timestamp,
        origin: &Origin,
    ) -> Result<bool, Error> {
        let mut tx = self.db.begin_locked(account_id).await?;
        let removed = tx.execute(DELETE, [account_id]).await?;
        if removed == 0 {
            return Ok(false);
        }
        let off = Event::of(Kind::TwoFactorOff, account_id, now);
        events::commit(tx, off, origin).await?;
        Ok(true)
    }

    /// Replaces an account's recovery codes. Returns `false` if the account has no second factor.
    ///
    /// # Errors
    /// Returns [`Error`] if the database fails. The old codes remain valid in that case.
    pub async fn replace_recovery_codes(
        &self,
        account_id: &str,
        recovery_codes: &[String],
        now: Timestamp,
        origin: &Origin,
    ) -> Result<bool, Error> {
        let mut tx = self.db.begin_locked(account_id).await?;
        if !tx.exists(IS_ENABLED, [account_id]).await? {
            return Ok(false);
        }
        tx.execute(DELETE_CODES, [account_id]).await?;
        insert_codes(&mut tx, account_id, recovery_codes).await?;
        let made = Event::of(Kind::RecoveryCodesMade, account_id, now);
        events::commit(tx, made, origin).await?;
        Ok(true)
    }
}

/// Consumes the factor of a person. The caller must lock the account first. The account must not
/// have changed since the check of the password.
pub(super) async fn consume(tx: &mut Tx, person: Person<'_>) -> Result<Consumption, Error> {
    let account = person.account_id;
    let is_unchanged = tx
        .exists(UNCHANGED, (account, person.password_hash))
        .await?;
    let is_changed = match person.factor {
        Factor::Provider { .. } => false,
        factor => (*factor != Factor::None) != tx.exists(IS_ENABLED, [account]).await?,
    };
    if !is_unchanged || is_changed {
        return Ok(Consumption::AccountChanged);
    }
    let with = match person.factor {
        Factor::Provider { code } => {
            if let Some(hash) = code
                && !single_sign_on::consume_code(tx, hash, person.at).await?
            {
                return Ok(Consumption::Used);
            }
            ", at the identity provider".to_owned()
        }
        Factor::None => String::new(),
        Factor::Code { step, since } => {
            let taken = tx
                .execute(CONSUME_STEP, (account, *step, person.at, *since))
                .await?;
            if taken == 0 {
                return Ok(Consumption::Used);
            }
            ", with a two-factor code".to_owned()
        }
        Factor::RecoveryCode(hash) => {
            let taken = tx.execute(CONSUME_CODE, (account, hash)).await?;
            if taken == 0 {
                return Ok(Consumption::Used);
            }
            tx.execute(RESET_WRONG_CODES, [account]).await?;
            let left: i64 = tx.value(COUNT_CODES, [account]).await?;
            format!(", with a recovery code; {left} left")
        }
    };
    Ok(Consumption::Valid { with })
}

/// Returns the time for which codes are refused after this number of consecutive wrong codes.
fn wait_after(wrong: u32) -> Duration {
    let doubled = 2_u32.saturating_pow(wrong.saturating_sub(MAX_WRONG_CODES));
    FIRST_WAIT.saturating_mul(doubled).min(LONGEST_WAIT)
}

async fn insert_codes(tx: &mut Tx, account_id: &str, hashes: &[String]) -> Result<(), Error> {
    for hash in hashes {
        tx.execute(INSERT_CODE, (account_id, hash)).await?;
    }
    Ok(())
}

#[cfg(test)]
mod tests;
