//! The host's routes for health, readiness and the API description.

pub mod health;
pub mod openapi;
pub mod readiness;

use std::future::ready;
use std::time::Duration;

use http::Method;
use latchmail_core::error::StartError;
use latchmail_runtime::modules::Route;
use utoipa::OpenApi;

use crate::app::App;
use crate::route_group::{HostRoute, RouteGroup, host_route};

#[derive(OpenApi)]
#[openapi(
    paths(health::health, readiness::readiness, openapi::openapi,),
    components(schemas(health::Health, readiness::Ready, readiness::NotReady))
)]
struct Description;

/// Returns the routes for health, readiness and the API description.
///
/// # Errors
/// Returns an error if the API description cannot be serialized.
pub fn route_group() -> Result<RouteGroup<App>, StartError> {
    RouteGroup::host(
        vec![
            HostRoute {
                route: route("/api/health", "health", ""),
                handler: |app, request| Box::pin(ready(health::health(app, request))),
            },
            HostRoute {
                route: route("/api/readiness", "readiness", "readiness"),
                handler: |app, request| Box::pin(readiness::readiness(app, request)),
            },
            HostRoute {
                route: route("/api/openapi.json", "openapi", ""),
                handler: |app, request| Box::pin(ready(Ok(openapi::openapi(app, request)))),
            },
        ],
        &Description::openapi(),
    )
}

/// Creates a route that counts towards the rate limit `bucket`. If `bucket` is an empty string, the
/// route has no rate limit.
fn route(path: &str, operation: &str, bucket: &str) -> Route {
    Route {
        bucket: bucket.into(),
        deadline: Duration::from_secs(10),
        ..host_route(Method::GET, path, operation)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::openapi::info::ApiInfo;
    use crate::router::RouteTable;

    #[test]
    fn the_routes_are_routed_and_described() {
        let table = RouteTable::build(&ApiInfo::default(), vec![route_group().unwrap()]).unwrap();
        let document: serde_json::Value = serde_json::from_slice(&table.description()).unwrap();
        let mut described: Vec<&String> = document["paths"].as_object().unwrap().keys().collect();
        let mut routed: Vec<&String> = table.entries().iter().map(|e| &e.route.path).collect();
        described.sort();
        routed.sort();
        assert_eq!(described, routed);
        assert_eq!(
            routed,
            ["/api/health", "/api/openapi.json", "/api/readiness"]
        );
        for path in routed {
            assert_eq!(
                document["paths"][path]["get"]["security"],
                serde_json::json!([])
            );
        }
    }
}
