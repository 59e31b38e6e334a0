//! Exchanges authorization codes, refresh tokens and device codes for tokens (OAuth 2.1, section
//! 3.2). The crate `latchmail-http` contains the token endpoint.

use latchmail_accounts::auth::oauth_tokens::{
    ACCESS_LIFETIME, Count, GrantRequest, GrantTokens, InvalidGrant, IssuedToken, RefreshError,
    RefreshRequest, Use,
};
use latchmail_core::caller::{Audience, Origin};
use latchmail_directory::oauth::Poll;
use secrecy::ExposeSecret as _;
use serde::Serialize;
use utoipa::ToSchema;

use super::clients::ClientCredentials;
use super::error::{Error, Refusal};
use super::parameters::Parameters;
use super::{BY_CODE, BY_DEVICE_CODE, BY_REFRESH_TOKEN, OAuth, pkce, scopes};

const INVALID_GRANT: &str =
    "The code or token is unknown, expired, already used, or issued to another client";
/// The client must keep the refresh token, because the owner can resume the grant.
const SUSPENDED_GRANT: &str =
    "The owner of the account has suspended this grant; the refresh token stays valid";

/// The token response (RFC 6749, section 5.1).
#[derive(Serialize, ToSchema)]
#[schema(as = OAuthTokens)]
pub struct TokenResponse {
    /// The access token.
    access_token: String,
    /// `Bearer`.
    token_type: &'static str,
    /// The lifetime of the access token, in seconds.
    expires_in: u64,
    /// The refresh token. It can be exchanged once.
    refresh_token: String,
    /// The scopes of the access token, separated by spaces.
    scope: String,
}

impl OAuth {
    /// Exchanges an authorization code, a refresh token or a device code for tokens.
    ///
    /// # Errors
    /// Returns an OAuth error if the exchange is rejected. Returns the error of `count` if `count`
    /// fails. Returns 500 if the directory fails.
    pub async fn token(
        &self,
        parameters: &Parameters,
        basic: Option<(&str, &str)>,
        count: Count<'_>,
        origin: &Origin,
    ) -> Result<TokenResponse, Error> {
        let credentials = ClientCredentials::of(parameters, basic)?;
        let client = self.authenticated_id(credentials).await?;
        let tokens = match parameters.needed("grant_type")? {
            BY_CODE => self.by_code(client, parameters, count, origin).await?,
            BY_REFRESH_TOKEN => {
                self.by_refresh_token(client, parameters, count, origin)
                    .await?
            }
            BY_DEVICE_CODE => {
                self.by_device_code(client, parameters, count, origin)
                    .await?
            }
            _ => {
                let why =
                    "grant_type must be authorization_code, refresh_token or the device code grant";
                return Err(Refusal::new("unsupported_grant_type", why).into());
            }
        };
        Ok(TokenResponse {
            access_token: tokens.access.expose_secret().to_owned(),
            token_type: "Bearer",
            expires_in: ACCESS_LIFETIME.as_secs(),
            refresh_token: tokens.refresh.expose_secret().to_owned(),
            scope: tokens.scope,
        })
    }

    async fn by_code(
        &self,
        client: &str,
        parameters: &Parameters,
        count: Count<'_>,
        origin: &Origin,
    ) -> Result<GrantTokens, Error> {
        let verifier = parameters.one("code_verifier")?;
        let redirect_uri = parameters.one("redirect_uri")?;
        let audience = self.requested_audience(parameters)?;
        let code = IssuedToken::parse(Use::Code, parameters.needed("code")?).ok_or(InvalidGrant)?;
        let found = self.directory.oauth.authorization_code(code.hash()).await?;
        let found = found
            .filter(|found| found.client_id == client)
            .ok_or(InvalidGrant)?;
        count(code.hash()).await?;
        let Some(verifier) = verifier else {
            return Err(Refusal::request("code_verifier is missing: PKCE is required").into());
        };
        if !pkce::verifies(verifier, &found.challenge) {
            return Err(Refusal::grant("code_verifier does not match the code_challenge").into());
        }
        // OAuth 2.1 does not require `redirect_uri` in this request. A `redirect_uri` in this
        // request must be identical to the `redirect_uri` of the authorization request.
        if redirect_uri.is_some_and(|sent| sent != found.redirect_uri) {
            return Err(
                Refusal::grant("redirect_uri differs from the authorization request").into(),
            );
        }
        if audience.is_some_and(|audience| Some(audience) != self.audiences().of(&found.resource)) {
            return Err(wrong_resource().into());
        }
        let request = GrantRequest {
            account: &found.account_id,
            client_id: client,
            client_name: &found.client_name,
            resource: &found.resource,
            scope: &found.scope,
        };
        let tokens = &self.auth.oauth_tokens;
        Ok(tokens.exchange_code(&code, request, origin).await??)
    }

    async fn by_refresh_token(
        &self,
        client: &str,
        parameters: &Parameters,
        count: Count<'_>,
        origin: &Origin,
    ) -> Result<GrantTokens, Error> {
        let audience = self.requested_audience(parameters)?;
        let requested = scopes::requested(parameters)?;
        let token = IssuedToken::parse(Use::Refresh, parameters.needed("refresh_token")?);
        let token = token.ok_or(InvalidGrant)?;
        let request = RefreshRequest {
            client_id: client,
            audience,
            scopes: requested.as_deref(),
            count,
        };
        let tokens = &self.auth.oauth_tokens;
        let refreshed = tokens.refresh_grant(&token, request, origin).await?;
        refreshed.map_err(|error| match error {
            RefreshError::InvalidGrant => InvalidGrant.into(),
            RefreshError::Suspended => Refusal::grant(SUSPENDED_GRANT).into(),
            RefreshError::WrongAudience => wrong_resource().into(),
            RefreshError::ExcessiveScope => {
                scopes::refused("scope contains a scope that was not granted").into()
            }
        })
    }

    async fn by_device_code(
        &self,
        client: &str,
        parameters: &Parameters,
        count: Count<'_>,
        origin: &Origin,
    ) -> Result<GrantTokens, Error> {
        let device = IssuedToken::parse(Use::Device, parameters.needed("device_code")?);
        let device = device.ok_or(InvalidGrant)?;
        let devices = &self.directory.oauth;
        if !devices.has_device(device.hash(), client).await? {
            return Err(InvalidGrant.into());
        }
        count(device.hash()).await?;
        let now = self.clock.now();
        // RFC 8628, section 3.5, defines the error codes of this match.
        let (error, why) = match devices.poll_device(device.hash(), client, now).await? {
            Poll::Approved {
                account_id,
                client_name,
                resource,
                scope,
            } => {
                let request = GrantRequest {
                    account: &account_id,
                    client_id: client,
                    client_name: &client_name,
                    resource: &resource,
                    scope: &scope,
                };
                let tokens = &self.auth.oauth_tokens;
                return Ok(tokens.exchange_device(&device, request, origin).await??);
            }
            Poll::Pending => ("authorization_pending", "The user has not signed in"),
            Poll::SlowDown => (
                "slow_down",
                "The user has not signed in; increase the interval by five seconds",
            ),
            Poll::Denied => ("access_denied", "The user denied access"),
            Poll::Expired => ("expired_token", "The device code has expired"),
            Poll::Unknown => return Err(InvalidGrant.into()),
        };
        Err(Refusal::new(error, why).into())
    }

    /// Returns the audience of the parameter `resource`, or `None` if the request has no such
    /// parameter. Several URLs can identify the same audience.
    fn requested_audience(&self, parameters: &Parameters) -> Result<Option<Audience>, Refusal> {
        match parameters.all("resource").next() {
            None => Ok(None),
            Some(_) => Ok(self.audiences().of(&self.resource(parameters)?)),
        }
    }
}

impl From<InvalidGrant> for Error {
    fn from(InvalidGrant: InvalidGrant) -> Self {
        Refusal::grant(INVALID_GRANT).into()
    }
}

fn wrong_resource() -> Refusal {
    Refusal::new(
        "invalid_target",
        "resource differs from the authorization request",
    )
}
