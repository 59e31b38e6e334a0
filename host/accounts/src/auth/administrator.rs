//! Sessions of administrators on the operator's page.
//!
//! [`super::page_sessions`] describes the sessions on pages.

use std::sync::Arc;

use latchmail_core::caller::Origin;
use latchmail_core::clock::Clock;
use latchmail_core::codes;
use latchmail_core::error::Failure;
use latchmail_directory::Directory;
use latchmail_directory::credentials::Revocation;
use latchmail_directory::two_factor::Factor;
use secrecy::SecretString;

use super::account::Credentials;
use super::sessions::Sessions;
use super::verifier::{RECENT, Verifier};

const SECOND_FACTOR_REQUIRED: &str = "This endpoint needs a session that began with two-factor sign-in. \
    To enable it, run on the service's machine: latchmail account two-factor ADDRESS on";

const RECENT_SIGN_IN_REQUIRED: &str = "This action needs a sign-in within the last five minutes. \
    Sign in again, and repeat the request.";

/// An administrator with a session on the operator's page.
#[derive(Clone, Debug)]
pub struct Administrator {
    /// Id of the account.
    pub account: String,
    /// Address of the account.
    pub address: String,
    /// Id of the session's app password, which identifies the session in the list of credentials
    /// and in audit events.
    pub credential: String,
}

impl Administrator {
    /// Returns the origin of the administrator's actions for audit events. `origin` is the origin
    /// of the request.
    #[must_use]
    pub fn origin(&self, origin: Origin) -> Origin {
        Origin {
            actor: self.address.clone(),
            credential: Some(self.credential.clone()),
            ..origin
        }
    }
}

/// The administrators on the operator's page.
#[derive(Debug)]
pub struct Administrators {
    pub(super) directory: Directory,
    pub(super) clock: Clock,
    pub(super) verifier: Arc<Verifier>,
    pub(super) sessions: Arc<Sessions>,
    pub(super) credentials: Arc<Credentials>,
}

impl Administrators {
    /// Starts a session on the operator's page for the administrator `address`, which must be in
    /// lower case. Returns the id of the session.
    ///
    /// # Errors
    /// Returns the errors of [`Sessions::sign_in`] for wrong credentials. Returns 403 if the
    /// credentials are correct, but the account is not an administrator or has no second factor. On
    /// error, the code is not consumed.
    pub async fn sign_in_administrator(
        &self,
        address: &str,
        password: SecretString,
        code: Option<&SecretString>,
        origin: &Origin,
    ) -> Result<String, Failure> {
        let now = self.clock.now();
        let permit = self.verifier.password_permit(address, origin).await?;
        let identified = self
            .verifier
            .identify(address, password, code, origin, permit)
            .await?;
        let account = &identified.account;
        if !account.admin {
            let reason = "not an administrator";
            self.verifier
                .reject_changed(account, reason, origin)
                .await?;
            return Err(Failure::forbidden(
                codes::ADMINISTRATOR_REQUIRED,
                "This account is not an administrator",
            ));
        }
        if matches!(identified.factor, Factor::None) {
            let reason = "an administrator without a second factor";
            self.verifier
                .reject_changed(account, reason, origin)
                .await?;
            return Err(Failure::forbidden(
                codes::TWO_FACTOR_REQUIRED,
                format!(
                    "This page needs two-factor sign-in, and it is off for this account. To enable it, run on the service's machine: latchmail account two-factor {} on",
                    account.address
                ),
            ));
        }
        let session = self
            .sessions
            .page_session(&identified, "Operator's page", origin, now)?;
        self.sessions
            .begin_page_session(session, &identified, origin)
            .await
    }

    /// Returns the administrator with the session `sid`. Returns `None` if the session has ended or
    /// the account is disabled. If the account is no longer an administrator, ends the session and
    /// returns `None`.
    ///
    /// # Errors
    /// Returns 500 for an internal error.
    pub async fn administrator(&self, sid: &str) -> Result<Option<Administrator>, Failure> {
        let Some(session) = self.directory.sessions.find(sid, self.clock.now()).await? else {
            return Ok(None);
        };
        if !session.admin {
            let (account, id) = (&session.account_id, &session.app_password_id);
            let origin = Origin::service();
            self.credentials
                .revoke_app_password(account, id, origin)
                .await?;
            return Ok(None);
        }
        Ok(Some(Administrator {
            account: session.account_id,
            address: session.address,
            credential: session.app_password_id,
        }))
    }

    /// Checks that a web session can use the routes of administrators. These routes need a second
    /// factor, and changes also need a recent sign-in, because the routes can replace the modules
    /// of all accounts.
    ///
    /// # Errors
    /// Returns 403 if the sign-in had no second factor. Returns 403 if the caller wants to change
    /// something and the sign-in is not recent. Returns 500 for an internal error.
    pub async fn check_administrator_session(
        &self,
        account: &str,
        sid: &str,
        is_change: bool,
    ) -> Result<(), Failure> {
        let sign_in = self.directory.sessions.sign_in(account, sid).await?;
        let sign_in = sign_in.filter(|sign_in| sign_in.has_second_factor);
        let Some(sign_in) = sign_in else {
            return Err(Failure::forbidden(
                codes::TWO_FACTOR_REQUIRED,
                SECOND_FACTOR_REQUIRED,
            ));
        };
        if is_change && self.clock.now().since(sign_in.at) > RECENT {
            return Err(Failure::forbidden(
                codes::RECENT_SIGN_IN_REQUIRED,
                RECENT_SIGN_IN_REQUIRED,
            ));
        }
        Ok(())
    }

    /// Ends the session of an administrator on the operator's page.
    ///
    /// # Errors
    /// Returns 500 for an internal error. On error, the session continues.
    pub async fn sign_out_administrator(
        &self,
        administrator: &Administrator,
        origin: Origin,
    ) -> Result<(), Failure> {
        let (account, credential) = (&administrator.account, &administrator.credential);
        let revoked =
            self.credentials
                .revoke_app_password(account, credential, administrator.origin(origin));
        match revoked.await? {
            // `Unknown` means that another request has ended the session concurrently.
            Revocation::Revoked(_) | Revocation::Unknown => Ok(()),
            Revocation::BacksToken { .. } => Err(Failure::internal(
                "the credential of a session belongs to an API token",
            )),
        }
    }
}
