//! One message as a client is shown it.

use super::Held;
use super::imap::Fetched;
use super::listing::summary;
use super::mime::{self, Header};
use super::preview::Preview;
use super::types::{AttachmentContent, Detail};
use super::{Error, blocking, bounds};

/// The whole message. `uid` is the service's number for it.
pub(super) async fn detail(uid: u64, kept: Held) -> Result<Detail, Error> {
    blocking(move || {
        // The room is taken until the thread is done, also where nobody waits for it any more.
        let Held {
            message,
            room: _room,
        } = kept;
        let (head, body) = mime::split(&message.whole);
        let complete = is_complete(&message);
        let header = Header::of(head, bounds::FIELD);
        let preview = Preview::of_body(head, body, complete).text;
        let content = mime::content(&message.whole, complete);
        Detail {
            summary: summary(uid, &message, &header, preview),
            cc: header.cc,
            reply_to: header.reply_to,
            message_id: header.message_id,
            in_reply_to: header.in_reply_to,
            references: header.references,
            text: content.text,
            html: content.html,
            attachments: content.attachments,
            truncated: content.truncated || header.truncated,
        }
    })
    .await
    .map_err(Error::Internal)
}

/// One of its attachments.
pub(super) async fn attachment(kept: Held, index: u32) -> Result<Option<AttachmentContent>, Error> {
    blocking(move || {
        let Held {
            message,
            room: _room,
        } = kept;
        mime::attachment(&message.whole, is_complete(&message), index)
    })
    .await
    .map_err(Error::Internal)
}

/// Whether the message is there to its end: no more was read of it than the bound allows.
fn is_complete(message: &Fetched) -> bool {
    message.whole.len() < bounds::MESSAGE
}
