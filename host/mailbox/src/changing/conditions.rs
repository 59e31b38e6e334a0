//! Changes that depend on the version of a message.

use latchmail_core::message_number::MessageNumber;
use latchmail_imap::{Fetched, MessageRef, Session};

use super::Changer;
use crate::access::Access;
use crate::error::Error;

impl Changer {
    /// Reads the state of a message in the open folder, and compares its version with `expected`.
    /// Returns `None` if the message does not exist. The MODSEQ in the result makes STORE depend on
    /// this state.
    ///
    /// # Errors
    /// Returns [`Error::MessageChanged`] if the versions differ. Returns another [`Error`] if the
    /// operation fails. No message was changed in either case.
    pub(super) async fn require_version(
        &self,
        access: &Access,
        session: &mut Session,
        number: MessageNumber,
        at: MessageRef<'_>,
        expected: &str,
    ) -> Result<Option<Fetched>, Error> {
        let Some(state) = session.selected_folder()?.state(at.uid).await? else {
            return Ok(None);
        };
        let version = self
            .index
            .state_version(&access.account, number, at, &state);
        if version.await? == expected {
            Ok(Some(state))
        } else {
            Err(Error::MessageChanged)
        }
    }
}
