//! The API description (OpenAPI 3.1.1), composed of the descriptions of the host and of each module, once per table of routes.
//!
//! The host adds what it enforces: the security of each operation, its scope, and the errors of the request pipeline ([`responses`]). A description that does
//! not match its routes, or that conflicts with another description, is rejected.

mod links;
mod parameters;
mod responses;
mod shared;

use std::collections::BTreeMap;

use bytes::Bytes;
use http::Method;
use latchmail_core::caller::Scope;
use latchmail_core::error::StartError;
use latchmail_runtime::modules::{Access, Route};
use serde::Serialize;
use serde_json::{Map, Value, json};

use super::access;
use super::router::Part;

/// The keys of a path that are operations.
const METHODS: [&str; 8] = [
    "get", "put", "post", "delete", "options", "head", "patch", "trace",
];

/// The properties of the service in the description.
#[derive(Clone, Debug, Default)]
pub struct About {
    /// The name of the service.
    pub title: String,
    /// The URL of the service, without a trailing slash.
    pub base_url: String,
    /// The URL of the authorization server, without a trailing slash.
    pub auth_url: String,
    /// Whether agents are allowed to send mail.
    pub agents_send: bool,
}

/// Composes the description.
///
/// # Errors
/// Returns an error if a route is not described, a described operation is not a route, two descriptions conflict, or a reference has no target.
pub fn compose<S>(about: &About, parts: &[Part<S>]) -> Result<Bytes, StartError> {
    with_document(about, parts, |document| {
        serde_json::to_vec(document)
            .map(Bytes::from)
            .map_err(|error| {
                StartError::new(format!("the API description cannot be written: {error}"))
            })
    })
}

/// Performs the checks of [`compose`] without writing the description.
///
/// # Errors
/// Returns the errors of [`compose`].
pub fn check<S>(about: &About, parts: &[Part<S>]) -> Result<(), StartError> {
    with_document(about, parts, |_| Ok(()))
}

fn with_document<S, T>(
    about: &About,
    parts: &[Part<S>],
    then: impl FnOnce(&Document<'_>) -> Result<T, StartError>,
) -> Result<T, StartError> {
    let shared = shared::components(about);
    let mut components = Components::default();
    components.add("the host", &shared)?;
    let mut paths = Paths::new();
    for part in parts {
        if let Some(described) = part.description.get("components") {
            components.add(&part.owner, described)?;
        }
        add_paths(&mut paths, part, about.agents_send)?;
    }
    links::retain_known(&mut paths);
    let document = Document {
        openapi: "3.1.1",
        info: json!({
            "title": about.title,
            "version": "2.0.0",
            "description": "An HTTP API over real mailboxes. Every error response has the body `{\"error\": <message>}`.",
        }),
        servers: json!([{ "url": about.base_url }]),
        paths: &paths,
        components: &components.sections,
        scopes: Scope::ALL
            .iter()
            .map(|scope| (scope.name(), scope.description()))
            .collect(),
    };
    document.check_references()?;
    then(&document)
}

/// The description. It borrows the descriptions of modules, which are large and are composed again at every change of a module.
#[derive(Serialize)]
struct Document<'p> {
    openapi: &'static str,
    info: Value,
    servers: Value,
    paths: &'p Paths,
    components: &'p Sections<'p>,
    #[serde(rename = "x-api-token-scopes")]
    scopes: BTreeMap<&'static str, &'static str>,
}

/// Operations by path and method.
type Paths = BTreeMap<String, Map<String, Value>>;

/// Components by section (`schemas`, `responses`, …) and name.
type Sections<'p> = BTreeMap<&'p str, BTreeMap<&'p str, &'p Value>>;

impl Document<'_> {
    fn check_references(&self) -> Result<(), StartError> {
        let operations = self.paths.values().flat_map(Map::values);
        let components = self.components.values().flat_map(BTreeMap::values);
        operations
            .chain(components.copied())
            .try_for_each(|value| self.check_references_of(value))
    }

    fn check_references_of(&self, value: &Value) -> Result<(), StartError> {
        match value {
            Value::Object(map) => {
                // A property can also have the name `$ref`. Only a string is a reference.
                if let Some(Value::String(reference)) = map.get("$ref")
                    && self.target(reference).is_none()
                {
                    return Err(StartError::new(format!(
                        "the API description refers to `{reference}`, which does not exist"
                    )));
                }
                map.values().try_for_each(|v| self.check_references_of(v))
            }
            Value::Array(values) => values.iter().try_for_each(|v| self.check_references_of(v)),
            _ => Ok(()),
        }
    }

    /// Returns the target of a reference (RFC 6901): a component, an operation, or a part of one.
    fn target(&self, reference: &str) -> Option<&Value> {
        let mut steps = reference.strip_prefix("#/")?.splitn(4, '/');
        let mut step = || Some(steps.next()?.replace("~1", "/").replace("~0", "~"));
        let (of, first, second) = (step()?, step()?, step()?);
        let found = match of.as_str() {
            "components" => *self.components.get(&*first)?.get(&*second)?,
            "paths" => self.paths.get(&first)?.get(&second)?,
            _ => return None,
        };
        match steps.next() {
            None => Some(found),
            Some(rest) => found.pointer(&format!("/{rest}")),
        }
    }
}

/// The components, and the first owner of each.
#[derive(Default)]
struct Components<'p> {
    sections: Sections<'p>,
    owners: BTreeMap<String, &'p str>,
}

impl<'p> Components<'p> {
    fn add(&mut self, owner: &'p str, components: &'p Value) -> Result<(), StartError> {
        // Only the host's shared description, which is added first, defines security schemes.
        let first = self.owners.is_empty();
        for (section, entries) in members(owner, "components", components)? {
            if section == "securitySchemes" && !first {
                continue;
            }
            let target = self.sections.entry(section).or_default();
            for (name, value) in members(owner, section, entries)? {
                let key = format!("{section}/{name}");
                match target.get(name.as_str()) {
                    None => {
                        target.insert(name, value);
                        self.owners.insert(key, owner);
                    }
                    Some(first) if *first == value => {}
                    Some(_) => {
                        let first = self.owners[&key];
                        return Err(StartError::new(format!(
                            "{first} and {owner} describe `#/components/{key}` differently"
                        )));
                    }
                }
            }
        }
        Ok(())
    }
}

fn add_paths<S>(paths: &mut Paths, part: &Part<S>, agents_send: bool) -> Result<(), StartError> {
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
                    "the API description of {owner} contains {} {path}, which is not one of its routes",
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
        // Two owners can share a path, so the properties of a path are copied to each of its operations.
        let common = item.and_then(Value::as_object).into_iter().flatten();
        let mut operation = operation.clone();
        for (name, value) in common.filter(|(name, _)| !METHODS.contains(&name.as_str())) {
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

/// Copies a property of a path to an operation. If both define a parameter, the operation's definition applies.
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
    agents_send: bool,
    operation: &mut Map<String, Value>,
) -> Result<(), StartError> {
    let id = operation
        .entry("operationId")
        .or_insert_with(|| route.operation.clone().into());
    if *id != route.operation {
        return Err(StartError::new(format!(
            "the API description of {owner} has the operation id {id} for {} {}, its route has `{}`",
            route.method, route.path, route.operation
        )));
    }
    // The descriptions of the host's operations are the doc comments of their handlers. The section on errors is only for readers of the code.
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
    let mut responses = match operation.remove("responses") {
        Some(Value::Object(responses)) => responses,
        _ => Map::new(),
    };
    responses::complete(route, &mut responses);
    operation.insert("responses".into(), responses.into());
    Ok(())
}

fn security(access: Access, agents_send: bool) -> Value {
    let mut schemes = match access {
        Access::Public | Access::OAuth => vec![],
        Access::Session | Access::Admin => vec![json!({ shared::SESSION: [] })],
        Access::Scoped { .. } => vec![json!({ shared::SESSION: [] }), json!({ shared::TOKEN: [] })],
    };
    if access::takes_oauth(access, agents_send) {
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

#[cfg(test)]
mod tests;
