//! Limits on the memory, bytes, parts and time that messages and the mail server's replies can use.

use std::time::Duration;

pub(super) use latchmail_mime::bounds::{BODY, ENTRY, FIELD, HEADER, LONG_PREFIX, PREFIX};

/// Maximum number of bytes that are read of one message. The rest is left out and the result is marked as truncated.
pub(super) const MESSAGE: usize = 128 * 1024 * 1024;

/// Bytes of a message that the first round trip reads. The rest of a larger message is read in pieces.
pub(super) const FIRST: usize = 1024 * 1024;

/// Maximum number of bytes that are processed on the current thread. Larger inputs are processed on a blocking thread.
pub(super) const BRIEF: usize = 64 * 1024;

/// Bytes of one piece of an attachment: of the first piece, and of all pieces if the client is slow. A download has about three pieces in memory.
pub(super) const PIECE: usize = 256 * 1024;

/// Memory for all larger messages and downloads together, in MiB.
pub(super) const ROOM_MIB: usize = 256;

/// Memory for reading one larger message, in MiB: its first bytes, and its text and HTML in encoded and decoded form.
pub(super) const LARGE_MIB: u32 = 12;

/// Memory for one download, in MiB.
pub(super) const DOWNLOAD_MIB: u32 = 1;

/// Bytes of longer headers and texts that a listing reads in one chunk.
pub(super) const CHUNK: usize = 4 * 1024 * 1024;

/// Memory for the longer headers and texts of all listings together, in MiB.
pub(super) const LISTINGS_MIB: usize = 64;

/// Maximum number of concurrent downloads of one account.
pub(super) const DOWNLOADS: usize = 16;

/// How long a download waits for its client before it returns its connection to the pool.
pub(super) const SLOW: Duration = Duration::from_millis(100);

/// Maximum size of one reply of the mail server, in bytes. The largest requested item is an encoded text.
pub(super) const REPLY: usize = 4 * BODY + 1024 * 1024;

/// Maximum length of one line of a reply without its literals, in bytes: enough for the UIDs of a million search results.
pub(super) const REPLY_LINE: usize = 12 * 1024 * 1024;

/// If a folder has more recent messages than this, the session makes the server clear `\Recent`. Otherwise Dovecot collects these messages again for every
/// session that opens the folder read-only.
pub(super) const RECENT: u32 = 1000;

/// Bytes of a message's header fields that a listing reads first. For a longer header it then reads up to [`HEADER`].
pub(super) const LISTED_HEADER: usize = 64 * 1024;

/// Maximum size of one decoded header field in a listing, in bytes. A hundred messages must fit into a sandbox.
pub(super) const LISTED_FIELD: usize = 4 * 1024;

/// Maximum size of a message's flags in a response, in bytes.
pub(super) const FLAGS: usize = 4 * 1024;

/// Maximum length of a folder's path, in bytes.
pub(super) const PATH: usize = 1000;
