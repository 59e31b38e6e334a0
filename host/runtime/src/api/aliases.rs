//! The interface `aliases`, for additional addresses of the caller.

use crate::api::problem;
use latchmail_accounts::aliases;
use latchmail_bindings::HostError;
use latchmail_bindings::latchmail::host::aliases::{self as wit, Host};
use latchmail_bindings::latchmail::host::types::Error;
use latchmail_core::caller::{Caller, Credential, Scope, missing};
use latchmail_core::clock::Timestamp;
use latchmail_core::codes;
use latchmail_core::policy::Action;
use latchmail_directory::aliases::Alias;

use super::call::Call;
use super::convert::account_error;
use super::host_call::host_call;
use super::policy::require_policy;

/// What a policy without `aliases` does not allow.
const ALIASES: &str = "changing aliases";

impl Host for Call {
    async fn list(&mut self) -> Result<Vec<wit::Alias>, HostError<Error>> {
        let _span = host_call("aliases.list");
        let caller = self.require_scope(Scope::AliasesRead)?;
        let aliases = self.services.aliases.list(caller).await;
        let aliases = aliases.map_err(alias_error)?;
        Ok(aliases.into_iter().map(alias).collect())
    }

    async fn domains(&mut self) -> Result<Vec<String>, HostError<Error>> {
        let _span = host_call("aliases.domains");
        let caller = self.require_scope(Scope::AliasesRead)?;
        let domains = self.services.aliases.domains(caller).await;
        Ok(domains.map_err(alias_error)?)
    }

    async fn create(
        &mut self,
        name: String,
        domain: String,
    ) -> Result<wit::Alias, HostError<Error>> {
        let _span = host_call("aliases.create");
        let caller = self.require_scope(Scope::AliasesWrite)?;
        require_policy(self, Action::Aliases, ALIASES)?;
        self.preview.refuse()?;
        let aliases = &self.services.aliases;
        match aliases.create(caller, &name, &domain, &self.origin).await {
            // The credential has reached its limit of new aliases per day. This error ends the call
            // of the module, and the client receives `failure` instead of a response of the module.
            Err(aliases::Error::Spent(failure)) => Err(HostError::trap(failure)),
            created => Ok(created.map(alias).map_err(alias_error)?),
        }
    }

    async fn check(&mut self, name: String, domain: String) -> Result<(), HostError<Error>> {
        let _span = host_call("aliases.check");
        let caller = self.require_scope(Scope::AliasesRead)?;
        let checked = self.services.aliases.check(caller, &name, &domain).await;
        Ok(checked.map_err(alias_error)?)
    }

    async fn update(
        &mut self,
        id: u64,
        change: wit::AliasChange,
    ) -> Result<wit::Alias, HostError<Error>> {
        let _span = host_call("aliases.update");
        let caller = self.require_change()?;
        self.preview.refuse()?;
        let change = aliases::AliasUpdate {
            active: change.active,
            note: change.note,
            expires_at: change.expiry.map(|expiry| match expiry {
                wit::Expiry::Never => None,
                wit::Expiry::At(at) => Some(Timestamp::from_millis(at)),
            }),
        };
        let aliases = &self.services.aliases;
        let changed = aliases.update(caller, id, &change, &self.origin).await;
        Ok(changed.map(alias).map_err(alias_error)?)
    }

    async fn delete(&mut self, id: u64) -> Result<(), HostError<Error>> {
        let _span = host_call("aliases.delete");
        let caller = self.require_change()?;
        if self.preview.records(|| format!("delete the alias {id}")) {
            return Ok(());
        }
        let aliases = &self.services.aliases;
        let deleted = aliases.delete(caller, id, &self.origin).await;
        Ok(deleted.map_err(alias_error)?)
    }
}

impl Call {
    /// Returns the caller if the caller is authorized to change existing aliases. A caller with an
    /// OAuth token can only create aliases.
    fn require_change(&self) -> Result<&Caller, Error> {
        let caller = self.require_scope(Scope::AliasesWrite)?;
        require_policy(self, Action::Aliases, ALIASES)?;
        match caller.credential {
            Credential::OAuth { .. }
            | Credential::AppPassword { .. }
            | Credential::Operator { .. } => Err(problem::denied(
                codes::MISSING_SCOPE,
                missing(Scope::AliasesWrite),
            )),
            Credential::Session { .. }
            | Credential::ApiToken { .. }
            | Credential::Handler { .. } => Ok(caller),
        }
    }
}

fn alias(alias: Alias) -> wit::Alias {
    wit::Alias {
        id: alias.id(),
        active: alias.active,
        created_at: alias.created_at.map(Timestamp::millis),
        modified_at: alias.modified_at.map(Timestamp::millis),
        address: alias.address,
        note: alias.note,
        expires_at: alias.expires_at.map(Timestamp::millis),
        last_received_at: alias.last_received_at.map(Timestamp::millis),
        received: alias.received,
    }
}

/// Converts an error of the aliases service to a WIT error. The module receives the text of an
/// error that the request caused. If the mail server or the database fails, the module receives
/// only the kind of the error, and the host logs the details.
fn alias_error(error: aliases::Error) -> Error {
    let sentence = error.to_string();
    match error {
        aliases::Error::Invalid(_) => problem::invalid(codes::INVALID_ALIAS_NAME, sentence),
        aliases::Error::InvalidNote(_) => problem::invalid(codes::INVALID_ALIAS_NOTE, sentence),
        aliases::Error::Denied => problem::invalid(codes::ALIAS_DOMAIN_NOT_ALLOWED, sentence),
        aliases::Error::Lacking(_) => problem::denied(codes::MISSING_RIGHT, sentence),
        aliases::Error::Managed => problem::denied(codes::ALIASES_MANAGED, sentence),
        aliases::Error::Taken(_) => problem::conflict(codes::ALIAS_TAKEN, sentence),
        aliases::Error::Full(_) => problem::too_large(codes::TOO_MANY_ALIASES, sentence),
        aliases::Error::Unavailable(_) => {
            tracing::warn!(
                "failed to look up the address of a new alias at the mail server: {sentence}"
            );
            Error::Unavailable
        }
        aliases::Error::Unknown => Error::NotFound,
        aliases::Error::CredentialOver => Error::CredentialRefused,
        aliases::Error::Spent(failure) => account_error(failure),
        aliases::Error::Directory(error) => account_error(error.into()),
    }
}
