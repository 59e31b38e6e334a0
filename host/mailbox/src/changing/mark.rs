//! Marks messages that were answered or forwarded.

use std::sync::Arc;

use latchmail_core::message_number::MessageNumber;
use latchmail_imap::flag::Flag;

use super::Changer;
use super::change::Action;
use crate::access::Access;
use crate::error::Error;

impl Changer {
    /// Adds the flag of an answered or forwarded message. A member needs only the right to read the
    /// folders of the messages.
    ///
    /// # Errors
    /// Returns [`Error::Rejected`] if the mail server cannot store the flag permanently. Returns
    /// another [`Error`] if the operation fails.
    pub(crate) async fn mark_original(
        self: &Arc<Self>,
        access: &Access,
        numbers: &[MessageNumber],
        flag: Flag,
    ) -> Result<(), Error> {
        let action = Action::MarkOriginal { flag };
        self.start_change(access, numbers, action, None).await?;
        Ok(())
    }
}
