//! `aliases`: additional addresses of the caller.

use latchmail_accounts::aliases;
use latchmail_bindings::latchmail::host::aliases::{self as wit, Host};
use latchmail_bindings::latchmail::host::types::Error;
use latchmail_core::caller::{Caller, Credential, Scope, missing};
use latchmail_core::clock::Timestamp;
use latchmail_directory::aliases::Alias;

use super::Call;
use super::convert::failed;

impl Host for Call {
    async fn list(&mut self) -> wasmtime::Result<Result<Vec<wit::Alias>, Error>> {
        Ok(async move {
            let caller = self.holder(Scope::AliasesRead)?;
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
        Ok(async move {
            let caller = self.holder(Scope::AliasesRead)?;
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
        let caller = match self.holder(Scope::AliasesWrite) {
            Ok(caller) => caller,
            Err(error) => return Ok(Err(error)),
        };
        let aliases = &self.services.aliases;
        match aliases.create(caller, &name, &domain, &self.origin).await {
            // The error ends the call, and the client receives it instead of the module's response.
            Err(aliases::Error::Spent(failure)) => Err(wasmtime::Error::new(failure)),
            made => Ok(made.map(alias).map_err(alias_error)),
        }
    }

    async fn check(&mut self, name: String, domain: String) -> wasmtime::Result<Result<(), Error>> {
        Ok(async move {
            let caller = self.holder(Scope::AliasesRead)?;
            let aliases = &self.services.aliases;
            aliases
                .check(caller, &name, &domain)
                .await
                .map_err(alias_error)
        }
        .await)
    }

    async fn set_active(&mut self, id: u64, active: bool) -> wasmtime::Result<Result<(), Error>> {
        Ok(async move {
            let caller = self.changer()?;
            let aliases = &self.services.aliases;
            aliases
                .set_active(caller, id, active, &self.origin)
                .await
                .map_err(alias_error)
        }
        .await)
    }

    async fn delete(&mut self, id: u64) -> wasmtime::Result<Result<(), Error>> {
        Ok(async move {
            let caller = self.changer()?;
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
    /// Returns the caller if it may change existing aliases. An OAuth token may only create an alias, at the agent endpoint.
    fn changer(&self) -> Result<&Caller, Error> {
        let caller = self.holder(Scope::AliasesWrite)?;
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

/// The module receives the kind of an error. The details are logged here.
fn alias_error(error: aliases::Error) -> Error {
    let sentence = error.to_string();
    match error {
        aliases::Error::Invalid(_) | aliases::Error::Denied => Error::Invalid(sentence),
        aliases::Error::Lacking(_) => Error::Denied(sentence),
        aliases::Error::Taken(_) => Error::Conflict(sentence),
        aliases::Error::Full(_) => Error::TooLarge(sentence),
        aliases::Error::Unknown => Error::NotFound,
        aliases::Error::CredentialOver => Error::CredentialRefused,
        aliases::Error::Spent(failure) => failed(failure),
        aliases::Error::Directory(_) => {
            tracing::error!("failed to read or change aliases: {sentence}");
            Error::Internal
        }
    }
}
