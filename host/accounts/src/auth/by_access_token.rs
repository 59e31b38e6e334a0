//! Finds the caller to whom the access token of a web session belongs.

use latchmail_core::caller::{Caller, Credential, MailCredential};
use latchmail_core::error::Failure;
use latchmail_core::sealing::Purpose;

use super::Auth;
use super::access_token::Claims;

impl Auth {
    /// Returns the caller of a verified access token. Returns 401 if the token's session does not
    /// exist, or if the session's app password cannot be opened.
    pub(super) async fn by_access_token(&self, claims: &Claims) -> Result<Caller, Failure> {
        let now = self.clock.now();
        let session = self
            .directory
            .sessions
            .find(&claims.sid, now)
            .await?
            .filter(|session| session.account_id == claims.sub)
            .ok_or_else(expired)?;
        let password = self
            .keys
            .open(Purpose::WebSession, &session.sid, &session.sealed_password)
            .ok_or_else(|| {
                expired()
                    .because("the session's app password cannot be opened with the service's keys")
            })?;
        Ok(Caller {
            account: session.account_id,
            mail: MailCredential::app_password(
                session.app_password_id,
                session.address.clone(),
                password,
            ),
            address: session.address,
            admin: session.admin,
            credential: Credential::Session { sid: session.sid },
            shared: None,
        })
    }
}

fn expired() -> Failure {
    Failure::unauthorized("Mail session expired, please log in again")
}
