//! The standing key of a mailbox: an app password that acts for its guests, sealed under the service's key.

use super::Teams;
use crate::auth::sealing::Purpose;
use crate::auth::secrets::{self, AppPassword};
use crate::directory::credentials::{AppPasswordKind, NewAppPassword};
use crate::directory::teams::NewKey;
use crate::error::Failure;

/// What the owner finds it by, among all that can reach the account.
const LABEL: &str = "Shared mailbox";

impl Teams {
    /// A key for a mailbox; nothing is kept yet.
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

    /// Seals every key anew that an earlier key of the service sealed: they live until they are revoked.
    ///
    /// # Errors
    /// 500.
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
            let anew = self.keys.seal(Purpose::TeamKey, &mailbox, &password)?;
            self.directory
                .reseal_team_key(&mailbox, &sealed, &anew)
                .await?;
        }
        Ok(())
    }
}
