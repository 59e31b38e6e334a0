//! Checks authorization requests and issues codes (OAuth 2.1, section 4.1; RFC 7636; RFC 8707; RFC
//! 9207). The crate `latchmail-pages` contains the authorization endpoint.

use std::time::Duration;

use latchmail_accounts::auth::oauth_tokens::{IssuedToken, Use};
use latchmail_core::caller::Origin;
use latchmail_core::error::Failure;
use latchmail_directory::oauth::{Approval, Client, NewCode};
use secrecy::{ExposeSecret as _, SecretString};
use serde::{Deserialize, Serialize};

use super::error::Refusal;
use super::parameters::Parameters;
use super::{BY_CODE, OAuth, clients, pkce, redirect};

/// The lifetime of an authorization code. RFC 6749, section 4.1.2, requires a short lifetime.
const CODE_LIFETIME: Duration = Duration::from_mins(1);

/// The maximum length of `state`, in characters.
const LONGEST_STATE: usize = 2000;

/// Returns a refusal if `state` is too long.
pub(crate) fn check_state(state: Option<&str>) -> Result<(), Refusal> {
    if state.is_some_and(|state| state.chars().nth(LONGEST_STATE).is_some()) {
        return Err(Refusal::request("state must not exceed 2,000 characters"));
    }
    Ok(())
}

/// A valid authorization request.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Authorization {
    /// The client's id.
    pub client_id: String,
    /// The client's name. The name may be empty.
    pub client_name: String,
    /// The URI to which the user is redirected.
    pub redirect_uri: String,
    state: Option<String>,
    challenge: String,
    resource: String,
    /// The scopes that the client gets, in the form of
    /// [`latchmail_accounts::auth::oauth_tokens::stored_scopes`].
    pub scope: String,
}

/// The reason why an authorization request is rejected.
#[derive(Debug)]
pub enum AuthorizationError {
    /// The client or the redirect URI is invalid, so the service must not redirect the user. The
    /// text is a sentence for the user.
    NotRedirectable(String),
    /// The client and the redirect URI are valid, but another parameter is invalid. The service can
    /// redirect the user to the client, with the error in the query.
    Redirectable {
        /// The client's name.
        client_name: String,
        /// The redirect URI with the error in its query.
        address: String,
        /// The error for the client.
        refusal: Refusal,
    },
    /// An internal error occurred while the request was checked.
    Failed(Failure),
}

impl From<Failure> for AuthorizationError {
    fn from(failure: Failure) -> Self {
        Self::Failed(failure)
    }
}

impl OAuth {
    /// Checks the parameters of an authorization request.
    ///
    /// # Errors
    /// Returns [`AuthorizationError`] if the request is invalid, or if an internal error occurs.
    pub async fn authorization(
        &self,
        parameters: &Parameters,
    ) -> Result<Authorization, AuthorizationError> {
        let not_redirectable = |refusal: Refusal| {
            AuthorizationError::NotRedirectable(refusal.description.into_owned())
        };
        let id = parameters.needed("client_id").map_err(not_redirectable)?;
        let client = self.client(id).await?.map_err(not_redirectable)?;
        let redirect_uri = redirect_uri(&client, parameters).map_err(not_redirectable)?;
        let state = parameters.one("state");
        let authorization = state.clone().and_then(|state| {
            check_state(state)?;
            clients::check_grant_type(&client, BY_CODE)?;
            let challenge = challenge(parameters)?;
            Ok(Authorization {
                client_id: client.id.clone(),
                client_name: client.name.clone(),
                redirect_uri: redirect_uri.to_owned(),
                state: state.map(ToOwned::to_owned),
                challenge: challenge.to_owned(),
                resource: self.resource(parameters)?,
                scope: self.granted_scope(&client.id, parameters)?,
            })
        });
        authorization.map_err(|refusal| {
            let response = [
                ("error", refusal.code),
                ("error_description", &*refusal.description),
            ];
            let state = state.ok().flatten();
            AuthorizationError::Redirectable {
                client_name: client.name.clone(),
                address: self.response_url(redirect_uri, &response, state),
                refusal,
            }
        })
    }

    /// Verifies the user's credentials and stores the authorization. Returns the redirect URI with
    /// the authorization code in its query.
    ///
    /// # Errors
    /// Returns the errors of [`latchmail_accounts::auth::OAuthTokens::agree`] if the credentials
    /// are rejected or the authorization cannot be stored.
    pub async fn agree(
        &self,
        authorization: &Authorization,
        address: &str,
        password: SecretString,
        second: Option<&SecretString>,
        origin: &Origin,
    ) -> Result<String, Failure> {
        let (code, stored) = self.new_code(authorization)?;
        self.auth
            .oauth_tokens
            .agree(address, password, second, Approval::Code(&stored), origin)
            .await?;
        Ok(self.code_url(authorization, &code))
    }

    /// Generates the authorization code of an authorization. Stores nothing.
    pub(crate) fn new_code(
        &self,
        authorization: &Authorization,
    ) -> Result<(IssuedToken, NewCode), Failure> {
        let code = IssuedToken::generate(Use::Code)?;
        let stored = NewCode {
            hash: code.hash().to_owned(),
            client_id: authorization.client_id.clone(),
            client_name: authorization.client_name.clone(),
            redirect_uri: authorization.redirect_uri.clone(),
            challenge: authorization.challenge.clone(),
            resource: authorization.resource.clone(),
            scope: authorization.scope.clone(),
            expires_at: self.clock.now().plus(CODE_LIFETIME),
        };
        Ok((code, stored))
    }

    /// Returns the redirect URI of an authorization with the authorization code in its query.
    pub(crate) fn code_url(&self, authorization: &Authorization, code: &IssuedToken) -> String {
        let response = [("code", code.secret().expose_secret())];
        self.response_url(
            &authorization.redirect_uri,
            &response,
            authorization.state.as_deref(),
        )
    }

    /// Returns the redirect URI with the error `access_denied` in its query, for a user who cancels
    /// the sign-in.
    #[must_use]
    pub fn declined(&self, authorization: &Authorization) -> String {
        let response = [("error", "access_denied")];
        self.response_url(
            &authorization.redirect_uri,
            &response,
            authorization.state.as_deref(),
        )
    }

    fn response_url(
        &self,
        redirect_uri: &str,
        response: &[(&str, &str)],
        state: Option<&str>,
    ) -> String {
        let mut parameters = response.to_vec();
        parameters.extend(state.map(|state| ("state", state)));
        parameters.push(("iss", &self.issuer));
        redirect::with_parameters(redirect_uri, &parameters)
    }
}

/// Returns the redirect URI of the request, which must be registered for the client. Without a
/// redirect URI in the request, returns the client's only redirect URI.
fn redirect_uri<'a>(client: &'a Client, parameters: &'a Parameters) -> Result<&'a str, Refusal> {
    match parameters.one("redirect_uri")? {
        Some(requested) => {
            let registered = &client.redirect_uris;
            if registered
                .iter()
                .any(|known| redirect::matches(known, requested))
            {
                Ok(requested)
            } else {
                Err(Refusal::request(
                    "The redirect_uri is not registered for this client",
                ))
            }
        }
        None => match client.redirect_uris.as_slice() {
            [only] => Ok(only),
            _ => Err(Refusal::request("redirect_uri is missing")),
        },
    }
}

/// Checks that the request uses only supported features, and returns the code challenge.
fn challenge(parameters: &Parameters) -> Result<&str, Refusal> {
    if parameters.one("request")?.is_some() {
        return Err(Refusal::new(
            "request_not_supported",
            "The parameter request is not supported",
        ));
    }
    if parameters.one("request_uri")?.is_some() {
        return Err(Refusal::new(
            "request_uri_not_supported",
            "The parameter request_uri is not supported",
        ));
    }
    if parameters.needed("response_type")? != "code" {
        return Err(Refusal::new(
            "unsupported_response_type",
            "response_type must be code",
        ));
    }
    if parameters
        .one("response_mode")?
        .is_some_and(|mode| mode != "query")
    {
        return Err(Refusal::request("response_mode must be query"));
    }
    if parameters.one("prompt")? == Some("none") {
        return Err(Refusal::new("login_required", "The user must sign in"));
    }
    let challenge = parameters
        .one("code_challenge")?
        .ok_or_else(|| Refusal::request("code_challenge is missing: PKCE is required"))?;
    if parameters.one("code_challenge_method")? != Some("S256") {
        return Err(Refusal::request("code_challenge_method must be S256"));
    }
    if !pkce::is_challenge(challenge) {
        return Err(Refusal::request(
            "code_challenge must be a SHA-256 hash in base64url",
        ));
    }
    Ok(challenge)
}
