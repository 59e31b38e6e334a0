//! Adds the operations of route groups to the API description, with the properties that the host
//! enforces.

use http::Method;
use latchmail_core::error::StartError;
use latchmail_runtime::modules::{Access, Requirement, Route};
use serde_json::{Map, Value, json};

use super::components::members;
use super::document::Paths;
use super::{parameters, responses, shared};
use crate::access;
use crate::route_group::{RouteGroup, Target};

/// The keys of an OpenAPI path item that contain operations.
const METHODS: [&str; 8] = [
    "get", "put", "post", "delete", "options", "head", "patch", "trace",
];

/// Adds the operations of a route group to `paths`. Pages of the host that are not part of the API
/// have no description.
///
/// # Errors
/// Returns an error if the description of the group does not match its routes.
pub(super) fn add<S>(
    paths: &mut Paths,
    group: &RouteGroup<S>,
    agents_send: bool,
) -> Result<(), StartError> {
    let owner = &group.owner;
    let of_host = |target: &Target<S>| matches!(target, Target::Host(_));
    if group.description.is_null() && group.routes.iter().all(|(_, target)| of_host(target)) {
        return Ok(());
    }
    let empty = Value::Object(Map::new());
    let described = members(
        owner,
        "paths",
        group.description.get("paths").unwrap_or(&empty),
    )?;
    for (path, item) in described {
        for key in members(owner, path, item)?.keys() {
            let is_route = group
                .routes
                .iter()
                .any(|(route, _)| route.path == *path && method_key(&route.method) == *key);
            if METHODS.contains(&key.as_str()) && !is_route {
                return Err(StartError::new(format!(
                    "the API description of {owner} contains {} {path}, which is not a route of {owner}",
                    key.to_uppercase()
                )));
            }
        }
    }
    for (route, _) in &group.routes {
        let key = method_key(&route.method);
        let item = described.get(&route.path);
        let operation = item
            .and_then(|item| item.get(&key))
            .and_then(Value::as_object)
            .ok_or_else(|| {
                StartError::new(format!(
                    "the API description of {owner} does not contain the route {} {}",
                    route.method, route.path
                ))
            })?;
        // The common properties of a path apply to all its operations. Two owners can have
        // operations with the same path, so the common properties of an owner are copied to each
        // operation of this owner.
        let shared = item.and_then(Value::as_object).into_iter().flatten();
        let mut operation = operation.clone();
        for (name, value) in shared.filter(|(name, _)| !METHODS.contains(&name.as_str())) {
            inherit(&mut operation, name, value);
        }
        complete(owner, route, agents_send, &mut operation)?;
        paths
            .entry(route.path.clone())
            .or_default()
            .insert(key, Value::Object(operation));
    }
    Ok(())
}

/// Copies a common property of a path to an operation. If the operation has the same property or
/// the same parameter, the definition of the operation has precedence.
fn inherit(operation: &mut Map<String, Value>, name: &str, value: &Value) {
    match (operation.get_mut(name), value) {
        (Some(Value::Array(own)), Value::Array(common)) if name == "parameters" => {
            let same = |a: &Value, b: &Value| a["name"] == b["name"] && a["in"] == b["in"];
            for parameter in common {
                if !own.iter().any(|known| same(known, parameter)) {
                    own.push(parameter.clone());
                }
            }
        }
        (Some(_), _) => {}
        (None, value) => {
            operation.insert(name.into(), value.clone());
        }
    }
}

/// Adds the security, the scope, the parameters and the responses of a route to its operation.
fn complete(
    owner: &str,
    route: &Route,
    agents_send: bool,
    operation: &mut Map<String, Value>,
) -> Result<(), StartError> {
    let id = operation
        .entry("operationId")
        .or_insert_with(|| route.operation.clone().into());
    if *id != route.operation {
        return Err(StartError::new(format!(
            "the API description of {owner} has the operation id {id} for {} {}, but the route has `{}`",
            route.method, route.path, route.operation
        )));
    }
    // The description of a host operation comes from the doc comment of the handler. The section
    // "Errors" of the comment is only for readers of the code, so the section is removed.
    if let Some(Value::String(text)) = operation.get_mut("description")
        && let Some(at) = text.find("# Errors\n")
    {
        text.truncate(at);
        text.truncate(text.trim_end().len());
    }
    parameters::complete(route, operation);
    operation.insert("security".into(), security(route.access, agents_send));
    operation.remove("x-required-scope");
    if let Some(scope) = access::scope(route.access) {
        operation.insert("x-required-scope".into(), scope.name().into());
    }
    if let Access::Operator(scope) = route.access {
        operation.insert("x-required-scope".into(), scope.name().into());
    }
    let mut responses = match operation.remove("responses") {
        Some(Value::Object(responses)) => responses,
        _ => Map::new(),
    };
    responses::complete(route, &mut responses);
    operation.insert("responses".into(), responses.into());
    Ok(())
}

/// Returns the security schemes of a route.
fn security(access: Access, agents_send: bool) -> Value {
    let mut schemes = match access {
        Access::Public | Access::OAuth => vec![],
        Access::Session | Access::Admin => vec![json!({ shared::SESSION: [] })],
        Access::Operator(_) => vec![json!({ shared::OPERATOR_TOKEN: [] })],
        Access::Scoped { .. } => vec![json!({ shared::SESSION: [] }), json!({ shared::TOKEN: [] })],
        Access::Any(accepts) => {
            let accepted = [
                (shared::SESSION, accepts.session),
                (shared::TOKEN, accepts.api_token != Requirement::Refused),
                (shared::APP_PASSWORD, access::takes_app_password(access)),
            ];
            let accepted = accepted.into_iter().filter(|(_, accepted)| *accepted);
            accepted.map(|(name, _)| json!({ name: [] })).collect()
        }
    };
    if access::takes_oauth(access, agents_send) {
        schemes.push(json!({ shared::OAUTH: [] }));
    }
    schemes.into()
}

fn method_key(method: &Method) -> String {
    method.as_str().to_ascii_lowercase()
}
