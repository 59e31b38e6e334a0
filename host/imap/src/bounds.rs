//! Limits on the bytes of commands and of the mail server's replies.

use latchmail_mime::bounds::BODY;

/// The number of bytes of a message that the first round trip reads. The rest of a larger message is read in pieces.
pub const FIRST: usize = 1024 * 1024;

/// Maximum size of one reply of the mail server, in bytes. The largest requested item is an encoded text.
pub const REPLY: usize = 4 * BODY + 1024 * 1024;

/// Maximum length of one line of a reply without its literals, in bytes: enough for the UIDs of a million search results.
pub const REPLY_LINE: usize = 12 * 1024 * 1024;

/// Maximum number of recent messages in a folder before the session makes the server clear `\Recent`. Otherwise Dovecot collects the recent messages each time
/// that a session opens the folder read-only.
pub const RECENT: u32 = 1000;

/// The number of bytes of a message's header fields that a listing reads first. For a longer header, the listing then reads up to `HEADER` of `latchmail-mime`.
pub const LISTED_HEADER: usize = 64 * 1024;

/// Maximum size of a message's flags in a response, in bytes.
pub const FLAGS: usize = 4 * 1024;

/// Maximum length of a folder's path, in bytes.
pub const PATH: usize = 1000;
