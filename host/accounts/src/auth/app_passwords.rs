//! Authenticates callers by HTTP Basic authentication (RFC 7617) with the address of an account and
//! an app password for mail clients. Only routes that request this kind of credential accept it.
//!
//! App passwords are random, so guessing is impossible, and a fast hash is sufficient. The password
//! of an account is never accepted, and is not looked up.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use http::{HeaderMap, header};
use latchmail_core::caller::{Caller, Credential, MailCredential};
use latchmail_core::codes;
use latchmail_core::error::Failure;
use latchmail_core::secrets::AppPassword;
use secrecy::SecretString;
use subtle::ConstantTimeEq as _;
use zeroize::Zeroizing;

use super::{Auth, ParsedCredential};

/// The error text for a malformed header, and for a wrong user name or app password.
const INVALID: &str = "Invalid user name or app password";

/// The hash with which the hash of an unknown app password is compared, so that known and unknown
/// selectors take the same time.
const DUMMY_HASH: &str = "0000000000000000000000000000000000000000000000000000000000000000";

/// An address and an app password that a client sent.
#[derive(Debug)]
pub struct BasicCredential {
    /// The account's address, in lower case.
    address: String,
    password: AppPassword,
    hash: String,
}

/// Returns `true` if the Authorization header of a request has the scheme `Basic`.
#[must_use]
pub fn has_basic_credential(headers: &HeaderMap) -> bool {
    headers
        .get(header::AUTHORIZATION)
        .and_then(|value| value.to_str().ok())
        .is_some_and(|value| basic(value).is_some())
}

/// Returns the text after the scheme `Basic`.
fn basic(value: &str) -> Option<&str> {
    let (scheme, credential) = value.split_once(' ')?;
    let is_basic = scheme.eq_ignore_ascii_case("basic");
    is_basic.then(|| credential.trim_start_matches(' '))
}

/// Returns the user name and the password of a request. Returns `None` unless there is exactly one
/// well-formed header.
fn parse(headers: &HeaderMap) -> Option<(String, SecretString)> {
    let mut all = headers.get_all(header::AUTHORIZATION).iter();
    let (Some(only), None) = (all.next(), all.next()) else {
        return None;
    };
    let encoded = basic(only.to_str().ok()?)?;
    let decoded = Zeroizing::new(STANDARD.decode(encoded).ok()?);
    let text = std::str::from_utf8(&decoded).ok()?;
    let (user, password) = text.split_once(':')?;
    (!user.chars().any(char::is_control)).then(|| (user.to_owned(), password.into()))
}

impl Auth {
    /// Parses the Basic credential of a request. Does not query the directory.
    ///
    /// # Errors
    /// Returns 401 if the header is malformed, or if the password does not have the form of an app
    /// password.
    pub fn parse_basic_credential(&self, headers: &HeaderMap) -> Result<ParsedCredential, Failure> {
        let parsed = parse(headers).and_then(|(user, password)| {
            let address = self.sign_in_address(&user)?;
            let password = AppPassword::parse(&password)?;
            Some(BasicCredential {
                hash: password.hash(),
                address,
                password,
            })
        });
        let credential =
            parsed.ok_or_else(|| Failure::unauthorized(codes::INVALID_APP_PASSWORD, INVALID))?;
        let known = self.known_app_passwords.get(&credential.hash);
        Ok(ParsedCredential::AppPassword { credential, known })
    }

    /// Returns the caller to whom an app password belongs.
    ///
    /// # Errors
    /// Returns 401 if the app password is unknown, expired or revoked, or belongs to another
    /// account. Returns 500 for an internal error.
    pub(super) async fn by_app_password(
        &self,
        credential: BasicCredential,
    ) -> Result<Caller, Failure> {
        let selector = credential.password.selector();
        let found = self.directory.credentials.by_selector(selector).await?;
        let expected = found
            .as_ref()
            .map_or(DUMMY_HASH, |found| &found.secret_hash);
        let same = bool::from(credential.hash.as_bytes().ct_eq(expected.as_bytes()));
        let Some(found) = found.filter(|_| same) else {
            self.known_app_passwords.remove(&credential.hash);
            return Err(Failure::unauthorized(codes::INVALID_APP_PASSWORD, INVALID));
        };
        let is_expired = found.expires_at.is_some_and(|end| end <= self.clock.now());
        if is_expired || found.address != credential.address {
            return Err(Failure::unauthorized(codes::INVALID_APP_PASSWORD, INVALID));
        }
        self.known_app_passwords
            .insert(credential.hash, found.id.as_str().into());
        Ok(Caller {
            account: found.account_id,
            mail: MailCredential::app_password(
                found.id.clone(),
                found.address.clone(),
                credential.password.secret().clone(),
            ),
            address: found.address,
            admin: found.admin,
            credential: Credential::AppPassword { id: found.id },
            grant: None,
            shared: None,
        })
    }
}

#[cfg(test)]
mod tests {
    use http::HeaderValue;
    use secrecy::ExposeSecret as _;

    use super::*;

    fn headers(values: &[&str]) -> HeaderMap {
        let mut headers = HeaderMap::new();
        for value in values {
            let value = HeaderValue::from_str(value).unwrap();
            headers.append(header::AUTHORIZATION, value);
        }
        headers
    }

    #[test]
    fn the_user_name_ends_at_the_first_colon() {
        let encoded = STANDARD.encode("ada@a.example:a:b");
        for scheme in ["Basic ", "basic   "] {
            let headers = headers(&[&format!("{scheme}{encoded}")]);
            assert!(has_basic_credential(&headers));
            let (user, password) = parse(&headers).unwrap();
            assert_eq!(user, "ada@a.example");
            assert_eq!(password.expose_secret(), "a:b");
        }
    }

    #[test]
    fn malformed_credentials_are_refused() {
        let valid = format!("Basic {}", STANDARD.encode("a:b"));
        let no_colon = format!("Basic {}", STANDARD.encode("ab"));
        let control = format!("Basic {}", STANDARD.encode("a\0:b"));
        let cases: [&[&str]; 6] = [
            &[],
            &["Basic"],
            &["Basic %"],
            &[&no_colon],
            &[&control],
            &[&valid, &valid],
        ];
        for values in cases {
            assert!(parse(&headers(values)).is_none(), "{values:?}");
        }
        assert!(!has_basic_credential(&headers(&["Bearer YTpi"])));
    }
}
