//! Interprets an introspection response of the authorization server (RFC 7662, section 2.2). The
//! result is the account of the token, or the reason for the rejection.

use std::sync::Arc;

use latchmail_core::address;
use latchmail_core::caller::Audience;
use latchmail_core::clock::Timestamp;
use serde_json::{Map, Value};

use crate::auth::audience::Audiences;

/// The values that an introspection response must have.
#[derive(Debug)]
pub(super) struct Expected {
    /// URLs of this service. The token's audience must contain a URL of the service or an element
    /// of `other_audiences`.
    pub(super) audiences: Audiences,
    /// Other accepted audiences. A token with such an audience is valid for the whole service.
    pub(super) other_audiences: Vec<String>,
    /// Whether the response must have an audience.
    pub(super) audience_required: bool,
    /// Accepted values of `iss`, the issuer of the token.
    pub(super) issuers: Vec<String>,
    /// Scopes that a token must have.
    pub(super) scopes: Vec<String>,
    /// The name of the field of the JSON response that contains the account's address.
    pub(super) username_claim: String,
    /// Whether an address without `email_verified` is accepted.
    pub(super) trust_missing_email_verified: bool,
}

/// Result of the check of a token.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(in crate::auth) enum TokenStatus {
    /// The token is valid.
    Active(Arc<Subject>),
    /// The token is rejected. The text is the reason for the service's log.
    Rejected(&'static str),
}

/// The account and the audience of a token.
#[derive(Debug, PartialEq, Eq)]
pub(in crate::auth) struct Subject {
    /// Address of the account, in lower case.
    pub(in crate::auth) address: String,
    /// The part of the service for which the token is valid.
    pub(in crate::auth) audience: Audience,
    /// Time at which the token expires, if the response contains this time.
    pub(in crate::auth) until: Option<Timestamp>,
}

const EXPIRED: &str = "the token has expired";
const INACTIVE: &str = "the token is not active";

impl TokenStatus {
    /// Returns the reason for rejecting a token that the server reports as active. Such a rejection
    /// often means that the operator configured wrong expected values.
    pub(super) fn unexpected(&self) -> Option<&'static str> {
        match *self {
            Self::Rejected(why) if why != EXPIRED && why != INACTIVE => Some(why),
            Self::Active(_) | Self::Rejected(_) => None,
        }
    }

    /// Returns this status, or a rejection if the token has expired at the time `now`. A token can
    /// expire while its status is cached.
    pub(super) fn at(self, now: Timestamp) -> Self {
        match &self {
            Self::Active(subject) if subject.until.is_some_and(|until| until <= now) => {
                Self::Rejected(EXPIRED)
            }
            _ => self,
        }
    }
}

/// Parses an introspection response.
///
/// # Errors
/// Returns an error text for the service's log if the body is not an introspection response.
pub(super) fn parse(
    body: &[u8],
    expected: &Expected,
    now: Timestamp,
) -> Result<TokenStatus, String> {
    let response: Map<String, Value> =
        serde_json::from_slice(body).map_err(|_| "the response is not a JSON object".to_owned())?;
    match response.get("active") {
        Some(Value::Bool(true)) => {}
        Some(Value::Bool(false)) => return Ok(TokenStatus::Rejected(INACTIVE)),
        _ => return Err("the response has no valid `active` member".into()),
    }
    Ok(match checked(&response, expected, now)? {
        Ok(subject) => TokenStatus::Active(Arc::new(subject)),
        Err(why) => TokenStatus::Rejected(why),
    })
}

fn checked(
    response: &Map<String, Value>,
    expected: &Expected,
    now: Timestamp,
) -> Result<Result<Subject, &'static str>, String> {
    let until = instant(response, "exp")?;
    let from = instant(response, "nbf")?;
    let audience = audience(response, expected);
    let why = if until.is_some_and(|until| until <= now) {
        EXPIRED
    } else if from.is_some_and(|from| from > now) {
        "the token is not valid yet"
    } else if !is_bearer(response) {
        "the token is not a bearer token"
    } else if !is_issued(response, expected) {
        "the token has another issuer"
    } else if !has_scopes(response, expected) {
        "the token lacks a required scope"
    } else {
        return Ok(match (audience, address_of(response, expected)) {
            (None, _) => Err("the token's audience is not this service"),
            (_, None) => Err("the token has no usable address"),
            (Some(audience), Some(address)) => Ok(Subject {
                address,
                audience,
                until,
            }),
        });
    };
    Ok(Err(why))
}

/// Reads a JSON member that contains a time in seconds since 1970, possibly with a fraction (RFC
/// 7519, section 2).
fn instant(response: &Map<String, Value>, name: &str) -> Result<Option<Timestamp>, String> {
    let Some(value) = response.get(name) else {
        return Ok(None);
    };
    let millis = match value {
        Value::Null => return Ok(None),
        Value::Number(number) => number
            .as_i64()
            .map(|seconds| seconds.saturating_mul(1000))
            .or_else(|| whole_millis(number.as_f64()?)),
        _ => None,
    };
    millis
        .map(|millis| Some(Timestamp::from_millis(millis)))
        .ok_or_else(|| format!("the response has an invalid time in `{name}`"))
}

#[expect(
    clippy::cast_possible_truncation,
    reason = "the result is clamped to the range"
)]
fn whole_millis(seconds: f64) -> Option<i64> {
    seconds.is_finite().then_some((seconds * 1000.0) as i64)
}

/// Returns `true` if possession of the token is sufficient. Returns `false` for a token that is
/// bound to a key (RFC 8705, RFC 9449), because this service does not check proofs of possession.
fn is_bearer(response: &Map<String, Value>) -> bool {
    let kind = match member(response, "token_type") {
        None => true,
        Some(Value::String(kind)) => kind.eq_ignore_ascii_case("bearer"),
        Some(_) => false,
    };
    kind && member(response, "cnf").is_none()
}

fn is_issued(response: &Map<String, Value>, expected: &Expected) -> bool {
    match member(response, "iss") {
        None => true,
        Some(issuer) => is_among(issuer, &expected.issuers),
    }
}

/// Returns the audience of the token, or `None` if the token is not for this service. For several
/// audiences, [`Audience::Service`] takes precedence over [`Audience::Api`]. A token without an
/// audience is valid for the whole service unless an audience is required.
fn audience(response: &Map<String, Value>, expected: &Expected) -> Option<Audience> {
    let one = |value: &Value| {
        let name = value.as_str()?;
        let other_audiences =
            is_among(value, &expected.other_audiences).then_some(Audience::Service);
        other_audiences.or_else(|| expected.audiences.of(name))
    };
    match member(response, "aud") {
        None => (!expected.audience_required).then_some(Audience::Service),
        Some(Value::Array(all)) => {
            let found = || all.iter().filter_map(one);
            let whole = found().find(|audience| *audience == Audience::Service);
            whole.or_else(|| found().next())
        }
        Some(value) => one(value),
    }
}

fn has_scopes(response: &Map<String, Value>, expected: &Expected) -> bool {
    let scopes = member(response, "scope").and_then(Value::as_str);
    let scopes: Vec<&str> = scopes.unwrap_or_default().split(' ').collect();
    expected
        .scopes
        .iter()
        .all(|scope| scopes.contains(&scope.as_str()))
}

/// Returns the account's address in lower case. Returns `None` if the address is missing or
/// invalid, or if the address is the value of `email` and is not verified. If the response has no
/// `email_verified`, `trust_missing_email_verified` decides whether the address counts as verified.
fn address_of(response: &Map<String, Value>, expected: &Expected) -> Option<String> {
    let claim = expected.username_claim.as_str();
    let is_verified = member(response, "email_verified")
        .map_or(expected.trust_missing_email_verified, |verified| {
            *verified == Value::Bool(true)
        });
    if claim == "email" && !is_verified {
        return None;
    }
    address::fold(member(response, claim)?.as_str()?)
}

fn is_among(value: &Value, names: &[String]) -> bool {
    value
        .as_str()
        .is_some_and(|value| names.iter().any(|name| name == value))
}

/// Returns the JSON member `name`, or `None` if this member is missing or null.
fn member<'a>(response: &'a Map<String, Value>, name: &str) -> Option<&'a Value> {
    response.get(name).filter(|value| !value.is_null())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    const NOW: Timestamp = Timestamp::from_millis(1_795_161_600_000);
    const SECONDS: i64 = 1_795_161_600;

    fn expected() -> Expected {
        Expected {
            audiences: Audiences::new("https://a.example"),
            other_audiences: vec!["mail".into()],
            audience_required: true,
            issuers: vec!["https://id.example".into()],
            scopes: vec!["mail".into()],
            username_claim: "username".into(),
            trust_missing_email_verified: false,
        }
    }

    fn good() -> Value {
        json!({
            "active": true, "username": "Ada@A.example", "aud": "https://a.example/mcp",
            "iss": "https://id.example", "scope": "openid mail", "token_type": "Bearer",
            "exp": SECONDS + 10, "nbf": SECONDS,
        })
    }

    fn parse_json(response: &Value, expected: &Expected) -> Result<TokenStatus, String> {
        parse(response.to_string().as_bytes(), expected, NOW)
    }

    /// Returns the valid response with one member replaced, or removed if the value is null.
    fn with(member: &str, value: Value) -> Value {
        let mut response = good();
        response[member] = value;
        response
    }

    fn takes(response: &Value) {
        match parse_json(response, &expected()) {
            Ok(TokenStatus::Active(subject)) => assert_eq!(subject.address, "ada@a.example"),
            other => panic!("{response}: {other:?}"),
        }
    }

    fn refuses(response: &Value) {
        let status = parse_json(response, &expected());
        assert!(
            matches!(status, Ok(TokenStatus::Rejected(_))),
            "{response}: {status:?}"
        );
    }

    #[test]
    fn a_token_that_is_all_that_it_should_be_is_its_users() {
        takes(&good());
        takes(&with("aud", json!(["x", "https://a.example"])));
        takes(&with("iss", Value::Null));
        takes(&with("token_type", Value::Null));
        takes(&with("token_type", json!("bearer")));
        takes(&with("exp", Value::Null));
        takes(&with("exp", json!(1_795_161_600.5)));
    }

    #[test]
    fn a_token_that_is_not_is_refused() {
        refuses(&json!({ "active": false }));
        for (member, values) in [
            ("active", vec![json!(false)]),
            (
                "exp",
                vec![json!(SECONDS), json!(SECONDS - 1), json!(0), json!(-1)],
            ),
            ("nbf", vec![json!(SECONDS + 1)]),
            (
                "aud",
                vec![
                    Value::Null,
                    json!("https://a.example/mcp2"),
                    json!("https://a.example.evil.example"),
                    json!("https://A.example"),
                    json!([]),
                    json!([["https://a.example"]]),
                    json!({ "https://a.example": 1 }),
                ],
            ),
            (
                "iss",
                vec![json!("https://id.example/"), json!(["https://id.example"])],
            ),
            (
                "scope",
                vec![
                    Value::Null,
                    json!("openid"),
                    json!("mail2"),
                    json!(["mail"]),
                ],
            ),
            ("token_type", vec![json!("DPoP"), json!("N_A"), json!(1)]),
            ("cnf", vec![json!({ "jkt": "x" })]),
            (
                "username",
                vec![
                    Value::Null,
                    json!("ada"),
                    json!(""),
                    json!(7),
                    json!("a\u{1}b@a.example"),
                    json!("ada@a.example, bob@a.example"),
                    json!(["ada@a.example"]),
                ],
            ),
        ] {
            for value in values {
                refuses(&with(member, value));
            }
        }
    }

    #[test]
    fn an_invalid_response_is_an_error() {
        for body in [
            "",
            "null",
            "true",
            "[]",
            "{}",
            "{\"active\": \"true\"}",
            "{\"active\": 1}",
            "<html>",
        ] {
            assert!(parse(body.as_bytes(), &expected(), NOW).is_err(), "{body}");
        }
        for exp in [json!("soon"), json!("1795161610"), json!({}), json!(true)] {
            assert!(parse_json(&with("exp", exp), &expected()).is_err());
        }
    }

    #[test]
    fn a_token_is_for_as_much_of_the_service_as_its_audience_says() {
        let checked = |aud: Value| match parse_json(&with("aud", aud), &expected()).unwrap() {
            TokenStatus::Active(subject) => subject.audience,
            TokenStatus::Rejected(why) => panic!("{why}"),
        };
        let (api, agents) = ("https://a.example/api/v1", "https://a.example/mcp");
        assert_eq!(checked(json!(api)), Audience::Api);
        assert_eq!(checked(json!(["x", api])), Audience::Api);
        for aud in [
            json!(agents),
            json!("mail"),
            json!([api, agents]),
            json!([api, "mail"]),
        ] {
            assert_eq!(checked(aud), Audience::Service);
        }
    }

    #[test]
    fn an_audience_that_need_not_be_told_has_to_be_right_where_it_is() {
        let lenient = Expected {
            audience_required: false,
            ..expected()
        };
        let checked = |aud| parse_json(&with("aud", aud), &lenient).unwrap();
        assert!(matches!(checked(Value::Null), TokenStatus::Active(_)));
        assert!(matches!(
            checked(json!("another")),
            TokenStatus::Rejected(_)
        ));
    }

    #[test]
    fn an_address_that_nobody_proved_is_none() {
        let by_email = Expected {
            username_claim: "email".into(),
            ..expected()
        };
        let trusting = Expected {
            username_claim: "email".into(),
            trust_missing_email_verified: true,
            ..expected()
        };
        let accepts = |expected: &Expected, verified: Value| {
            let mut response = with("email", json!("bob@a.example"));
            response["email_verified"] = verified;
            match parse_json(&response, expected).unwrap() {
                TokenStatus::Active(subject) => subject.address == "bob@a.example",
                TokenStatus::Rejected(_) => false,
            }
        };
        assert!(accepts(&by_email, json!(true)));
        assert!(!accepts(&by_email, Value::Null));
        assert!(accepts(&trusting, json!(true)));
        assert!(accepts(&trusting, Value::Null));
        for unproved in [json!(false), json!("true"), json!(0)] {
            assert!(!accepts(&by_email, unproved.clone()));
            assert!(!accepts(&trusting, unproved));
        }
        // Only the configured member is read.
        assert!(matches!(
            parse_json(&with("username", Value::Null), &by_email),
            Ok(TokenStatus::Rejected(_))
        ));
    }

    #[test]
    fn a_token_ends_while_it_is_remembered() {
        let status = parse_json(&good(), &expected()).unwrap();
        let at = |seconds| {
            status
                .clone()
                .at(Timestamp::from_millis((SECONDS + seconds) * 1000))
        };
        assert!(matches!(at(9), TokenStatus::Active(_)));
        assert_eq!(at(10), TokenStatus::Rejected(EXPIRED));
    }
}
