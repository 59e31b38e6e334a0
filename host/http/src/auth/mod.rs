//! The operations under `/api/v1/auth` (specification, section 4.2). Each file contains one operation: its route, request, response, description and handler.
//! The rules of sign-in and registration are in [`latchmail_accounts::auth`].
//!
//! A handler is an `async fn(&App, &Request) -> Result<Response, Rejection>`, and its file also contains `fn route() -> Route`. [`AuthDescription`] combines the
//! descriptions. The API description adds what follows from the routes: security, the schema `Error`, the errors before a handler (401, 413, 429), and the
//! errors of the host (500).

pub mod domains;
pub mod login;
pub mod logout;
pub mod refresh;
pub mod register;
pub mod username_available;

use std::time::Duration;

use http::Method;
use latchmail_accounts::auth::{SignedIn, Tokens};
use latchmail_core::error::StartError;
use latchmail_runtime::modules::{Access, BodyForm, Route};
use latchmail_shape::{self as shape, ValidationError};
use secrecy::{ExposeSecret, SecretString};
use serde::{Deserialize, Deserializer, Serialize};
use utoipa::{OpenApi, ToSchema};

use super::{HostRoute, Part, Request};
use crate::App;
use crate::rejection::Rejection;

/// The maximum size of a body, in bytes.
const LARGEST_BODY: usize = 16 * 1024;

/// The time limit of an operation.
const DEADLINE: Duration = Duration::from_secs(30);

/// The descriptions of these routes: `paths` and `components` of the API description.
#[derive(Debug, OpenApi)]
#[openapi(paths(
    login::login,
    refresh::refresh,
    register::register,
    logout::logout,
    username_available::username_available,
    domains::domains,
))]
pub struct AuthDescription;

/// Returns the routes and their handlers.
///
/// # Errors
/// Returns an error if their description cannot be written.
pub fn part() -> Result<Part<App>, StartError> {
    Part::host(
        vec![
            HostRoute {
                route: login::route(),
                handler: |app, request| Box::pin(login::login(app, request)),
            },
            HostRoute {
                route: refresh::route(),
                handler: |app, request| Box::pin(refresh::refresh(app, request)),
            },
            HostRoute {
                route: register::route(),
                handler: |app, request| Box::pin(register::register(app, request)),
            },
            HostRoute {
                route: logout::route(),
                handler: |app, request| Box::pin(logout::logout(app, request)),
            },
            HostRoute {
                route: username_available::route(),
                handler: |app, request| {
                    Box::pin(username_available::username_available(app, request))
                },
            },
            HostRoute {
                route: domains::route(),
                handler: |app, request| Box::pin(domains::domains(app, request)),
            },
        ],
        &AuthDescription::openapi(),
    )
}

/// The response to a sign-in or a registration.
#[derive(Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct AuthTokens {
    /// The web session's access token, a JWT, valid for 15 minutes.
    access_token: String,
    /// The refresh token. It can be exchanged once.
    refresh_token: String,
    user: AuthUser,
}

/// The account that signed in.
#[derive(Serialize, ToSchema)]
pub struct AuthUser {
    /// The account's address, in lower case.
    #[schema(format = "email")]
    email: String,
    /// `true` if the account is an administrator's.
    #[serde(rename = "isAdmin")]
    admin: bool,
    /// Present only after a registration.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    first_name: Option<String>,
    /// Present only after a registration.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    last_name: Option<String>,
}

/// A request with a refresh token.
#[derive(Deserialize, ToSchema)]
pub struct RefreshBody {
    /// The most recent refresh token.
    #[serde(rename = "refreshToken", deserialize_with = "secret")]
    #[schema(value_type = String, min_length = 1)]
    refresh_token: SecretString,
}

impl AuthTokens {
    fn new(signed_in: SignedIn, names: Option<(String, String)>) -> Self {
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

/// Returns the refresh token of a request's body. `missing` is the error text if the token is missing, has another type or is empty. Only invalid JSON has
/// another error text.
fn refresh_token(request: &Request, missing: &'static str) -> Result<SecretString, Rejection> {
    if request.body.trim_ascii().is_empty() {
        return Err(Rejection::bad_request(missing));
    }
    match shape::read::<RefreshBody>(&request.body) {
        Ok(body) if !body.refresh_token.expose_secret().is_empty() => Ok(body.refresh_token),
        Err(error @ ValidationError::Syntax) => Err(error.into()),
        Ok(_) | Err(ValidationError::Shape(_)) => Err(Rejection::bad_request(missing)),
    }
}

fn secret<'de, D: Deserializer<'de>>(deserializer: D) -> Result<SecretString, D::Error> {
    String::deserialize(deserializer).map(SecretString::from)
}

fn route(method: Method, path: &str, operation: &str, access: Access, area: &str) -> Route {
    Route {
        path: path.to_owned(),
        operation: operation.to_owned(),
        access,
        bucket: area.to_owned(),
        max_body: if method == Method::POST {
            LARGEST_BODY
        } else {
            0
        },
        body: BodyForm::Bytes,
        blob_fields: Vec::new(),
        deadline: DEADLINE,
        method,
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use serde_json::{Value, to_value};

    use super::*;

    fn routes() -> [Route; 6] {
        [
            login::route(),
            refresh::route(),
            register::route(),
            logout::route(),
            username_available::route(),
            domains::route(),
        ]
    }

    fn described() -> Value {
        to_value(AuthDescription::openapi()).unwrap()
    }

    #[test]
    fn every_route_is_described_under_its_operation() {
        let described = described();
        assert_eq!(
            described["paths"].as_object().unwrap().len(),
            routes().len()
        );
        for route in routes() {
            let operation =
                &described["paths"][&route.path][route.method.as_str().to_ascii_lowercase()];
            assert_eq!(operation["operationId"], route.operation, "{}", route.path);
            assert!(operation["summary"].is_string(), "{}", route.path);
        }
    }

    #[test]
    fn the_statuses_of_each_action_are_described() {
        let described = described();
        for (route, expected) in [
            (login::route(), "200 400 401 503"),
            (refresh::route(), "200 400 401"),
            (register::route(), "201 400 403 409"),
            (logout::route(), "200 400 401 403"),
            (username_available::route(), "200 400"),
            (domains::route(), "200 500"),
        ] {
            let operation =
                &described["paths"][&route.path][route.method.as_str().to_ascii_lowercase()];
            let statuses: BTreeSet<&str> = operation["responses"]
                .as_object()
                .unwrap()
                .keys()
                .map(String::as_str)
                .collect();
            assert_eq!(statuses, expected.split(' ').collect(), "{}", route.path);
        }
    }

    #[test]
    fn signing_in_takes_a_code_that_may_be_missing_and_is_never_null() {
        let described = described();
        let body = &described["components"]["schemas"]["LoginBody"];
        assert_eq!(body["required"], serde_json::json!(["email", "password"]));
        assert_eq!(body["properties"]["code"]["type"], "string");
    }

    #[test]
    fn the_components_are_these_actions_own() {
        let described = described();
        let names: Vec<&String> = described["components"]["schemas"]
            .as_object()
            .unwrap()
            .keys()
            .collect();
        assert_eq!(
            names,
            [
                "AuthTokens",
                "AuthUser",
                "LoginBody",
                "RefreshBody",
                "RefreshedTokens",
                "RegisterBody",
                "RegistrationDomain",
                "RegistrationDomains",
                "UsernameAvailability",
            ]
        );
    }
}
