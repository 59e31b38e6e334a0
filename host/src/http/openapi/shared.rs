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
                "description": "A web session's access token, from sign-in. It reaches whatever its owner may reach.",
            },
            TOKEN: {
                "type": "http",
                "scheme": "bearer",
                "description": "A personal API token, `lmk_` and 43 letters and digits. It reaches the operations whose `x-required-scope` it holds.",
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
                "properties": { "error": { "type": "string", "description": "A sentence for a person" } },
            },
        },
        "parameters": {
            (parameters::MAILBOX): parameters::mailbox(),
        },
        "headers": responses::headers(),
        "responses": responses::components(),
    })
}
