//! Checks the manifest of a module in tests, with the same rules as the real host.

use std::collections::BTreeSet;

use latchmail_shape::{Accepted, DeclaredRoute, check_manifest, check_route};
use serde_json::Value;

use crate::bindings::exports::latchmail::host::module::{Access, BodyForm, Manifest};
use crate::module::Module;

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
    let refused = |reason: String| format!("its manifest {reason}");
    let description = check_manifest(
        &manifest.name,
        &manifest.version,
        manifest.routes.len(),
        &manifest.description,
        &manifest.options,
    )
    .map_err(refused)?;
    let mut operations = BTreeSet::new();
    for route in &manifest.routes {
        let operation = &route.operation;
        if route.path.is_empty() {
            return Err(format!("the description has no operation {operation:?}"));
        }
        let accepted: Option<Vec<Accepted<'_>>> = match &route.access {
            Access::Public => None,
            Access::Credentials(accepted) => {
                let accepted = accepted.iter();
                let pairs = accepted.map(|one| (one.kind.as_str(), one.scope.as_deref()));
                Some(pairs.collect())
            }
        };
        check_route(&DeclaredRoute {
            method: &route.method,
            access: accepted.as_deref(),
            options: &route.options,
            path: &route.path,
            operation,
            blob_fields: &route.blob_fields,
            is_blob: route.body == BodyForm::Blob,
            max_body: route.max_body,
            deadline: route.deadline,
        })
        .map_err(refused)?;
        if route.bucket.is_empty() {
            return Err(format!("{operation:?} counts towards no rate limit"));
        }
        if !operations.insert(operation.as_str()) {
            return Err(format!("two routes have the operation {operation:?}"));
        }
    }
    described(&description, &operations)
}

/// Checks whether the API description contains only operations of the module.
fn described(description: &Value, operations: &BTreeSet<&str>) -> Result<(), String> {
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
