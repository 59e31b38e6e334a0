//! The response to a sign-in or a registration.

use latchmail_accounts::auth::{SignedIn, Tokens};
use secrecy::ExposeSecret;
use serde::Serialize;
use utoipa::ToSchema;

/// The response to a sign-in or a registration.
#[derive(Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct AuthTokens {
    /// The access token of the web session. It is a JWT and valid for 15 minutes.
    access_token: String,
    /// The refresh token. It can be exchanged only once.
    refresh_token: String,
    user: AuthUser,
}

/// The account that signed in.
#[derive(Serialize, ToSchema)]
pub struct AuthUser {
    /// The account's address, in lower case.
    #[schema(format = "email")]
    email: String,
    /// Whether the account has administrator rights.
    #[serde(rename = "isAdmin")]
    admin: bool,
    /// The first name. Present only after a registration.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    first_name: Option<String>,
    /// The last name. Present only after a registration.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    last_name: Option<String>,
}

impl AuthTokens {
    /// Creates the response. `names` contains the first and the last name after a registration, and
    /// is `None` after a sign-in.
    pub(crate) fn new(signed_in: SignedIn, names: Option<(String, String)>) -> Self {
        let (first_name, last_name) = names.unzip();
        let Tokens { access, refresh } = signed_in.tokens;
        Self {
            access_token: access.expose_secret().to_owned(),
            refresh_token: refresh.expose_secret().to_owned(),
            user: AuthUser {
                email: signed_in.address,
                admin: signed_in.admin,
                first_name,
                last_name,
            },
        }
    }
}
