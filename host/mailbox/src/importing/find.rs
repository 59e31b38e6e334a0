//! Looks for the stored message of an import whose outcome is unknown.

use bytes::Bytes;
use latchmail_core::message_number::Uid;
use latchmail_imap::{MessageRef, Session};

use super::content::{Content, sizes};
use crate::bounds;

/// Maximum number of messages that arrived since the import began. If more messages arrived, the
/// outcome stays unknown.
const MAX_ARRIVALS: usize = 1000;

/// The number of bytes that the first command reads of each message, and the number of messages of
/// one command.
const BEGINNING: usize = 64 * 1024;
const BATCH: usize = 16;

/// The result of a search for a stored message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Found {
    /// The UID of the message.
    Stored(Uid),
    /// The folder does not contain the message.
    Missing,
    /// The folder was replaced, or too many messages have arrived.
    Unknown,
}

/// Looks for `imported` among the messages that arrived in the folder `path` since the folder had
/// this UIDVALIDITY and UIDNEXT. `content` is the content of `imported`.
pub(super) async fn find(
    session: &mut Session,
    path: &str,
    (uid_validity, uid_next): (u32, u32),
    imported: &Bytes,
    content: [u8; 32],
) -> Result<Found, latchmail_imap::Error> {
    let Some((opened, uids)) = session.arrivals(path, uid_next).await? else {
        return Ok(Found::Missing);
    };
    if opened.uid_validity != uid_validity || uids.len() > MAX_ARRIVALS {
        return Ok(Found::Unknown);
    }
    let sizes = sizes(imported);
    for uids in uids.chunks(BATCH) {
        let message = |uid: &Uid| MessageRef {
            path,
            uid_validity,
            uid: *uid,
        };
        let refs: Vec<MessageRef<'_>> = uids.iter().map(message).collect();
        for found in session.beginnings_at(&refs, BEGINNING).await? {
            if !sizes.contains(&bounds::to_usize(found.size)) {
                continue;
            }
            let mut stored = Content::of(&found.whole);
            if found.whole.len() >= BEGINNING {
                let rest = BEGINNING..super::content::MAX_SIZE * 2;
                let at = message(&found.uid);
                let Some(mut remaining) = session.start_stream_at(at, &rest).await? else {
                    continue;
                };
                while remaining > 0 {
                    let bytes = session.next_bytes().await?;
                    remaining -= bytes.len();
                    stored.add(&bytes);
                }
            }
            if stored.finish() == content {
                return Ok(Found::Stored(found.uid));
            }
        }
    }
    Ok(Found::Missing)
}
