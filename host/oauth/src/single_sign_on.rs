//! Sign-in at the identity provider, for clients and for agents. A client starts a sign-in with a
//! redirect URI, and exchanges the resulting code for a web session. An agent does not start a
//! sign-in here: the user signs in at the provider to complete an authorization of the agent.

use latchmail_accounts::auth::SignedIn;
use latchmail_accounts::auth::oauth_tokens::{IssuedToken, Use};
use latchmail_accounts::auth::single_sign_on::Owner;
use latchmail_core::caller::Origin;
use latchmail_core::codes;
use latchmail_core::config::OidcSignIn;
use latchmail_core::error::{Failure, StartError};
use latchmail_directory::oauth::Approval;
use secrecy::ExposeSecret as _;
use serde::{Deserialize, Serialize};

use super::authorization::{Authorization, check_state};
use super::error::Refusal;
use super::parameters::Parameters;
use super::{OAuth, pkce, redirect};

/// A client's valid request to sign a person in at the provider.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ClientRequest {
    redirect_uri: String,
    state: Option<String>,
    challenge: String,
}

impl ClientRequest {
    /// Returns the description of the redirect target for users if the redirect URI is a loopback
    /// URI. Any program on the user's device can start such a sign-in, so the user must confirm it.
    /// Returns `None` for any other redirect URI.
    #[must_use]
    pub fn loopback_target(&self) -> Option<String> {
        redirect::is_loopback(&self.redirect_uri).then(|| redirect::target(&self.redirect_uri))
    }

    /// Returns the value of `form-action` that allows the redirect to the client.
    #[must_use]
    pub fn form_action(&self) -> String {
        redirect::form_action(&self.redirect_uri)
    }

    /// Returns the redirect URI with these parameters and the client's `state` in its query.
    #[must_use]
    pub fn response_url(&self, parameters: &[(&str, &str)]) -> String {
        let mut parameters = parameters.to_vec();
        parameters.extend(self.state.as_deref().map(|state| ("state", state)));
        redirect::with_parameters(&self.redirect_uri, &parameters)
    }
}

/// Checks the redirect URIs in the configuration.
pub(crate) fn check_redirect_uris(config: &OidcSignIn) -> Result<(), StartError> {
    for uri in &config.redirect_uris {
        redirect::check(uri).map_err(|why| {
            StartError::new(format!(
                "`sign_in.oidc.redirect_uris` contains `{uri}`: {why}"
            ))
        })?;
    }
    Ok(())
}

impl OAuth {
    /// Checks the parameters of a client's request to sign a person in at the provider.
    ///
    /// # Errors
    /// Returns a refusal if a parameter is missing or invalid. The service must not redirect the
    /// person to the client in this case.
    pub fn client_request(&self, parameters: &Parameters) -> Result<ClientRequest, Refusal> {
        let redirect_uri = parameters.needed("redirect_uri")?;
        let is_listed = self
            .sign_in_redirect_uris
            .iter()
            .any(|uri| uri == redirect_uri);
        let is_loopback = || self.loopback_redirects && redirect::is_loopback(redirect_uri);
        if !is_listed && !is_loopback() {
            return Err(Refusal::request(if self.loopback_redirects {
                "The redirect_uri is not allowed: it must be in `sign_in.oidc.redirect_uris` of the service, or a loopback URL"
            } else {
                "The redirect_uri is not allowed: it must be in `sign_in.oidc.redirect_uris` of the service"
            }));
        }
        let state = parameters.one("state")?;
        check_state(state)?;
        let method = parameters.one("code_challenge_method")?;
        if method.is_some_and(|method| method != "S256") {
            return Err(Refusal::request("code_challenge_method must be S256"));
        }
        let challenge = parameters.needed("code_challenge")?;
        if !pkce::is_challenge(challenge) {
            return Err(Refusal::request(
                "code_challenge must be a SHA-256 hash in base64url",
            ));
        }
        Ok(ClientRequest {
            redirect_uri: redirect_uri.to_owned(),
            state: state.map(ToOwned::to_owned),
            challenge: challenge.to_owned(),
        })
    }

    /// Creates a code for a person who signed in at the provider. Returns the client's redirect URI
    /// with the code in its query.
    ///
    /// # Errors
    /// Returns 500 for an internal error.
    pub async fn complete_client_request(
        &self,
        request: &ClientRequest,
        owner: &Owner,
    ) -> Result<String, Failure> {
        let code = self
            .auth
            .single_sign_on
            .create_sign_in_code(owner, &request.challenge);
        let code = code.await?;
        Ok(request.response_url(&[("code", code.secret().expose_secret())]))
    }

    /// Exchanges a code and its code verifier for a web session.
    ///
    /// # Errors
    /// Returns the errors of [`latchmail_accounts::auth::SingleSignOn::exchange_sign_in_code`].
    pub async fn exchange_sign_in_code(
        &self,
        code: &str,
        verifier: &str,
        origin: &Origin,
    ) -> Result<SignedIn, Failure> {
        let code = IssuedToken::parse(Use::SignIn, code)
            .ok_or_else(|| Failure::invalid(codes::INVALID_SIGN_IN_CODE, "code is malformed"))?;
        let matches = |challenge: &str| pkce::verifies(verifier, challenge);
        self.auth
            .single_sign_on
            .exchange_sign_in_code(&code, matches, origin)
            .await
    }

    /// Stores the authorization of an agent by a person who signed in at the provider. Returns the
    /// agent's redirect URI with a code in its query.
    ///
    /// # Errors
    /// Returns the errors of [`latchmail_accounts::auth::SingleSignOn::agree_by_provider`].
    pub async fn agree_by_provider(
        &self,
        authorization: &Authorization,
        owner: Owner,
        origin: &Origin,
    ) -> Result<String, Failure> {
        let (code, stored) = self.new_code(authorization)?;
        self.auth
            .single_sign_on
            .agree_by_provider(owner, Approval::Code(&stored), origin)
            .await?;
        Ok(self.code_url(authorization, &code))
    }

    /// Authorizes a device for a person who signed in at the provider.
    ///
    /// # Errors
    /// Returns the errors of [`latchmail_accounts::auth::SingleSignOn::agree_by_provider`].
    pub async fn agree_to_device_by_provider(
        &self,
        user_code: &str,
        owner: Owner,
        origin: &Origin,
    ) -> Result<(), Failure> {
        let agreement = Approval::Device(user_code);
        self.auth
            .single_sign_on
            .agree_by_provider(owner, agreement, origin)
            .await
    }
}
