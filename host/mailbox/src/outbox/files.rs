//! Finds and reads the files of a draft. The service reads the bytes of a file only after the
//! memory for all files is available.

use bytes::{Bytes, BytesMut};
use futures_util::StreamExt as _;
use latchmail_core::codes;
use latchmail_core::error::Problem;

use super::attached_file::{AttachedFile, File, FoundFile, MESSAGE, Source};
use super::draft::MAX_MESSAGE;
use super::media_type::is_media_type;
use super::result::Error;
use super::send::Outbox;
use crate::access::Access;
use crate::error::Error as MailboxError;
use crate::reading::download::Download;

/// The media type of bytes without a known type.
const BYTES: &str = "application/octet-stream";
/// Maximum length of the name of an attached message, in characters.
const MAX_NAME: usize = 100;

impl Outbox {
    /// Finds the sources of all files of a message, without reading their bytes.
    ///
    /// # Errors
    /// Returns [`Error::FileNotFound`] if a source does not exist. Returns [`Error::TooLarge`] if
    /// the files together exceed the maximum size of a message.
    pub(crate) async fn find_files(
        &self,
        access: &Access,
        files: &[File],
    ) -> Result<Vec<FoundFile>, Error> {
        let (mut found, mut total) = (Vec::with_capacity(files.len()), 0_u64);
        for (index, file) in files.iter().enumerate() {
            let source = self.find_file(access, file).await?;
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
    pub(crate) async fn read_files(
        &self,
        access: &Access,
        files: &[File],
        found: Vec<FoundFile>,
    ) -> Result<Vec<AttachedFile>, Error> {
        let mut attached = Vec::with_capacity(found.len());
        for (index, (file, found)) in files.iter().zip(found).enumerate() {
            let content = self.read_file(access, file, &found).await?;
            attached.push(AttachedFile {
                filename: found.filename,
                content_type: found.content_type,
                content_id: file.content_id.clone(),
                inline: file.inline,
                content: content.ok_or(Error::FileNotFound(index))?,
            });
        }
        Ok(attached)
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
                let message = reading.raw(access, *message, true).await;
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
pub(crate) async fn read_all(download: &Download, size: usize) -> Result<Bytes, Error> {
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
}
