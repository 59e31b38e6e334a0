//! The key of a shared mailbox: an app password with which the service opens the mailbox for
//! members. The key is sealed with the service's keyring.

use latchmail_core::error::Failure;
use latchmail_core::sealing::Purpose;
use latchmail_core::secrets::AppPassword;
use latchmail_directory::credentials::{AppPasswordKind, NewAppPassword};
use latchmail_directory::teams::NewKey;

use super::Teams;

/// The label of the key in the owner's list of credentials.
const LABEL: &str = "Shared mailbox";

impl Teams {
    /// Generates a key for a mailbox. Does not store the key.
    pub(super) fn new_key(&self, mailbox: &str) -> Result<NewKey, Failure> {
        let password = AppPassword::generate()?;
        Ok(NewKey {
            app_password: NewAppPassword::of(&password, AppPasswordKind::TeamKey, LABEL)?,
            sealed_password: self
                .keys
                .seal(Purpose::TeamKey, mailbox, password.secret())?,
        })
    }
}
