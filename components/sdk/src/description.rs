//! The module's part of the API description: what utoipa makes of the handlers' types, without what the host adds for every module.

use serde::Serialize;
use utoipa::ToSchema;
use utoipa::openapi::OpenApi;

/// Every answer that is not a success.
#[derive(Clone, Debug, Serialize, ToSchema)]
#[schema(as = Error)]
pub struct Failed {
    /// A sentence meant for a person.
    pub error: String,
}

/// An answer that tells no more than that it was done.
#[derive(Clone, Debug, Serialize, ToSchema)]
#[schema(as = Success)]
pub struct Succeeded {
    /// True.
    pub success: bool,
}

/// `paths` and `components` of a description, as JSON. The schema `Error` is the host's: a module only refers to it.
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
