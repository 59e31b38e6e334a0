//! The revocation of tokens (RFC 7009). The crate `latchmail-http` contains the endpoint.
//!
//! A revoked access token or refresh token ends the whole grant, with all its tokens. A client that
//! revokes an access token disconnects from the account, and would otherwise leave a refresh token
//! that is valid for 30 days.

use latchmail_accounts::auth::oauth_tokens::{Count, IssuedToken, Use};
use latchmail_core::caller::Origin;

use super::OAuth;
use super::clients::ClientCredentials;
use super::error::{Error, Refusal};
use super::parameters::Parameters;

/// The effect of a revocation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Revocation {
    /// The grant of the token was ended.
    Ended,
    /// The token is unknown, expired or already revoked. The response is the same as for a valid
    /// token (RFC 7009, section 2.2).
    Unknown,
}

impl OAuth {
    /// Ends the grant of the parameter `token`. Ignores `token_type_hint`, because the prefix of a
    /// token shows its type.
    ///
    /// # Errors
    /// Returns an OAuth error if the client cannot be authenticated, or if the token was issued to
    /// another client. Returns the error of `count` if `count` fails. Returns 500 if the directory
    /// fails.
    pub async fn revoke(
        &self,
        parameters: &Parameters,
        basic: Option<(&str, &str)>,
        count: Count<'_>,
        origin: &Origin,
    ) -> Result<Revocation, Error> {
        let credentials = ClientCredentials::of(parameters, basic)?;
        let client = self.authenticated_id(credentials).await?;
        let token = parameters.needed("token")?;
        let is_refresh_token = IssuedToken::parse(Use::Refresh, token).is_some();
        let kind = if is_refresh_token {
            Use::Refresh
        } else {
            Use::Access
        };
        let Some(token) = IssuedToken::parse(kind, token) else {
            return Ok(Revocation::Unknown);
        };
        let tokens = &self.auth.oauth_tokens;
        match tokens
            .revoke(&token, is_refresh_token, client, count, origin)
            .await?
        {
            Some(true) => Ok(Revocation::Ended),
            Some(false) => Err(Refusal::grant("The token was issued to another client").into()),
            None => Ok(Revocation::Unknown),
        }
    }
}
