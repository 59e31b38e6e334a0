//! POST `/api/v1/mail/uploads`: stores a file for later messages. The bytes stay in the host.

use latchmail_common::sending;
use latchmail_sdk::capability::{Caller, Outbox};
use latchmail_sdk::{Failure, Reply, Request, codes, time};
use serde::Serialize;
use utoipa::ToSchema;

/// The bytes of the file.
#[derive(ToSchema)]
#[schema(value_type = String, format = Binary)]
#[expect(dead_code, reason = "used only for the API description")]
struct UploadedBytes(Vec<u8>);

/// A file for later messages.
#[derive(Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[expect(clippy::struct_field_names, reason = "the names of the API")]
pub(crate) struct Upload {
    /// The opaque id, for `uploadId` of an attachment.
    upload_id: String,
    /// The file name.
    filename: String,
    /// The media type, without parameters.
    content_type: String,
    /// The size in bytes.
    size: u64,
    /// The time at which the file is deleted, one hour after the upload.
    #[schema(format = DateTime)]
    expires_at: String,
}

/// Upload a file
///
/// Stores a file, which can be attached to any number of messages for one hour. A file has at most
/// 25 MB, and all files of an account together have at most 100 MB. A URL that an agent gets from
/// `create_upload` has the query parameter `ticket`, which takes the place of a credential for one
/// request.
#[utoipa::path(
    post,
    path = "/api/v1/mail/uploads",
    operation_id = "uploadFile",
    tag = "Mail",
    extensions(("x-latchmail" = json!(true))),
    params(
        ("filename" = String, Query, min_length = 1, max_length = 255, description = "The file name, 1 to 255 characters without control characters")
    ),
    request_body(content = inline(UploadedBytes), content_type = "application/octet-stream", description = "The bytes of the file, with any media type in `Content-Type`; parameters are ignored"),
    responses(
        (status = 201, description = "Stored", body = Upload),
        (status = 400, description = "An invalid `filename` or `Content-Type`", body = latchmail_sdk::Failed),
        (status = 413, description = "`An upload must be at most 25 MB`, `The uploads of the account exceed 100 MB`", body = latchmail_sdk::Failed)
    )
)]
pub(crate) fn upload_file(
    host: &(impl Outbox + Caller),
    request: &Request,
) -> Result<Reply, Failure> {
    let filename = request.query("filename").unwrap_or_default();
    if !sending::is_name(filename) {
        return Err(Failure::bad_request(
            codes::INVALID_FILENAME,
            "filename must be 1 to 255 characters without control characters",
        ));
    }
    let content_type = request.header("content-type").unwrap_or_default();
    let content_type = content_type.split(';').next().unwrap_or_default().trim();
    let content_type = match content_type {
        "" => "application/octet-stream",
        given if sending::is_media_type(given) => given,
        _ => {
            return Err(Failure::new(
                400,
                codes::INVALID_FIELD,
                "Content-Type must be the media type of a file",
            ));
        }
    };
    let content = request.take_blob(0).ok_or_else(Failure::internal)?;
    let stored = host
        .upload(filename, &content_type.to_ascii_lowercase(), content)
        .map_err(|error| Failure::of(error, (codes::NOT_FOUND, "Not found"), host))?;
    let upload = Upload {
        upload_id: stored.id,
        filename: stored.filename,
        content_type: stored.content_type,
        size: stored.size,
        expires_at: time::iso8601(stored.expires_at),
    };
    Reply::with_status(201, &upload)
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use latchmail_sdk::capability::Scope;
    use latchmail_sdk::testing::Service;
    use serde_json::json;

    use crate::module;

    #[test]
    fn an_uploaded_file_is_attached_until_it_expires() {
        let service = Service::of(module());
        let upload = |path: &str, media: &str| {
            let headers = [("Content-Type", media)];
            service.request("POST", path, &headers, b"a,b".to_vec())
        };
        let path = "/api/v1/mail/uploads?filename=%C3%BC.csv";
        let uploaded = upload(path, "Text/CSV; charset=utf-8").succeeds(201);
        assert_eq!(uploaded["filename"], "\u{fc}.csv");
        assert_eq!(
            (&uploaded["contentType"], &uploaded["size"]),
            (&"text/csv".into(), &3.into())
        );
        assert!(uploaded["expiresAt"].as_str().unwrap().ends_with('Z'));
        let message = json!({
            "from": "ada@example.test", "to": "bo@c.example", "subject": "s",
            "attachments": [
                {"uploadId": uploaded["uploadId"]},
                {"uploadId": uploaded["uploadId"], "filename": "b", "contentType": "text/plain"},
            ],
        });
        for _ in 0..2 {
            service.post("/api/v1/mail/send", &message).succeeds(200);
        }
        let sent = service.host.sent();
        let files = &sent[1].files;
        let names: Vec<_> = files.iter().map(|file| file.filename.as_str()).collect();
        assert_eq!(names, ["\u{fc}.csv", "b"]);
        assert_eq!(
            (&*files[0].content_type, &*files[0].content),
            ("text/csv", &b"a,b"[..])
        );
        service.host.advance(Duration::from_hours(1));
        let refused = service.post("/api/v1/mail/send", &message);
        assert_eq!(
            (refused.status, &refused.json()["error"]),
            (404, &"Upload not found".into())
        );
        for (path, media, text) in [
            (
                "/api/v1/mail/uploads",
                "",
                "filename must be 1 to 255 characters without control characters",
            ),
            (
                "/api/v1/mail/uploads?filename=a",
                "text",
                "Content-Type must be the media type of a file",
            ),
            (
                "/api/v1/mail/uploads?filename=a",
                "multipart/form-data; boundary=a",
                "Content-Type must be the media type of a file",
            ),
        ] {
            let refused = upload(path, media);
            assert_eq!(
                (refused.status, &refused.json()["error"]),
                (400, &text.into())
            );
        }
        service.host.use_token(&[Scope::MailRead, Scope::MailWrite]);
        assert_eq!(upload(path, "").status, 403);
    }
}
