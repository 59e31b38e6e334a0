//! The API description of a module. The crate `utoipa` generates the description from the types of
//! the handlers. The host adds the parts that all modules share.

use std::collections::BTreeMap;

use latchmail_shape::Code;
use serde::Serialize;
use utoipa::ToSchema;
use utoipa::openapi::OpenApi;

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

/// Returns the `paths` and `components` of a description and the module's error codes as JSON.
/// Removes the schema `Error`, because the host defines this schema.
pub(crate) fn fragment(description: &OpenApi, codes: &[Code]) -> String {
    let mut components = description.components.clone();
    if let Some(components) = &mut components {
        components.schemas.remove("Error");
    }
    serde_json::json!({
        "paths": description.paths,
        "components": components,
        "x-error-codes": codes.iter().map(Code::as_str).collect::<Vec<_>>(),
    })
    .to_string()
}

/// Returns the method and the path of each operation. The keys of the map are operation ids.
pub(crate) fn operations(description: &OpenApi) -> BTreeMap<&str, (&'static str, &str)> {
    let mut operations = BTreeMap::new();
    for (path, item) in &description.paths.paths {
        for (method, operation) in [
            ("GET", &item.get),
            ("POST", &item.post),
            ("PUT", &item.put),
            ("PATCH", &item.patch),
            ("DELETE", &item.delete),
        ] {
            let id = operation
                .as_ref()
                .and_then(|operation| operation.operation_id.as_deref());
            operations.extend(id.map(|id| (id, (method, path.as_str()))));
        }
    }
    operations
}
