//! The key of a shared mailbox: an app password that acts for the members, sealed under the service's key.

use latchmail_core::error::Failure;
use latchmail_core::sealing::Purpose;
use latchmail_core::secrets::{self, AppPassword};
use latchmail_directory::credentials::{AppPasswordKind, NewAppPassword};
use latchmail_directory::teams::NewKey;

use super::Teams;

/// The label by which the owner recognizes the key in the list of credentials.
const LABEL: &str = "Shared mailbox";

impl Teams {
    /// Generates a key for a mailbox, without storing it.
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

    /// Reseals every key that was sealed under an earlier key of the service. Such keys remain valid until they are revoked.
    ///
    /// # Errors
    /// Returns a 500 failure.
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
