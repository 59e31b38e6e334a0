//! SASL messages that log in with an access token: OAUTHBEARER (RFC 7628) and its predecessor
//! XOAUTH2. IMAP and SMTP use this module. This module depends on neither protocol.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use secrecy::{ExposeSecret as _, SecretString};
use zeroize::Zeroizing;

/// A SASL mechanism for access tokens.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mechanism {
    /// `OAUTHBEARER`
    OAuthBearer,
    /// `XOAUTH2`
    XOAuth2,
}

impl Mechanism {
    /// Returns the preferred mechanism. `offered` must return `true` for mechanisms that the server
    /// offers.
    pub fn preferred(offered: impl Fn(Self) -> bool) -> Option<Self> {
        [Self::OAuthBearer, Self::XOAuth2]
            .into_iter()
            .find(|mechanism| offered(*mechanism))
    }

    /// Returns the mechanism's name in the protocol.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::OAuthBearer => "OAUTHBEARER",
            Self::XOAuth2 => "XOAUTH2",
        }
    }

    /// Returns `true` if `name` is the mechanism's name. Ignores letter case.
    #[must_use]
    pub fn has_name(self, name: &str) -> bool {
        name.eq_ignore_ascii_case(self.name())
    }

    /// Returns the client's only message, in base64. Returns `None` if the user name or the token
    /// is empty or contains a forbidden character, such as the separator of the fields.
    #[must_use]
    pub fn response(self, username: &str, token: &SecretString) -> Option<Zeroizing<String>> {
        let token = token.expose_secret();
        let is_valid_name = !username.is_empty() && !username.contains(|c: char| c.is_control());
        if !is_valid_name || token.is_empty() || !token.bytes().all(|byte| byte.is_ascii_graphic())
        {
            return None;
        }
        let message = Zeroizing::new(match self {
            Self::OAuthBearer => {
                // The characters `=` and `,` are not allowed in the name, so they are escaped (RFC
                // 5801, section 4).
                let name = username.replace('=', "=3D").replace(',', "=2C");
                format!("n,a={name},\x01auth=Bearer {token}\x01\x01")
            }
            Self::XOAuth2 => format!("user={username}\x01auth=Bearer {token}\x01\x01"),
        });
        Some(Zeroizing::new(STANDARD.encode(message.as_bytes())))
    }

    /// Returns the response to the server's error message, in base64. The server waits for this
    /// response and then reports the failure (RFC 7628, section 3.2.3).
    #[must_use]
    pub const fn error_response(self) -> &'static str {
        match self {
            Self::OAuthBearer => "AQ==",
            Self::XOAuth2 => "",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn decoded_response(mechanism: Mechanism, username: &str, token: &str) -> Option<String> {
        let encoded = mechanism.response(username, &SecretString::from(token))?;
        let decoded = STANDARD.decode(encoded.as_bytes()).unwrap();
        Some(String::from_utf8(decoded).unwrap())
    }

    #[test]
    fn each_mechanism_has_its_own_message_format() {
        let bearer = decoded_response(Mechanism::OAuthBearer, "a@b.example", "t0k~en=").unwrap();
        assert_eq!(bearer, "n,a=a@b.example,\x01auth=Bearer t0k~en=\x01\x01");
        let older = decoded_response(Mechanism::XOAuth2, "a@b.example", "t0k~en=").unwrap();
        assert_eq!(older, "user=a@b.example\x01auth=Bearer t0k~en=\x01\x01");
    }

    #[test]
    fn a_name_or_token_cannot_end_its_field() {
        let bearer = decoded_response(Mechanism::OAuthBearer, "a=b,c@d.example", "t").unwrap();
        assert!(
            bearer.starts_with("n,a=a=3Db=2Cc@d.example,\x01"),
            "{bearer}"
        );
        for mechanism in [Mechanism::OAuthBearer, Mechanism::XOAuth2] {
            for (username, token) in [
                ("", "t"),
                ("a\x01b@c.example", "t"),
                ("a\0b@c.example", "t"),
                ("a@c.example", ""),
                ("a@c.example", "t\x01auth=Bearer u"),
                ("a@c.example", "t u"),
                ("a@c.example", "t\r\nL2 LOGOUT"),
                ("a@c.example", "t\u{f6}"),
            ] {
                assert_eq!(
                    decoded_response(mechanism, username, token),
                    None,
                    "{username:?} {token:?}"
                );
            }
        }
    }

    #[test]
    fn oauthbearer_is_preferred_if_both_mechanisms_are_offered() {
        assert_eq!(Mechanism::preferred(|_| true), Some(Mechanism::OAuthBearer));
        assert_eq!(
            Mechanism::preferred(|m| m.has_name("xoauth2")),
            Some(Mechanism::XOAuth2)
        );
        assert_eq!(Mechanism::preferred(|_| false), None);
    }
}
