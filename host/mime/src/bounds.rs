//! Limits for the data of a message that the parser reads. They limit the memory and time for one
//! message.

/// Maximum size of one decoded header field of a single message, in bytes.
pub const FIELD: usize = 64 * 1024;

/// Overhead of one list entry in the JSON response, in bytes.
pub const ENTRY: usize = 32;

/// Maximum length of a media type, in bytes. RFC 6838, section 4.2, allows 127 bytes on each side
/// of the slash.
pub const MEDIA: usize = 255;

/// Maximum length of a Content-ID, in bytes. RFC 5322, section 2.1.1, limits a line to 998 bytes.
pub const CONTENT_ID: usize = 998;

/// Maximum length of the keyword of an Auto-Submitted field, in bytes.
pub const KEYWORD: usize = 64;

/// Maximum length of the identifier of a mailing list, in bytes (RFC 2919, section 3).
pub const LIST_ID: usize = 255;

/// Maximum number of URLs that are read from a List-Unsubscribe field.
pub const LIST_URLS: usize = 10;

/// Maximum length of a URL in a List-Unsubscribe field, in bytes.
pub const LIST_URL: usize = 4 * 1024;

/// Maximum number of bytes of a part's header that the parser reads.
pub const HEADER: usize = 256 * 1024;

/// The number of bytes of a message's text that a listing reads first for the preview.
pub const PREFIX: usize = 4 * 1024;

/// The number of bytes that a listing reads if the first [`PREFIX`] bytes contain too little text.
/// For example, newsletters begin with a style sheet.
pub const LONG_PREFIX: usize = 64 * 1024;

/// Maximum length of a preview, in characters.
pub const PREVIEW: usize = 256;

/// Maximum nesting depth of multiparts. The parser treats a deeper multipart as a single part.
pub const DEPTH: usize = 32;

/// Maximum number of parts of one message.
pub const PARTS: usize = 1000;

/// Maximum size of the text and of the HTML in a response, in bytes. The limit applies to each of
/// the two separately.
pub const BODY: usize = 1024 * 1024;

/// Maximum length of an attachment's file name, in characters.
pub const FILENAME: usize = 200;

/// Maximum number of parts of the text and of the HTML. Further parts are attachments.
pub const BODY_PARTS: usize = 100;
