//! The API description of a module. The crate `utoipa` generates the description from the types of
//! the handlers. The host adds the parts that all modules share.

use std::collections::BTreeMap;

use serde::Serialize;
use utoipa::ToSchema;
use utoipa::openapi::OpenApi;

use crate::bindings::exports::latchmail::host::module::Method;

/// A response that is not a success.
#[derive(Clone, Debug, Serialize, ToSchema)]
#[schema(as = Error)]
pub struct Failed {
    /// The error message, as a sentence for people.
    pub error: String,
    /// The error code, for programs.
    pub code: String,
}

/// A response that only reports success.
#[derive(Clone, Debug, Serialize, ToSchema)]
#[schema(as = Success)]
pub struct Succeeded {
    /// Always true.
    pub success: bool,
}

/// Returns the `paths` and `components` of a description as JSON. Removes the schema `Error`,
/// because the host defines this schema.
pub(crate) fn fragment(description: &OpenApi) -> String {
    let mut components = description.components.clone();
    if let Some(components) = &mut components {
        components.schemas.remove("Error");
    }
    serde_json::json!({
        "paths": description.paths,
        "components": components,
    })
    .to_string()
}

/// Returns the method and the path of each operation. The keys of the map are operation ids.
pub(crate) fn operations(description: &OpenApi) -> BTreeMap<&str, (Method, &str)> {
    let mut operations = BTreeMap::new();
    for (path, item) in &description.paths.paths {
        for (method, operation) in [
            (Method::Get, &item.get),
            (Method::Post, &item.post),
            (Method::Put, &item.put),
            (Method::Patch, &item.patch),
            (Method::Delete, &item.delete),
        ] {
            let id = operation
                .as_ref()
                .and_then(|operation| operation.operation_id.as_deref());
            operations.extend(id.map(|id| (id, (method, path.as_str()))));
        }
    }
    operations
}
