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
}

/// Returns the bytes of the components, in the order of `components`. The pipeline has decoded each
/// component to a blob of the request. The parsed body contains the index of the blob instead of
/// the base64 text.
///
/// # Errors
/// Returns 400 if the request has no blob with the index of a component.
pub(super) fn component_bytes(
    components: &[Component],
    request: &Request,
) -> Result<Vec<Bytes>, Rejection> {
    let bytes = |component: &Component| request.blobs.get(component.component).cloned();
    let bytes: Option<Vec<_>> = components.iter().map(bytes).collect();
    bytes
        .ok_or_else(|| Rejection::bad_request(codes::INVALID_BASE64, "component must be in base64"))
}

/// Returns the name of the module from the path of the request.
pub(super) fn module_name(request: &Request) -> &str {
    request.path.first().map_or("", |(_, name)| name)
}
