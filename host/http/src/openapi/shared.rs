//! Components that the descriptions of all operations share: security schemes, the schema of an error, parameters, headers and failures.

use serde_json::{Value, json};

use super::{About, parameters, responses};

/// The scheme of the web session.
pub(super) const SESSION: &str = "session";
/// The scheme of the API token.
pub(super) const TOKEN: &str = "apiToken";
/// The scheme of the OAuth access token.
pub(super) const OAUTH: &str = "oauth";

/// The components that the host adds.
pub(super) fn components(about: &About) -> Value {
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
                        "authorizationUrl": format!("{}/login", about.auth_url),
                        "tokenUrl": format!("{}/auth/token", about.auth_url),
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
