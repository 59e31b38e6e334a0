//! Registers and authenticates OAuth clients.
//!
//! There are three kinds of clients. Some clients register themselves (RFC 7591). The operator
//! creates other clients, which have a secret. The third kind has the URL of a metadata document as
//! client id (Client ID Metadata Documents).

use std::net::IpAddr;

use latchmail_accounts::auth::command_line;
use latchmail_accounts::auth::oauth_tokens::{IssuedToken, Use};
use latchmail_core::error::Failure;
use latchmail_core::secrets::{self, sha256_hex};
use latchmail_directory::oauth::Client;
use secrecy::ExposeSecret as _;
use serde::Serialize;
use serde_json::{Map, Value};
use subtle::ConstantTimeEq as _;
use utoipa::ToSchema;

use super::error::{Error, Refusal};
use super::metadata::{client_name, grant_types, invalid_metadata, redirect_uris};
use super::parameters::Parameters;
use super::{
    BY_CODE, BY_DEVICE_CODE, BY_REFRESH_TOKEN, GRANT_TYPES, GrantType, OAuth, document, redirect,
};

/// The error text for a client that must not use the device grant because `oauth.device_grant` is
/// `false`.
pub(crate) const NO_DEVICES: &str =
    "The device code grant is only available to clients that the operator of this service added";

/// The response to a registration (RFC 7591, section 3.2.1). The client has no secret. A
/// registration cannot be changed.
#[derive(Clone, Debug, Serialize, ToSchema)]
#[schema(as = RegisteredClient)]
pub struct Registered {
    /// The id for requests to the authorization, token and device endpoints.
    client_id: String,
    /// The time of the registration, in Unix seconds.
    client_id_issued_at: i64,
    /// The name that users see. Absent if the client sent no name, or a name that cannot be shown.
    #[serde(skip_serializing_if = "String::is_empty")]
    #[schema(required = false)]
    client_name: String,
    /// The redirect URIs, as the client sent them.
    redirect_uris: Vec<String>,
    /// The grants that the client can use.
    #[schema(value_type = Vec<GrantType>)]
    grant_types: Vec<&'static str>,
    /// `code` if the client can use the grant `authorization_code`.
    response_types: Vec<&'static str>,
    /// `none`: a client that registers itself has no secret.
    token_endpoint_auth_method: &'static str,
    /// The scopes that a token can have, separated by spaces.
    scope: String,
}

/// The credentials that a client sends to the token endpoint or to the device authorization
/// endpoint.
#[derive(Clone, Copy)]
pub struct ClientCredentials<'a> {
    /// The values of the parameters `client_id` and `client_secret` in the body.
    body: (Option<&'a str>, Option<&'a str>),
    /// The user name (the client's id) and the password (the client's secret) in the Authorization
    /// header.
    basic: Option<(&'a str, &'a str)>,
}

impl<'a> ClientCredentials<'a> {
    /// Returns the client's id, and the secret if the client sent a secret. The header and the body
    /// must not both contain a secret.
    fn read(self) -> Result<(&'a str, Option<&'a str>), Refusal> {
        match (self.basic, self.body) {
            (Some((id, secret)), (None, None)) => Ok((id, Some(secret))),
            (Some((id, secret)), (Some(named), None)) if named == id => Ok((id, Some(secret))),
            (Some(_), _) => Err(Refusal::request(
                "The client must use only one authentication method",
            )),
            (None, (Some(id), secret)) => Ok((id, secret)),
            (None, (None, _)) => Err(Refusal::request("client_id is missing")),
        }
    }

    /// Reads the credentials in the parameters. `basic` contains the credentials in the
    /// Authorization header.
    pub(crate) fn of(
        parameters: &'a Parameters,
        basic: Option<(&'a str, &'a str)>,
    ) -> Result<Self, Refusal> {
        let id = parameters.one("client_id")?;
        Ok(Self {
            body: (id, parameters.one("client_secret")?),
            basic,
        })
    }
}

impl OAuth {
    /// Registers a client. Requires no credential. Of the metadata, the directory stores only the
    /// name, the redirect URIs and the grant types.
    ///
    /// # Errors
    /// Returns `invalid_redirect_uri` or `invalid_client_metadata` if the metadata is invalid, and
    /// 500 if the directory fails.
    pub async fn register(&self, body: &[u8], client: IpAddr) -> Result<Registered, Error> {
        let Ok(metadata) = serde_json::from_slice::<Map<String, Value>>(body) else {
            return Err(invalid_metadata("The registration must be a JSON object"));
        };
        let mut grant_types = grant_types(&metadata)?;
        if !self.device_grant {
            grant_types.retain(|grant| *grant != BY_DEVICE_CODE);
            if !grant_types.contains(&BY_CODE) {
                return Err(invalid_metadata(NO_DEVICES));
            }
        }
        let redirect_uris = redirect_uris(&metadata)?;
        if redirect_uris.is_empty() && grant_types.contains(&BY_CODE) {
            return Err(Error::Refused(Refusal::new(
                "invalid_redirect_uri",
                "redirect_uris must contain at least one URI for the grant authorization_code",
            )));
        }
        let registered = Client {
            id: secrets::id()?,
            name: metadata
                .get("client_name")
                .and_then(Value::as_str)
                .map(client_name)
                .unwrap_or_default(),
            redirect_uris,
            grant_types: grant_types.iter().map(ToString::to_string).collect(),
            secret_hash: None,
        };
        let now = self.clock.now();
        self.directory
            .oauth
            .register_client(&registered, client, now)
            .await?;
        tracing::info!(client_id = registered.id, %client, "client registered");
        let response_types = if grant_types.contains(&BY_CODE) {
            vec!["code"]
        } else {
            Vec::new()
        };
        Ok(Registered {
            client_id: registered.id,
            client_id_issued_at: now.seconds(),
            client_name: registered.name,
            redirect_uris: registered.redirect_uris,
            grant_types,
            response_types,
            token_endpoint_auth_method: "none",
            scope: self.scope(),
        })
    }

    /// Returns the client with this id. The inner result is the error `invalid_client` if the
    /// client is unknown, or if the client's metadata document is unavailable.
    ///
    /// # Errors
    /// Returns 500 if the directory fails.
    pub async fn client(&self, id: &str) -> Result<Result<Client, Refusal>, Failure> {
        if document::is_url(id) {
            return Ok(self.documents.client(id).await);
        }
        if id == command_line::CLIENT {
            return Ok(Ok(command_line_client()));
        }
        let found = self.directory.oauth.client(id).await?;
        Ok(found.ok_or_else(|| Refusal::client("Unknown client; register it again")))
    }

    /// Authenticates a client. A client with a secret must send the secret. A client without a
    /// secret must not send a secret.
    ///
    /// # Errors
    /// Returns `invalid_request` if the credentials are missing or ambiguous, `invalid_client` if
    /// the authentication fails, and 500 if the directory fails.
    pub async fn authenticated(&self, credentials: ClientCredentials<'_>) -> Result<Client, Error> {
        let (id, secret) = credentials.read()?;
        let client = self.client(id).await??;
        check_secret(client.secret_hash.as_deref(), secret)?;
        Ok(client)
    }

    /// Authenticates a client and returns the client's id. If the id is a URL, does not fetch the
    /// client's metadata document, because such a client has no secret to check. So this function
    /// does not check that such a client exists. The caller must check that the client's code or
    /// token was issued to the returned id.
    ///
    /// # Errors
    /// Returns the errors of [`Self::authenticated`] under the same conditions.
    pub async fn authenticated_id<'a>(
        &self,
        credentials: ClientCredentials<'a>,
    ) -> Result<&'a str, Error> {
        let (id, secret) = credentials.read()?;
        if document::is_url(id) {
            check_secret(None, secret)?;
        } else {
            self.authenticated(credentials).await?;
        }
        Ok(id)
    }
}

/// Returns the client of `latchmail mail`. It is not in the directory, and can use the device grant
/// only.
fn command_line_client() -> Client {
    Client {
        id: command_line::CLIENT.to_owned(),
        name: "Latchmail command line".to_owned(),
        redirect_uris: Vec::new(),
        grant_types: [BY_DEVICE_CODE, BY_REFRESH_TOKEN]
            .map(str::to_owned)
            .to_vec(),
        secret_hash: None,
    }
}

/// Checks the secret that a client sent. `hash` is the stored hash, or `None` if the client has no
/// secret.
fn check_secret(hash: Option<&str>, secret: Option<&str>) -> Result<(), Refusal> {
    let right = match (hash, secret) {
        (None, None) => true,
        // Some clients without a secret send an empty secret.
        (None, Some(secret)) => secret.is_empty(),
        (Some(_), None) => false,
        (Some(hash), Some(secret)) => {
            bool::from(sha256_hex(secret).as_bytes().ct_eq(hash.as_bytes()))
        }
    };
    if right {
        Ok(())
    } else {
        Err(Refusal::client("Client authentication failed"))
    }
}

/// Creates a client with a secret for the operator. The returned [`Client`] contains only the hash
/// of the secret, so the operator can see the secret only once.
///
/// # Errors
/// Returns a sentence for the operator if the operating system provides no randomness, or if a
/// redirect URI is invalid. The sentence names the invalid URI.
pub fn confidential(name: &str, redirect_uris: &[String]) -> Result<(Client, IssuedToken), String> {
    for uri in redirect_uris {
        redirect::check(uri).map_err(|why| format!("{uri}: {why}"))?;
    }
    let failed = |failure: Failure| failure.to_string();
    let secret = IssuedToken::generate(Use::Client).map_err(failed)?;
    let client = Client {
        id: secrets::id().map_err(failed)?,
        name: client_name(name),
        redirect_uris: redirect_uris.to_vec(),
        grant_types: GRANT_TYPES.map(ToOwned::to_owned).to_vec(),
        secret_hash: Some(sha256_hex(secret.secret().expose_secret())),
    };
    Ok((client, secret))
}

/// Checks that a client is registered for a grant type.
///
/// # Errors
/// Returns `unauthorized_client` if the client is not registered for the grant type.
pub(crate) fn check_grant_type(client: &Client, grant: &'static str) -> Result<(), Refusal> {
    if client.grant_types.iter().any(|known| known == grant) {
        return Ok(());
    }
    Err(Refusal::new(
        "unauthorized_client",
        format!("The client is not registered for the grant {grant}"),
    ))
}
