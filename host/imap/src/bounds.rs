//! Limits for the sizes of commands and of the mail server's replies.

use latchmail_mime::bounds::BODY;

/// The number of bytes of a message that the first round trip reads. Further requests read the rest
/// of a larger message.
pub const FIRST: usize = 1024 * 1024;

/// Maximum size of one reply of the mail server, in bytes. The largest item that the client
/// requests is the encoded text of a message.
pub const REPLY: usize = 4 * BODY + 1024 * 1024;

/// Maximum length of one line of a reply, in bytes. Literals do not count. The limit is large
/// enough for a SEARCH reply with a million UIDs.
pub const REPLY_LINE: usize = 12 * 1024 * 1024;

/// Maximum number of recent messages in a folder before the session clears `\Recent` with SELECT.
/// Dovecot needs more time to open a folder read-only if the folder has many recent messages.
pub const RECENT: u32 = 1000;

/// The number of bytes of header fields that a listing reads first. If the header is longer, the
/// listing reads up to `latchmail_mime::bounds::HEADER` bytes.
pub const LISTED_HEADER: usize = 64 * 1024;

/// Maximum size of a message's flags in a response, in bytes.
pub const FLAGS: usize = 4 * 1024;

/// Maximum length of a folder's path, in bytes. The database has indexes over paths, and PostgreSQL
/// limits an index entry to 2,704 bytes.
pub const PATH: usize = 2000;

/// Maximum number of folders in a mailbox, including folders that cannot be opened.
pub const FOLDERS: usize = 10_000;
