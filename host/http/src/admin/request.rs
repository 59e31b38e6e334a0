//! The parts of requests that several operations of module administration use.

use latchmail_core::codes;
use latchmail_directory::modules::Artifact;
use latchmail_registry::{Digest, Reference};
use latchmail_runtime::manager::NewComponent;
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
    #[serde(rename = "component")]
    blob: usize,
    /// The name of the module if the component has no manifest with a name: it exports only
    /// handlers, or it is mounted. Otherwise the name has no effect.
    #[serde(default)]
    #[schema(nullable = false)]
    name: Option<String>,
    /// The artifact of a registry that contained the component. The service stores it with the
    /// version. The caller has compared the digests and verified the signature.
    #[serde(default)]
    #[schema(nullable = false)]
    source: Option<Source>,
}

/// An artifact of a registry.
#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
#[schema(as = ComponentSource)]
struct Source {
    /// The reference of the artifact, without a digest: `oci://HOST/REPOSITORY:TAG`.
    #[schema(max_length = 512)]
    reference: String,
    /// The digest of the artifact's manifest.
    #[schema(pattern = "^sha256:[0-9a-f]{64}$")]
    digest: String,
}

/// Returns the components with their names and artifacts, in the order of `components`. The
/// pipeline has decoded each component to a blob of the request. The parsed body contains the index
/// of the blob instead of the base64 text.
///
/// # Errors
/// Returns 400 if the request has no blob with the index of a component, and if an artifact is
/// invalid.
pub(super) fn new_components(
    components: Vec<Component>,
    request: &Request,
) -> Result<Vec<NewComponent>, Rejection> {
    let new = |component: Component| {
        let bytes = request.blobs.get(component.blob).ok_or_else(|| {
            Rejection::bad_request(codes::INVALID_BASE64, "component must be in base64")
        })?;
        Ok(NewComponent {
            bytes: bytes.clone(),
            name: component.name,
            artifact: component.source.as_ref().map(artifact).transpose()?,
        })
    };
    components.into_iter().map(new).collect()
}

fn artifact(source: &Source) -> Result<Artifact, Rejection> {
    let invalid = |text| Rejection::bad_request(codes::INVALID_FIELD, text);
    let reference = source.reference.parse::<Reference>().ok();
    let reference = reference
        .filter(|reference| reference.digest().is_none())
        .ok_or_else(|| invalid("source.reference must have the form oci://HOST/REPOSITORY:TAG"))?;
    let digest = Digest::parse(&source.digest)
        .ok_or_else(|| invalid("source.digest must be sha256: and 64 hexadecimal digits"))?;
    Ok(Artifact {
        reference: reference.to_string(),
        digest: digest.to_string(),
    })
}

/// Returns the name of the module from the path of the request.
pub(super) fn module_name(request: &Request) -> &str {
    request.path.first().map_or("", |(_, name)| name)
}
