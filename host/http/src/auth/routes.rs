//! The routes under `/api/v1/auth`, and their API description.

use latchmail_core::error::StartError;
use utoipa::OpenApi;

use super::{domains, login, logout, refresh, register, username_available};
use crate::app::App;
use crate::route_group::{HostRoute, RouteGroup};

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

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use latchmail_runtime::modules::Route;
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
        for (route, expected) in [
            (login::route(), "200 400 401 403 503"),
            (refresh::route(), "200 400 401"),
            (register::route(), "201 400 403 409"),
            (logout::route(), "200 400 401 403"),
            (username_available::route(), "200 400"),
            (domains::route(), "200 500"),
        ] {
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
