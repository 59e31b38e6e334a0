//! Verifies the access token of a web session, and finds the caller to whom it belongs.

use std::net::IpAddr;

use latchmail_core::caller::{Caller, Credential, MailCredential};
use latchmail_core::codes;
use latchmail_core::error::Failure;
use latchmail_core::limits::{Bucket, Key, record_rejection};
use latchmail_core::sealing::Purpose;
use latchmail_directory::sessions::Session;

use super::access_token::{BAD_ACCESS_TOKEN, Claims};
use super::account::session_over;
use super::sessions::Sessions;

impl Sessions {
    /// Returns the claims of an access token with a valid signature. Does not query the directory.
    ///
    /// # Errors
    /// Returns 401 if the token is invalid, or 429 if the client has sent too many access tokens
    /// with an invalid signature. This limit does not affect tokens that are in the cache of
    /// verified tokens.
    pub(super) async fn verify(&self, token: &str, client: IpAddr) -> Result<Claims, Failure> {
        let limit = (Key::client(client), self.wrong_signatures.get());
        let attempt = self.failures.attempt([limit]);
        self.access_tokens
            .verify(&self.keys, token, self.clock.now(), attempt)
            .await
            .inspect_err(|_| {
                record_rejection(Bucket::Unproven.name(), self.clock.now());
            })?
            .ok_or_else(|| Failure::unauthorized(codes::INVALID_ACCESS_TOKEN, BAD_ACCESS_TOKEN))
    }

    /// Returns the caller of a verified access token. Returns 401 if the token's session does not
    /// exist, or if the session's app password cannot be decrypted.
    pub(super) async fn by_access_token(&self, claims: &Claims) -> Result<Caller, Failure> {
        let now = self.clock.now();
        let session = self
            .directory
            .sessions
            .find(&claims.sid, now)
            .await?
            .filter(|session| session.account_id == claims.sub)
            .ok_or_else(session_over)?;
        self.caller(session)
    }

    /// Returns the caller of a live session. Returns 401 if the session's app password cannot be
    /// decrypted.
    pub(super) fn caller(&self, session: Session) -> Result<Caller, Failure> {
        let password = self
            .keys
            .open(Purpose::WebSession, &session.sid, &session.sealed_password)
            .ok_or_else(|| {
                session_over()
                    .because("the service's keys cannot decrypt the session's app password")
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
            grant: None,
            shared: None,
        })
    }
}
