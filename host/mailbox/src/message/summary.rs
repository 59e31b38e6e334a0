//! Converts fetched messages to summaries.

use latchmail_core::clock::Timestamp;
use latchmail_core::message_number::MessageNumber;
use latchmail_imap::Fetched;
use latchmail_mime::Header;

use crate::message::types::Summary;

/// Creates the summary of a fetched message, without the thread id. `number` is the service's
/// number for the message.
pub(crate) fn summary(
    number: MessageNumber,
    message: &Fetched,
    header: &Header,
    preview: String,
) -> Summary {
    Summary {
        number,
        seq: message.seq,
        from: header.from.clone(),
        to: header.to.clone(),
        subject: header.subject.clone(),
        date: header
            .date
            .or(message.internal_date)
            .unwrap_or(Timestamp::from_millis(0)),
        flags: message.flags.clone(),
        size: u64::from(message.size),
        preview,
        thread_id: String::new(),
    }
}
