//! Parses the Authorization header and determines the kind of the credential from its form (RFC
//! 6750, section 2.1). Other modules check whether the credential is valid.

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use http::{HeaderMap, header};
use latchmail_core::codes;
use latchmail_core::error::Failure;
use serde_json::{Map, Value};

/// Prefix of personal API tokens.
pub(super) const API_TOKEN_PREFIX: &str = "lmk_";

/// Prefix of operator tokens.
pub(super) const OPERATOR_TOKEN_PREFIX: &str = "lmo_";

/// An unverified credential that a client sent.
#[derive(Clone, Copy, PartialEq, Eq)]
#[cfg_attr(test, derive(Debug))]
pub enum BearerCredential<'a> {
    /// A text that starts with the prefix of personal API tokens.
    ApiToken(&'a str),
    /// A text that starts with the prefix of operator tokens.
    OperatorToken(&'a str),
    /// A text that starts with a JOSE header, such as an access token of a web session.
    AccessToken(&'a str),
    /// Any other visible ASCII text, possibly an OAuth access token.
    Opaque(&'a str),
}

/// Returns the credential in the Authorization header of a request.
///
/// # Errors
/// Returns 401 if there is not exactly one Authorization header, if the scheme is not `Bearer`, or
/// if the credential contains forbidden characters.
pub fn bearer_credential(headers: &HeaderMap) -> Result<BearerCredential<'_>, Failure> {
    only_bearer(headers).map(kind).ok_or_else(|| {
        Failure::unauthorized(
            codes::INVALID_AUTHORIZATION_HEADER,
            "Missing or invalid Authorization header",
        )
    })
}

fn only_bearer(headers: &HeaderMap) -> Option<&str> {
    let mut all = headers.get_all(header::AUTHORIZATION).iter();
    let (Some(only), None) = (all.next(), all.next()) else {
        return None;
    };
    let (scheme, credential) = only.to_str().ok()?.split_once(' ')?;
    // RFC 9110, section 11.4, allows one or more spaces after the scheme.
    let credential = credential.trim_start_matches(' ');
    let usable = scheme.eq_ignore_ascii_case("bearer")
        && !credential.is_empty()
        && credential.bytes().all(|byte| byte.is_ascii_graphic());
    usable.then_some(credential)
}

fn kind(credential: &str) -> BearerCredential<'_> {
    if credential.starts_with(API_TOKEN_PREFIX) {
        BearerCredential::ApiToken(credential)
    } else if credential.starts_with(OPERATOR_TOKEN_PREFIX) {
        BearerCredential::OperatorToken(credential)
    } else if has_jose_header(credential) {
        BearerCredential::AccessToken(credential)
    } else {
        BearerCredential::Opaque(credential)
    }
}

/// Returns `true` if the text before the first dot is a JSON object in base64url (RFC 7515, section
/// 4).
fn has_jose_header(credential: &str) -> bool {
    credential
        .split_once('.')
        .and_then(|(header, _)| URL_SAFE_NO_PAD.decode(header).ok())
        .is_some_and(|header| serde_json::from_slice::<Map<String, Value>>(&header).is_ok())
}

#[cfg(test)]
mod tests {
    use http::HeaderValue;
    use latchmail_core::error::Kind;

    use super::*;

    fn headers(values: &[&[u8]]) -> HeaderMap {
        let mut headers = HeaderMap::new();
        for value in values {
            headers.append(
                header::AUTHORIZATION,
                HeaderValue::from_bytes(value).unwrap(),
            );
        }
        headers
    }

    #[test]
    fn a_credential_is_told_by_its_shape() {
        // {"alg":"none"} and [1]
        let (object, array) = ("eyJhbGciOiJub25lIn0", "WzFd");
        for (header, expected) in [
            ("Bearer lmk_abc", BearerCredential::ApiToken("lmk_abc")),
            ("Bearer lmk_", BearerCredential::ApiToken("lmk_")),
            ("Bearer lmo_a", BearerCredential::OperatorToken("lmo_a")),
            ("bearer lmk_abc", BearerCredential::ApiToken("lmk_abc")),
            ("BEARER   lmk_abc", BearerCredential::ApiToken("lmk_abc")),
            (
                &format!("Bearer {object}.e30."),
                BearerCredential::AccessToken(&format!("{object}.e30.")),
            ),
            (
                &format!("Bearer {object}.x"),
                BearerCredential::AccessToken(&format!("{object}.x")),
            ),
            (
                &format!("Bearer {object}"),
                BearerCredential::Opaque(object),
            ),
            (
                &format!("Bearer {array}.e30.x"),
                BearerCredential::Opaque(&format!("{array}.e30.x")),
            ),
            ("Bearer a.b.c", BearerCredential::Opaque("a.b.c")),
            ("Bearer LMK_abc", BearerCredential::Opaque("LMK_abc")),
            ("Bearer x", BearerCredential::Opaque("x")),
        ] {
            let headers = headers(&[header.as_bytes()]);
            assert_eq!(bearer_credential(&headers).ok(), Some(expected), "{header}");
        }
    }

    #[test]
    fn what_is_no_credential_is_refused_with_one_text() {
        let cases: [&[&[u8]]; 16] = [
            &[],
            &[b"Bearer"],
            &[b"Bearer "],
            &[b"Bearer   "],
            &[b"Bearer a b"],
            &[b"Bearer lmk_a b"],
            &[b"Bearer a\tb"],
            &[b"Bearer\ta"],
            &[b"Bearer t\xC3\xB6ken"],
            &[b"Bearer \xFF"],
            &[b"Basic YTpi"],
            &[b"Bearertoken"],
            &[b""],
            &[b"lmk_abc"],
            &[b"Bearer lmk_abc", b"Bearer lmk_abc"],
            &[b"Bearer a, Bearer b"],
        ];
        for values in cases {
            let failure = bearer_credential(&headers(values)).err().unwrap();
            assert_eq!(failure.kind, Kind::Unauthorized);
            assert_eq!(failure.text, "Missing or invalid Authorization header");
        }
    }
}
