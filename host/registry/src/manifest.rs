//! Manifests of artifacts (OCI Image Manifest 1.1), and the media types of components that `wkg`
//! uses.

use std::collections::BTreeMap;

use serde::de::IgnoredAny;
use serde::{Deserialize, Serialize};

use crate::digest::Digest;
use crate::error::Error;

pub(crate) const MANIFEST: &str = "application/vnd.oci.image.manifest.v1+json";
pub(crate) const CONFIG: &str = "application/vnd.wasm.config.v0+json";
pub(crate) const COMPONENT: &str = "application/wasm";

/// A manifest: the description of one artifact.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Manifest {
    schema_version: u32,
    media_type: &'static str,
    pub(crate) config: Descriptor,
    pub(crate) layers: Vec<Descriptor>,
}

/// A reference to content.
#[derive(Clone, Debug, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Descriptor {
    pub(crate) media_type: String,
    pub(crate) digest: String,
    pub(crate) size: u64,
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub(crate) annotations: BTreeMap<String, String>,
}

/// A manifest as a registry returns it.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Received {
    schema_version: u32,
    config: Option<Descriptor>,
    layers: Option<Vec<Descriptor>>,
    /// The entries of an index, which describes several artifacts.
    manifests: Option<IgnoredAny>,
}

impl Manifest {
    /// Creates the manifest of an artifact.
    pub(crate) fn new(config: Descriptor, layers: Vec<Descriptor>) -> Self {
        Self {
            schema_version: 2,
            media_type: MANIFEST,
            config,
            layers,
        }
    }

    /// Parses a manifest. `what` names it in errors.
    ///
    /// # Errors
    /// Returns [`Error::Malformed`] if it is not the manifest of one artifact.
    pub(crate) fn parse(what: &str, text: &[u8]) -> Result<Self, Error> {
        let received: Received =
            serde_json::from_slice(text).map_err(|error| Error::malformed(what, error))?;
        if received.manifests.is_some() {
            return Err(Error::malformed(
                what,
                "it is an index of several artifacts; use the digest of one of them",
            ));
        }
        match (received.schema_version, received.config, received.layers) {
            (2, Some(config), Some(layers)) => Ok(Self::new(config, layers)),
            _ => Err(Error::malformed(what, "it is not an OCI image manifest")),
        }
    }

    /// Returns the only layer of a component's manifest.
    ///
    /// # Errors
    /// Returns [`Error::Malformed`] if the artifact is not a component.
    pub(crate) fn component(&self, what: &str) -> Result<&Descriptor, Error> {
        if self.config.media_type != CONFIG {
            return Err(Error::malformed(
                what,
                format!("its configuration must have the media type {CONFIG}"),
            ));
        }
        match self.layers.as_slice() {
            [layer] if layer.media_type == COMPONENT => Ok(layer),
            _ => Err(Error::malformed(
                what,
                format!("it must have exactly one layer, with the media type {COMPONENT}"),
            )),
        }
    }
}

impl Descriptor {
    /// Returns the descriptor of `content`.
    pub(crate) fn of(media_type: &str, content: &[u8]) -> Self {
        Self {
            media_type: media_type.to_owned(),
            digest: Digest::of(content).to_string(),
            size: content.len() as u64,
            annotations: BTreeMap::new(),
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn component(manifest: &serde_json::Value) -> Result<u64, String> {
        let parsed = Manifest::parse("m", manifest.to_string().as_bytes());
        let size = parsed.and_then(|manifest| manifest.component("m").map(|layer| layer.size));
        size.map_err(|error| error.to_string())
    }

    #[test]
    fn the_manifest_of_a_component_has_one_layer() {
        let layer = json!({ "mediaType": COMPONENT, "digest": "sha256:x", "size": 7 });
        let config = json!({ "mediaType": CONFIG, "digest": "sha256:y", "size": 2 });
        let with = |config: &serde_json::Value, layers: serde_json::Value| {
            component(&json!({ "schemaVersion": 2, "config": config, "layers": layers }))
        };
        assert_eq!(with(&config, json!([layer])), Ok(7));
        for (config, layers, reason) in [
            (&config, json!([]), "exactly one layer"),
            (&config, json!([layer, layer]), "exactly one layer"),
            (&config, json!([config]), "exactly one layer"),
            (&layer, json!([layer]), "its configuration"),
            (&config, json!([{ "size": -1 }]), "not valid"),
            (&config, json!("x"), "not valid"),
        ] {
            let error = with(config, layers).unwrap_err();
            assert!(error.contains(reason), "{error}");
        }
    }

    #[test]
    fn other_documents_are_refused() {
        for (document, reason) in [
            (json!({ "schemaVersion": 2, "manifests": [] }), "an index"),
            (json!({ "schemaVersion": 2 }), "not an OCI image manifest"),
            (json!({ "schemaVersion": 1, "fsLayers": [] }), "not an OCI"),
            (json!([]), "not valid"),
            (json!({}), "not valid"),
        ] {
            let error = component(&document).unwrap_err();
            assert!(error.contains(reason), "{error}");
        }
    }
}
