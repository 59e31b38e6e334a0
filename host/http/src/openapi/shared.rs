//! The components that the host adds to the API description for all operations: security schemes,
//! the error schema, parameters, headers and error responses.

use std::collections::BTreeSet;

use latchmail_core::{Code, codes};
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

/// The name of the security scheme for operator tokens.
pub(super) const OPERATOR_TOKEN: &str = "operatorToken";

/// Returns the component with the security scheme for operator tokens. The description contains the
/// scheme only if a route accepts operator tokens.
pub(super) fn operator_token() -> Value {
    json!({
        "securitySchemes": {
            OPERATOR_TOKEN: {
                "type": "http",
                "scheme": "bearer",
                "description": "An operator token, `lmo_` and 43 letters and digits. It gives access to the operations whose `x-required-scope` it has.",
            },
        },
    })
}

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

/// Returns the components that the host adds to the API description. `declared` contains the error
/// codes of modules that are not bundled.
pub(super) fn components(info: &ApiInfo, declared: &BTreeSet<&str>) -> Value {
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
                "required": ["error", "code"],
                "properties": {
                    "error": { "type": "string", "description": "The error message, for people" },
                    "code": error_code(declared),
                },
            },
        },
        "parameters": {
            (parameters::MAILBOX): parameters::mailbox(),
        },
        "headers": responses::headers(),
        "responses": responses::components(),
    })
}

/// Returns the schema of error codes. The enum lists the codes of the host, of the bundled modules,
/// and the codes that other modules declare in `x-error-codes` of their descriptions.
fn error_code(declared: &BTreeSet<&str>) -> Value {
    let known = codes::ALL.iter().map(|known| known.code.as_str());
    let known: Vec<_> = known.chain(declared.iter().copied()).collect();
    json!({
        "type": "string",
        "description": "The error code, for programs. New versions and modules can add codes",
        "enum": known,
        "x-latchmail": true,
    })
}

/// Returns the error codes that a module declares in its description, except the codes of the host
/// and of the bundled modules.
///
/// # Errors
/// Fails if a code is malformed. The error contains the code.
pub(super) fn declared_codes(description: &Value) -> Result<BTreeSet<&str>, String> {
    let declared = description["x-error-codes"].as_array();
    let declared = declared.into_iter().flatten();
    let declared = declared.map(|code| match code.as_str() {
        Some(text) if Code::parse(text.to_owned()).is_some() => Ok(text),
        _ => Err(format!("{code} in `x-error-codes` is not an error code")),
    });
    let mut declared = declared.collect::<Result<BTreeSet<_>, _>>()?;
    declared.retain(|code| codes::known(code).is_none());
    Ok(declared)
}
