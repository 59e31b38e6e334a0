//! A file of a draft: its source and the checks of its values. A file can refer to an upload, an
//! attachment or a message.

use bytes::Bytes;
use latchmail_core::message_number::MessageNumber;
use sha2::{Digest as _, Sha256};

use super::media_type::is_media_type;
use super::result::{Error, invalid};
use super::uploads::Upload;

/// The media type of an attached message.
pub(super) const MESSAGE: &str = "message/rfc822";
/// Maximum length of a Content-ID without its angle brackets, in bytes.
const MAX_CONTENT_ID: usize = 255;

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
pub(crate) struct AttachedFile {
    pub(crate) filename: String,
    pub(crate) content_type: String,
    pub(crate) content_id: Option<String>,
    pub(crate) inline: bool,
    pub(crate) content: Bytes,
}

/// A file whose source exists.
pub(crate) struct FoundFile {
    pub(super) filename: String,
    pub(super) content_type: String,
    /// The size in bytes.
    pub(super) size: u64,
    /// The upload, if the source is an upload.
    pub(super) upload: Option<Upload>,
}

impl FoundFile {
    pub(super) fn is_message(&self) -> bool {
        self.content_type.starts_with("message/")
    }

    /// Returns the size in bytes.
    pub(crate) fn size(&self) -> usize {
        usize::try_from(self.size).unwrap_or(usize::MAX)
    }
}

impl File {
    /// Checks all values except the source.
    ///
    /// # Errors
    /// Returns [`Error::Invalid`] if a value is invalid.
    pub(crate) fn check(&self) -> Result<(), Error> {
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

/// Returns `true` if the text is a Content-ID without angle brackets. Also accepts identifiers
/// without `@`, because mail clients write and read them.
fn is_content_id(text: &str) -> bool {
    (1..=MAX_CONTENT_ID).contains(&text.len())
        && text
            .bytes()
            .all(|b| b.is_ascii_graphic() && !b"<>\"\\(),;:[]".contains(&b))
}

#[cfg(test)]
mod tests {
    use super::*;

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
