//! Reads the versions of messages, without their texts.

use latchmail_core::message_number::MessageNumber;
use latchmail_directory::message_index::Location;
use latchmail_imap::Fetched;

use super::Reader;
use crate::access::Access;
use crate::connections::retry::retry_read;
use crate::error::Error;
use crate::message::version::{MessageVersion, content_version};
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
        let mut locations = self.numbers.locations(access, number);
        while let Some(location) = locations.next().await? {
            if let Some(message) = self.state_at(access, &location).await? {
                let at = message_ref(&location);
                let state = self.index.state_version(account, number, at, &message);
                return Ok(Some(MessageVersion {
                    state: state.await?,
                    content: content_version(account, number),
                }));
            }
        }
        Ok(None)
    }

    async fn state_at(
        &self,
        access: &Access,
        location: &Location,
    ) -> Result<Option<Fetched>, Error> {
        let at = message_ref(location);
        let mut lease = self
            .context
            .connections
            .lease(access, Some(at.path))
            .await?;
        Ok(retry_read!(lease, session => session.state_at(at)))
    }
}
