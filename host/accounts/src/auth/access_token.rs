//! Access tokens of web sessions: JWTs (RFC 7519) that are signed with Ed25519 (RFC 8037). A token
//! is valid for 15 minutes and only for this service.
//!
//! This module accepts only tokens in the form that [`AccessTokens::sign`] writes. A token must
//! have the same header that `sign` writes, with the `kid` of a key in the keyring. Every claim is
//! required.
//!
//! [`super::by_access_token`] checks whether the token's session exists.

use std::fmt;
use std::time::Duration;

use jsonwebtoken::{Algorithm, Header, Validation, decode, decode_header, encode};
use latchmail_core::clock::Timestamp;
use latchmail_core::error::Failure;
use latchmail_core::keyring::{KeyId, Keyring};
use latchmail_core::limits::Attempt;
use latchmail_core::secrets;
use quick_cache::sync::Cache;
use secrecy::SecretString;
use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};

/// Lifetime of an access token.
pub const LIFETIME: Duration = Duration::from_mins(15);

/// Error text for an invalid access token of any kind.
pub(super) const BAD_ACCESS_TOKEN: &str = "Invalid or expired access token";

/// Maximum clock difference between hosts of the same service, in seconds. The difference is
/// allowed at the start of a token's validity but not at the end.
const SKEW: i64 = 5;

const REQUIRED: [&str; 5] = ["exp", "nbf", "iss", "aud", "sub"];

/// Signs and verifies the access tokens of one service.
pub struct AccessTokens {
    issuer: String,
    audience: String,
    validation: Validation,
    /// Claims of tokens with a verified signature, by the digest of the token. Without this cache,
    /// the verification of a token would take longer than all other work for a small request.
    signed: Cache<Digest, Signed>,
}

/// The claims of a token with a verified signature.
#[derive(Clone)]
struct Signed {
    claims: Claims,
    /// The key that signed the token. The token is not valid after the key was removed from the
    /// keyring.
    key: KeyId,
}

/// A SHA-256 hash.
type Digest = [u8; 32];

/// Maximum number of tokens in the cache of verified tokens.
const REMEMBERED: usize = 10_000;

/// The claims of an access token.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Claims {
    iss: String,
    aud: String,
    /// Id of the account.
    pub sub: String,
    /// Id of the session.
    pub sid: String,
    jti: String,
    iat: i64,
    nbf: i64,
    exp: i64,
}

impl fmt::Debug for AccessTokens {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("AccessTokens")
            .field("issuer", &self.issuer)
            .finish_non_exhaustive()
    }
}

impl AccessTokens {
    /// Creates the signer of the service at `base_url`. The issuer of tokens is `base_url`. The
    /// audience is the URL of the API.
    #[must_use]
    pub fn new(base_url: &str) -> Self {
        let audience = format!("{base_url}/api/v1");
        let mut validation = Validation::new(Algorithm::EdDSA);
        validation.set_issuer(&[base_url]);
        validation.set_audience(&[&audience]);
        validation.set_required_spec_claims(&REQUIRED);
        // Do not check the times with the system clock. `verify` checks the times with the
        // service's clock.
        validation.validate_exp = false;
        validation.validate_nbf = false;
        Self {
            issuer: base_url.to_owned(),
            audience,
            validation,
            signed: Cache::new(REMEMBERED),
        }
    }

    /// Returns a signed token for a session of an account. The token is valid from `now`.
    ///
    /// # Errors
    /// Returns 500 if the token cannot be signed.
    pub fn sign(
        &self,
        keys: &Keyring,
        account: &str,
        sid: &str,
        now: Timestamp,
    ) -> Result<SecretString, Failure> {
        let key = keys.current();
        let claims = Claims {
            iss: self.issuer.clone(),
            aud: self.audience.clone(),
            sub: account.to_owned(),
            sid: sid.to_owned(),
            jti: secrets::id()?,
            iat: now.seconds(),
            nbf: now.seconds(),
            exp: now.plus(LIFETIME).seconds(),
        };
        let token = encode(&header(&key.kid), &claims, &key.signing).map_err(Failure::internal)?;
        let signed = Signed {
            claims,
            key: key.id,
        };
        self.signed.insert(Sha256::digest(&token).into(), signed);
        Ok(token.into())
    }

    /// Returns the claims of a token if this service signed the token and the token is valid at
    /// `now`. Otherwise returns `None`.
    ///
    /// For a token that is not in the cache, awaits `attempt` before the check of the signature. An
    /// invalid signature counts as a failed attempt.
    ///
    /// # Errors
    /// Returns the error of `attempt` if `attempt` fails.
    pub async fn verify<'f>(
        &self,
        keys: &Keyring,
        token: &str,
        now: Timestamp,
        attempt: impl Future<Output = Result<Attempt<'f>, Failure>>,
    ) -> Result<Option<Claims>, Failure> {
        let digest: Digest = Sha256::digest(token).into();
        let known = self.signed.get(&digest);
        let claims = if let Some(known) = known.filter(|known| keys.by_id(known.key).is_some()) {
            known.claims
        } else {
            let attempt = attempt.await?;
            let Some(signed) = self.signed_claims(keys, token) else {
                return Ok(None);
            };
            attempt.succeeded().await;
            self.signed.insert(digest, signed.clone());
            signed.claims
        };
        let now = now.seconds();
        let good = claims.nbf.max(claims.iat) <= now.saturating_add(SKEW) && now < claims.exp;
        Ok(good.then_some(claims))
    }

    /// Returns the claims of a token, or `None` if the signature, the header or a required claim is
    /// invalid.
    fn signed_claims(&self, keys: &Keyring, token: &str) -> Option<Signed> {
        let given = decode_header(token).ok()?;
        let key = keys.by_kid(given.kid.as_deref()?)?;
        // Accept only the header that `sign` writes. Reject other algorithms, embedded or linked
        // keys, and critical or unknown members.
        if given != header(&key.kid) {
            return None;
        }
        let decoded = decode::<Claims>(token, &key.verifying, &self.validation);
        decoded.ok().map(|token| Signed {
            claims: token.claims,
            key: key.id,
        })
    }
}

fn header(kid: &str) -> Header {
    Header {
        kid: Some(kid.to_owned()),
        ..Header::new(Algorithm::EdDSA)
    }
}

#[cfg(test)]
mod tests {
    use base64::Engine;
    use base64::engine::general_purpose::URL_SAFE_NO_PAD;
    use futures_util::FutureExt as _;
    use jsonwebtoken::EncodingKey;
    use jsonwebtoken::crypto;
    use latchmail_core::clock::Clock;
    use latchmail_core::keyring::testing::keyring;
    use latchmail_core::limits::Failures;
    use secrecy::ExposeSecret;
    use serde_json::{Value, json};

    use super::*;

    const BASE: &str = "https://mail.example";
    const NOW: Timestamp = Timestamp::from_millis(1_795_161_600_000);

    fn service() -> AccessTokens {
        AccessTokens::new(BASE)
    }

    impl AccessTokens {
        fn verified(&self, keys: &Keyring, token: &str, now: Timestamp) -> Option<Claims> {
            let failures = Failures::new(Clock::system());
            self.verify(keys, token, now, failures.attempt([]))
                .now_or_never()
                .unwrap()
                .unwrap()
        }
    }

    fn good_header(keys: &Keyring) -> Value {
        json!({"typ": "JWT", "alg": "EdDSA", "kid": keys.current().kid})
    }

    fn good_claims() -> Value {
        json!({
            "iss": BASE, "aud": format!("{BASE}/api/v1"), "sub": "account", "sid": "session", "jti": "one",
            "iat": NOW.seconds(), "nbf": NOW.seconds(), "exp": NOW.seconds() + 900,
        })
    }

    fn part(value: &Value) -> String {
        URL_SAFE_NO_PAD.encode(value.to_string())
    }

    /// Signs any header and claims with the current key of `keys`.
    fn signed(keys: &Keyring, header: &Value, claims: &Value) -> String {
        let message = format!("{}.{}", part(header), part(claims));
        let signature = crypto::sign(
            message.as_bytes(),
            &keys.current().signing,
            Algorithm::EdDSA,
        )
        .unwrap();
        format!("{message}.{signature}")
    }

    fn with(mut value: Value, member: &str, new: Value) -> Value {
        value[member] = new;
        value
    }

    fn without(mut value: Value, member: &str) -> Value {
        value.as_object_mut().unwrap().remove(member);
        value
    }

    #[test]
    fn a_token_is_good_for_15_minutes_and_not_a_second_longer() {
        let keys = keyring(&[1]);
        let token = service().sign(&keys, "account", "session", NOW).unwrap();
        let verify = |after: u64| {
            let then = NOW.plus(Duration::from_secs(after));
            service().verified(&keys, token.expose_secret(), then)
        };
        let claims = verify(0).unwrap();
        assert_eq!(
            (claims.sub.as_str(), claims.sid.as_str()),
            ("account", "session")
        );
        assert!(verify(899).is_some());
        assert!(verify(900).is_none());
    }

    #[test]
    fn two_tokens_of_one_session_differ() {
        let keys = keyring(&[1]);
        let sign = || service().sign(&keys, "account", "session", NOW).unwrap();
        assert_ne!(sign().expose_secret(), sign().expose_secret());
    }

    #[test]
    fn a_token_of_an_earlier_key_is_good_until_the_key_is_taken_away() {
        let token = service()
            .sign(&keyring(&[1]), "account", "session", NOW)
            .unwrap();
        let verify = |keys: &[u8]| service().verified(&keyring(keys), token.expose_secret(), NOW);
        assert!(verify(&[2, 1]).is_some());
        assert!(verify(&[2]).is_none());
    }

    #[test]
    fn the_token_that_the_attacks_start_from_is_good() {
        let keys = keyring(&[1]);
        let token = signed(&keys, &good_header(&keys), &good_claims());
        assert!(service().verified(&keys, &token, NOW).is_some());
    }

    #[test]
    fn a_header_other_than_the_services_own_is_refused() {
        let keys = keyring(&[1]);
        let good = good_header(&keys);
        let jwk = json!({"kty": "OKP", "crv": "Ed25519", "x": "11qYAYKxCrfVS_7TyWQHOg7hcvPapiMlrwIaaPcHURo"});
        for header in [
            with(good.clone(), "alg", json!("none")),
            with(good.clone(), "alg", json!("None")),
            with(good.clone(), "alg", json!("HS256")),
            with(good.clone(), "alg", json!("ES256")),
            with(good.clone(), "alg", json!("")),
            without(good.clone(), "alg"),
            without(good.clone(), "kid"),
            with(good.clone(), "kid", json!("")),
            with(good.clone(), "kid", json!(7)),
            with(good.clone(), "kid", json!("unknown")),
            with(good.clone(), "kid", json!(keyring(&[2]).current().kid)),
            with(good.clone(), "kid", json!("../../etc/passwd")),
            without(good.clone(), "typ"),
            with(good.clone(), "typ", json!("at+jwt")),
            with(good.clone(), "cty", json!("JWT")),
            with(good.clone(), "jwk", jwk),
            with(good.clone(), "jku", json!("https://evil.example/keys")),
            with(good.clone(), "x5u", json!("https://evil.example/cert")),
            with(good.clone(), "x5c", json!(["AA=="])),
            with(good.clone(), "crit", json!(["exp"])),
            with(good.clone(), "crit", json!([])),
            with(good.clone(), "b64", json!(false)),
            with(good.clone(), "zip", json!("DEF")),
            with(good.clone(), "anything", json!(1)),
            json!([]),
            json!("EdDSA"),
        ] {
            let token = signed(&keys, &header, &good_claims());
            assert!(service().verified(&keys, &token, NOW).is_none(), "{header}");
        }
    }

    #[test]
    fn claims_that_are_missing_or_not_for_this_service_and_time_are_refused() {
        let keys = keyring(&[1]);
        let good = good_claims();
        let now = NOW.seconds();
        let mut attacks: Vec<Value> = ["iss", "aud", "sub", "sid", "jti", "iat", "nbf", "exp"]
            .iter()
            .flat_map(|claim| {
                [
                    without(good.clone(), claim),
                    with(good.clone(), claim, Value::Null),
                    with(good.clone(), claim, json!({})),
                ]
            })
            .collect();
        attacks.extend([
            with(good.clone(), "iss", json!("https://evil.example")),
            with(good.clone(), "iss", json!(format!("{BASE}/"))),
            with(good.clone(), "iss", json!([BASE])),
            with(good.clone(), "aud", json!(BASE)),
            with(good.clone(), "aud", json!("https://evil.example/api/v1")),
            with(
                good.clone(),
                "aud",
                json!([format!("{BASE}/api/v1"), "https://evil.example"]),
            ),
            with(good.clone(), "exp", json!(now)),
            with(good.clone(), "exp", json!(now - 1)),
            with(good.clone(), "exp", json!(-1)),
            with(good.clone(), "exp", json!((now + 900).to_string())),
            with(good.clone(), "exp", json!(1e300)),
            with(good.clone(), "nbf", json!(now + SKEW + 1)),
            with(good.clone(), "iat", json!(now + SKEW + 1)),
            with(good.clone(), "nbf", json!("now")),
            json!([]),
            json!(null),
        ]);
        for claims in attacks {
            let token = signed(&keys, &good_header(&keys), &claims);
            assert!(service().verified(&keys, &token, NOW).is_none(), "{claims}");
        }
    }

    #[test]
    fn a_signature_by_another_key_is_refused() {
        let (keys, foreign) = (keyring(&[1]), keyring(&[2]));
        let (header, claims) = (good_header(&keys), good_claims());
        let good = signed(&keys, &header, &claims);
        let (message, signature) = good.rsplit_once('.').unwrap();
        let other = part(&with(claims.clone(), "sub", json!("another account")));
        // The public key used as an HMAC secret (algorithm confusion).
        let current = keys.current();
        let public = current.verifying.try_get_as_bytes().unwrap();
        let hmac_message = format!(
            "{}.{}",
            part(&with(header.clone(), "alg", json!("HS256"))),
            part(&claims)
        );
        let hmac = crypto::sign(
            hmac_message.as_bytes(),
            &EncodingKey::from_secret(public),
            Algorithm::HS256,
        )
        .unwrap();
        for token in [
            signed(&foreign, &header, &claims),
            format!("{message}."),
            message.to_owned(),
            format!("{message}.{signature}A"),
            format!("{message}.{}", URL_SAFE_NO_PAD.encode([0; 64])),
            format!("{message}.{}", &signature[..40]),
            format!("{message}.{signature}.{signature}"),
            format!("{}.{other}.{signature}", part(&header)),
            format!("{hmac_message}.{hmac}"),
            format!(
                "{}.{}.",
                part(&with(header.clone(), "alg", json!("none"))),
                part(&claims)
            ),
            format!(" {good}"),
            format!("{good}="),
            String::new(),
            "..".into(),
        ] {
            assert!(service().verified(&keys, &token, NOW).is_none(), "{token}");
        }
    }
}
