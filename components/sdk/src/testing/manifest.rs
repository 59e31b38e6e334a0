//! Checks the manifest of a module in tests, with the same rules as the real host.

use std::collections::BTreeSet;

use serde_json::Value;

use super::route;
use crate::bindings::exports::latchmail::host::module::{BodyForm, Manifest, Route};
use crate::module::Module;

/// Maximum number of routes.
const MAX_ROUTES: usize = 1000;
/// Maximum size of the API description in bytes.
const MAX_DESCRIPTION: usize = 1024 * 1024;
/// Maximum size of a request body in bytes.
const MAX_BODY: u32 = 40 * 1024 * 1024;

/// Returns the reason why hosts refuse this module. Returns `None` if the manifest of the module is
/// valid.
///
/// Does not check conditions that depend on a host. These conditions are grants, permitted paths,
/// routes of other modules, and names of rate limits.
#[must_use]
pub fn manifest_error<H>(module: &Module<H>) -> Option<String> {
    check(&module.manifest()).err()
}

fn check(manifest: &Manifest) -> Result<(), String> {
    let word = |b: u8| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'-';
    let name = &manifest.name;
    if !(1..=32).contains(&name.len()) || !name.bytes().all(word) {
        return Err(format!(
            "the name {name:?} is not 1 to 32 lower-case letters, digits and hyphens"
        ));
    }
    let version: Vec<_> = manifest.version.split('.').map(str::parse::<u32>).collect();
    if version.len() != 3 || version.iter().any(Result::is_err) {
        return Err(format!(
            "the version {:?} is not major.minor.patch",
            manifest.version
        ));
    }
    if manifest.routes.is_empty() || manifest.routes.len() > MAX_ROUTES {
        return Err(format!("a module has 1 to {MAX_ROUTES} routes"));
    }
    if manifest.description.len() > MAX_DESCRIPTION {
        return Err(format!(
            "the description has more than {MAX_DESCRIPTION} bytes"
        ));
    }
    let mut operations = BTreeSet::new();
    for route in &manifest.routes {
        let operation = &route.operation;
        if route.path.is_empty() {
            return Err(format!("the description has no operation {operation:?}"));
        }
        let named = format!("{} {}", route::method(route.method), route.path);
        check_route(route).map_err(|reason| format!("{named} {reason}"))?;
        if !operations.insert(operation.as_str()) {
            return Err(format!("two routes have the operation {operation:?}"));
        }
    }
    described(manifest, &operations)
}

fn check_route(route: &Route) -> Result<(), String> {
    latchmail_shape::check_path(&route.path)
        .map_err(|reason| format!("is invalid: its path {reason}"))?;
    let operation = &route.operation;
    if operation.is_empty() || !operation.bytes().all(|b| b.is_ascii_alphanumeric()) {
        return Err(format!(
            "is called {operation:?}, which is not letters and digits only"
        ));
    }
    if route.bucket.is_empty() {
        return Err("counts towards no rate limit".into());
    }
    if let Some(odd) = route.blob_fields.iter().find(|f| !f.starts_with('/')) {
        return Err(format!(
            "has the blob field {odd:?}, which is not a JSON pointer"
        ));
    }
    if !route.blob_fields.is_empty() && route.body != BodyForm::Bytes {
        return Err("has blob fields of a body that is a blob".into());
    }
    if route.max_body > MAX_BODY {
        return Err(format!("takes a body of more than {MAX_BODY} bytes"));
    }
    if route.deadline == 0 {
        return Err("has a deadline of 0".into());
    }
    Ok(())
}

/// Checks whether the API description contains only operations of the module.
fn described(manifest: &Manifest, operations: &BTreeSet<&str>) -> Result<(), String> {
    let description: Value = serde_json::from_str(&manifest.description)
        .map_err(|error| format!("the description is not JSON: {error}"))?;
    for (path, item) in description["paths"].as_object().into_iter().flatten() {
        for (method, operation) in item.as_object().into_iter().flatten() {
            let id = operation["operationId"].as_str();
            if let Some(id) = id.filter(|id| !operations.contains(id)) {
                let method = method.to_ascii_uppercase();
                return Err(format!(
                    "the description has the operation {id:?} ({method} {path}), which is not a route of the module"
                ));
            }
        }
    }
    Ok(())
}
