//! Limits for the memory, bytes and time of reading messages.

use std::time::Duration;

pub(crate) use latchmail_imap::bounds::{FIRST, LISTED_HEADER};
pub(crate) use latchmail_mime::bounds::{FIELD, HEADER, LONG_PREFIX, PREFIX};

/// Maximum number of bytes of one message that the service reads. The service omits the rest and
/// marks the result as truncated.
pub(crate) const MESSAGE: usize = 128 * 1024 * 1024;

/// Maximum size of inputs that are processed like other code of a task, in bytes. Most messages
/// take less than 20 ns for each byte. HTML with hostile style sheets takes up to 500 ns for each
/// byte, and a message is converted several times.
pub(crate) const INLINE_WORK: usize = 4 * 1024;

/// Maximum size of inputs that are processed on the thread of the task, in bytes. Larger inputs are
/// processed on a blocking thread. A message of this size takes about 1 ms, and up to 30 ms with
/// hostile style sheets.
pub(crate) const IN_PLACE_WORK: usize = 64 * 1024;

/// Size of the first chunk of a download, in bytes. For a slow client, all chunks have this size. A
/// download stores about three chunks in memory.
pub(crate) const DOWNLOAD_CHUNK: usize = 256 * 1024;

/// Memory for all messages of at least [`FIRST`] bytes and all downloads together, in MiB.
pub(crate) const MESSAGE_MEMORY_MIB: usize = 256;

/// Memory for reading one message of at least [`FIRST`] bytes, in MiB. The memory contains the
/// first [`FIRST`] bytes of the message, and the text and the HTML of the message in encoded and
/// decoded form.
pub(crate) const LARGE_MESSAGE_MIB: u32 = 12;

/// Memory for one download, in MiB.
pub(crate) const DOWNLOAD_MIB: u32 = 1;

/// Maximum number of bytes that a listing reads with one command, if the listing needs longer
/// headers and texts.
pub(crate) const LISTING_BATCH: usize = 4 * 1024 * 1024;

/// Memory for the longer headers and texts of all listings together, in MiB.
pub(crate) const LISTING_MEMORY_MIB: usize = 64;

/// Maximum number of concurrent downloads of one account.
pub(crate) const DOWNLOADS_PER_ACCOUNT: usize = 16;

/// Time that a download waits for its client before the download releases its connection to the
/// mail server.
pub(crate) const SLOW_CLIENT: Duration = Duration::from_millis(100);

/// Time in which a slow client of a download must take a piece of 64 KiB. After this time, the
/// download releases its memory.
pub(crate) const VERY_SLOW_CLIENT: Duration = Duration::from_secs(1);

/// Maximum size of one decoded header field in a listing, in bytes. The summaries of a hundred
/// messages must fit into a sandbox's memory.
pub(crate) const LISTED_FIELD: usize = 4 * 1024;

/// Converts a count of messages or bytes.
pub(crate) fn to_usize(n: u32) -> usize {
    usize::try_from(n).unwrap_or(usize::MAX)
}
