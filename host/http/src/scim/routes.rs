//! The routes of SCIM. The schemas of the bodies are at `/scim/v2/Schemas`, so the API description
//! has only the operations.

use std::future::ready;

use http::Method;
use latchmail_core::caller::OperatorScope::Scim;
use serde_json::{Map, Value, json};

use super::{discovery, users};
use crate::provisioning::OperatorState;
use crate::provisioning::routes::route;
use crate::route_group::{Handler, HostRoute, RouteGroup, Target};

/// The maximum size of a request body, in bytes.
const MAX_BODY: usize = 64 * 1024;

/// Returns the routes of SCIM.
#[must_use]
pub fn route_group<S: OperatorState>() -> RouteGroup<S> {
    const USERS: &str = "/scim/v2/Users";
    const USER: &str = "/scim/v2/Users/{id}";
    let routes: Vec<HostRoute<S>> = vec![
        get::<S>("/scim/v2/ServiceProviderConfig", "scimConfig", |s, r| {
            Box::pin(ready(discovery::config(s, r)))
        }),
        get::<S>("/scim/v2/ResourceTypes", "scimResourceTypes", |s, r| {
            Box::pin(ready(discovery::resource_types(s, r)))
        }),
        get::<S>("/scim/v2/ResourceTypes/{id}", "scimResourceType", |s, r| {
            Box::pin(ready(discovery::show_resource_type(s, r)))
        }),
        get::<S>("/scim/v2/Schemas", "scimSchemas", |s, r| {
            Box::pin(ready(discovery::schemas(s, r)))
        }),
        get::<S>("/scim/v2/Schemas/{id}", "scimSchema", |s, r| {
            Box::pin(ready(discovery::show_schema(s, r)))
        }),
        get::<S>(USERS, "scimListUsers", |s, r| Box::pin(users::list(s, r))),
        with_body::<S>(Method::POST, USERS, "scimCreateUser", |s, r| {
            Box::pin(users::create(s, r))
        }),
        with_body::<S>(
            Method::POST,
            "/scim/v2/Users/.search",
            "scimSearchUsers",
            |s, r| Box::pin(users::search(s, r)),
        ),
        with_body::<S>(Method::POST, "/scim/v2/.search", "scimSearch", |s, r| {
            Box::pin(users::search(s, r))
        }),
        get::<S>(USER, "scimReadUser", |s, r| Box::pin(users::read(s, r))),
        with_body::<S>(Method::PUT, USER, "scimReplaceUser", |s, r| {
            Box::pin(users::replace(s, r))
        }),
        with_body::<S>(Method::PATCH, USER, "scimModifyUser", |s, r| {
            Box::pin(users::modify(s, r))
        }),
        route::<S>(Method::DELETE, USER, "scimDeleteUser", Scim, 0, |s, r| {
            Box::pin(users::delete(s, r))
        }),
    ];
    let description = describe(&routes);
    let routes = routes
        .into_iter()
        .map(|HostRoute { route, handler }| (route, Target::Host(handler)));
    RouteGroup {
        owner: "the host".into(),
        routes: routes.collect(),
        description,
    }
}

fn get<S>(path: &str, operation: &str, handler: Handler<S>) -> HostRoute<S> {
    route(Method::GET, path, operation, Scim, 0, handler)
}

fn with_body<S>(method: Method, path: &str, operation: &str, handler: Handler<S>) -> HostRoute<S> {
    route(method, path, operation, Scim, MAX_BODY, handler)
}

/// Returns the API description of the routes.
fn describe<S>(routes: &[HostRoute<S>]) -> Value {
    let mut paths = Map::new();
    for HostRoute { route, .. } in routes {
        let item = paths.entry(route.path.clone()).or_insert(json!({}));
        let mut operation = json!({
            "operationId": route.operation,
            "tags": ["SCIM"],
            "description": "An operation of SCIM 2.0 (RFC 7644)",
            "responses": { "default": {
                "description": "A resource, a list or an error (RFC 7643)",
                "content": { "application/scim+json": { "schema": { "type": "object" } } },
            } },
        });
        if route.path.ends_with("/{id}") {
            operation["parameters"] = json!([{
                "name": "id", "in": "path", "required": true, "schema": { "type": "string" },
            }]);
        }
        if route.max_body > 0 {
            operation["requestBody"] = json!({
                "required": true,
                "content": { "application/scim+json": { "schema": { "type": "object" } } },
            });
        }
        item[route.method.as_str().to_ascii_lowercase()] = operation;
    }
    json!({ "paths": paths })
}
