//! Operations of the operator on the aliases of all accounts.

use latchmail_core::address;
use latchmail_core::caller::Origin;
use latchmail_core::codes;
use latchmail_core::error::Failure;
use latchmail_directory::aliases::operator::{AliasRefusal, NewOwnedAlias, OwnedAlias};
use latchmail_directory::aliases::{AliasUpdate, Obstacle};
use latchmail_directory::operator_tokens::RequestKey;

use super::{Aliases, Error, check_note};
use crate::auth::provisioning::{key_reused, no_account};

impl Aliases {
    /// Returns the alias with this address. Returns `None` if the address is no alias.
    ///
    /// # Errors
    /// Returns 500 for an internal error.
    pub async fn owned(&self, address: &str) -> Result<Option<OwnedAlias>, Failure> {
        Ok(self.repository.owned(&address.to_ascii_lowercase()).await?)
    }

    /// Returns at most `limit` aliases whose address follows `after`. With `account_id`, returns
    /// only aliases of this account.
    ///
    /// # Errors
    /// Returns 500 for an internal error.
    pub async fn owned_after(
        &self,
        after: &str,
        account_id: Option<&str>,
        limit: u32,
    ) -> Result<Vec<OwnedAlias>, Failure> {
        Ok(self
            .repository
            .owned_after(after, account_id, limit)
            .await?)
    }

    /// Creates an alias of an account. Reserved names are allowed. With `key`, a repeated request
    /// returns the alias that the first request created.
    ///
    /// # Errors
    /// Returns 400 if a value is invalid, 404 if there is no such account, 409 if the address is
    /// taken, if the account has too many aliases, or if the key was used for another request, or
    /// 500 for an internal error. On error, no alias is created.
    pub async fn create_owned(
        &self,
        account_id: &str,
        address: &str,
        settings: &AliasUpdate,
        key: Option<&RequestKey>,
        origin: &Origin,
    ) -> Result<OwnedAlias, Failure> {
        let invalid = |text: &'static str| Failure::invalid(codes::INVALID_FIELD, text);
        let folded = address::fold(address);
        let address = folded.ok_or_else(|| invalid("address must be a mail address"))?;
        let (name, _) = address.rsplit_once('@').unwrap_or_default();
        address::alias_name(name, false)
            .map_err(|reason| Failure::invalid(codes::INVALID_ALIAS_NAME, reason))?;
        check_note(settings).map_err(failure)?;
        if self.users.settings().can_be_mail_server_user(&address) {
            self.require_no_user(&address).await.map_err(failure)?;
        }
        let new = NewOwnedAlias {
            account_id,
            address: &address,
            settings,
        };
        let now = self.clock.now();
        let created = self.repository.create_owned(new, key, now, origin).await?;
        created.map_err(|refusal| match refusal {
            AliasRefusal::NoAccount => no_account(),
            AliasRefusal::KeyReused => key_reused(),
            AliasRefusal::Unknown | AliasRefusal::VersionMismatch => no_alias(),
            AliasRefusal::Obstacle(Obstacle::Foreign) => Failure::invalid(
                codes::ALIAS_DOMAIN_NOT_ALLOWED,
                "The account cannot have aliases on this domain",
            ),
            AliasRefusal::Obstacle(Obstacle::Full(_)) => Failure::conflict(
                codes::TOO_MANY_ALIASES,
                "The account has the maximum number of aliases",
            ),
            AliasRefusal::Obstacle(
                Obstacle::Taken | Obstacle::Spent(_) | Obstacle::CredentialOver,
            ) => taken(&address),
        })
    }

    /// Changes an alias. With `versions`, the alias must have one of these versions; otherwise
    /// returns `None`.
    ///
    /// # Errors
    /// Returns 400 if the note is invalid, 404 if there is no such alias, or 500 for an internal
    /// error. On error, nothing is changed.
    pub async fn update_owned(
        &self,
        address: &str,
        update: &AliasUpdate,
        versions: Option<&[String]>,
        origin: &Origin,
    ) -> Result<Option<OwnedAlias>, Failure> {
        check_note(update).map_err(failure)?;
        let (address, now) = (address.to_ascii_lowercase(), self.clock.now());
        let updated = self
            .repository
            .update_owned(&address, update, versions, now, origin);
        changed(updated.await?)
    }

    /// Deletes an alias. With `versions`, the alias must have one of these versions; otherwise
    /// returns `None`.
    ///
    /// # Errors
    /// Returns 404 if there is no such alias, or 500 for an internal error. On error, nothing is
    /// changed.
    pub async fn delete_owned(
        &self,
        address: &str,
        versions: Option<&[String]>,
        origin: &Origin,
    ) -> Result<Option<()>, Failure> {
        let (address, now) = (address.to_ascii_lowercase(), self.clock.now());
        let deleted = self
            .repository
            .delete_owned(&address, versions, now, origin);
        changed(deleted.await?)
    }
}

fn changed<T>(result: Result<T, AliasRefusal>) -> Result<Option<T>, Failure> {
    match result {
        Ok(value) => Ok(Some(value)),
        Err(AliasRefusal::VersionMismatch) => Ok(None),
        Err(_) => Err(no_alias()),
    }
}

/// Returns the failure of a request for an alias that does not exist.
fn no_alias() -> Failure {
    Failure::not_found(codes::ALIAS_NOT_FOUND, "There is no such alias")
}

fn taken(address: &str) -> Failure {
    let text = format!("{address} is already taken");
    Failure::conflict(codes::ALIAS_TAKEN, text)
}

/// Returns the failure for an error of the checks of an alias.
fn failure(error: Error) -> Failure {
    match error {
        Error::InvalidNote(text) => Failure::invalid(codes::INVALID_ALIAS_NOTE, text),
        Error::Taken(address) => taken(&address),
        Error::Managed => Failure::forbidden(
            codes::ALIASES_MANAGED,
            "Aliases on this domain are managed by the mail server's administrator",
        ),
        Error::Unavailable(reason) => Failure::mail_unavailable().because(reason),
        other => Failure::internal(other),
    }
}
