//! Finds the caller to whom an access token of an external authorization server belongs.

use latchmail_core::caller::{Caller, Credential, MailCredential, Proof};
use latchmail_core::codes;
use latchmail_core::error::{Failure, Kind};
use secrecy::{ExposeSecret as _, SecretString};
use tokio::time::Instant;

use super::Auth;
use super::access_token::BAD_ACCESS_TOKEN;
use super::external::{External, OpaqueToken, TokenStatus};

impl Auth {
    /// Checks a token as a request does, and returns the time at which the token must be checked
    /// again. Returns `None` if the token or the account with the id `account` is not valid.
    ///
    /// # Errors
    /// Returns 503 if the external server cannot be queried, or 500 for an internal error.
    pub async fn external_token_until(
        &self,
        account: &str,
        token: &SecretString,
    ) -> Result<Option<Instant>, Failure> {
        let Some(external) = &self.external else {
            return Ok(None);
        };
        let token = OpaqueToken::of(token.expose_secret());
        match self.by_external_token(external, &token).await {
            Ok(caller) if caller.account == account => {
                let cached = external.cached_until(&token);
                let end = caller.mail.until();
                Ok(Some(end.map_or(cached, |end| end.min(cached))))
            }
            Ok(_) => Ok(None),
            Err(failure) if failure.kind == Kind::Unauthorized => Ok(None),
            Err(failure) => Err(failure),
        }
    }

    /// Returns the caller of a token. The caller is the active account with the address in the
    /// external server's response.
    ///
    /// # Errors
    /// Returns 401 if the token is invalid, 503 if the external server cannot be queried, or 500
    /// for an internal error.
    pub(super) async fn by_external_token(
        &self,
        external: &External,
        token: &OpaqueToken,
    ) -> Result<Caller, Failure> {
        let refused =
            |why| Failure::unauthorized(codes::INVALID_ACCESS_TOKEN, BAD_ACCESS_TOKEN).because(why);
        let subject = match external.check(token).await? {
            TokenStatus::Active(subject) => subject,
            TokenStatus::Rejected(why) => return Err(refused(why)),
        };
        // The directory is queried at every request, so that disabling an account takes effect
        // immediately.
        let account = self.directory.accounts.by_address(&subject.address).await?;
        let account = account
            .filter(|account| account.active)
            .ok_or_else(|| refused("no active account has the token's address"))?;
        let hash = token.hash();
        Ok(Caller {
            account: account.id,
            mail: MailCredential {
                id: hash.to_owned(),
                username: account.address.clone(),
                proof: Proof::AccessToken {
                    token: token.secret().clone(),
                    until: subject.until.map(|until| self.clock.instant(until)),
                },
            },
            address: account.address,
            admin: account.admin,
            credential: Credential::OAuth {
                id: hash.to_owned(),
                audience: subject.audience,
                scopes: self.oauth_tokens.oauth_scopes(),
            },
            grant: None,
            shared: None,
        })
    }
}
