//! The module's part of the API description, which utoipa generates from the types of the handlers. The host adds what is common to all
//! modules.

use serde::Serialize;
use utoipa::ToSchema;
use utoipa::openapi::OpenApi;

/// A response that is not a success.
#[derive(Clone, Debug, Serialize, ToSchema)]
#[schema(as = Error)]
pub struct Failed {
    /// A sentence for a person.
    pub error: String,
}

/// A response that only reports success.
#[derive(Clone, Debug, Serialize, ToSchema)]
#[schema(as = Success)]
pub struct Succeeded {
    /// Always true.
    pub success: bool,
}

/// Returns `paths` and `components` of a description as JSON. The schema `Error` is removed, because the host defines it.
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
