//! The ids of threads in listings and details. An id is computed from the message's header, unless
//! the search index has merged the thread with another thread.

use std::collections::HashMap;

use latchmail_mime::Header;
use latchmail_search::threads::{ThreadFields, ThreadId};

use crate::error::Error;
use crate::mail::Mail;
use crate::types::Summary;

/// Returns the id of a message's thread if no other message of the thread is known. Returns `None`
/// if the id depends on the message's number. The id is the same for the header in a listing and
/// for the complete header.
pub(crate) fn own_thread_id(header: &Header) -> Option<ThreadId> {
    thread_fields(header).own_thread_id()
}

/// Returns the text of a thread's id. `own` is the result of [`own_thread_id`], and `number` is the
/// service's number for the message.
pub(crate) fn thread_id(own: Option<ThreadId>, number: u64) -> String {
    own.unwrap_or_else(|| ThreadId::of_number(number))
        .to_string()
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

impl Mail {
    /// Replaces the thread ids of messages whose threads were merged with other threads.
    pub(crate) async fn set_merged_threads<'a>(
        &self,
        account: &str,
        summaries: impl IntoIterator<Item = &'a mut Summary>,
    ) -> Result<(), Error> {
        let mut summaries: Vec<&mut Summary> = summaries.into_iter().collect();
        let uids: Vec<u64> = summaries.iter().map(|summary| summary.uid).collect();
        let threads = match self.open_threads(account, &uids).await {
            Some(threads) => threads,
            None => self.stored_threads(account, &uids).await?,
        };
        for summary in &mut summaries {
            if let Some(thread) = threads.get(&summary.uid) {
                summary.thread_id = ThreadId(*thread).to_string();
            }
        }
        Ok(())
    }

    async fn stored_threads(
        &self,
        account: &str,
        uids: &[u64],
    ) -> Result<HashMap<u64, u64>, Error> {
        if self.indexes().is_none()
            || !self
                .directory
                .message_index
                .has_merged_threads(account)
                .await?
        {
            return Ok(HashMap::new());
        }
        Ok(self.message_index().merged_threads(account, uids).await?)
    }
}
