//! The owner of an account switches two-factor sign-in on and off, and replaces the recovery codes.
//! Each change needs the password, so a stolen session alone cannot change who can sign in.
//!
//! [`super::two_factor`] generates and checks the codes.

use latchmail_core::caller::Origin;
use latchmail_core::clock::Timestamp;
use latchmail_core::codes;
use latchmail_core::error::Failure;
use latchmail_directory::events::Kind;

use super::account::Confirmation;
use super::two_factor::{Enrolment, RecoveryCodes, is_code_of};
use super::verifier::Verifier;

/// The state of an account's two-factor sign-in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SecondFactorState {
    /// The user signs in at the identity provider, which is responsible for second factors.
    AtProvider,
    /// The account has no second factor.
    Off,
    /// The account has a second factor.
    On {
        /// The time at which two-factor sign-in was switched on.
        since: Timestamp,
        /// The number of unused recovery codes.
        recovery_codes: usize,
    },
}

/// The result of a change of the second factor.
#[derive(Debug)]
pub enum SecondFactorChange<T> {
    /// The second factor was changed.
    Done(T),
    /// The password or the current two-factor code is wrong. Nothing was changed.
    WrongPassword,
    /// The code is not a current code of the new secret. Nothing was changed.
    WrongCode,
    /// Two-factor sign-in is already in the requested state.
    Unchanged,
}

impl Verifier {
    /// Returns the state of an account's two-factor sign-in. `address` is the account's address.
    ///
    /// # Errors
    /// Returns 500 for an internal error.
    pub async fn second_factor_state(
        &self,
        account: &str,
        address: &str,
    ) -> Result<SecondFactorState, Failure> {
        if self.users.settings().is_at_provider(address) {
            return Ok(SecondFactorState::AtProvider);
        }
        let found = self.directory.second_factors.find(account).await?;
        Ok(
            found.map_or(SecondFactorState::Off, |found| SecondFactorState::On {
                since: found.created_at,
                recovery_codes: found.recovery_codes.len(),
            }),
        )
    }

    /// Enables two-factor sign-in with a new secret. The code of the confirmation must be a code of
    /// the new secret. It proves that the user's device has the secret. `address` is the account's
    /// address.
    ///
    /// # Errors
    /// Returns 403 if the user signs in at the identity provider. Returns 429 after too many wrong
    /// passwords. Returns 500 for an internal error. On error, nothing is changed.
    pub async fn enable_second_factor(
        &self,
        confirmation: Confirmation<'_>,
        address: &str,
        enrolment: Enrolment,
        origin: &Origin,
    ) -> Result<SecondFactorChange<RecoveryCodes>, Failure> {
        let (account, code) = (confirmation.session.account, confirmation.code);
        match self.second_factor_state(account, address).await? {
            SecondFactorState::Off => {}
            SecondFactorState::On { .. } => return Ok(SecondFactorChange::Unchanged),
            SecondFactorState::AtProvider => {
                return Err(Failure::forbidden(
                    codes::PASSWORD_MANAGED_ELSEWHERE,
                    "Enable two-factor sign-in at the identity provider, where you sign in",
                ));
            }
        }
        let is_right = match code {
            Some(code) => is_code_of(&enrolment.secret, code, self.clock.now())?,
            None => false,
        };
        if !is_right {
            return Ok(SecondFactorChange::WrongCode);
        }
        let verified = self.verified(confirmation, Kind::TwoFactorChangeFailed, origin);
        if verified.await?.is_none() {
            return Ok(SecondFactorChange::WrongPassword);
        }
        let hashes = enrolment.recovery.hashes();
        let set = self.directory.second_factors.set(
            account,
            &enrolment.sealed_secret,
            &hashes,
            self.clock.now(),
            origin,
        );
        Ok(if set.await? {
            SecondFactorChange::Done(enrolment.recovery)
        } else {
            SecondFactorChange::Unchanged
        })
    }

    /// Disables two-factor sign-in, and deletes the recovery codes.
    ///
    /// # Errors
    /// Returns 401 if the two-factor code is missing. Returns 429 after too many wrong passwords.
    /// Returns 500 for an internal error. On error, nothing is changed.
    pub async fn disable_second_factor(
        &self,
        confirmation: Confirmation<'_>,
        origin: &Origin,
    ) -> Result<SecondFactorChange<()>, Failure> {
        let account = confirmation.session.account;
        let verified = self.verified(confirmation, Kind::TwoFactorChangeFailed, origin);
        if verified.await?.is_none() {
            return Ok(SecondFactorChange::WrongPassword);
        }
        let now = self.clock.now();
        let removed = self.directory.second_factors.remove(account, now, origin);
        Ok(if removed.await? {
            SecondFactorChange::Done(())
        } else {
            SecondFactorChange::Unchanged
        })
    }

    /// Replaces the recovery codes. The old recovery codes become invalid.
    ///
    /// # Errors
    /// Returns 401 if the two-factor code is missing. Returns 429 after too many wrong passwords.
    /// Returns 500 for an internal error. On error, nothing is changed.
    pub async fn renew_recovery_codes(
        &self,
        confirmation: Confirmation<'_>,
        origin: &Origin,
    ) -> Result<SecondFactorChange<RecoveryCodes>, Failure> {
        let account = confirmation.session.account;
        let verified = self.verified(confirmation, Kind::TwoFactorChangeFailed, origin);
        if verified.await?.is_none() {
            return Ok(SecondFactorChange::WrongPassword);
        }
        let codes = RecoveryCodes::generate()?;
        let hashes = codes.hashes();
        let replaced = self.directory.second_factors.replace_recovery_codes(
            account,
            &hashes,
            self.clock.now(),
            origin,
        );
        Ok(if replaced.await? {
            SecondFactorChange::Done(codes)
        } else {
            SecondFactorChange::Unchanged
        })
    }
}
