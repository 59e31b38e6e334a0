//! The key of a shared mailbox: an app password with which the service opens the mailbox for members. The key is sealed with the service's keyring.

use latchmail_core::error::Failure;
use latchmail_core::sealing::Purpose;
use latchmail_core::secrets::{self, AppPassword};
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
            app_password: NewAppPassword {
                id: secrets::id()?,
                kind: AppPasswordKind::TeamKey,
                label: LABEL.into(),
                selector: password.selector().to_owned(),
                secret_hash: password.hash(),
                expires_at: None,
            },
            sealed_password: self
                .keys
                .seal(Purpose::TeamKey, mailbox, password.secret())?,
        })
    }

    /// If a mailbox key is sealed with an earlier service key, seals the mailbox key with the current service key. Then the operator can remove the earlier
    /// service keys from the key file.
    ///
    /// # Errors
    /// Returns 500 if the database fails.
    pub async fn reseal(&self) -> Result<(), Failure> {
        for (mailbox, sealed) in self.directory.team_keys().await? {
            if self.keys.is_current(&sealed) {
                continue;
            }
            let Some(password) = self.keys.open(Purpose::TeamKey, &mailbox, &sealed) else {
                tracing::warn!(
                    mailbox,
                    "a shared mailbox's key cannot be opened with the service's keys"
                );
                continue;
            };
            let resealed = self.keys.seal(Purpose::TeamKey, &mailbox, &password)?;
            self.directory
                .reseal_team_key(&mailbox, &sealed, &resealed)
                .await?;
        }
        Ok(())
    }
}
