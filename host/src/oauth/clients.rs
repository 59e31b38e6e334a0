//! Who a client is: one that registered itself (RFC 7591), one that the operator made and that has a secret, or one whose id is the address of its own
//! description (Client ID Metadata Documents).

use std::net::IpAddr;

use secrecy::ExposeSecret as _;
use serde::Serialize;
use serde_json::{Map, Value};
use subtle::ConstantTimeEq as _;
use utoipa::ToSchema;

use super::error::{Error, Refusal};
use super::parameters::Parameters;
use super::{
    BY_CODE, BY_DEVICE_CODE, BY_REFRESH_TOKEN, GRANT_TYPES, GrantType, OAuth, document, redirect,
};
use crate::auth::oauth_tokens::{Handed, Use};
use crate::auth::secrets::{self, sha256_hex};
use crate::directory::oauth::Client;
use crate::error::Failure;

/// Redirect addresses of one client.
const MOST_ADDRESSES: usize = 20;
/// Characters of all of them together.
const LARGEST_ADDRESSES: usize = 4096;
/// The longest name that is kept, in characters.
const LONGEST_NAME: usize = 100;

/// Why a client cannot use the device grant if `oauth.device_grant` is off.
pub(super) const NO_DEVICES: &str =
    "The device code grant is only for clients that the operator of this service added";

/// A registration as it is answered (RFC 7591, section 3.2.1). There is no secret and no way to change it.
#[derive(Clone, Debug, Serialize, ToSchema)]
#[schema(as = RegisteredClient)]
pub struct Registered {
    /// The id for requests to the authorization, token and device endpoints.
    client_id: String,
    /// The time of the registration, in Unix seconds.
    client_id_issued_at: i64,
    /// The name that people see. Absent if the client sent none that can be shown.
    #[serde(skip_serializing_if = "String::is_empty")]
    #[schema(required = false)]
    client_name: String,
    /// The redirect addresses, as the client sent them.
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

/// What a client shows of itself where it exchanges something.
#[derive(Clone, Copy)]
pub struct Shown<'a> {
    /// `client_id` and `client_secret` of the body.
    body: (Option<&'a str>, Option<&'a str>),
    /// The name and the password of the Authorization header.
    basic: Option<(&'a str, &'a str)>,
}

impl<'a> Shown<'a> {
    /// The client's id, and its secret where it shows one: in the header or in the body, not in both.
    fn read(self) -> Result<(&'a str, Option<&'a str>), Refusal> {
        match (self.basic, self.body) {
            (Some((id, secret)), (None, None)) => Ok((id, Some(secret))),
            (Some((id, secret)), (Some(named), None)) if named == id => Ok((id, Some(secret))),
            (Some(_), _) => Err(Refusal::request("A client proves who it is in one way")),
            (None, (Some(id), secret)) => Ok((id, secret)),
            (None, (None, _)) => Err(Refusal::request("client_id is missing")),
        }
    }

    /// What is among the parameters, and in the header.
    pub(super) fn of(
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
    /// Registers a client, whoever asks. What it says of itself beside its name and its addresses is not kept.
    ///
    /// # Errors
    /// `invalid_redirect_uri`, `invalid_client_metadata`; 500.
    pub async fn register(&self, body: &[u8], client: IpAddr) -> Result<Registered, Error> {
        let Ok(metadata) = serde_json::from_slice::<Map<String, Value>>(body) else {
            return Err(metadata_refused("The registration must be a JSON object"));
        };
        let mut grant_types = grant_types(&metadata)?;
        if !self.device_grant {
            grant_types.retain(|grant| *grant != BY_DEVICE_CODE);
            if !grant_types.contains(&BY_CODE) {
                return Err(metadata_refused(NO_DEVICES));
            }
        }
        let redirect_uris = redirect_uris(&metadata)?;
        if redirect_uris.is_empty() && grant_types.contains(&BY_CODE) {
            return Err(Error::Refused(Refusal::new(
                "invalid_redirect_uri",
                "redirect_uris must hold at least one address for the grant authorization_code",
            )));
        }
        let registered = Client {
            id: secrets::id()?,
            name: metadata
                .get("client_name")
                .and_then(Value::as_str)
                .map(name)
                .unwrap_or_default(),
            redirect_uris,
            grant_types: grant_types.iter().map(ToString::to_string).collect(),
            secret_hash: None,
        };
        let now = self.clock.now();
        self.directory
            .register_client(&registered, client, now)
            .await?;
        tracing::info!(client_id = registered.id, %client, "a client registered");
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

    /// The client of this id; none where there is none, or its description cannot be had.
    ///
    /// # Errors
    /// 500.
    pub async fn client(&self, id: &str) -> Result<Result<Client, Refusal>, Failure> {
        if document::is_address(id) {
            return Ok(self.documents.client(id).await);
        }
        let found = self.directory.client(id).await?;
        Ok(found.ok_or_else(|| Refusal::client("There is no such client; register it again")))
    }

    /// The client that makes a request of its own, where it proves to be it: one that has a secret shows it, and one that has none shows none.
    ///
    /// # Errors
    /// `invalid_client`; 500.
    pub async fn authenticated(&self, shown: Shown<'_>) -> Result<Client, Error> {
        let (id, secret) = shown.read()?;
        let client = self.client(id).await??;
        proves(client.secret_hash.as_deref(), secret)?;
        Ok(client)
    }

    /// The id of the same where no more is asked of it. One that is described at an address has nothing to prove, since what it exchanges names it:
    /// nothing is fetched for that.
    ///
    /// # Errors
    /// `invalid_client`; 500.
    pub async fn authenticated_id<'a>(&self, shown: Shown<'a>) -> Result<&'a str, Error> {
        let (id, secret) = shown.read()?;
        if document::is_address(id) {
            proves(None, secret)?;
        } else {
            self.authenticated(shown).await?;
        }
        Ok(id)
    }
}

/// That a client is who it says, by its secret where it has one.
fn proves(hash: Option<&str>, secret: Option<&str>) -> Result<(), Refusal> {
    let right = match (hash, secret) {
        (None, None) => true,
        // Some clients send an empty one where they have none.
        (None, Some(secret)) => secret.is_empty(),
        (Some(_), None) => false,
        (Some(hash), Some(secret)) => {
            bool::from(sha256_hex(secret).as_bytes().ct_eq(hash.as_bytes()))
        }
    };
    if right {
        Ok(())
    } else {
        Err(Refusal::client("The client did not prove who it is"))
    }
}

/// Makes a client with a secret, for the operator. Answers it with the secret, which is shown this once.
///
/// # Errors
/// A sentence that names what will not do.
pub fn confidential(
    name_given: &str,
    redirect_uris: &[String],
) -> Result<(Client, Handed), String> {
    for uri in redirect_uris {
        redirect::check(uri).map_err(|why| format!("{uri}: {why}"))?;
    }
    let failed = |failure: Failure| failure.to_string();
    let secret = Handed::generate(Use::Client).map_err(failed)?;
    let client = Client {
        id: secrets::id().map_err(failed)?,
        name: name(name_given),
        redirect_uris: redirect_uris.to_vec(),
        grant_types: GRANT_TYPES.map(ToOwned::to_owned).to_vec(),
        secret_hash: Some(sha256_hex(secret.secret().expose_secret())),
    };
    Ok((client, secret))
}

/// The name as it is shown to people: on one line, without what would make it read like something else, and of some length.
pub(super) fn name(given: &str) -> String {
    let shown = given.chars().filter(|c| !is_deceptive(*c));
    let text: String = shown.collect();
    let words: Vec<&str> = text.split_whitespace().collect();
    let name: String = words.join(" ").chars().take(LONGEST_NAME).collect();
    if name.chars().any(char::is_alphanumeric) {
        name
    } else {
        String::new()
    }
}

/// That a client may be granted something in this way.
///
/// # Errors
/// `unauthorized_client`, since it said of itself that it is not.
pub(super) fn may(client: &Client, grant: &'static str) -> Result<(), Refusal> {
    if client.grant_types.iter().any(|known| known == grant) {
        return Ok(());
    }
    Err(Refusal::new(
        "unauthorized_client",
        format!("The client did not register for the grant {grant}"),
    ))
}

/// Control characters, those without a width, and those that turn the direction of what stands beside them.
fn is_deceptive(c: char) -> bool {
    (c.is_control() && !c.is_whitespace())
        || matches!(c, '\u{00AD}' | '\u{061C}' | '\u{115F}'..='\u{1160}' | '\u{180E}' | '\u{2800}' | '\u{3164}' | '\u{FFA0}' | '\u{200B}'..='\u{200F}' | '\u{202A}'..='\u{202E}' | '\u{2060}'..='\u{206F}'
            | '\u{FEFF}' | '\u{FFF9}'..='\u{FFFB}' | '\u{E0000}'..='\u{E0FFF}')
}

/// The redirect addresses of a client's description.
pub(super) fn redirect_uris(metadata: &Map<String, Value>) -> Result<Vec<String>, Error> {
    let refused = |why: String| Error::Refused(Refusal::new("invalid_redirect_uri", why));
    let uris = match metadata.get("redirect_uris") {
        None | Some(Value::Null) => return Ok(Vec::new()),
        Some(Value::Array(uris)) => uris,
        Some(_) => return Err(refused("redirect_uris must be a list".into())),
    };
    let length: usize = uris.iter().filter_map(Value::as_str).map(str::len).sum();
    if uris.len() > MOST_ADDRESSES || length > LARGEST_ADDRESSES {
        return Err(refused(format!(
            "redirect_uris holds at most {MOST_ADDRESSES} of {LARGEST_ADDRESSES} characters together"
        )));
    }
    let read = |uri: &Value| {
        let uri = uri
            .as_str()
            .ok_or_else(|| refused("redirect_uris must hold texts".into()))?;
        redirect::check(uri).map_err(|why| refused(why.into()))?;
        Ok(uri.to_owned())
    };
    uris.iter().map(read).collect()
}

/// The grants that a client asks for, of those that there are; the usual two where it does not say.
pub(super) fn grant_types(metadata: &Map<String, Value>) -> Result<Vec<&'static str>, Error> {
    let asked = match metadata.get("grant_types") {
        None | Some(Value::Null) => return Ok(vec![BY_CODE, BY_REFRESH_TOKEN]),
        Some(Value::Array(asked)) => asked,
        Some(_) => return Err(metadata_refused("grant_types must be a list")),
    };
    let is_asked = |known: &&str| asked.iter().any(|asked| asked.as_str() == Some(*known));
    let taken: Vec<&'static str> = GRANT_TYPES.into_iter().filter(is_asked).collect();
    if taken.iter().any(|grant| *grant != BY_REFRESH_TOKEN) {
        Ok(taken)
    } else {
        Err(metadata_refused(
            "grant_types must hold authorization_code or the device code grant",
        ))
    }
}

fn metadata_refused(why: &'static str) -> Error {
    Error::Refused(Refusal::new("invalid_client_metadata", why))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_is_shown_on_one_line_without_what_deceives() {
        assert_eq!(name("  My\nagent\t2 "), "My agent 2");
        assert_eq!(
            name("Bank\u{202E}gnirahS\u{200B}\u{E0041}\u{7}"),
            "BankgnirahS"
        );
        assert_eq!(name(&"x".repeat(500)).len(), LONGEST_NAME);
        assert_eq!(name("Ärger"), "Ärger");
        for empty in ["", "  ", "\u{3164}\u{2800}", "…", "\u{E0041}"] {
            assert_eq!(name(empty), "", "{empty:?}");
        }
    }
}
