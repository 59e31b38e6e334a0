//! What a client asks a person to agree to (OAuth 2.1, section 4.1; RFC 7636; RFC 8707; RFC 9207), and what it gets when they did.

use std::time::Duration;

use secrecy::{ExposeSecret as _, SecretString};
use serde::{Deserialize, Serialize};

use super::error::Refusal;
use super::parameters::Parameters;
use super::{BY_CODE, OAuth, clients, pkce, redirect};
use crate::auth::oauth_tokens::{Handed, Use};
use crate::caller::Origin;
use crate::directory::oauth::{Agreement, Client, NewCode};
use crate::error::Failure;

/// How long a code can be exchanged (RFC 6749, section 4.1.2, asks for a short time).
const CODE_LIFETIME: Duration = Duration::from_mins(1);

/// The longest state that a client may have carried along.
const LONGEST_STATE: usize = 2000;

/// A client's wish that can be put before a person.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Authorization {
    /// The client's id.
    pub client_id: String,
    /// What the client calls itself; may be empty.
    pub client_name: String,
    /// Where the person is sent back to.
    pub redirect_uri: String,
    state: Option<String>,
    challenge: String,
    resource: String,
    /// The scopes that the client gets, separated by spaces.
    pub scope: String,
}

/// Why a wish is not put before a person.
#[derive(Debug)]
pub enum Unfit {
    /// Nobody can be sent back: the client or the address is not to be trusted. The sentence is for the person.
    Stranded(String),
    /// The client asks for something that there is not. It can be told so, at this address, by a person who goes back.
    Returned {
        /// What the client calls itself.
        client_name: String,
        /// Where it is told, with what.
        address: String,
        /// What it is told.
        refusal: Refusal,
    },
    /// It could not be looked at.
    Failed(Failure),
}

impl From<Failure> for Unfit {
    fn from(failure: Failure) -> Self {
        Self::Failed(failure)
    }
}

impl OAuth {
    /// Looks at what a client asks for.
    ///
    /// # Errors
    /// Any of [`Unfit`].
    pub async fn authorization(&self, parameters: &Parameters) -> Result<Authorization, Unfit> {
        let stranded = |refusal: Refusal| Unfit::Stranded(refusal.description.into_owned());
        let id = parameters.needed("client_id").map_err(stranded)?;
        let client = self.client(id).await?.map_err(stranded)?;
        let redirect_uri = back(&client, parameters).map_err(stranded)?;
        let state = parameters.one("state");
        let wish = state.clone().and_then(|state| {
            if state.is_some_and(|state| state.len() > LONGEST_STATE) {
                return Err(Refusal::request("state has at most 2,000 characters"));
            }
            clients::may(&client, BY_CODE)?;
            let challenge = challenge(parameters)?;
            Ok(Authorization {
                client_id: client.id.clone(),
                client_name: client.name.clone(),
                redirect_uri: redirect_uri.to_owned(),
                state: state.map(ToOwned::to_owned),
                challenge: challenge.to_owned(),
                resource: self.resource(parameters)?,
                scope: self.granted_scope(parameters)?,
            })
        });
        wish.map_err(|refusal| {
            let told = [
                ("error", refusal.code),
                ("error_description", &*refusal.description),
            ];
            let state = state.ok().flatten();
            Unfit::Returned {
                client_name: client.name.clone(),
                address: self.told(redirect_uri, &told, state),
                refusal,
            }
        })
    }

    /// Keeps what a person agrees to by signing in. Answers where they are sent back to, with the code.
    ///
    /// # Errors
    /// As [`crate::auth::Auth::agree`].
    pub async fn agree(
        &self,
        wish: &Authorization,
        address: &str,
        password: SecretString,
        second: Option<&SecretString>,
        origin: &Origin,
    ) -> Result<String, Failure> {
        let code = Handed::generate(Use::Code)?;
        let kept = NewCode {
            hash: code.hash().to_owned(),
            client_id: wish.client_id.clone(),
            client_name: wish.client_name.clone(),
            redirect_uri: wish.redirect_uri.clone(),
            challenge: wish.challenge.clone(),
            resource: wish.resource.clone(),
            scope: wish.scope.clone(),
            expires_at: self.clock.now().plus(CODE_LIFETIME),
        };
        self.auth
            .agree(address, password, second, Agreement::Code(&kept), origin)
            .await?;
        let told = [("code", code.secret().expose_secret())];
        Ok(self.told(&wish.redirect_uri, &told, wish.state.as_deref()))
    }

    /// Where a person who does not want to sign in is sent back to.
    #[must_use]
    pub fn declined(&self, wish: &Authorization) -> String {
        let told = [("error", "access_denied")];
        self.told(&wish.redirect_uri, &told, wish.state.as_deref())
    }

    fn told(&self, redirect_uri: &str, what: &[(&str, &str)], state: Option<&str>) -> String {
        let mut told = what.to_vec();
        told.extend(state.map(|state| ("state", state)));
        told.push(("iss", &self.issuer));
        redirect::with(redirect_uri, &told)
    }
}

/// Where the person is to be sent back to, which must be one of the client's addresses.
fn back<'a>(client: &'a Client, parameters: &'a Parameters) -> Result<&'a str, Refusal> {
    match parameters.one("redirect_uri")? {
        Some(asked) => {
            let registered = &client.redirect_uris;
            if registered.iter().any(|known| redirect::is(known, asked)) {
                Ok(asked)
            } else {
                Err(Refusal::request(
                    "The redirect_uri is none that the client registered",
                ))
            }
        }
        None => match client.redirect_uris.as_slice() {
            [only] => Ok(only),
            _ => Err(Refusal::request("redirect_uri is missing")),
        },
    }
}

/// The code challenge of a request that asks for nothing that there is not.
fn challenge(parameters: &Parameters) -> Result<&str, Refusal> {
    if parameters.one("request")?.is_some() {
        return Err(Refusal::new(
            "request_not_supported",
            "Requests are not taken as signed objects",
        ));
    }
    if parameters.one("request_uri")?.is_some() {
        return Err(Refusal::new(
            "request_uri_not_supported",
            "Requests are not fetched",
        ));
    }
    if parameters.needed("response_type")? != "code" {
        return Err(Refusal::new(
            "unsupported_response_type",
            "The only response_type is code",
        ));
    }
    if parameters
        .one("response_mode")?
        .is_some_and(|mode| mode != "query")
    {
        return Err(Refusal::request("The only response_mode is query"));
    }
    if parameters.one("prompt")? == Some("none") {
        return Err(Refusal::new("login_required", "Somebody has to sign in"));
    }
    let challenge = parameters
        .one("code_challenge")?
        .ok_or_else(|| Refusal::request("code_challenge is missing: PKCE is required"))?;
    if parameters.one("code_challenge_method")? != Some("S256") {
        return Err(Refusal::request("code_challenge_method must be S256"));
    }
    if !pkce::is_challenge(challenge) {
        return Err(Refusal::request(
            "code_challenge is not a SHA-256 hash in base64url",
        ));
    }
    Ok(challenge)
}
