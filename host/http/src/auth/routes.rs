//! The routes under `/api/v1/auth`, and their API description.

use http::Method;
use latchmail_core::error::StartError;
use latchmail_runtime::modules::{Access, Route};
use utoipa::OpenApi;

use super::{domains, login, logout, refresh, register, username_available};
use crate::app::App;
use crate::route_group::{HostRoute, RouteGroup, host_route};

/// The maximum size of a request body, in bytes.
const MAX_BODY: usize = 16 * 1024;

/// The API description of the routes under `/api/v1/auth`.
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
/// Returns an error if the API description cannot be serialized.
pub fn route_group() -> Result<RouteGroup<App>, StartError> {
    RouteGroup::host(
        vec![
            HostRoute {
                route: post("/api/v1/auth/login", "login", "sign_in"),
                handler: |app, request| Box::pin(login::login(app, request)),
            },
            HostRoute {
                route: post("/api/v1/auth/refresh", "refresh", "session"),
                handler: |app, request| Box::pin(refresh::refresh(app, request)),
            },
            HostRoute {
                route: post("/api/v1/auth/register", "register", "registration"),
                handler: |app, request| Box::pin(register::register(app, request)),
            },
            HostRoute {
                route: Route {
                    access: Access::Session,
                    ..post("/api/v1/auth/logout", "logout", "session")
                },
                handler: |app, request| Box::pin(logout::logout(app, request)),
            },
            HostRoute {
                route: get("/api/v1/auth/username-available", "usernameAvailable"),
                handler: |app, request| {
                    Box::pin(username_available::username_available(app, request))
                },
            },
            HostRoute {
                route: get("/api/v1/auth/domains", "registrationDomains"),
                handler: |app, request| Box::pin(domains::domains(app, request)),
            },
        ],
        &AuthDescription::openapi(),
    )
}

fn post(path: &str, operation: &str, bucket: &str) -> Route {
    Route {
        bucket: bucket.into(),
        max_body: MAX_BODY,
        ..host_route(Method::POST, path, operation)
    }
}

fn get(path: &str, operation: &str) -> Route {
    Route {
        bucket: "public".into(),
        ..host_route(Method::GET, path, operation)
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use serde_json::{Value, to_value};

    use super::*;

    fn routes() -> Vec<Route> {
        let routes = route_group().unwrap().routes.into_iter();
        routes.map(|(route, _)| route).collect()
    }

    fn description() -> Value {
        to_value(AuthDescription::openapi()).unwrap()
    }

    #[test]
    fn every_route_has_a_description() {
        let description = description();
        assert_eq!(
            description["paths"].as_object().unwrap().len(),
            routes().len()
        );
        for route in routes() {
            let operation =
                &description["paths"][&route.path][route.method.as_str().to_ascii_lowercase()];
            assert_eq!(operation["operationId"], route.operation, "{}", route.path);
            assert!(operation["summary"].is_string(), "{}", route.path);
        }
    }

    #[test]
    fn the_statuses_of_each_operation_are_described() {
        let description = description();
        let expected = [
            ("login", "200 400 401 403 503"),
            ("refresh", "200 400 401"),
            ("register", "201 400 403 409"),
            ("logout", "200 400 401 403"),
            ("usernameAvailable", "200 400"),
            ("registrationDomains", "200 500"),
        ];
        for (route, (id, expected)) in routes().iter().zip(expected) {
            assert_eq!(route.operation, id);
            let operation =
                &description["paths"][&route.path][route.method.as_str().to_ascii_lowercase()];
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
    fn the_two_factor_code_is_optional_and_not_null() {
        let description = description();
        let body = &description["components"]["schemas"]["LoginBody"];
        assert_eq!(body["required"], serde_json::json!(["email", "password"]));
        assert_eq!(body["properties"]["code"]["type"], "string");
    }

    #[test]
    fn the_components_are_only_those_of_these_operations() {
        let description = description();
        let names: Vec<&String> = description["components"]["schemas"]
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
