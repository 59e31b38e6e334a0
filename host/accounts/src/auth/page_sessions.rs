//! Sessions on the pages of the service: the owner's page and the operator's page.
//!
//! A session on a page is a web session with a shorter lifetime. It has no tokens, so it cannot be
//! used with the API. The page stores the session's id in a sealed cookie. The session ends when
//! the account's web sessions end, for example after a change of the password.

use std::time::Duration;

use latchmail_core::caller::{Caller, Origin};
use latchmail_core::clock::Timestamp;
use latchmail_core::error::Failure;
use latchmail_core::metrics;
use latchmail_core::sealing::Purpose;
use latchmail_directory::sessions::{NewSession, ProviderSession};
use latchmail_directory::two_factor::{Factor, SignIn};
use secrecy::SecretString;

use super::Auth;
use super::reasons::{ACCOUNT_CHANGED, CODE_USED};
use super::sessions::Sessions;
use super::single_sign_on::{Owner, SingleSignOn};
use super::verifier::Identified;

/// Lifetime of a session on a page.
pub const LIFETIME: Duration = Duration::from_hours(12);

/// The name of the owner's page in the labels of its sessions.
const OWNERS_PAGE: &str = "Account page";

impl Sessions {
    /// Starts a session on the owner's page for the account `address`, which must be in lower case.
    /// Returns the id of the session. Does not need the mail server, unless the mail server
    /// verifies the password.
    ///
    /// # Errors
    /// Returns the errors of [`Sessions::sign_in`]. On error, the code is not consumed.
    pub async fn sign_in_on_page(
        &self,
        address: &str,
        password: SecretString,
        code: Option<&SecretString>,
        origin: &Origin,
    ) -> Result<String, Failure> {
        let now = self.clock.now();
        self.verifier.require_password_sign_in(address)?;
        let permit = self.verifier.password_permit(address, origin).await?;
        let identified = self
            .verifier
            .identify(address, password, code, origin, permit)
            .await?;
        let session = self.page_session(&identified, OWNERS_PAGE, origin, now)?;
        let sid = self
            .begin_page_session(session, &identified, origin)
            .await?;
        metrics::SIGN_INS.increment(["success"]);
        Ok(sid)
    }

    /// Generates a session on the page with this name. Stores nothing.
    pub(super) fn page_session(
        &self,
        identified: &Identified,
        page: &str,
        origin: &Origin,
        now: Timestamp,
    ) -> Result<NewSession, Failure> {
        let (mut session, _) = self.new_session(&identified.account.id, origin, now)?;
        session.expires_at = now.plus(LIFETIME);
        session.app_password.label = format!("{page}, {}", session.app_password.label);
        Ok(session)
    }

    /// Stores a session on a page for a person whose credentials were verified. Consumes the second
    /// factor. Returns the id of the session.
    ///
    /// # Errors
    /// Returns 401 if the code was used concurrently or if the account has changed. Returns 500 for
    /// an internal error. On error, the code is not consumed.
    pub(super) async fn begin_page_session(
        &self,
        session: NewSession,
        identified: &Identified,
        origin: &Origin,
    ) -> Result<String, Failure> {
        let (account, factor) = (&identified.account, &identified.factor);
        let owner = identified.origin(origin, Some(&session.app_password.id));
        let begun = self
            .directory
            .second_factors
            .sign_in(&session, &account.password_hash, factor, &owner)
            .await?;
        let reason = match begun {
            SignIn::Begun => return Ok(session.sid),
            SignIn::CodeUsed => CODE_USED,
            SignIn::AccountChanged => ACCOUNT_CHANGED,
        };
        Err(self
            .verifier
            .reject_changed(account, reason, origin)
            .await?)
    }
}

impl SingleSignOn {
    /// Starts a session on the owner's page for a person who signed in at the provider. Returns the
    /// id of the session. The session ends with the person's session at the provider, like other
    /// web sessions.
    ///
    /// # Errors
    /// Returns 401 if the account was changed concurrently. Returns 500 for an internal error.
    pub async fn sign_in_on_page(&self, owner: Owner, origin: &Origin) -> Result<String, Failure> {
        let now = self.clock.now();
        let identified = Identified {
            account: owner.account,
            factor: Factor::Provider { code: None },
        };
        let sessions = &self.sessions;
        let mut session = sessions.page_session(&identified, OWNERS_PAGE, origin, now)?;
        let latest_end = now.plus(sessions.provider_max_age);
        session.expires_at = session.expires_at.min(latest_end);
        let token = owner.refresh_token.as_ref();
        let sealed = token.map(|token| self.keys.seal(Purpose::ProviderToken, &session.sid, token));
        session.provider = Some(ProviderSession {
            identity_id: owner.identity_id,
            sid: owner.sid,
            sealed_token: sealed.transpose()?,
        });
        let sid = sessions
            .begin_page_session(session, &identified, origin)
            .await?;
        metrics::SIGN_INS.increment(["success"]);
        Ok(sid)
    }
}

impl Auth {
    /// Returns the caller with the web session `sid`, for pages that store the id of a session in a
    /// sealed cookie. Returns `None` if the session has ended.
    ///
    /// # Errors
    /// Returns 401 if the service's keys cannot decrypt the session's app password, or 500 for an
    /// internal error.
    pub async fn page_caller(&self, sid: &str) -> Result<Option<Caller>, Failure> {
        let now = self.clock.now();
        let Some(session) = self.directory.sessions.find(sid, now).await? else {
            return Ok(None);
        };
        let caller = self.sessions.caller(session)?;
        self.uses.note(&caller.mail.id, now);
        Ok(Some(caller))
    }
}
