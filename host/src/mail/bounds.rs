//! Every bound on what a message or a mail server may cost, in one place.

use std::time::Duration;

/// Bytes of one message that are looked at; what lies behind is left out and the answer says so.
pub(super) const MESSAGE: usize = 128 * 1024 * 1024;

/// Bytes of a message that are read in one round trip; the rest of a larger one comes in pieces.
pub(super) const FIRST: usize = 1024 * 1024;

/// Bytes that are read where they arrive; more of them are read on a thread of their own.
pub(super) const BRIEF: usize = 64 * 1024;

/// Bytes of one piece of an attachment: the first, and all of them where a client is slow. A download has some three of them in memory.
pub(super) const PIECE: usize = 256 * 1024;

/// What all larger messages and downloads may take at a time, in MiB.
pub(super) const ROOM_MIB: usize = 256;

/// What reading a larger message takes, in MiB: its first bytes, its text and its HTML as they came and decoded.
pub(super) const LARGE_MIB: u32 = 12;

/// What a download takes, in MiB.
pub(super) const DOWNLOAD_MIB: u32 = 1;

/// Bytes of longer headers and texts that a listing reads at a time.
pub(super) const CHUNK: usize = 4 * 1024 * 1024;

/// What all listings together may take for them, in MiB.
pub(super) const LISTINGS_MIB: usize = 64;

/// Downloads of one account at a time.
pub(super) const DOWNLOADS: usize = 16;

/// How long a client may be slower than the mail server before its download lets go of the connection to it.
pub(super) const SLOW: Duration = Duration::from_millis(100);

/// Bytes of one reply of the mail server: a text as it is encoded is the largest that is asked for.
pub(super) const REPLY: usize = 4 * BODY + 1024 * 1024;

/// Bytes of one line of a reply, literals aside: the UIDs of a million messages that are found.
pub(super) const REPLY_LINE: usize = 12 * 1024 * 1024;

/// Recent messages of a folder, beyond which a server that gathers them anew for every session that only reads (Dovecot does) is made to forget them.
pub(super) const RECENT: u32 = 1000;

/// Bytes of a message's header fields that a listing reads; where there are more it reads them up to [`HEADER`].
pub(super) const LISTED_HEADER: usize = 64 * 1024;

/// Bytes of one header field, decoded, that a listing answers: a hundred messages have to fit a sandbox.
pub(super) const LISTED_FIELD: usize = 4 * 1024;

/// Bytes of one header field, decoded, that are answered with a message.
pub(super) const FIELD: usize = 64 * 1024;

/// What an entry of a list costs in an answer beside its own letters: its JSON.
pub(super) const ENTRY: usize = 32;

/// Bytes of a message's flags that are answered.
pub(super) const FLAGS: usize = 4 * 1024;

/// Bytes of a media type (RFC 6838, section 4.2: 127 on either side of the slash).
pub(super) const MEDIA: usize = 255;

/// Bytes of one part's header that are read.
pub(super) const HEADER: usize = 256 * 1024;

/// Bytes of a message's text that a listing reads for its preview.
pub(super) const PREFIX: usize = 4 * 1024;

/// Bytes that it reads where the first did not hold enough text: newsletters begin with their style sheet.
pub(super) const LONG_PREFIX: usize = 64 * 1024;

/// Characters of a preview.
pub(super) const PREVIEW: usize = 256;

/// How deep multiparts may be nested; what lies deeper is one part.
pub(super) const DEPTH: usize = 32;

/// Parts of one message.
pub(super) const PARTS: usize = 1000;

/// Bytes of the text, and of the HTML, that are answered.
pub(super) const BODY: usize = 1024 * 1024;

/// Characters of an attachment's file name.
pub(super) const FILENAME: usize = 200;

/// Bytes of a folder's path.
pub(super) const PATH: usize = 1000;
