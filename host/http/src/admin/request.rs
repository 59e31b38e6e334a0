//! The parts of requests that several operations of module administration use.

use bytes::Bytes;
use latchmail_core::codes;
use serde::Deserialize;
use utoipa::ToSchema;

use crate::message::Request;
use crate::rejection::Rejection;

/// A component to install or inspect.
#[derive(Deserialize, ToSchema)]
pub(super) struct Component {
    /// The component, in standard base64.
    #[schema(
        value_type = String,
        content_encoding = "base64",
        pattern = "^(?:[A-Za-z0-9+/]{4})*(?:[A-Za-z0-9+/][AQgw]==|[A-Za-z0-9+/]{2}[AEIMQUYcgkosw048]=)?$"
    )]
    component: usize,
    /// The name of the module if the component exports only handlers. The name of any other module
    /// is in its manifest.
    #[serde(default)]
    #[schema(nullable = false)]
    name: Option<String>,
}

/// Returns the bytes and the names of the components, in the order of `components`. The pipeline
/// has decoded each component to a blob of the request. The parsed body contains the index of the
/// blob instead of the base64 text.
///
/// # Errors
/// Returns 400 if the request has no blob with the index of a component.
pub(super) fn named_components(
    components: Vec<Component>,
    request: &Request,
) -> Result<Vec<(Bytes, Option<String>)>, Rejection> {
    let named = |Component { component, name }| {
        let bytes = request.blobs.get(component)?.clone();
        Some((bytes, name))
    };
    let named: Option<Vec<_>> = components.into_iter().map(named).collect();
    named
        .ok_or_else(|| Rejection::bad_request(codes::INVALID_BASE64, "component must be in base64"))
}

/// Returns the name of the module from the path of the request.
pub(super) fn module_name(request: &Request) -> &str {
    request.path.first().map_or("", |(_, name)| name)
}
