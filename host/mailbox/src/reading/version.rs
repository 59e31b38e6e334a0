//! Reads the versions of messages, without their texts.

use futures_util::future::join;
use latchmail_core::message_number::MessageNumber;
use latchmail_imap::{Fetched, MessageRef};

use super::Reader;
use crate::access::Access;
use crate::connections::retry::retry_read;
use crate::error::Error;
use crate::message::thread_ids::unmerged_thread;
use crate::message::version::{MessageVersion, content_version, state_version};
use crate::numbers::locations::message_ref;

impl Reader {
    /// Returns the versions of the message with this message number. Returns `None` if the message
    /// does not exist. Needs one round trip to the mail server.
    ///
    /// # Errors
    /// Returns an [`Error`] if the operation fails.
    pub async fn version(
        &self,
        access: &Access,
        number: MessageNumber,
    ) -> Result<Option<MessageVersion>, Error> {
        let account = &access.account;
        let cache = &self.context.cache;
        let mut locations = self.numbers.locations(access, number);
        while let Some(location) = locations.next().await? {
            let at = message_ref(&location);
            let cached = cache.unmerged_thread(account, number);
            // The database is read while the mail server processes the command.
            let (message, merged) = join(
                self.state_at(access, at, cached.is_none()),
                self.index.merged_thread(account, number),
            )
            .await;
            let (Some(message), merged) = (message?, merged?) else {
                continue;
            };
            let unmerged = cached.unwrap_or_else(|| {
                let thread = unmerged_thread(&message.header, number);
                cache.insert_unmerged_thread(account, number, thread);
                thread
            });
            let thread = merged.unwrap_or(unmerged).to_string();
            return Ok(Some(MessageVersion {
                state: state_version(account, number, at, &message.flags, &thread),
                content: content_version(account, number),
            }));
        }
        Ok(None)
    }

    async fn state_at(
        &self,
        access: &Access,
        at: MessageRef<'_>,
        with_header: bool,
    ) -> Result<Option<Fetched>, Error> {
        let mut lease = self
            .context
            .connections
            .lease(access, Some(at.path))
            .await?;
        Ok(retry_read!(lease, session => session.state_at(at, with_header)))
    }
}
