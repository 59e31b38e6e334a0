//! Converts fetched messages to summaries.

use latchmail_core::clock::Timestamp;
use latchmail_imap::Fetched;
use latchmail_mime::Header;

use crate::message::types::Summary;

/// Creates the summary of a fetched message, without the thread id. `number` is the message number.
pub(crate) fn summary(number: u64, message: &Fetched, header: &Header, preview: String) -> Summary {
    Summary {
        uid: number,
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
