//! Verifies signatures in the format of cosign: the signature of an artifact is another artifact of
//! the same repository, with a tag that contains the digest. Signatures without a key (Fulcio) and
//! transparency logs are not supported.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde::Deserialize;

use crate::client::Session;
use crate::digest::Digest;
use crate::error::Error;
use crate::keys::Keys;
use crate::manifest::{Descriptor, Manifest};
use crate::pull;
use crate::reference::Reference;

/// The media type of a signed text.
const SIGNED_TEXT: &str = "application/vnd.dev.cosign.simplesigning.v1+json";
/// The annotation with the signature of the text, in base64.
const SIGNATURE: &str = "dev.cosignproject.cosign/signature";

/// The maximum number of signatures that are tried.
const MAX_SIGNATURES: usize = 16;
/// The maximum size of a signed text in bytes.
const MAX_SIGNED_TEXT: u64 = 64 * 1024;

/// The text that a signature signs.
#[derive(Deserialize)]
struct SignedText {
    critical: Critical,
}

#[derive(Deserialize)]
struct Critical {
    identity: Identity,
    image: Image,
}

#[derive(Deserialize)]
struct Identity {
    #[serde(rename = "docker-reference")]
    reference: String,
}

#[derive(Deserialize)]
struct Image {
    #[serde(rename = "docker-manifest-digest")]
    digest: String,
}

/// Checks that one of the keys has signed the artifact with this digest. `reference` is the
/// reference of the artifact.
///
/// # Errors
/// Returns [`Error::Signature`] if there is no such signature, and another error if the signatures
/// cannot be downloaded.
pub(crate) async fn verify(
    session: &mut Session<'_>,
    keys: &Keys,
    reference: &Reference,
    digest: &Digest,
) -> Result<(), Error> {
    let what = format!("the signature of {reference}");
    let refused = |reason: &str| Error::Signature {
        artifact: format!("{}@{digest}", reference.without_digest()),
        reason: reason.to_owned(),
    };
    let tag = format!("sha256-{}.sig", digest.digits());
    let manifest = match pull::manifest(session, &what, &tag).await {
        Err(Error::NotFound(_)) => return Err(refused("it has no signature")),
        manifest => Manifest::parse(&what, &manifest?)?,
    };
    let mut reason = "it has no signature";
    for layer in manifest.layers.iter().take(MAX_SIGNATURES) {
        let Some(signature) = signature_of(layer) else {
            continue;
        };
        let text = pull::blob(session, &what, layer, MAX_SIGNED_TEXT).await?;
        if !keys.verify(&text, &signature) {
            reason = "no key of `registry.keys` has made its signature";
            continue;
        }
        match check(&text, reference, digest) {
            Ok(()) => return Ok(()),
            Err(problem) => reason = problem,
        }
    }
    Err(refused(reason))
}

/// Returns the signature in the annotations of a layer.
fn signature_of(layer: &Descriptor) -> Option<Vec<u8>> {
    let signature = layer.annotations.get(SIGNATURE)?;
    let is_signature = layer.media_type == SIGNED_TEXT;
    STANDARD.decode(signature).ok().filter(|_| is_signature)
}

/// Checks that a signed text is about the artifact. The host is not compared, so that a copy of a
/// repository in another registry keeps its signatures.
fn check(text: &[u8], reference: &Reference, digest: &Digest) -> Result<(), &'static str> {
    let Ok(SignedText { critical }) = serde_json::from_slice(text) else {
        return Err("its signature signs no description of an artifact");
    };
    if critical.image.digest != digest.as_str() {
        return Err("its signature belongs to another artifact");
    }
    if repository(&critical.identity.reference) != Some(reference.repository.as_str()) {
        return Err("its signature belongs to an artifact of another repository");
    }
    Ok(())
}

/// Returns the repository in the name of an image: `HOST/REPOSITORY`, optionally with a tag and a
/// digest.
fn repository(name: &str) -> Option<&str> {
    let (_, path) = name.split_once('/')?;
    path.split(['@', ':']).next()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn checked(repository: &str, digest: &Digest) -> Result<(), &'static str> {
        let text = format!(
            r#"{{"critical":{{"identity":{{"docker-reference":"{repository}"}},"image":{{"docker-manifest-digest":"{digest}"}},"type":"cosign container image signature"}},"optional":null}}"#
        );
        let reference: Reference = "oci://registry.test:5000/modules/rules:1".parse().unwrap();
        check(text.as_bytes(), &reference, &Digest::of(b"artifact"))
    }

    #[test]
    fn a_signature_is_valid_for_one_artifact_of_one_repository() {
        let digest = Digest::of(b"artifact");
        for repository in [
            "registry.test:5000/modules/rules",
            "mirror.test/modules/rules",
            "registry.test:5000/modules/rules:1",
        ] {
            assert_eq!(checked(repository, &digest), Ok(()), "{repository}");
        }
        for repository in ["registry.test:5000/rules", "modules/rules", "rules", ""] {
            let problem = checked(repository, &digest).unwrap_err();
            assert!(problem.contains("another repository"), "{problem}");
        }
        let other = Digest::of(b"other");
        let problem = checked("registry.test:5000/modules/rules", &other).unwrap_err();
        assert!(problem.contains("another artifact"), "{problem}");
    }
}
