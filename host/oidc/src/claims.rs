//! The claims about a person. They come from the ID token. If the ID token does not contain the
//! claim with the mailbox, this claim comes from the userinfo endpoint.

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use openidconnect::core::{CoreGenderClaim, CoreTokenResponse};
use openidconnect::{
    AdditionalClaims, OAuth2TokenResponse as _, SubjectIdentifier, UserInfoClaims, UserInfoError,
};
use secrecy::SecretString;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::discovery::{Client, chain, rejected, unavailable};
use crate::{Error, MAX_IDENTIFIER, Provider};

/// A person who signed in at the provider.
#[derive(Clone, Debug)]
pub struct Person {
    /// The provider's id of the person.
    pub subject: String,
    /// The provider's id of the person's session at the provider.
    pub sid: Option<String>,
    /// The mailbox of the person. `None` if the provider returned no mailbox.
    pub mailbox: Option<Mailbox>,
    /// The refresh token that the provider issued for this sign-in. `None` if the provider issued
    /// none.
    pub refresh_token: Option<SecretString>,
}

/// The mailbox of a person.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mailbox {
    /// The address of the mailbox: the value of the claim that the configuration selects.
    pub address: String,
    /// Whether the provider has verified the address. If the configured claim is not `email`, the
    /// address counts as verified. `None` if the provider does not report whether the address is
    /// verified.
    pub is_verified: Option<bool>,
}

/// The claims of the userinfo response that the standard does not define.
#[derive(Clone, Debug, Deserialize, Serialize)]
struct OtherClaims {
    #[serde(flatten)]
    claims: Map<String, Value>,
}

impl AdditionalClaims for OtherClaims {}

impl Person {
    /// Returns the person of a verified ID token.
    pub(crate) fn of_id_token(id_token: &str, claim: &str) -> Result<Self, Error> {
        let claims: Value = payload(id_token)?;
        let subject = identifier(&claims, "sub")?;
        Ok(Self {
            subject: subject.ok_or_else(|| rejected("the ID token has no subject"))?,
            sid: identifier(&claims, "sid")?,
            mailbox: Mailbox::of(&claims, claim),
            refresh_token: None,
        })
    }
}

impl Mailbox {
    fn of(claims: &Value, claim: &str) -> Option<Self> {
        let address = claims[claim].as_str().filter(|text| !text.is_empty())?;
        let is_verified = if claim == "email" {
            match &claims["email_verified"] {
                Value::Null => None,
                // Some providers send the string `"true"` instead of the JSON value `true`.
                value => Some(*value == true || *value == "true"),
            }
        } else {
            Some(true)
        };
        Some(Self {
            address: address.to_owned(),
            is_verified,
        })
    }
}

impl Provider {
    /// Returns the mailbox of a person. Sends a request to the userinfo endpoint if the ID token
    /// has no mailbox, or does not report whether the address is verified.
    pub(crate) async fn mailbox(
        &self,
        client: &Client,
        person: &Person,
        tokens: &CoreTokenResponse,
    ) -> Result<Option<Mailbox>, Error> {
        let trusts_missing = self.settings.trust_missing_email_verified;
        let is_complete = |mailbox: &Mailbox| mailbox.is_verified.is_some() || trusts_missing;
        let mut mailbox = person.mailbox.clone();
        if !mailbox.as_ref().is_some_and(is_complete) {
            let reported = self.mailbox_from_userinfo(client, person, tokens).await?;
            mailbox = reported.or(mailbox);
        }
        if let Some(mailbox) = &mut mailbox
            && mailbox.is_verified.is_none()
        {
            mailbox.is_verified = Some(trusts_missing);
        }
        Ok(mailbox)
    }

    /// Returns the mailbox that the userinfo endpoint reports. Returns `None` if there is no such
    /// endpoint, or if the response has no mailbox.
    async fn mailbox_from_userinfo(
        &self,
        client: &Client,
        person: &Person,
        tokens: &CoreTokenResponse,
    ) -> Result<Option<Mailbox>, Error> {
        let access_token = tokens.access_token();
        // The crate `openidconnect` panics if the token is not a valid value of a header.
        if !access_token
            .secret()
            .bytes()
            .all(|byte| byte.is_ascii_graphic())
        {
            return Err(rejected("the access token contains invalid characters"));
        }
        let subject = SubjectIdentifier::new(person.subject.clone());
        let Ok(request) = client.user_info(access_token.clone(), Some(subject)) else {
            return Ok(None);
        };
        let claims: Result<UserInfoClaims<OtherClaims, CoreGenderClaim>, _> =
            request.request_async(&self.http).await;
        let claims = claims.map_err(|error| match error {
            UserInfoError::Request(error) => unavailable(&error),
            error => rejected(&chain(&error)),
        })?;
        let claims = serde_json::to_value(claims).map_err(|error| rejected(&error.to_string()))?;
        Ok(Mailbox::of(&claims, self.mailbox_claim()))
    }
}

/// Returns the payload of a JSON Web Token. Does not verify the token.
pub(crate) fn payload<T: serde::de::DeserializeOwned>(token: &str) -> Result<T, Error> {
    let payload = token.split('.').nth(1).unwrap_or_default();
    let decoded = URL_SAFE_NO_PAD.decode(payload).ok();
    decoded
        .and_then(|decoded| serde_json::from_slice(&decoded).ok())
        .ok_or_else(|| rejected("the payload of the token cannot be parsed"))
}

/// Returns a claim with an identifier. Returns `None` if the claim is missing.
fn identifier(claims: &Value, name: &str) -> Result<Option<String>, Error> {
    match &claims[name] {
        Value::Null => Ok(None),
        Value::String(text) if (1..=MAX_IDENTIFIER).contains(&text.len()) => Ok(Some(text.clone())),
        _ => Err(rejected(&format!("the claim {name} is not an identifier"))),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn person(claims: &Value, claim: &str) -> Result<Person, Error> {
        let payload = URL_SAFE_NO_PAD.encode(claims.to_string());
        Person::of_id_token(&format!("e30.{payload}.sig"), claim)
    }

    #[test]
    fn the_configured_claim_is_the_mailbox() {
        let claims = json!({ "sub": "1", "email": "ada@a.example", "mail": "ada@b.example" });
        let found = person(&claims, "mail").unwrap();
        assert_eq!((found.subject.as_str(), found.sid), ("1", None));
        assert_eq!(found.mailbox.unwrap().address, "ada@b.example");
        assert_eq!(person(&claims, "upn").unwrap().mailbox, None);
    }

    #[test]
    fn only_an_email_that_the_provider_reports_as_verified_is_verified() {
        for (value, verified) in [
            (json!(true), Some(true)),
            (json!("true"), Some(true)),
            (json!(false), Some(false)),
            (json!("false"), Some(false)),
            (json!(1), Some(false)),
            (json!(["true"]), Some(false)),
            (json!(null), None),
        ] {
            let claims = json!({ "sub": "1", "email": "a@a.example", "email_verified": value });
            let mailbox = person(&claims, "email").unwrap().mailbox.unwrap();
            assert_eq!(mailbox.is_verified, verified, "{claims}");
        }
        let claims = json!({ "sub": "1", "upn": "a@a.example", "email_verified": false });
        let mailbox = person(&claims, "upn").unwrap().mailbox.unwrap();
        assert_eq!(mailbox.is_verified, Some(true));
    }

    #[test]
    fn identifiers_are_short_texts() {
        for claims in [
            json!({}),
            json!({ "sub": "" }),
            json!({ "sub": 1 }),
            json!({ "sub": "x".repeat(256) }),
            json!({ "sub": "1", "sid": ["s"] }),
        ] {
            assert!(person(&claims, "email").is_err(), "{claims}");
        }
        let claims = json!({ "sub": "1", "sid": "s" });
        assert_eq!(person(&claims, "email").unwrap().sid.as_deref(), Some("s"));
    }
}
