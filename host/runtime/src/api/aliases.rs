//! The interface `aliases`, for additional addresses of the caller.

use latchmail_accounts::aliases;
use latchmail_bindings::latchmail::host::aliases::{self as wit, Host};
use latchmail_bindings::latchmail::host::types::Error;
use latchmail_core::caller::{Caller, Credential, Scope, missing};
use latchmail_core::clock::Timestamp;
use latchmail_directory::aliases::Alias;

use super::call::Call;
use super::convert::account_error;
use super::host_call::host_call;

impl Host for Call {
    async fn list(&mut self) -> wasmtime::Result<Result<Vec<wit::Alias>, Error>> {
        let _span = host_call("aliases.list");
        Ok(async move {
            let caller = self.require_scope(Scope::AliasesRead)?;
            let aliases = self
                .services
                .aliases
                .list(caller)
                .await
                .map_err(alias_error)?;
            Ok(aliases.into_iter().map(alias).collect())
        }
        .await)
    }

    async fn domains(&mut self) -> wasmtime::Result<Result<Vec<String>, Error>> {
        let _span = host_call("aliases.domains");
        Ok(async move {
            let caller = self.require_scope(Scope::AliasesRead)?;
            self.services
                .aliases
                .domains(caller)
                .await
                .map_err(alias_error)
        }
        .await)
    }

    async fn create(
        &mut self,
        name: String,
        domain: String,
    ) -> wasmtime::Result<Result<wit::Alias, Error>> {
        let _span = host_call("aliases.create");
        let caller = match self.require_scope(Scope::AliasesWrite) {
            Ok(caller) => caller,
            Err(error) => return Ok(Err(error)),
        };
        let aliases = &self.services.aliases;
        match aliases.create(caller, &name, &domain, &self.origin).await {
            // `Spent` means that the credential has created the maximum number of aliases per day.
            // The client receives this failure (429), and the module's call ends.
            Err(aliases::Error::Spent(failure)) => Err(wasmtime::Error::new(failure)),
            created => Ok(created.map(alias).map_err(alias_error)),
        }
    }

    async fn check(&mut self, name: String, domain: String) -> wasmtime::Result<Result<(), Error>> {
        let _span = host_call("aliases.check");
        Ok(async move {
            let caller = self.require_scope(Scope::AliasesRead)?;
            let aliases = &self.services.aliases;
            aliases
                .check(caller, &name, &domain)
                .await
                .map_err(alias_error)
        }
        .await)
    }

    async fn set_active(&mut self, id: u64, active: bool) -> wasmtime::Result<Result<(), Error>> {
        let _span = host_call("aliases.set-active");
        Ok(async move {
            let caller = self.require_change()?;
            let aliases = &self.services.aliases;
            aliases
                .set_active(caller, id, active, &self.origin)
                .await
                .map_err(alias_error)
        }
        .await)
    }

    async fn delete(&mut self, id: u64) -> wasmtime::Result<Result<(), Error>> {
        let _span = host_call("aliases.delete");
        Ok(async move {
            let caller = self.require_change()?;
            self.services
                .aliases
                .delete(caller, id, &self.origin)
                .await
                .map_err(alias_error)
        }
        .await)
    }
}

impl Call {
    /// Returns the caller if the caller is authorized to change existing aliases. A caller with an
    /// OAuth token can only create aliases.
    fn require_change(&self) -> Result<&Caller, Error> {
        let caller = self.require_scope(Scope::AliasesWrite)?;
        match caller.credential {
            Credential::OAuth { .. } => Err(Error::Denied(missing(Scope::AliasesWrite))),
            Credential::Session { .. } | Credential::ApiToken { .. } => Ok(caller),
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
    }
}

/// Converts an error of the aliases service to WIT. The module receives only the kind of the error.
/// The details of an internal error are logged.
fn alias_error(error: aliases::Error) -> Error {
    let sentence = error.to_string();
    match error {
        aliases::Error::Invalid(_) | aliases::Error::Denied => Error::Invalid(sentence),
        aliases::Error::Lacking(_) | aliases::Error::Managed => Error::Denied(sentence),
        aliases::Error::Taken(_) => Error::Conflict(sentence),
        aliases::Error::Full(_) => Error::TooLarge(sentence),
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
