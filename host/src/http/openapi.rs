//! The API description (OpenAPI 3.1.1), put together from the host's part and each module's, once per table of routes.
//!
//! What the host enforces is written by the host: the security of each operation, the scope it needs, and the failures that can
//! come before a handler is reached ([`shared`]). A part that does not fit its own routes, or another part, is refused.

mod shared;

use std::collections::BTreeMap;

use bytes::Bytes;
use http::Method;
use serde_json::{Map, Value, json};

use super::access;
use super::router::Part;
use crate::caller::Scope;
use crate::error::StartError;
use crate::modules::{Access, Route};

/// The keys of a path that are operations.
const METHODS: [&str; 8] = [
    "get", "put", "post", "delete", "options", "head", "patch", "trace",
];

/// What the description says of the service itself.
#[derive(Clone, Debug, Default)]
pub struct About {
    /// What the service calls itself.
    pub title: String,
    /// How clients reach it, without a trailing slash.
    pub base_url: String,
    /// Where its authorization server is, without a trailing slash.
    pub auth_url: String,
}

/// Puts the description together.
///
/// # Errors
/// A sentence where a route is not described, something described is no route, two parts describe one thing differently, or a
/// reference leads nowhere.
pub fn compose<S>(about: &About, parts: &[Part<S>]) -> Result<Bytes, StartError> {
    let mut paths = Sections::new();
    let mut components = Components::default();
    components.add("the host", &shared::components(about))?;
    for part in parts {
        if let Some(described) = part.description.get("components") {
            components.add(&part.owner, described)?;
        }
        add_paths(&mut paths, part)?;
    }
    let scopes: Map<String, Value> = Scope::ALL
        .iter()
        .map(|scope| (scope.name().into(), scope.description().into()))
        .collect();
    let document = json!({
        "openapi": "3.1.1",
        "info": {
            "title": about.title,
            "version": "2.0.0",
            "description": "An HTTP API over real mailboxes. Every failure is `{\"error\": <sentence>}`.",
        },
        "servers": [{ "url": about.base_url }],
        "paths": paths,
        "components": components.sections,
        "x-api-token-scopes": scopes,
    });
    check_references(&document, &document)?;
    serde_json::to_vec(&document)
        .map(Bytes::from)
        .map_err(|error| StartError::new(format!("the API description cannot be written: {error}")))
}

type Sections = BTreeMap<String, Map<String, Value>>;

/// Components by section (`schemas`, `responses`, …), and who gave each first.
#[derive(Default)]
struct Components {
    sections: Sections,
    owners: BTreeMap<String, String>,
}

impl Components {
    fn add(&mut self, owner: &str, components: &Value) -> Result<(), StartError> {
        // How one signs in is said by the host's shared part, which comes first, and by nobody else.
        let first = self.owners.is_empty();
        for (section, entries) in members(owner, "components", components)? {
            if section == "securitySchemes" && !first {
                continue;
            }
            for (name, value) in members(owner, section, entries)? {
                let key = format!("{section}/{name}");
                let target = self.sections.entry(section.clone()).or_default();
                match target.get(name) {
                    None => {
                        target.insert(name.clone(), value.clone());
                        self.owners.insert(key, owner.into());
                    }
                    Some(first) if first == value => {}
                    Some(_) => {
                        let first = &self.owners[&key];
                        return Err(StartError::new(format!(
                            "{first} and {owner} both describe `#/components/{key}`, differently"
                        )));
                    }
                }
            }
        }
        Ok(())
    }
}

fn add_paths<S>(paths: &mut Sections, part: &Part<S>) -> Result<(), StartError> {
    let owner = &part.owner;
    let none = Value::Object(Map::new());
    let described = members(
        owner,
        "paths",
        part.description.get("paths").unwrap_or(&none),
    )?;
    for (path, item) in described {
        for key in members(owner, path, item)?.keys() {
            let known = part
                .routes
                .iter()
                .any(|(route, _)| route.path == *path && method_key(&route.method) == *key);
            if METHODS.contains(&key.as_str()) && !known {
                return Err(StartError::new(format!(
                    "the API description of {owner} has {} {path}, which is no route of it",
                    key.to_uppercase()
                )));
            }
        }
    }
    for (route, _) in &part.routes {
        let key = method_key(&route.method);
        let item = described.get(&route.path);
        let operation = item
            .and_then(|item| item.get(&key))
            .and_then(Value::as_object)
            .ok_or_else(|| {
                StartError::new(format!(
                    "the API description of {owner} lacks its route {} {}",
                    route.method, route.path
                ))
            })?;
        // What a path says for all of its operations is said by each: two owners may share a path.
        let common = item.and_then(Value::as_object).into_iter().flatten();
        let mut operation = operation.clone();
        for (name, value) in common.filter(|(name, _)| !METHODS.contains(&name.as_str())) {
            inherit(&mut operation, name, value);
        }
        complete(owner, route, &mut operation)?;
        paths
            .entry(route.path.clone())
            .or_default()
            .insert(key, Value::Object(operation));
    }
    Ok(())
}

/// Gives an operation what its path says for all of them. Of a parameter that both name, the operation's counts.
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

/// Adds to an operation what the host enforces for its route.
fn complete(
    owner: &str,
    route: &Route,
    operation: &mut Map<String, Value>,
) -> Result<(), StartError> {
    let id = operation
        .entry("operationId")
        .or_insert_with(|| route.operation.clone().into());
    if *id != route.operation {
        return Err(StartError::new(format!(
            "the API description of {owner} calls {} {} {id}, its route `{}`",
            route.method, route.path, route.operation
        )));
    }
    // The host's operations are described by their handlers' documentation, whose last section is for Rust's readers.
    if let Some(Value::String(text)) = operation.get_mut("description")
        && let Some(at) = text.find("# Errors\n")
    {
        text.truncate(at);
        text.truncate(text.trim_end().len());
    }
    operation.insert("security".into(), security(route.access));
    operation.remove("x-required-scope");
    if let Some(scope) = access::scope(route.access) {
        operation.insert("x-required-scope".into(), scope.name().into());
    }
    let mut responses = match operation.remove("responses") {
        Some(Value::Object(responses)) => responses,
        _ => Map::new(),
    };
    for (status, name) in shared::failures(owner, route) {
        responses
            .entry(status)
            .or_insert_with(|| json!({ "$ref": format!("#/components/responses/{name}") }));
    }
    operation.insert("responses".into(), responses.into());
    Ok(())
}

fn security(access: Access) -> Value {
    let mut schemes = match access {
        Access::Public | Access::OAuth => vec![],
        Access::Session | Access::Admin => vec![json!({ shared::SESSION: [] })],
        Access::Scoped { .. } => vec![json!({ shared::SESSION: [] }), json!({ shared::TOKEN: [] })],
    };
    if access::takes_oauth(access) {
        schemes.push(json!({ shared::OAUTH: [] }));
    }
    schemes.into()
}

fn method_key(method: &Method) -> String {
    method.as_str().to_ascii_lowercase()
}

fn members<'v>(
    owner: &str,
    what: &str,
    value: &'v Value,
) -> Result<&'v Map<String, Value>, StartError> {
    value.as_object().ok_or_else(|| {
        StartError::new(format!(
            "in the API description of {owner}, `{what}` is not an object"
        ))
    })
}

fn check_references(document: &Value, value: &Value) -> Result<(), StartError> {
    match value {
        Value::Object(map) => {
            // A property may itself be called `$ref`; a reference is a text.
            if let Some(Value::String(reference)) = map.get("$ref") {
                let target = reference
                    .strip_prefix('#')
                    .and_then(|p| document.pointer(p));
                if target.is_none() {
                    return Err(StartError::new(format!(
                        "the API description refers to `{reference}`, which it does not hold"
                    )));
                }
            }
            map.values().try_for_each(|v| check_references(document, v))
        }
        Value::Array(values) => values
            .iter()
            .try_for_each(|v| check_references(document, v)),
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests;
