//! The authorization code flow with PKCE (OpenID Connect Core 1.0, section 3.1; RFC 7636; RFC
//! 9207).

use latchmail_core::error::Failure;
use latchmail_core::secrets;
use openidconnect::core::{
    CoreAuthenticationFlow, CoreClient, CoreClientAuthMethod, CoreErrorResponseType, CoreIdToken,
    CoreIdTokenVerifier, CoreTokenResponse,
};
use openidconnect::{
    AccessTokenHash, AuthType, AuthorizationCode, ClaimsVerificationError, CsrfToken, Nonce,
    OAuth2TokenResponse as _, PkceCodeChallenge, PkceCodeVerifier, RedirectUrl, RefreshToken,
    RequestTokenError, SignatureVerificationError, TokenResponse as _,
};
use secrecy::{ExposeSecret as _, SecretString};
use serde::{Deserialize, Serialize};

use crate::claims::Person;
use crate::discovery::{Client, Metadata, TokenKind, chain, rejected, unavailable};
use crate::{ALGORITHMS, Error, MAX_SKEW, Provider};

/// The length of `state`, of the nonce and of the code verifier, in characters.
const RANDOM_LENGTH: usize = 43;

/// The values that the service needs to finish a sign-in. The values are secrets.
#[derive(Serialize, Deserialize)]
pub struct Pending {
    nonce: String,
    verifier: String,
    redirect_uri: String,
}

/// The start of a sign-in.
pub struct Request {
    /// The URL at the provider to which the browser must be redirected.
    pub url: String,
    /// The parameter `state` in the URL. The provider returns `state` unchanged.
    pub state: String,
    /// The values for [`Provider::finish`].
    pub pending: Pending,
}

/// The provider's response to an authorization request.
#[derive(Clone, Copy)]
pub struct Response<'a> {
    /// The authorization code.
    pub code: &'a str,
    /// The parameter `iss`, if the response has one.
    pub issuer: Option<&'a str>,
}

impl Provider {
    /// Starts a sign-in. The provider redirects the browser to `redirect_uri` afterwards.
    /// `login_hint` is the address that the person entered.
    ///
    /// # Errors
    /// Returns [`Error::Unavailable`] if the provider does not respond.
    pub async fn begin(
        &self,
        redirect_uri: &str,
        login_hint: Option<&str>,
    ) -> Result<Request, Error> {
        let metadata = self.current_metadata().await?;
        let client = self.client(&metadata, redirect_uri)?;
        let random = || {
            let random = secrets::letters_and_digits(RANDOM_LENGTH);
            let text = random.map(|text| text.as_str().to_owned());
            text.map_err(|error: Failure| Error::Unavailable(error.to_string()))
        };
        let (state, nonce, verifier) = (random()?, random()?, random()?);
        let challenge =
            PkceCodeChallenge::from_code_verifier_sha256(&PkceCodeVerifier::new(verifier.clone()));
        let (with_state, with_nonce) = (state.clone(), nonce.clone());
        let mut request = client
            .authorize_url(
                CoreAuthenticationFlow::AuthorizationCode,
                || CsrfToken::new(with_state),
                || Nonce::new(with_nonce),
            )
            .add_scopes(self.settings.scopes.iter().cloned())
            .set_pkce_challenge(challenge);
        if let Some(hint) = login_hint {
            request = request.add_extra_param("login_hint", hint);
        }
        let (url, _, _) = request.url();
        Ok(Request {
            url: url.into(),
            state,
            pending: Pending {
                nonce,
                verifier,
                redirect_uri: redirect_uri.to_owned(),
            },
        })
    }

    /// Exchanges the authorization code, and verifies the ID token. Returns the person who signed
    /// in.
    ///
    /// # Errors
    /// Returns [`Error::Unavailable`] if the provider does not respond, and [`Error::Rejected`] if
    /// the code or the ID token is not valid.
    pub async fn finish(&self, pending: &Pending, response: Response<'_>) -> Result<Person, Error> {
        let metadata = self.metadata().await?;
        self.check_issuer(&metadata, response.issuer)?;
        let client = self.client(&metadata, &pending.redirect_uri)?;
        let tokens = self.exchange(&client, pending, response.code).await?;
        let id_token = tokens
            .id_token()
            .ok_or_else(|| rejected("the token response contains no ID token"))?;
        let nonce = Nonce::new(pending.nonce.clone());
        let verified = self.verify(&metadata, id_token, &nonce, &tokens);
        match verified {
            Ok(()) => {}
            Err(ClaimsVerificationError::SignatureVerification(
                SignatureVerificationError::NoMatchingKey,
            )) => {
                let unknown = || rejected("the ID token names an unknown key");
                let metadata = self.refresh(TokenKind::Id).await?.ok_or_else(unknown)?;
                self.verify(&metadata, id_token, &nonce, &tokens)
                    .map_err(|error| rejected(&chain(&error)))?;
            }
            Err(error) => return Err(rejected(&chain(&error))),
        }
        let mut person = Person::of_id_token(&id_token.to_string(), self.mailbox_claim())?;
        person.mailbox = self.mailbox(&client, &person, &tokens).await?;
        let refresh_token = tokens.refresh_token();
        person.refresh_token = refresh_token.map(|token| token.secret().as_str().into());
        Ok(person)
    }

    /// Uses the refresh token of a sign-in. Returns the next refresh token. Returns `None` if the
    /// provider issued no new refresh token, so that `token` remains valid. The service does not
    /// use the issued access token: a successful response shows that the provider still accepts the
    /// person.
    ///
    /// # Errors
    /// Returns [`Error::Rejected`] if the provider reports `invalid_grant`: the person was disabled
    /// or signed out, or the token has expired. Returns [`Error::Unavailable`] for all other
    /// failures.
    pub async fn refresh_sign_in(
        &self,
        token: &SecretString,
    ) -> Result<Option<SecretString>, Error> {
        let metadata = self.metadata().await?;
        let client = self.client_without_redirect(&metadata);
        let token = RefreshToken::new(token.expose_secret().to_owned());
        let request = client
            .exchange_refresh_token(&token)
            .map_err(|error| unavailable(&error))?;
        let response: Result<CoreTokenResponse, _> = request.request_async(&self.http).await;
        match response {
            Ok(tokens) => {
                let next = tokens.refresh_token();
                Ok(next.map(|token| token.secret().as_str().into()))
            }
            Err(RequestTokenError::ServerResponse(response))
                if *response.error() == CoreErrorResponseType::InvalidGrant =>
            {
                Err(rejected(&format!(
                    "the provider rejected the refresh token: {response}"
                )))
            }
            Err(error) => Err(self.unavailable(&error)),
        }
    }

    /// Checks the parameter `iss` of the authorization response (RFC 9207, section 2.4).
    fn check_issuer(&self, metadata: &Metadata, issuer: Option<&str>) -> Result<(), Error> {
        let additional = metadata.additional_metadata();
        match issuer {
            Some(issuer) if issuer == self.issuer() => Ok(()),
            None if !additional.authorization_response_iss_parameter_supported => Ok(()),
            Some(_) => Err(rejected("the response is from another issuer")),
            None => Err(rejected("the response contains no issuer")),
        }
    }

    fn client(&self, metadata: &Metadata, redirect_uri: &str) -> Result<Client, Error> {
        let redirect_uri = RedirectUrl::new(redirect_uri.to_owned());
        let redirect_uri = redirect_uri.map_err(|error| unavailable(&error))?;
        let client = self.client_without_redirect(metadata);
        Ok(client.set_redirect_uri(redirect_uri))
    }

    fn client_without_redirect(&self, metadata: &Metadata) -> Client {
        let settings = &self.settings;
        let client = CoreClient::from_provider_metadata(
            metadata.clone(),
            settings.client_id.clone(),
            settings.client_secret.clone(),
        );
        // If the metadata contains no methods, `client_secret_basic` is the default (OpenID Connect
        // Discovery 1.0, section 3).
        let methods = metadata.token_endpoint_auth_methods_supported();
        let supports = |method| methods.is_none_or(|methods| methods.contains(&method));
        if supports(CoreClientAuthMethod::ClientSecretBasic)
            || !supports(CoreClientAuthMethod::ClientSecretPost)
        {
            client
        } else {
            client.set_auth_type(AuthType::RequestBody)
        }
    }

    async fn exchange(
        &self,
        client: &Client,
        pending: &Pending,
        code: &str,
    ) -> Result<CoreTokenResponse, Error> {
        let request = client
            .exchange_code(AuthorizationCode::new(code.to_owned()))
            .map_err(|error| unavailable(&error))?
            .set_pkce_verifier(PkceCodeVerifier::new(pending.verifier.clone()));
        request
            .request_async(&self.http)
            .await
            .map_err(|error| match error {
                RequestTokenError::Request(error) => self.unavailable(&error),
                RequestTokenError::ServerResponse(response) => {
                    if *response.error() == CoreErrorResponseType::InvalidClient {
                        tracing::error!(
                            "the identity provider rejects the credentials of the service: check sign_in.oidc.client_id and client_secret_file"
                        );
                    }
                    rejected(&format!("the provider rejected the code: {response}"))
                }
                error => rejected(&chain(&error)),
            })
    }

    /// Verifies an ID token (OpenID Connect Core 1.0, section 3.1.3.7).
    fn verify(
        &self,
        metadata: &Metadata,
        id_token: &CoreIdToken,
        nonce: &Nonce,
        tokens: &CoreTokenResponse,
    ) -> Result<(), ClaimsVerificationError> {
        let now = self.clock.now();
        let now = chrono::DateTime::from_timestamp_millis(now.millis())
            .ok_or_else(|| ClaimsVerificationError::Other("the time is out of range".into()))?;
        let client_id = self.settings.client_id.clone();
        let issuer = self.settings.issuer.clone();
        // The verifier is always that of a public client: the verifier of a confidential client
        // would also accept signatures with the client secret.
        let verifier =
            CoreIdTokenVerifier::new_public_client(client_id, issuer, metadata.jwks().clone())
                .set_allowed_algs(ALGORITHMS)
                .set_time_fn(move || now)
                .set_issue_time_verifier_fn(move |issued_at| {
                    if (issued_at - now).num_seconds() > MAX_SKEW {
                        return Err(format!("issued in the future, at {issued_at}"));
                    }
                    Ok(())
                });
        let claims = id_token.claims(&verifier, nonce)?;
        // The crate `openidconnect` does not check the authorized party (claim `azp`).
        if let Some(party) = claims.authorized_party()
            && *party != self.settings.client_id
        {
            let text = "the token was issued to another client";
            return Err(ClaimsVerificationError::InvalidAudience(text.into()));
        }
        if let Some(expected) = claims.access_token_hash() {
            let signature = ClaimsVerificationError::SignatureVerification;
            let algorithm = id_token.signing_alg().map_err(signature)?;
            let key = id_token.signing_key(&verifier).map_err(signature)?;
            let actual = AccessTokenHash::from_token(tokens.access_token(), algorithm, key)
                .map_err(|error| ClaimsVerificationError::Other(error.to_string()))?;
            if actual != *expected {
                let text = "the access token does not belong to the ID token";
                return Err(ClaimsVerificationError::Other(text.into()));
            }
        }
        Ok(())
    }
}
