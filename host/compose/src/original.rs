//! A message that is answered or forwarded.

use latchmail_mime::{
    self as mime, Attachment, Content, Header, ReplyFields, Structure, StructureParser, bounds,
};

/// A message that is answered or forwarded.
#[derive(Debug)]
pub struct Original {
    /// The header.
    pub header: Header,
    /// The fields of the header that only replies need.
    pub fields: ReplyFields,
    /// The texts. The lines of paragraphs in `format=flowed` are joined.
    pub content: Content,
    /// The attachments, in the order of their indexes.
    pub attachments: Vec<Attachment>,
}

impl Original {
    /// Creates an original from the parts of a message. `header` is the undecoded header. `texts`
    /// has the bytes at the positions from [`mime::texts`].
    #[must_use]
    pub fn new<B: AsRef<[u8]>>(header: &[u8], structure: &Structure, texts: &[Vec<B>; 2]) -> Self {
        Self {
            header: Header::of(header, bounds::FIELD),
            fields: ReplyFields::of(header),
            content: mime::unflowed_content(structure, texts),
            attachments: mime::sections(structure)
                .map(|section| section.attachment)
                .collect(),
        }
    }

    /// Parses a complete message.
    #[must_use]
    pub fn parse(message: &[u8]) -> Self {
        let mut parser = StructureParser::default();
        parser.push(message);
        let structure = parser.finish(true);
        let slices = mime::texts(&structure)
            .map(|ranges| ranges.into_iter().map(|range| &message[range]).collect());
        let (header, _) = mime::split(message);
        Self::new(header, &structure, &slices)
    }
}
