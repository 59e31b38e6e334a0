//! The rules for the manifest of a module. The host checks further rules that depend on the host
//! and on the other modules.

use serde_json::Value;

use crate::check_path;

/// The maximum size of a request body that a route can declare, in bytes. This size is sufficient
/// for an imported message of 50 MiB, and for a message of 25 MB in base64.
const MAX_BODY: u32 = 50 * 1024 * 1024;

/// The maximum number of routes of a module, and the maximum size of its API description in bytes.
/// The number of routes is limited, because the router compares each pair of routes.
const MAX_ROUTES: usize = 1000;
const MAX_DESCRIPTION: usize = 1024 * 1024;

/// The checked properties of a route.
#[derive(Clone, Copy, Debug)]
pub struct DeclaredRoute<'a> {
    /// The path pattern.
    pub path: &'a str,
    /// The operation id in the API description.
    pub operation: &'a str,
    /// The JSON pointers of the fields that the module receives as blobs.
    pub blob_fields: &'a [String],
    /// Whether the module receives the whole body as a blob.
    pub is_blob: bool,
    /// The maximum size of a request body, in bytes.
    pub max_body: u32,
    /// The maximum duration of a call, in milliseconds.
    pub deadline: u32,
}

/// Checks the properties of a manifest without its routes. Returns the parsed API description.
///
/// # Errors
/// Returns an error if a property is invalid. The error is a phrase that follows the words "its
/// manifest".
pub fn check_manifest(
    name: &str,
    version: &str,
    routes: usize,
    description: &str,
) -> Result<Value, String> {
    let is_word = |b: u8| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'-';
    if !(1..=32).contains(&name.len()) || !name.bytes().all(is_word) {
        return Err(format!(
            "has the name {name:?}, which is not 1 to 32 lower-case letters, digits and hyphens"
        ));
    }
    let numbers: Vec<_> = version.split('.').map(str::parse::<u32>).collect();
    if numbers.len() != 3 || numbers.iter().any(Result::is_err) {
        return Err(format!(
            "has the version {version:?}, which is not of the form major.minor.patch"
        ));
    }
    if routes == 0 {
        return Err("declares no routes".into());
    }
    if routes > MAX_ROUTES {
        return Err(format!("has {routes} routes; the maximum is {MAX_ROUTES}"));
    }
    let size = description.len();
    if size > MAX_DESCRIPTION {
        return Err(format!(
            "has a description of {size} bytes; the maximum is {MAX_DESCRIPTION}"
        ));
    }
    serde_json::from_str(description)
        .map_err(|error| format!("has a description that is not JSON: {error}"))
}

/// Checks a route of a manifest.
///
/// # Errors
/// Returns an error if a property is invalid. The error is a phrase that follows the words "its
/// manifest".
pub fn check_route(route: &DeclaredRoute<'_>) -> Result<(), String> {
    match route_problem(route) {
        Some(problem) => Err(format!("has the route {:?}{problem}", route.path)),
        None => Ok(()),
    }
}

fn route_problem(route: &DeclaredRoute<'_>) -> Option<String> {
    if let Err(reason) = check_path(route.path) {
        return Some(format!(", whose path {reason}"));
    }
    let operation = route.operation;
    if operation.is_empty() || !operation.bytes().all(|b| b.is_ascii_alphanumeric()) {
        return Some(format!(
            " with the operation id {operation:?}, which is not letters and digits only"
        ));
    }
    let mut fields = route.blob_fields.iter();
    if let Some(invalid) = fields.find(|field| !field.starts_with('/')) {
        return Some(format!(
            " with the blob field {invalid:?}, which is not a JSON pointer"
        ));
    }
    if !route.blob_fields.is_empty() && route.is_blob {
        return Some(" with blob fields, but its body is a blob".into());
    }
    if route.max_body > MAX_BODY {
        return Some(format!(
            " with a maximum body of {} bytes; the limit is {MAX_BODY}",
            route.max_body
        ));
    }
    (route.deadline == 0).then(|| " with a deadline of 0".into())
}
