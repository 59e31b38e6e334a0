//! Logout tokens (OpenID Connect Back-Channel Logout 1.0, sections 2.4 and 2.6). The crate
//! `openidconnect` does not support logout tokens, so this module verifies the claims. The crate
//! verifies the signature, with the same keys as for ID tokens.

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use latchmail_core::clock::Timestamp;
use latchmail_core::secrets::sha256_hex;
use openidconnect::core::CoreJwsSigningAlgorithm;
use openidconnect::{JsonWebKey as _, JsonWebKeyId};
use serde::Deserialize;
use serde_json::{Map, Value};

use crate::claims::payload;
use crate::discovery::{Metadata, TokenKind, rejected};
use crate::{ALGORITHMS, Error, MAX_IDENTIFIER, MAX_SKEW, Provider};

const EVENT: &str = "http://schemas.openid.net/event/backchannel-logout";

/// The maximum length of a logout token, in bytes.
const MAX_TOKEN: usize = 16 * 1024;

/// A verified logout token.
#[derive(Debug, PartialEq, Eq)]
pub struct Logout {
    /// A hash that identifies the token. Each token must be accepted only once.
    pub token_hash: String,
    /// The time at which the token expires.
    pub expires_at: Timestamp,
    /// The provider's id of the person.
    pub subject: Option<String>,
    /// The provider's id of the session at the provider. At least one of `subject` and `sid` is
    /// present.
    pub sid: Option<String>,
}

/// The header of a token.
#[derive(Deserialize)]
struct Header {
    alg: CoreJwsSigningAlgorithm,
    kid: Option<JsonWebKeyId>,
    typ: Option<String>,
    crit: Option<Value>,
}

/// The claims of a logout token. Times are seconds since the Unix epoch, and can have fractions.
#[derive(Deserialize)]
struct Claims {
    iss: String,
    aud: Audiences,
    iat: f64,
    exp: f64,
    jti: String,
    events: Map<String, Value>,
    sub: Option<String>,
    sid: Option<String>,
    nonce: Option<Value>,
}

#[derive(Deserialize)]
#[serde(untagged)]
enum Audiences {
    One(String),
    Several(Vec<String>),
}

impl Provider {
    /// Verifies a logout token.
    ///
    /// # Errors
    /// Returns [`Error::Rejected`] if the token is not valid, and [`Error::Unavailable`] if the
    /// provider's keys cannot be requested.
    pub async fn logout(&self, token: &str) -> Result<Logout, Error> {
        if token.len() > MAX_TOKEN {
            return Err(rejected("the token is too long"));
        }
        let Some((signed, signature)) = token.rsplit_once('.') else {
            return Err(rejected("the token is not a JSON Web Token"));
        };
        let header = header(signed)?;
        let signature = URL_SAFE_NO_PAD.decode(signature);
        let signature = signature.map_err(|_| rejected("the signature cannot be decoded"))?;
        // Check the claims first, because an unknown key causes a request to the provider.
        let logout = self.checked(payload(signed)?)?;
        let mut metadata = self.metadata().await?;
        if !knows(&metadata, &header) {
            let unknown = || rejected("the token names an unknown key");
            metadata = self.refresh(TokenKind::Logout).await?.ok_or_else(unknown)?;
        }
        let is_right = candidates(&metadata, &header).any(|key| {
            key.verify_signature(&header.alg, signed.as_bytes(), &signature)
                .is_ok()
        });
        if is_right {
            Ok(logout)
        } else {
            Err(rejected("the signature is wrong"))
        }
    }

    /// Checks the claims of a token.
    fn checked(&self, claims: Claims) -> Result<Logout, Error> {
        let client_id = self.settings.client_id.as_str();
        let is_for_us = match &claims.aud {
            Audiences::One(audience) => audience == client_id,
            Audiences::Several(audiences) => audiences.iter().any(|one| one == client_id),
        };
        let now = self.clock.now();
        let expires_at = timestamp(claims.exp)?;
        let issued_at = timestamp(claims.iat)?;
        let is_event = claims.events.get(EVENT).is_some_and(Value::is_object);
        let identifies = |text: &Option<String>| {
            text.as_ref()
                .is_none_or(|text| (1..=MAX_IDENTIFIER).contains(&text.len()))
        };
        let why = if claims.iss != self.issuer() {
            "the issuer is wrong"
        } else if !is_for_us {
            "the audience is wrong"
        } else if expires_at <= now {
            "the token has expired"
        } else if issued_at.seconds() > now.seconds().saturating_add(MAX_SKEW) {
            "the token was issued in the future"
        } else if !is_event {
            "the token is not a logout token"
        } else if claims.nonce.is_some() {
            "the token contains a nonce, which logout tokens must not contain"
        } else if claims.sub.is_none() && claims.sid.is_none() {
            "the token contains neither `sub` nor `sid`"
        } else if claims.jti.is_empty() || !identifies(&claims.sub) || !identifies(&claims.sid) {
            "`jti`, `sub` or `sid` is empty or too long"
        } else {
            return Ok(Logout {
                token_hash: sha256_hex(&format!("{} {}", claims.iss, claims.jti)),
                expires_at,
                subject: claims.sub,
                sid: claims.sid,
            });
        };
        Err(rejected(why))
    }
}

/// Parses the header of a token, and checks that the service supports the token.
fn header(signed: &str) -> Result<Header, Error> {
    let (header, _) = signed.split_once('.').unwrap_or_default();
    let header = URL_SAFE_NO_PAD.decode(header).ok();
    let header: Header = header
        .and_then(|header| serde_json::from_slice(&header).ok())
        .ok_or_else(|| rejected("the header of the token cannot be parsed"))?;
    let typ = header.typ.as_deref().unwrap_or("jwt").to_ascii_lowercase();
    let typ = typ.strip_prefix("application/").unwrap_or(&typ);
    if !["jwt", "logout+jwt"].contains(&typ) {
        return Err(rejected("the token has another type"));
    }
    if header.crit.is_some() {
        return Err(rejected("the token has critical header fields"));
    }
    if !ALGORITHMS.contains(&header.alg) {
        return Err(rejected("the signature algorithm is not accepted"));
    }
    Ok(header)
}

/// Returns the provider's keys that can have signed a token with this header. If the header
/// contains no `kid`, these are all keys.
fn candidates<'a>(
    metadata: &'a Metadata,
    header: &'a Header,
) -> impl Iterator<Item = &'a openidconnect::core::CoreJsonWebKey> {
    metadata.jwks().keys().iter().filter(|key| {
        let kid = header.kid.as_ref();
        kid.is_none_or(|kid| key.key_id() == Some(kid))
    })
}

fn knows(metadata: &Metadata, header: &Header) -> bool {
    candidates(metadata, header).next().is_some()
}

/// Converts seconds since the Unix epoch to a timestamp. Rejects times before 1970 and after the
/// year 9999.
fn timestamp(seconds: f64) -> Result<Timestamp, Error> {
    const LATEST: f64 = 253_402_300_800.0; // the year 10000
    if !(0.0..LATEST).contains(&seconds) {
        return Err(rejected("a time is out of range"));
    }
    #[expect(clippy::cast_possible_truncation, reason = "the range is checked")]
    let millis = (seconds * 1000.0) as i64;
    Ok(Timestamp::from_millis(millis))
}
