//! `GET /api/v1/profile/export/{id}/archive`: the archive as a download that can be resumed.

use std::io::{self, SeekFrom};
use std::path::PathBuf;
use std::sync::Arc;

use bytes::{Bytes, BytesMut};
use futures_util::stream::{self, StreamExt as _};
use http::{HeaderValue, StatusCode, header};
use latchmail_bindings::{Blob, BlobSource, ByteStream};
use latchmail_core::codes;
use latchmail_core::error::Failure;
use latchmail_export::Status;
use tokio::fs::File;
use tokio::io::{AsyncReadExt as _, AsyncSeekExt as _};

use super::range::{Wanted, wanted};
use super::{find, not_found};
use crate::app::App;
use crate::message::{Content, Request, Response};
use crate::rejection::Rejection;

/// The size of the pieces that are read from the file.
const PIECE: usize = 64 * 1024;

/// The archive, for the API description.
#[derive(utoipa::ToSchema)]
#[schema(value_type = String, format = Binary)]
#[expect(dead_code, reason = "used only for the API description")]
struct ArchiveBytes(Vec<u8>);

/// Download the archive of an export
///
/// Returns a zip file. A request can ask for one range of bytes, so a client can continue an
/// interrupted download.
#[utoipa::path(
    get,
    path = "/api/v1/profile/export/{id}/archive",
    operation_id = "getExportArchive",
    tag = "Profile",
    extensions(("x-latchmail" = json!(true))),
    params(
        ("id" = String, Path, description = "The id of the export"),
        ("Range" = Option<String>, Header, description = "One range of bytes (RFC 9110, section 14.1.2)", example = "bytes=0-1023"),
        ("If-Range" = Option<String>, Header, description = "The `ETag` for which the range is valid")
    ),
    responses(
        (
            status = 200,
            description = "The archive",
            body = inline(ArchiveBytes),
            content_type = "application/zip",
            headers(
                ("Content-Disposition" = String, description = "`attachment` with the name of the file"),
                ("ETag" = String, description = "The version of the bytes, which never changes"),
                ("Content-Length" = u64, description = "The size in bytes"),
                ("Accept-Ranges" = String, description = "`bytes`")
            )
        ),
        (
            status = 206,
            description = "The requested range of the archive",
            body = inline(ArchiveBytes),
            content_type = "application/zip",
            headers(("Content-Range" = String, description = "The range and the size in bytes"))
        ),
        (status = 404, description = "`Export not found`", body = ref("#/components/schemas/Error")),
        (status = 409, description = "`The archive is not ready` or `The export failed`", body = ref("#/components/schemas/Error")),
        (status = 416, description = "`The range is outside of the content`", body = ref("#/components/schemas/Error")),
    )
)]
pub(super) async fn get_export_archive(
    app: &App,
    request: &Request,
) -> Result<Response, Rejection> {
    let export = find(app, request).await?;
    let not_ready = |text| Failure::conflict(codes::EXPORT_NOT_READY, text);
    match export.status {
        Status::Pending | Status::Running => {
            return Err(not_ready("The archive is not ready").into());
        }
        Status::Failed => return Err(not_ready("The export failed").into()),
        Status::Ready => {}
    }
    let archive = app.exports.archive(&export).await?;
    let archive = archive.ok_or_else(not_found)?;
    let tag = format!("\"{}\"", export.id);
    let text = |name| request.headers.get(name)?.to_str().ok();
    let is_current = text(header::IF_RANGE).is_none_or(|given| given == tag);
    let range = text(header::RANGE).filter(|_| is_current);
    let size = archive.size;
    let blob = Blob::from_source(size, Arc::new(ArchiveSource(archive.path)));
    let (status, blob, range) = match range.map_or(Wanted::All, |range| wanted(range, size)) {
        Wanted::All => (StatusCode::OK, blob, None),
        Wanted::Part(start, length) => {
            let range = format!("bytes {start}-{}/{size}", start + length - 1);
            let part = blob.slice(start, length);
            (StatusCode::PARTIAL_CONTENT, part, Some(range))
        }
        Wanted::Nothing => {
            return Err(Rejection::new(
                StatusCode::RANGE_NOT_SATISFIABLE,
                codes::RANGE_NOT_SATISFIABLE,
                "The range is outside of the content",
            )
            .with(header::CONTENT_RANGE, value(&format!("bytes */{size}"))?));
        }
    };
    let mut response = Response {
        status,
        headers: http::HeaderMap::new(),
        body: Content::Blob(blob),
    };
    let day = &export.created_at.to_string()[..10];
    let name = format!("attachment; filename=\"latchmail-{day}.zip\"");
    for (header, text) in [
        (header::CONTENT_TYPE, "application/zip"),
        (header::CONTENT_DISPOSITION, name.as_str()),
        (header::ETAG, tag.as_str()),
        (header::ACCEPT_RANGES, "bytes"),
        (header::CACHE_CONTROL, "private, no-store"),
        (header::X_CONTENT_TYPE_OPTIONS, "nosniff"),
    ] {
        response = response.with(header, value(text)?);
    }
    if let Some(range) = range {
        response = response.with(header::CONTENT_RANGE, value(&range)?);
    }
    Ok(response)
}

fn value(text: &str) -> Result<HeaderValue, Failure> {
    HeaderValue::from_str(text).map_err(Failure::internal)
}

/// The file of an archive.
struct ArchiveSource(PathBuf);

impl BlobSource for ArchiveSource {
    fn open(&self) -> ByteStream {
        self.open_range(0, u64::MAX)
    }

    fn open_range(&self, start: u64, length: u64) -> ByteStream {
        let state = Reading::At(self.0.clone(), start);
        stream::try_unfold((state, length), |(state, remaining)| {
            next_piece(state, remaining)
        })
        .boxed()
    }
}

/// The state of a download.
enum Reading {
    /// The path and the offset at which the download begins.
    At(PathBuf, u64),
    /// The open file.
    Open(File),
}

/// Reads the next bytes of the file. Returns `None` at the end.
async fn next_piece(state: Reading, remaining: u64) -> io::Result<Option<(Bytes, (Reading, u64))>> {
    let mut file = match state {
        Reading::At(path, start) => {
            let mut file = File::open(path).await?;
            file.seek(SeekFrom::Start(start)).await?;
            file
        }
        Reading::Open(file) => file,
    };
    let limit = usize::try_from(remaining).map_or(PIECE, |remaining| remaining.min(PIECE));
    if limit == 0 {
        return Ok(None);
    }
    let mut piece = BytesMut::zeroed(limit);
    let count = file.read(&mut piece).await?;
    if count == 0 {
        return Ok(None);
    }
    piece.truncate(count);
    let remaining = remaining - count as u64;
    Ok(Some((piece.freeze(), (Reading::Open(file), remaining))))
}
