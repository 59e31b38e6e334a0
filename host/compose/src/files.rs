//! The files of the original that a reply or a forward contains.

use latchmail_mime::Attachment;

use crate::original::Original;

/// Maximum length of a Content-ID, in bytes. The host refuses longer ones in new messages.
const MAX_CONTENT_ID: usize = 255;

/// The source of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Source {
    /// The attachment of the original with this index.
    Attachment(u32),
    /// The complete original, as `message/rfc822`.
    Message,
}

/// A file of the original. The file has the name and the media type of its source.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct File {
    /// The source.
    pub source: Source,
    /// The Content-ID without angle brackets, to which the HTML refers.
    pub content_id: Option<String>,
    /// Whether the file is shown with the text.
    pub inline: bool,
}

impl File {
    pub(crate) fn message() -> Self {
        Self {
            source: Source::Message,
            content_id: None,
            inline: false,
        }
    }
}

/// The attachments of the original, with the Content-IDs that they have in the new message.
pub(crate) struct Files<'o> {
    files: Vec<(&'o Attachment, Option<String>)>,
    /// For each attachment, whether the HTML shows it.
    is_shown: Vec<bool>,
}

impl<'o> Files<'o> {
    /// Keeps each Content-ID that a new message can have. An attachment with another Content-ID
    /// gets a new one. If several attachments have the same Content-ID, only the first keeps it.
    pub(crate) fn of(original: &'o Original) -> Self {
        let mut ids: Vec<&str> = Vec::new();
        let mut files = Vec::new();
        for attachment in &original.attachments {
            let id = attachment.content_id.as_deref();
            let id = id.filter(|id| !ids.contains(id));
            ids.extend(id);
            let id = id.map(|id| {
                if is_content_id(id) {
                    id.to_owned()
                } else {
                    format!("part{}@latchmail.invalid", attachment.index)
                }
            });
            files.push((attachment, id));
        }
        Self {
            is_shown: vec![false; files.len()],
            files,
        }
    }

    /// Returns the new Content-ID of the attachment with this Content-ID, which the HTML shows.
    pub(crate) fn show(&mut self, content_id: &str) -> Option<String> {
        let has_id = |(attachment, new): &(&Attachment, Option<String>)| {
            new.is_some() && attachment.content_id.as_deref() == Some(content_id)
        };
        let at = self.files.iter().position(has_id)?;
        *self.is_shown.get_mut(at)? = true;
        self.files.get(at)?.1.clone()
    }

    /// Returns the attachments that the HTML shows.
    pub(crate) fn shown(self) -> Vec<File> {
        let all = self.files.into_iter().zip(self.is_shown);
        all.filter(|(_, is_shown)| *is_shown)
            .map(|((attachment, content_id), _)| File {
                source: Source::Attachment(attachment.index),
                content_id,
                inline: true,
            })
            .collect()
    }

    /// Returns all attachments.
    pub(crate) fn all(self) -> Vec<File> {
        let all = self.files.into_iter().zip(self.is_shown);
        all.map(|((attachment, content_id), is_shown)| File {
            source: Source::Attachment(attachment.index),
            content_id,
            inline: is_shown || attachment.is_inline,
        })
        .collect()
    }
}

/// Returns `true` if a new message can have this Content-ID.
fn is_content_id(id: &str) -> bool {
    let is_part = |b: u8| b.is_ascii_graphic() && !b"<>\"\\(),;:[]".contains(&b);
    (1..=MAX_CONTENT_ID).contains(&id.len()) && id.bytes().all(is_part)
}
