//! Uploads a component, in the form that `wkg` downloads.

use bytes::Bytes;
use http::{HeaderName, StatusCode, header};
use serde_json::json;
use url::Url;

use crate::client::{Call, Response, Session, location};
use crate::digest::Digest;
use crate::error::Error;
use crate::manifest::{COMPONENT, CONFIG, Descriptor, MANIFEST, Manifest};

/// The size of one part of an upload in bytes. The HTTP client accepts no larger body.
const PART: usize = 4 * 1024 * 1024;

/// The maximum size of a response in bytes.
const MAX_RESPONSE: u64 = 64 * 1024;

/// The first bytes of each component: the magic number, and the version and the layer of
/// components.
const COMPONENT_START: &[u8] = b"\0asm\x0d\0\x01\0";

/// Uploads a component with a tag. `created` is the time of the upload (RFC 3339). Returns the
/// digest of the manifest.
///
/// # Errors
/// Returns [`Error::NotAComponent`] if the bytes are not a component, and another error if the
/// upload fails. An upload that fails does not change the tag.
pub(crate) async fn push(
    session: &mut Session<'_>,
    tag: &str,
    component: &Bytes,
    created: &str,
) -> Result<Digest, Error> {
    if !component.starts_with(COMPONENT_START) {
        return Err(Error::NotAComponent);
    }
    let layer = Descriptor::of(COMPONENT, component);
    let config = Bytes::from(
        json!({
            "created": created,
            "author": null,
            "architecture": "wasm",
            "os": "wasip2",
            "layerDigests": [layer.digest],
            "component": { "exports": [], "imports": [], "target": null },
        })
        .to_string(),
    );
    upload(session, &layer.digest, component).await?;
    let config_descriptor = Descriptor::of(CONFIG, &config);
    upload(session, &config_descriptor.digest, &config).await?;
    let what = "the manifest";
    let manifest = serde_json::to_vec(&Manifest::new(config_descriptor, vec![layer]))
        .map_err(|error| Error::malformed(what, error))?;
    let digest = Digest::of(&manifest);
    let url = session.url(&format!("manifests/{tag}"))?;
    let content_type = vec![(header::CONTENT_TYPE, MANIFEST.to_owned())];
    send(session, "PUT", url, content_type, manifest.into()).await?;
    Ok(digest)
}

/// Uploads content that the repository does not have.
async fn upload(session: &mut Session<'_>, digest: &str, content: &Bytes) -> Result<(), Error> {
    let url = session.url(&format!("blobs/{digest}"))?;
    let head = call("HEAD", url, Vec::new(), Bytes::new());
    if session.send(&head).await?.status == StatusCode::OK {
        return Ok(());
    }
    let mut url = session.url("blobs/uploads/")?;
    let started = send(session, "POST", url.clone(), Vec::new(), Bytes::new()).await?;
    url = next(&url, &started)?;
    let mut start = 0;
    // Each part but the last has its own request. The last part completes the upload.
    while content.len() - start > PART {
        let part = content.slice(start..start + PART);
        let headers = headers(start, part.len());
        let stored = send(session, "PATCH", url.clone(), headers, part).await?;
        url = next(&url, &stored)?;
        start += PART;
    }
    let last = content.slice(start..);
    let mut headers = headers(start, last.len());
    if start == 0 {
        // The upload has only one part.
        headers.truncate(1);
    }
    url.query_pairs_mut().append_pair("digest", digest);
    send(session, "PUT", url, headers, last).await?;
    Ok(())
}

/// Returns the headers of a part of an upload.
fn headers(start: usize, length: usize) -> Vec<(HeaderName, String)> {
    let last = (start + length).saturating_sub(1);
    vec![
        (header::CONTENT_TYPE, "application/octet-stream".to_owned()),
        (header::CONTENT_RANGE, format!("{start}-{last}")),
    ]
}

/// Returns the URL for the next part of an upload.
fn next(url: &Url, response: &Response) -> Result<Url, Error> {
    location(url, &response.headers)
        .ok_or_else(|| Error::malformed("the upload", "the registry returned no location"))
}

async fn send(
    session: &mut Session<'_>,
    method: &'static str,
    url: Url,
    headers: Vec<(HeaderName, String)>,
    body: Bytes,
) -> Result<Response, Error> {
    session.request(&call(method, url, headers, body)).await
}

fn call(
    method: &'static str,
    url: Url,
    headers: Vec<(HeaderName, String)>,
    body: Bytes,
) -> Call<'static> {
    Call {
        what: "the upload",
        method,
        url,
        headers,
        body,
        limit: MAX_RESPONSE,
    }
}
