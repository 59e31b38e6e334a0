//! Computes the ids of threads from the headers of messages.

use latchmail_core::message_number::MessageNumber;
use latchmail_mime::Header;
use latchmail_search::threads::{ThreadFields, ThreadId};

use crate::bounds;

/// Returns the id of a message's thread if no other message of the thread is known. Returns `None`
/// if the id depends on the message number. The id is the same for the header in a listing and for
/// the complete header.
pub(crate) fn own_thread_id(header: &Header) -> Option<ThreadId> {
    thread_fields(header).own_thread_id()
}

/// Returns the text of a thread's id. `own` is the result of [`own_thread_id`], and `number` is the
/// service's number for the message.
pub(crate) fn thread_id(own: Option<ThreadId>, number: MessageNumber) -> String {
    own.unwrap_or_else(|| ThreadId::of_number(number))
        .to_string()
}

/// Returns the id of the thread of a message with this header, if the thread was not merged with
/// another thread.
pub(crate) fn unmerged_thread(header: &[u8], number: MessageNumber) -> ThreadId {
    let own = own_thread_id(&Header::of(header, bounds::FIELD));
    own.unwrap_or_else(|| ThreadId::of_number(number))
}

/// Returns the fields that determine the thread of a message.
pub(crate) fn thread_fields(header: &Header) -> ThreadFields<'_> {
    ThreadFields {
        message_id: &header.message_id,
        in_reply_to: header.in_reply_to.as_deref(),
        references: &header.references,
        subject: &header.subject,
    }
}
