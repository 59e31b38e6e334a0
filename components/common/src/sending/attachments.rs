//! The attachments of a message. An attachment contains its content, or refers to an upload, to an
//! attachment of a message, or to a complete message.

use latchmail_sdk::capability::{Blob, Draft, File, FileSource, MessagePart};
use latchmail_sdk::{Failure, Object, codes};
use serde::Deserialize;
use utoipa::ToSchema;

use super::MAX_NAME;

/// The maximum length of a Content-ID, in bytes.
const MAX_CONTENT_ID: usize = 255;

/// An attachment in the request. Exactly one of `content`, `upload_id` and `uid` is present.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct SendAttachment {
    #[serde(default)]
    filename: Option<String>,
    #[serde(default)]
    content_type: Option<String>,
    // The host decodes the content, and replaces the content in the body with an index for `take`.
    #[serde(default)]
    content: Option<usize>,
    #[serde(default)]
    upload_id: Option<String>,
    #[serde(default)]
    uid: Option<u64>,
    #[serde(default)]
    index: Option<u32>,
    #[serde(default)]
    content_id: Option<String>,
    #[serde(default)]
    inline: Option<bool>,
}

/// A file that the service has: an upload, an attachment of a message, or a complete message.
#[derive(Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct FileReference {
    /// The id of an upload.
    #[schema(nullable = false)]
    pub upload_id: Option<String>,
    /// The `uid` of a message.
    #[schema(nullable = false, minimum = 1)]
    pub uid: Option<u64>,
    /// The index of an attachment of the message. Without an index, the complete message is
    /// attached.
    #[schema(nullable = false)]
    pub index: Option<u32>,
    /// The file name. The default is the name of the file.
    #[schema(nullable = false, max_length = 255)]
    pub filename: Option<String>,
    /// The media type without parameters. The default is the media type of the file.
    #[schema(nullable = false)]
    pub content_type: Option<String>,
}

impl From<FileReference> for SendAttachment {
    fn from(file: FileReference) -> Self {
        Self {
            filename: file.filename,
            content_type: file.content_type,
            content: None,
            upload_id: file.upload_id,
            uid: file.uid,
            index: file.index,
            content_id: None,
            inline: None,
        }
    }
}

/// An attached file: its content, an upload, an attachment of a message, or a complete message.
#[derive(ToSchema)]
#[expect(dead_code, reason = "used only for the API description")]
#[schema(as = SendAttachment)]
#[serde(untagged)]
pub(crate) enum AttachmentForms {
    /// A file whose content is part of the request.
    #[schema(title = "Content")]
    Content(ContentAttachment),
    /// A file that was uploaded before.
    #[schema(title = "Upload")]
    Upload(UploadAttachment),
    /// An attachment of a message of the mailbox, or a complete message. Needs the scope
    /// `mail:read` too.
    #[schema(title = "Message")]
    Message(MessageAttachment),
}

/// A file whose content is part of the request.
#[derive(ToSchema)]
#[schema(rename_all = "camelCase")]
#[expect(dead_code, reason = "used only for the API description")]
pub(crate) struct ContentAttachment {
    /// The file name, 1 to 255 characters without control characters.
    #[schema(
        min_length = 1,
        max_length = 255,
        pattern = r"^[^\u0000-\u001f\u007f-\u009f]*$"
    )]
    filename: String,
    /// The media type without parameters. If the media type is absent, it is
    /// `application/octet-stream`.
    #[schema(
        pattern = "^(?:(?![Mm][Uu][Ll][Tt][Ii][Pp][Aa][Rr][Tt]/)[A-Za-z0-9][A-Za-z0-9!#$&^_.+-]{0,126}/[A-Za-z0-9][A-Za-z0-9!#$&^_.+-]{0,126})?$"
    )]
    content_type: Option<String>,
    /// The content of the file, in standard base64.
    #[schema(
        content_encoding = "base64",
        pattern = "^(?:[A-Za-z0-9+/]{4})*(?:[A-Za-z0-9+/][AQgw]==|[A-Za-z0-9+/]{2}[AEIMQUYcgkosw048]=)?$"
    )]
    content: String,
    /// The Content-ID without angle brackets. The HTML refers to the file with `cid:` and this
    /// text.
    #[schema(
        max_length = 255,
        pattern = r"^[!#-'*+./0-9=?@A-Z^_`a-z{|}~-]*$",
        extensions(("x-latchmail" = json!(true)))
    )]
    content_id: Option<String>,
    /// Whether the file is shown with the text, for example a picture in the HTML.
    #[schema(extensions(("x-latchmail" = json!(true))))]
    inline: Option<bool>,
}

/// A file that was uploaded before.
#[derive(ToSchema)]
#[schema(rename_all = "camelCase")]
#[expect(dead_code, reason = "used only for the API description")]
pub(crate) struct UploadAttachment {
    /// The id of the upload.
    #[schema(extensions(("x-latchmail" = json!(true))))]
    upload_id: String,
    /// The file name, 1 to 255 characters without control characters; the default is the name of
    /// the upload.
    #[schema(max_length = 255, pattern = r"^[^\u0000-\u001f\u007f-\u009f]*$")]
    filename: Option<String>,
    /// The media type without parameters; the default is the media type of the upload.
    content_type: Option<String>,
    /// The Content-ID without angle brackets.
    #[schema(max_length = 255)]
    content_id: Option<String>,
    /// Whether the file is shown with the text.
    inline: Option<bool>,
}

/// An attachment of a message of the mailbox, or a complete message.
#[derive(ToSchema)]
#[schema(rename_all = "camelCase")]
#[expect(dead_code, reason = "used only for the API description")]
pub(crate) struct MessageAttachment {
    /// The `uid` of the message.
    #[schema(minimum = 1, extensions(("x-latchmail" = json!(true))))]
    uid: u64,
    /// The index of the attachment. Without an index, the complete message is attached as
    /// `message/rfc822`.
    index: Option<u32>,
    /// The file name, 1 to 255 characters without control characters; the default is the name of
    /// the attachment, or the subject of the message with the extension `.eml`.
    #[schema(max_length = 255, pattern = r"^[^\u0000-\u001f\u007f-\u009f]*$")]
    filename: Option<String>,
    /// The media type without parameters; the default is the media type of the attachment. Not
    /// allowed for a complete message.
    content_type: Option<String>,
    /// The Content-ID without angle brackets.
    #[schema(max_length = 255)]
    content_id: Option<String>,
    /// Whether the file is shown with the text.
    inline: Option<bool>,
}

/// The sources of the files of a draft. They name the resource that does not exist if the host does
/// not find a file.
#[derive(Default)]
pub struct Sources(Vec<Missing>);

impl Sources {
    /// Returns the sources of the files of `draft`.
    #[must_use]
    pub fn of(draft: &Draft) -> Self {
        let files = draft.files.iter();
        Self(files.map(|file| Missing::of(&file.source)).collect())
    }

    /// Returns the failure for the file with this index.
    pub(super) fn missing(&self, index: u32) -> Failure {
        let index = usize::try_from(index).unwrap_or(usize::MAX);
        let source = self.0.get(index);
        source.map_or_else(Failure::internal, Missing::failure)
    }
}

/// The resource that does not exist if a file is not found.
enum Missing {
    Upload,
    Attachment,
    Message,
}

impl Missing {
    fn of(source: &FileSource) -> Self {
        match source {
            FileSource::Blob(_) | FileSource::Upload(_) => Self::Upload,
            FileSource::Part(_) => Self::Attachment,
            FileSource::Message(_) => Self::Message,
        }
    }

    fn failure(&self) -> Failure {
        match self {
            Self::Upload => Failure::not_found(codes::UPLOAD_NOT_FOUND, "Upload not found"),
            Self::Attachment => {
                Failure::not_found(codes::ATTACHMENT_NOT_FOUND, "Attachment not found")
            }
            Self::Message => Failure::not_found(codes::MESSAGE_NOT_FOUND, "Message not found"),
        }
    }
}

/// Returns the files of a message: `files`, and the attachments in the request.
pub(super) fn files(
    mut files: Vec<File>,
    attachments: Vec<Object<SendAttachment>>,
    take: &impl Fn(usize) -> Option<Blob>,
) -> Result<Vec<File>, Failure> {
    for (index, Object(attachment)) in attachments.into_iter().enumerate() {
        let file = file(index, attachment, take)?;
        let is_same = |one: &File| one.content_id.is_some() && one.content_id == file.content_id;
        if files.iter().any(is_same) {
            return Err(failure(
                index,
                "contentId",
                "must be different for each attachment",
            ));
        }
        files.push(file);
    }
    Ok(files)
}

fn failure(index: usize, field: &str, what: &str) -> Failure {
    Failure::bad_request(
        codes::INVALID_ATTACHMENT,
        format!("attachments[{index}].{field} {what}"),
    )
}

fn file(
    index: usize,
    attachment: SendAttachment,
    take: &impl Fn(usize) -> Option<Blob>,
) -> Result<File, Failure> {
    let of = |field: &str, what: &str| failure(index, field, what);
    let required = |field: &str| {
        let text = format!("attachments[{index}].{field} is required");
        Failure::bad_request(codes::FIELD_REQUIRED, text)
    };
    let is_content = attachment.upload_id.is_none() && attachment.uid.is_none();
    let name = attachment
        .filename
        .filter(|name| is_content || !name.is_empty());
    match &name {
        None if is_content => return Err(required("filename")),
        Some(name) if !is_name(name) => {
            let what = "must be 1 to 255 characters without control characters";
            return Err(of("filename", what));
        }
        _ => {}
    }
    let content_type = match attachment.content_type.as_deref() {
        None | Some("") => None,
        Some(_) if attachment.uid.is_some() && attachment.index.is_none() => {
            return Err(of("contentType", "must be absent for a complete message"));
        }
        Some(given) if is_media_type(given) => Some(given.to_ascii_lowercase()),
        Some(_) => return Err(of("contentType", "must be a media type without parameters")),
    };
    let content_id = attachment.content_id.filter(|id| !id.is_empty());
    if content_id.as_deref().is_some_and(|id| !is_content_id(id)) {
        let what = "must be 1 to 255 visible ASCII characters without angle brackets";
        return Err(of("contentId", what));
    }
    let source = match (attachment.content, attachment.upload_id, attachment.uid) {
        (Some(content), None, None) => {
            let blob = take(content);
            FileSource::Blob(blob.ok_or_else(|| of("content", "must be standard base64"))?)
        }
        (None, Some(id), None) => FileSource::Upload(id),
        (None, None, Some(0)) => return Err(of("uid", "must be at least 1")),
        (None, None, Some(uid)) => match attachment.index {
            Some(index) => FileSource::Part(MessagePart { uid, index }),
            None => FileSource::Message(uid),
        },
        (None, None, None) => return Err(required("content")),
        _ => {
            let what = "must be the only source: content, uploadId or uid";
            let field = if attachment.uid.is_some() {
                "uid"
            } else {
                "uploadId"
            };
            return Err(of(field, what));
        }
    };
    if attachment.index.is_some() && !matches!(source, FileSource::Part(_)) {
        return Err(of("index", "must be absent without uid"));
    }
    let is_blob = matches!(source, FileSource::Blob(_));
    let default_type = is_blob.then(|| "application/octet-stream".to_owned());
    Ok(File {
        source,
        filename: name,
        content_type: content_type.or(default_type),
        content_id,
        inline: attachment.inline.unwrap_or_default(),
    })
}

/// Returns whether a text is the name of a file.
#[must_use]
pub fn is_name(name: &str) -> bool {
    !name.is_empty() && name.chars().count() <= MAX_NAME && !name.chars().any(char::is_control)
}

/// Returns whether a text is a Content-ID without angle brackets (RFC 2392).
fn is_content_id(text: &str) -> bool {
    text.len() <= MAX_CONTENT_ID
        && text
            .bytes()
            .all(|b| b.is_ascii_graphic() && !b"<>\"\\(),;:[]".contains(&b))
}

/// Returns whether a text is a media type without parameters, such as `image/png` (RFC 6838,
/// section 4.2). Returns `false` for `multipart` types.
#[must_use]
pub fn is_media_type(text: &str) -> bool {
    let Some((kind, subtype)) = text.split_once('/') else {
        return false;
    };
    let is_name = |name: &str| {
        (1..=127).contains(&name.len())
            && name.starts_with(|c: char| c.is_ascii_alphanumeric())
            && name
                .bytes()
                .all(|b| b.is_ascii_alphanumeric() || b"!#$&-^_.+".contains(&b))
    };
    is_name(kind) && is_name(subtype) && !kind.eq_ignore_ascii_case("multipart")
}
