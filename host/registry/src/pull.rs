//! Downloads manifests and content, and compares them with their digests.

use bytes::Bytes;
use http::header;

use crate::client::{Call, Session};
use crate::digest::Digest;
use crate::error::Error;
use crate::manifest::{Descriptor, MANIFEST};

/// The maximum size of a manifest in bytes.
const MAX_MANIFEST: u64 = 1024 * 1024;

/// Downloads the manifest with a tag or a digest. `what` names it in errors. The caller compares
/// the digest.
///
/// # Errors
/// Returns [`Error::NotFound`] if there is no such manifest, and another error if the download
/// fails.
pub(crate) async fn manifest(
    session: &mut Session<'_>,
    what: &str,
    tag_or_digest: &str,
) -> Result<Bytes, Error> {
    let call = Call {
        what,
        method: "GET",
        url: session.url(&format!("manifests/{tag_or_digest}"))?,
        headers: vec![(header::ACCEPT, MANIFEST.to_owned())],
        body: Bytes::new(),
        limit: MAX_MANIFEST,
    };
    Ok(session.request(&call).await?.body)
}

/// Downloads content, and checks its size and digest. `what` names it in errors.
///
/// # Errors
/// Returns an error if the content has more than `limit` bytes, if the download fails, or if the
/// registry returns other content.
pub(crate) async fn blob(
    session: &mut Session<'_>,
    what: &str,
    descriptor: &Descriptor,
    limit: u64,
) -> Result<Bytes, Error> {
    let digest = Digest::parse(&descriptor.digest)
        .ok_or_else(|| Error::malformed(what, "its digest is not a SHA-256 digest"))?;
    if descriptor.size > limit {
        return Err(Error::TooLarge {
            what: what.to_owned(),
            limit,
        });
    }
    let call = Call {
        what,
        method: "GET",
        url: session.url(&format!("blobs/{digest}"))?,
        headers: Vec::new(),
        body: Bytes::new(),
        limit: descriptor.size,
    };
    let body = session.request(&call).await?.body;
    if body.len() as u64 != descriptor.size {
        return Err(Error::WrongContent {
            what: what.to_owned(),
            digest,
        });
    }
    require(what, &digest, &body)?;
    Ok(body)
}

/// Checks that `content` has this digest.
///
/// # Errors
/// Returns [`Error::WrongContent`] if it has another digest.
pub(crate) fn require(what: &str, digest: &Digest, content: &[u8]) -> Result<(), Error> {
    if Digest::of(content) == *digest {
        return Ok(());
    }
    Err(Error::WrongContent {
        what: what.to_owned(),
        digest: digest.clone(),
    })
}
