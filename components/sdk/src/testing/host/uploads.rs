//! The uploads of the fake host.

use latchmail_shape::codes;

use super::outbox::{SentFile, is_line, is_media_type};
use super::{FakeHost, Need};
use crate::capability::{Blob, Caller, Error, Scope, Timestamp, UploadedContent, UploadedFile};

/// Maximum size of an upload in bytes.
const MAX_UPLOAD: usize = 25 * 1024 * 1024;
/// Maximum size of all uploads of an account together in bytes.
const MAX_UPLOADS: usize = 100 * 1024 * 1024;
/// The time after which an upload expires, in milliseconds.
const UPLOAD_LIFETIME: Timestamp = 3_600_000;

/// A file that the module uploaded.
#[derive(Debug)]
pub(super) struct Upload {
    pub(super) id: String,
    pub(super) file: SentFile,
    pub(super) expires_at: Timestamp,
}

/// Returns the scope with which the caller uploads files, `mail:send` or `mail:write`.
fn upload_scope(host: &FakeHost) -> Scope {
    let caller = host.current();
    if !caller.holds(Scope::MailSend) && caller.holds(Scope::MailWrite) {
        return Scope::MailWrite;
    }
    Scope::MailSend
}

/// Stores a file.
pub(super) fn upload(
    host: &FakeHost,
    filename: &str,
    content_type: &str,
    content: &Blob,
) -> Result<UploadedFile, Error> {
    let (now, number) = (host.now(), host.next_number("upload"));
    let need = Need::Scope(upload_scope(host));
    host.allow(need, |account| {
        if filename.is_empty() || !is_line(filename) || !is_media_type(content_type) {
            let text = "Invalid file name or media type";
            return Err(Error::invalid(codes::INVALID_DRAFT, text));
        }
        let content = content.in_memory().unwrap_or_default().to_vec();
        if content.len() > MAX_UPLOAD {
            let text = "An upload must be at most 25 MB";
            return Err(Error::too_large(codes::UPLOAD_TOO_LARGE, text));
        }
        account.uploads.retain(|upload| upload.expires_at > now);
        let used = account
            .uploads
            .iter()
            .map(|upload| upload.file.content.len());
        if used.sum::<usize>() + content.len() > MAX_UPLOADS {
            let text = "The uploads of the account exceed 100 MB";
            return Err(Error::too_large(codes::UPLOADS_FULL, text));
        }
        let uploaded = UploadedFile {
            id: format!("upload{number}"),
            filename: filename.into(),
            content_type: content_type.into(),
            size: content.len() as u64,
            expires_at: now + UPLOAD_LIFETIME,
        };
        account.uploads.push(Upload {
            id: uploaded.id.clone(),
            file: SentFile {
                filename: filename.into(),
                content_type: content_type.into(),
                content,
            },
            expires_at: uploaded.expires_at,
        });
        Ok(uploaded)
    })
}

/// Returns a file with its bytes.
pub(super) fn get(host: &FakeHost, id: &str) -> Result<UploadedContent, Error> {
    let now = host.now();
    host.allow(Need::Scope(upload_scope(host)), |account| {
        let mut uploads = account.uploads.iter();
        let upload = uploads.find(|one| one.id == id && one.expires_at > now);
        let file = &upload.ok_or(Error::NotFound)?.file;
        Ok(UploadedContent {
            filename: file.filename.clone(),
            content_type: file.content_type.clone(),
            content: Blob::Bytes(file.content.clone()),
        })
    })
}
