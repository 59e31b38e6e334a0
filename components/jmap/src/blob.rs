//! Uploads and downloads of blobs (RFC 8620, section 6). The bytes stay with the host.

use latchmail_sdk::capability::{Blob, Error};
use latchmail_sdk::{Failure, Reply, Request, codes};
use serde_json::json;
use utoipa::ToSchema;

use crate::Capabilities;
use crate::api::Json;
use crate::context::Context;
use crate::error::MethodError;
use crate::ids::BlobId;
use crate::limits::MAX_BODY_VALUE;

/// The maximum number of bytes that one host call reads.
const CHUNK: u32 = 65_536;
/// The media type of bytes of which nothing else is known.
const BYTES: &str = "application/octet-stream";
/// The error for a blob that does not exist.
const NO_BLOB: (latchmail_sdk::Code, &str) = (codes::NOT_FOUND, "Not found");

/// The bytes of a blob.
#[derive(ToSchema)]
#[schema(value_type = String, format = Binary)]
#[expect(dead_code, reason = "used only for the API description")]
struct BlobBytes(Vec<u8>);

/// Upload a blob
///
/// Stores a file for one hour. Its `blobId` can be an attachment of a new email, and a message can
/// be imported or parsed. Needs the scope `mail:send` or `mail:write`.
#[utoipa::path(
    post,
    path = "/jmap/upload/{accountId}",
    operation_id = "uploadJmapBlob",
    tag = "JMAP",
    extensions(("x-latchmail" = json!(true))),
    params(("accountId" = String, Path, description = "The id of the account")),
    request_body(content = inline(BlobBytes), content_type = "application/octet-stream", description = "The bytes, with any media type in `Content-Type`"),
    responses(
        (status = 201, description = "Stored (RFC 8620, section 6.1)", body = inline(Json)),
        (status = 404, description = "There is no such account", body = latchmail_sdk::Failed),
        (status = 413, description = "The file or all files of the account are too large", body = latchmail_sdk::Failed)
    )
)]
pub(crate) fn upload(host: &impl Capabilities, request: &Request) -> Result<Reply, Failure> {
    let ctx = Context::new(host, &request.id);
    check_account(&ctx, request)?;
    let media = request.header("content-type").unwrap_or(BYTES);
    let essence = media.split(';').next().unwrap_or_default().trim();
    let essence = essence.to_ascii_lowercase();
    let stored_type = if is_media_type(&essence) {
        essence.as_str()
    } else {
        BYTES
    };
    let content = request.take_blob(0).ok_or_else(Failure::internal)?;
    let stored = host.upload("upload", stored_type, content);
    let stored = stored.map_err(|error| Failure::of(error, NO_BLOB, host))?;
    let uploaded = json!({
        "accountId": ctx.account,
        "blobId": BlobId::Upload(stored.id).to_string(),
        "type": media,
        "size": stored.size,
    });
    Reply::with_status(201, &uploaded)
}

/// Download a blob
///
/// Returns the bytes of a message, of a part of a message, or of an upload. Content that a browser
/// could run has the type `application/octet-stream`.
#[utoipa::path(
    get,
    path = "/jmap/download/{accountId}/{blobId}/{name}",
    operation_id = "downloadJmapBlob",
    tag = "JMAP",
    extensions(("x-latchmail" = json!(true))),
    params(
        ("accountId" = String, Path, description = "The id of the account"),
        ("blobId" = String, Path, description = "The id of the blob"),
        ("name" = String, Path, description = "The file name of the download"),
        ("accept" = Option<String>, Query, description = "The media type of the response")
    ),
    responses(
        (status = 200, description = "The bytes", body = inline(BlobBytes), content_type = "application/octet-stream"),
        (status = 404, description = "There is no such account or blob", body = latchmail_sdk::Failed)
    )
)]
pub(crate) fn download(host: &impl Capabilities, request: &Request) -> Result<Reply, Failure> {
    let ctx = Context::new(host, &request.id);
    check_account(&ctx, request)?;
    let missing = || Failure::not_found(NO_BLOB.0, NO_BLOB.1);
    let id = BlobId::parse(request.path("blobId")).ok_or_else(missing)?;
    let content = open(host, &id).map_err(|error| Failure::of(error, NO_BLOB, host))?;
    let reply = Reply::download(request.path("name"), content);
    let media = request.query("accept").unwrap_or(BYTES);
    let media = if is_passive(media) { media } else { BYTES };
    let reply = Reply {
        content_type: "",
        ..reply
    };
    // The name of a blob never refers to other bytes.
    let headers = reply.headers.into_iter();
    let headers = headers
        .filter(|(name, _)| name != "cache-control")
        .collect();
    let reply = Reply { headers, ..reply };
    Ok(reply
        .with("content-type", media)
        .with("cache-control", "private, immutable, max-age=31536000"))
}

fn check_account<H: Capabilities>(ctx: &Context<'_, H>, request: &Request) -> Result<(), Failure> {
    if request.path("accountId") == ctx.account {
        return Ok(());
    }
    Err(Failure::not_found(NO_BLOB.0, NO_BLOB.1))
}

/// Returns whether a text is a media type without parameters.
pub(crate) fn is_media_type(text: &str) -> bool {
    let is_token = |text: &str| {
        let is_part = |b: u8| b.is_ascii_alphanumeric() || b"!#$&^_.+-".contains(&b);
        !text.is_empty() && text.len() <= 100 && text.bytes().all(is_part)
    };
    let parts = text.split_once('/');
    parts.is_some_and(|(kind, subtype)| is_token(kind) && is_token(subtype))
}

/// Returns whether the host accepts a media type because browsers do not run such content.
fn is_passive(media: &str) -> bool {
    let lower = media.to_ascii_lowercase();
    let essence = lower.split(';').next().unwrap_or_default().trim();
    let is_active = ["html", "xml", "script", "xsl", "svg"]
        .iter()
        .any(|active| essence.contains(active));
    let is_header = media.bytes().all(|b| (0x20..0x7f).contains(&b)) && !media.contains(',');
    is_media_type(essence) && is_header && !is_active && !essence.starts_with("multipart/")
}

/// Opens a blob.
///
/// # Errors
/// Returns [`Error::NotFound`] if the blob does not exist.
pub(crate) fn open(host: &impl Capabilities, id: &BlobId) -> Result<Blob, Error> {
    Ok(match id {
        BlobId::Message(uid) => host.get_raw_message(*uid)?.content,
        BlobId::Upload(id) => host.get_upload(id)?.content,
        BlobId::Part(part) => {
            let of = open(host, &part.of)?;
            if part.offset.saturating_add(part.length) > of.size() {
                return Err(Error::NotFound);
            }
            let encoded = of.slice(part.offset, part.length);
            match part.encoding.name() {
                None => encoded,
                Some(encoding) => host.decode_blob(encoded, encoding)?,
            }
        }
    })
}

/// Calls `push` with the bytes of a blob in pieces.
pub(crate) fn for_each(blob: &Blob, mut push: impl FnMut(&[u8])) -> Result<(), Error> {
    let (size, mut at) = (blob.size(), 0);
    while at < size {
        let bytes = blob.read(at, CHUNK)?;
        if bytes.is_empty() {
            return Err(Error::Internal);
        }
        at += bytes.len() as u64;
        push(&bytes);
    }
    Ok(())
}

/// Returns the first bytes of a blob, at most `max`.
pub(crate) fn beginning(blob: &Blob, max: usize) -> Result<Vec<u8>, Error> {
    let mut bytes = Vec::new();
    let size = usize::try_from(blob.size()).unwrap_or(usize::MAX).min(max);
    while bytes.len() < size {
        let left = u32::try_from(size - bytes.len())
            .unwrap_or(CHUNK)
            .min(CHUNK);
        let read = blob.read(bytes.len() as u64, left)?;
        if read.is_empty() {
            return Err(Error::Internal);
        }
        bytes.extend(read);
    }
    Ok(bytes)
}

/// Returns all bytes of a blob for an attachment.
pub(crate) fn whole(blob: &Blob, max: usize) -> Result<Option<Vec<u8>>, MethodError> {
    if blob.size() > max as u64 {
        return Ok(None);
    }
    Ok(Some(beginning(blob, max)?))
}

/// The maximum number of encoded bytes of a body value: quoted-printable needs at most three bytes
/// for one.
pub(crate) const MAX_ENCODED: usize = 3 * MAX_BODY_VALUE;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn content_that_a_browser_runs_is_not_passive() {
        for media in [
            "text/plain",
            "image/PNG",
            "text/plain; charset=utf-8",
            "message/rfc822",
        ] {
            assert!(is_passive(media), "{media}");
        }
        for media in [
            "text/html",
            "image/svg+xml",
            "a",
            "",
            "text/plain, text/html",
            "a/b\r\n",
        ] {
            assert!(!is_passive(media), "{media}");
        }
    }
}
