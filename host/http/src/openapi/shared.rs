//! The components that the host adds to the API description for all operations: security schemes,
//! the error schema, parameters, headers and error responses.

use serde_json::{Value, json};

use super::info::ApiInfo;
use super::{parameters, responses};

/// The name of the security scheme for web sessions.
pub(super) const SESSION: &str = "session";
/// The name of the security scheme for API tokens.
pub(super) const TOKEN: &str = "apiToken";
/// The name of the security scheme for OAuth access tokens.
pub(super) const OAUTH: &str = "oauth";

/// The name of the security scheme for app passwords.
pub(super) const APP_PASSWORD: &str = "appPassword";

/// Returns the component with the security scheme for app passwords. The description contains the
/// scheme only if a route accepts app passwords.
pub(super) fn app_password() -> Value {
    json!({
        "securitySchemes": {
            APP_PASSWORD: {
                "type": "http",
                "scheme": "basic",
                "description": "The account's address and one of its app passwords for mail clients.",
            },
        },
    })
}

/// Returns the components that the host adds to the API description.
pub(super) fn components(info: &ApiInfo) -> Value {
    json!({
        "securitySchemes": {
            SESSION: {
                "type": "http",
                "scheme": "bearer",
                "bearerFormat": "JWT",
                "description": "A web session's access token, from sign-in. It gives access to everything that its owner can access.",
            },
            TOKEN: {
                "type": "http",
                "scheme": "bearer",
                "description": "A personal API token, `lmk_` and 43 letters and digits. It gives access to the operations whose `x-required-scope` it has.",
            },
            OAUTH: {
                "type": "oauth2",
                "description": "An access token of the authorization server.",
                "flows": {
                    "authorizationCode": {
                        "authorizationUrl": format!("{}/login", info.auth_url),
                        "tokenUrl": format!("{}/auth/token", info.auth_url),
                        "scopes": {},
                    },
                },
            },
        },
        "schemas": {
            "Error": {
                "type": "object",
                "required": ["error"],
                "properties": { "error": { "type": "string", "description": "The error message, for people" } },
            },
        },
        "parameters": {
            (parameters::MAILBOX): parameters::mailbox(),
        },
        "headers": responses::headers(),
        "responses": responses::components(),
    })
}
