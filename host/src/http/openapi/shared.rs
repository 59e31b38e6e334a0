//! What every operation's description shares: how one signs in, and the failures that the host answers before a handler is reached.

use serde_json::{Value, json};

use super::About;
use crate::http::access;
use crate::modules::{Access, Route};

/// The scheme of the web session.
pub(super) const SESSION: &str = "session";
/// The parameter that names a mailbox which is shared with the caller.
pub(super) const MAILBOX: &str = "mailbox";
/// The scheme of the API token.
pub(super) const TOKEN: &str = "apiToken";
/// The scheme of the OAuth access token.
pub(super) const OAUTH: &str = "oauth";

/// The components that the host adds.
pub(super) fn components(about: &About) -> Value {
    let failure = |description: &str| {
        json!({
            "description": description,
            "content": { "application/json": { "schema": { "$ref": "#/components/schemas/Error" } } },
        })
    };
    let mut limited = failure("Too many requests: wait as long as `Retry-After` says");
    let integer =
        |description: &str| json!({ "description": description, "schema": { "type": "integer" } });
    limited["headers"] = json!({
        "Retry-After": integer("Seconds after which another request is taken"),
        "X-RateLimit-Limit": integer("Requests a minute"),
        "X-RateLimit-Remaining": integer("Requests that would be taken now"),
        "X-RateLimit-Reset": integer("When the whole budget is there again, in Unix seconds"),
    });
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
            MAILBOX: {
                "name": "mailbox",
                "in": "query",
                "description": "The id of a mailbox that is shared with the caller, in which this is done; the caller's own without it. A web session may say it, tokens may not",
                "schema": { "type": "string" },
            },
        },
        "responses": {
            "BadRequest": failure("Malformed, missing or out of range; the sentence names the field"),
            "Unauthorized": failure("No credential, or one that cannot be used"),
            "Forbidden": failure("A valid credential that is not allowed this"),
            "NotFound": failure("There is no such thing, or none that the caller may know of"),
            "PayloadTooLarge": failure("The body is larger than this operation takes"),
            "TooManyRequests": limited,
            "InternalError": failure("The operation could not be completed"),
            "Unavailable": failure("The mail server is starting or cannot be reached, or the service is busy; worth trying again"),
        },
    })
}

/// The failures that the host answers for `route`, by status, each with the name of its component.
pub(super) fn failures(owner: &str, route: &Route) -> Vec<(&'static str, &'static str)> {
    let credential = route.access != Access::Public;
    let scoped = matches!(
        route.access,
        Access::Session | Access::Admin | Access::Scoped { .. }
    );
    let reads = route.max_body > 0 || route.path.contains('{');
    let module = owner.starts_with("module ");
    [
        (reads, "400", "BadRequest"),
        (credential, "401", "Unauthorized"),
        (scoped, "403", "Forbidden"),
        (access::takes_mailbox(route.access), "404", "NotFound"),
        (route.max_body > 0, "413", "PayloadTooLarge"),
        (!route.area.is_empty(), "429", "TooManyRequests"),
        (true, "500", "InternalError"),
        (module, "503", "Unavailable"),
    ]
    .into_iter()
    .filter_map(|(applies, status, name)| applies.then_some((status, name)))
    .collect()
}
