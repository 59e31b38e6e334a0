//! The authentication that a registry requires: the header `WWW-Authenticate` (RFC 9110, section
//! 11.6.1; RFC 6750; the token authentication of Docker).

use http::{HeaderMap, header};

/// The authentication that a registry requires.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Challenge {
    /// The name and the password with each request.
    Basic,
    /// A token of another server.
    Bearer {
        /// The URL of the server that issues tokens.
        realm: String,
        /// The name of the registry for that server.
        service: Option<String>,
    },
}

impl Challenge {
    /// Returns the challenge of a response. Prefers tokens. Returns `None` if there is no challenge
    /// of a known kind.
    pub(crate) fn of(headers: &HeaderMap) -> Option<Self> {
        let values = headers.get_all(header::WWW_AUTHENTICATE).iter();
        let mut challenges: Vec<Self> = values
            .filter_map(|value| parse(value.to_str().ok()?))
            .collect();
        challenges.sort_by_key(|challenge| *challenge == Self::Basic);
        challenges.into_iter().next()
    }
}

fn parse(value: &str) -> Option<Challenge> {
    let (scheme, parameters) = value.trim().split_once(' ').unwrap_or((value.trim(), ""));
    if scheme.eq_ignore_ascii_case("basic") {
        return Some(Challenge::Basic);
    }
    if !scheme.eq_ignore_ascii_case("bearer") {
        return None;
    }
    let (mut realm, mut service) = (None, None);
    let mut rest = parameters;
    while let Some((name, value, following)) = parameter(rest) {
        match name.to_ascii_lowercase().as_str() {
            "realm" => realm = Some(value),
            "service" => service = Some(value),
            _ => {}
        }
        rest = following;
    }
    realm.map(|realm| Challenge::Bearer { realm, service })
}

/// Returns the name and the value of the first parameter, and the text after it.
fn parameter(text: &str) -> Option<(&str, String, &str)> {
    let text = text.trim_start_matches([' ', ',', '\t']);
    let (name, rest) = text.split_once('=')?;
    let Some(quoted) = rest.strip_prefix('"') else {
        let end = rest.find(',').unwrap_or(rest.len());
        let (value, following) = rest.split_at(end);
        return Some((name.trim(), value.trim().to_owned(), following));
    };
    let mut value = String::new();
    let mut characters = quoted.char_indices();
    while let Some((at, character)) = characters.next() {
        match character {
            '"' => return Some((name.trim(), value, quoted.get(at + 1..).unwrap_or(""))),
            '\\' => value.extend(characters.next().map(|(_, escaped)| escaped)),
            other => value.push(other),
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use http::HeaderValue;

    use super::*;

    fn challenge(values: &[&'static str]) -> Option<Challenge> {
        let mut headers = HeaderMap::new();
        for value in values {
            headers.append(header::WWW_AUTHENTICATE, HeaderValue::from_static(value));
        }
        Challenge::of(&headers)
    }

    #[test]
    fn a_token_is_preferred_to_a_password() {
        let bearer = "Bearer realm=\"https://auth.example.com/token\",service=\"a, b\",scope=\"repository:rules:pull,push\"";
        let expected = Challenge::Bearer {
            realm: "https://auth.example.com/token".into(),
            service: Some("a, b".into()),
        };
        assert_eq!(
            challenge(&["Basic realm=\"x\"", bearer]).as_ref(),
            Some(&expected)
        );
        assert_eq!(challenge(&["basic realm=x"]), Some(Challenge::Basic));
    }

    #[test]
    fn parameters_can_have_escapes_and_no_quotes() {
        let expected = Challenge::Bearer {
            realm: "https://auth/\"x".into(),
            service: Some("y".into()),
        };
        let value = "bearer service=y , realm=\"https://auth/\\\"x\"";
        assert_eq!(challenge(&[value]), Some(expected));
    }

    #[test]
    fn other_challenges_are_ignored() {
        for value in [
            "",
            "Negotiate",
            "Bearer",
            "Bearer service=\"x\"",
            "Bearer realm=\"x",
        ] {
            assert_eq!(challenge(&[value]), None, "{value}");
        }
    }
}
