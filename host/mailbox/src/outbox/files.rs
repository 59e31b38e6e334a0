//! The files of a draft. A file can refer to an upload, an attachment or a message. The service
//! reads the bytes of such a file only after the memory for all files is available.

use bytes::{Bytes, BytesMut};
use futures_util::StreamExt as _;
use latchmail_core::codes;
use latchmail_core::error::Problem;
use latchmail_core::message_number::MessageNumber;
use sha2::{Digest as _, Sha256};

use super::draft::{Draft, MAX_MESSAGE, invalid};
use super::result::Error;
use super::send::Outbox;
use super::uploads::Upload;
use crate::access::Access;
use crate::error::Error as MailboxError;
use crate::reading::download::Download;

/// The media type of an attached message.
const MESSAGE: &str = "message/rfc822";
/// The media type of bytes without a known type.
const BYTES: &str = "application/octet-stream";
/// Maximum length of a Content-ID without its angle brackets, in bytes.
const MAX_CONTENT_ID: usize = 255;
/// Maximum length of the name of an attached message, in characters.
const MAX_NAME: usize = 100;

/// The source of the bytes of a file.
#[derive(Clone, Debug)]
pub enum Source {
    /// Bytes in memory.
    Bytes(Bytes),
    /// The upload of the caller with this id.
    Upload(String),
    /// An attachment of a message.
    Part {
        /// The number of the message.
        message: MessageNumber,
        /// The index of the attachment.
        index: u32,
    },
    /// A complete message.
    Message(MessageNumber),
}

/// An attached file.
#[derive(Clone, Debug)]
pub struct File {
    /// The source of the bytes.
    pub source: Source,
    /// The file name. `None` is the name of the source.
    pub filename: Option<String>,
    /// The media type, without parameters. `None` is the media type of the source.
    pub content_type: Option<String>,
    /// The Content-ID, without angle brackets.
    pub content_id: Option<String>,
    /// Whether the file is shown with the text.
    pub inline: bool,
}

/// A file with its bytes.
#[derive(Clone, Debug)]
pub(super) struct AttachedFile {
    pub(super) filename: String,
    pub(super) content_type: String,
    pub(super) content_id: Option<String>,
    pub(super) inline: bool,
    pub(super) content: Bytes,
}

/// A file whose source exists.
pub(super) struct FoundFile {
    filename: String,
    content_type: String,
    /// The size in bytes.
    size: u64,
    /// The upload, if the source is an upload.
    upload: Option<Upload>,
}

impl FoundFile {
    pub(super) fn is_message(&self) -> bool {
        self.content_type.starts_with("message/")
    }

    /// Returns the size in bytes.
    pub(super) fn size(&self) -> usize {
        usize::try_from(self.size).unwrap_or(usize::MAX)
    }
}

impl File {
    /// Checks all values except the source.
    ///
    /// # Errors
    /// Returns [`Error::Invalid`] if a value is invalid.
    pub(super) fn check(&self) -> Result<(), Error> {
        let name = self.filename.as_deref();
        if name.is_some_and(|name| name.is_empty() || name.chars().any(char::is_control)) {
            return Err(invalid("file name"));
        }
        if name.is_none() && matches!(self.source, Source::Bytes(_)) {
            return Err(invalid("file name"));
        }
        let media = self.content_type.as_deref();
        if media.is_some_and(|media| !is_media_type(media)) {
            return Err(invalid("media type of a file"));
        }
        if matches!(self.source, Source::Message(_)) && media.is_some_and(|media| media != MESSAGE)
        {
            return Err(invalid("media type of an attached message"));
        }
        if self
            .content_id
            .as_deref()
            .is_some_and(|id| !is_content_id(id))
        {
            return Err(invalid("Content-ID"));
        }
        Ok(())
    }

    /// Adds the values that files did not have initially to a hash. The values of a source identify
    /// its bytes: uploads and messages never change.
    pub(super) fn add_to(&self, digest: &mut Sha256) {
        let mut add = |text: &str| {
            digest.update((text.len() as u64).to_be_bytes());
            digest.update(text.as_bytes());
        };
        match &self.source {
            Source::Bytes(_) => add("bytes"),
            Source::Upload(id) => {
                add("upload");
                add(id);
            }
            Source::Part { message, index } => {
                add("part");
                add(&format!("{message:?} {index}"));
            }
            Source::Message(message) => {
                add("message");
                add(&format!("{message:?}"));
            }
        }
        for value in [&self.filename, &self.content_type, &self.content_id] {
            add(if value.is_some() { "some" } else { "none" });
            add(value.as_deref().unwrap_or_default());
        }
        add(if self.inline { "inline" } else { "attachment" });
    }

    /// Returns `true` if the file is like the files before there were other sources.
    pub(super) fn is_plain(&self) -> bool {
        let is_bytes = matches!(self.source, Source::Bytes(_));
        is_bytes && self.content_id.is_none() && !self.inline && self.content_type.is_some()
    }

    /// Returns the bytes if the bytes are in memory.
    pub(super) fn bytes(&self) -> &[u8] {
        match &self.source {
            Source::Bytes(bytes) => bytes,
            Source::Upload(_) | Source::Part { .. } | Source::Message(_) => &[],
        }
    }
}

impl Outbox {
    /// Finds the sources of all files of a draft, without reading their bytes.
    ///
    /// # Errors
    /// Returns [`Error::FileNotFound`] if a source does not exist. Returns [`Error::TooLarge`] if
    /// the files together exceed the maximum size of a message.
    pub(super) async fn find_files(&self, draft: &Draft) -> Result<Vec<FoundFile>, Error> {
        let (mut found, mut total) = (Vec::with_capacity(draft.files.len()), 0_u64);
        for (index, file) in draft.files.iter().enumerate() {
            let source = self.find_file(&draft.from.access, file).await?;
            let source = source.ok_or(Error::FileNotFound(index))?;
            total = total.saturating_add(source.size);
            if total > MAX_MESSAGE as u64 {
                return Err(Error::TooLarge);
            }
            found.push(source);
        }
        Ok(found)
    }

    async fn find_file(&self, access: &Access, file: &File) -> Result<Option<FoundFile>, Error> {
        let of = |filename: String, content_type: String, size: u64| FoundFile {
            filename: file.filename.clone().unwrap_or(filename),
            content_type: file.content_type.clone().unwrap_or(content_type),
            size,
            upload: None,
        };
        let reading = &self.mail.reading;
        Ok(match &file.source {
            Source::Bytes(bytes) => Some(of(String::new(), BYTES.into(), bytes.len() as u64)),
            Source::Upload(id) => {
                let upload = self.uploads.find(access, id).await?;
                upload.map(|upload| FoundFile {
                    filename: file.filename.clone().unwrap_or(upload.filename.clone()),
                    content_type: file
                        .content_type
                        .clone()
                        .unwrap_or(upload.content_type.clone()),
                    size: upload.size,
                    upload: Some(upload),
                })
            }
            Source::Part { message, index } => {
                let part = reading.attachment_source(access, *message, *index).await;
                part.map_err(reading_error)?.map(|attachment| {
                    // The media type comes from the sender of the message.
                    let media = Some(attachment.content_type).filter(|media| is_media_type(media));
                    let media = media.unwrap_or_else(|| BYTES.into());
                    of(attachment.filename, media, attachment.size)
                })
            }
            Source::Message(message) => {
                let message = reading.message_source(access, *message).await;
                message
                    .map_err(reading_error)?
                    .map(|message| of(message_name(&message.subject), MESSAGE.into(), message.size))
            }
        })
    }

    /// Reads the bytes of all files. The caller must have acquired the memory.
    ///
    /// # Errors
    /// Returns [`Error::FileNotFound`] if a source no longer exists.
    pub(super) async fn read_files(
        &self,
        draft: &Draft,
        found: Vec<FoundFile>,
    ) -> Result<Vec<AttachedFile>, Error> {
        let mut files = Vec::with_capacity(found.len());
        for (index, (file, found)) in draft.files.iter().zip(found).enumerate() {
            let content = self.read_file(&draft.from.access, file, &found).await?;
            files.push(AttachedFile {
                filename: found.filename,
                content_type: found.content_type,
                content_id: file.content_id.clone(),
                inline: file.inline,
                content: content.ok_or(Error::FileNotFound(index))?,
            });
        }
        Ok(files)
    }

    async fn read_file(
        &self,
        access: &Access,
        file: &File,
        found: &FoundFile,
    ) -> Result<Option<Bytes>, Error> {
        let reading = &self.mail.reading;
        let download = match &file.source {
            Source::Bytes(bytes) => return Ok(Some(bytes.clone())),
            Source::Upload(id) => {
                let upload = found.upload.as_ref().ok_or_else(no_upload)?;
                return self.uploads.read(id, upload).await;
            }
            Source::Part { message, index } => {
                let part = reading.attachment(access, *message, *index).await;
                let part = part.map_err(reading_error)?.flatten();
                part.map(|part| part.content)
            }
            Source::Message(message) => {
                let message = reading.raw(access, *message).await;
                message
                    .map_err(reading_error)?
                    .map(|message| message.content)
            }
        };
        match download {
            Some(download) => Ok(Some(read_all(&download, found.size()).await?)),
            None => Ok(None),
        }
    }
}

/// Reads a download of `size` bytes.
async fn read_all(download: &Download, size: usize) -> Result<Bytes, Error> {
    let mut all = BytesMut::with_capacity(size);
    let mut chunks = download.open();
    while let Some(chunk) = chunks.next().await {
        let chunk = chunk.map_err(reading_error)?;
        if all.len() + chunk.len() > size {
            return Err(Error::Internal("a source is longer than its size".into()));
        }
        all.extend_from_slice(&chunk);
    }
    Ok(all.freeze())
}

fn no_upload() -> Error {
    Error::Internal("the upload of a file was not found before".into())
}

/// Converts an error of reading a source. A member without the right to read gets the same text as
/// for reading the message.
pub(super) fn reading_error(error: MailboxError) -> Error {
    match error {
        MailboxError::Denied(_) => {
            Error::Denied(Problem::new(codes::MISSING_RIGHT, error.to_string()))
        }
        other => other.into(),
    }
}

/// Returns the name of an attached message with this subject.
fn message_name(subject: &str) -> String {
    let is_unsafe = |c: char| c.is_control() || matches!(c, '/' | '\\');
    let name: String = subject
        .chars()
        .map(|c| if is_unsafe(c) { ' ' } else { c })
        .take(MAX_NAME)
        .collect();
    let name = match name.trim() {
        "" => "message",
        name => name,
    };
    format!("{name}.eml")
}

/// Returns `true` if the text is a Content-ID without angle brackets. Also accepts identifiers
/// without `@`, because mail clients write and read them.
fn is_content_id(text: &str) -> bool {
    (1..=MAX_CONTENT_ID).contains(&text.len())
        && text
            .bytes()
            .all(|b| b.is_ascii_graphic() && !b"<>\"\\(),;:[]".contains(&b))
}

/// Returns `true` if the text is a media type without parameters (RFC 6838, section 4.2).
pub(super) fn is_media_type(text: &str) -> bool {
    let is_name = |name: &str| {
        (1..=127).contains(&name.len())
            && name
                .bytes()
                .all(|b| b.is_ascii_alphanumeric() || b"!#$&-^_.+".contains(&b))
    };
    text.split_once('/')
        .is_some_and(|(kind, subtype)| is_name(kind) && is_name(subtype))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_attached_message_has_the_name_of_its_subject() {
        for (subject, name) in [
            ("Plan", "Plan.eml"),
            ("", "message.eml"),
            (" a/b\\c\n ", "a b c.eml"),
            ("\u{65e5}\u{672c}", "\u{65e5}\u{672c}.eml"),
        ] {
            assert_eq!(message_name(subject), name);
        }
        assert_eq!(message_name(&"x".repeat(200)).len(), MAX_NAME + 4);
    }

    #[test]
    fn a_content_id_has_no_brackets_and_no_spaces() {
        for id in ["logo", "a.b+c@x.example", "a%20b"] {
            assert!(is_content_id(id), "{id}");
        }
        let long = "x".repeat(MAX_CONTENT_ID + 1);
        for id in ["", "<a@b>", "a b", "a\r\nb", "\u{fc}", &long] {
            assert!(!is_content_id(id), "{id}");
        }
    }
}
