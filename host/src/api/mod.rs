//! What a component may call: one file an interface of the WIT package. Each function checks the caller's right, converts,
//! delegates, converts back, and does nothing else.
//!
//! [`Call`] is what they all act on: one request's caller and what the host holds on its behalf. No account comes from a guest.

mod aliases;
mod blobs;
mod caller;
mod config;
mod convert;
mod credentials;
mod domains;
mod http_client;
mod log;
mod mailbox;
mod outbox;
mod profile;
mod settings;
mod store;
mod teams;

pub(crate) use convert::held;
pub(crate) use log::bounded;
pub use settings::Settings;

use std::sync::Arc;

use http::StatusCode;
use latchmail_bindings::latchmail::host::types::Error;
use secrecy::SecretString;
use wasmtime::component::ResourceTable;

use crate::aliases::Aliases;
use crate::auth::Auth;
use crate::auth::account::{Confirmation, Session};
use crate::auth::sessions::CODE_REQUIRED;
use crate::caller::{Caller, Credential, MailCredential, Origin, SESSION_ONLY, Scope, missing};
use crate::domains::Domains;
use crate::error::Failure;
use crate::fetch::Fetch;
use crate::mail::{Access, Guest, Mail};
use crate::module_log::ModuleLog;
use crate::outbox::{Outbox, Sender};
use crate::store::Store;
use crate::teams::Teams;

/// Handles that a guest may hold at a time: each costs the host memory.
pub(crate) const MOST_HANDLES: usize = 1024;

/// The number of passwords that a module can have checked in one request.
const MAX_PASSWORD_CHECKS: u32 = 3;

/// The rooms that capabilities delegate to.
#[derive(Clone, Debug)]
pub struct Services {
    /// The mailboxes.
    pub mail: Arc<Mail>,
    /// What leaves.
    pub outbox: Arc<Outbox>,
    /// Who asks, and what acts for them.
    pub auth: Arc<Auth>,
    /// Further addresses.
    pub aliases: Aliases,
    /// Custom domains.
    pub domains: Arc<Domains>,
    /// Shared mailboxes.
    pub teams: Arc<Teams>,
    /// What modules keep for accounts.
    pub store: Store,
    /// Requests to the world.
    pub fetch: Fetch,
}

/// One request, as the capabilities see it.
#[derive(Debug)]
pub struct Call {
    services: Services,
    module: Arc<str>,
    settings: Arc<Settings>,
    log: Arc<ModuleLog>,
    caller: Option<Caller>,
    origin: Origin,
    lines: u32,
    /// Passwords that were checked in this call.
    password_checks: u32,
    /// The two-factor code that was presented in this call.
    code: Option<SecretString>,
    /// The sender that was checked in this call.
    sender: Option<Sender>,
    /// The host's resources that the guest holds handles of: they end with the call.
    pub table: ResourceTable,
}

/// The account of a caller who is signed in, and what it takes to change it.
struct Own {
    auth: Arc<Auth>,
    account: String,
    address: String,
    sid: String,
    /// What acts for the session.
    mail: MailCredential,
    /// The two-factor code that was presented.
    code: Option<SecretString>,
    origin: Origin,
}

impl Own {
    fn session(&self) -> Session<'_> {
        Session {
            account: &self.account,
            sid: &self.sid,
        }
    }

    fn confirmation(&self, password: SecretString) -> Confirmation<'_> {
        Confirmation {
            session: self.session(),
            password,
            code: self.code.as_ref(),
        }
    }
}

/// What a module receives of the confirmation of a password. A rate limit (429) and a missing two-factor code (401) end the call instead, and the client receives
/// them whatever the module would have responded.
fn confirmed<T>(result: Result<T, Failure>) -> wasmtime::Result<Result<T, Error>> {
    match result {
        Err(failure)
            if failure.status == StatusCode::TOO_MANY_REQUESTS || failure.text == CODE_REQUIRED =>
        {
            Err(wasmtime::Error::new(failure))
        }
        result => Ok(result.map_err(Error::from)),
    }
}

impl Call {
    /// A call of `module` on behalf of `caller`; without one for a public route, and while a module is asked what it is.
    #[must_use]
    pub fn new(
        services: Services,
        module: Arc<str>,
        settings: Arc<Settings>,
        log: Arc<ModuleLog>,
        caller: Option<Caller>,
        origin: Origin,
    ) -> Self {
        let mut table = ResourceTable::new();
        table.set_max_capacity(MOST_HANDLES);
        Self {
            services,
            module,
            settings,
            log,
            caller,
            origin,
            lines: 0,
            password_checks: 0,
            code: None,
            sender: None,
            table,
        }
    }

    /// Counts a password that a module has checked.
    ///
    /// # Errors
    /// Ends the call if there were [`MAX_PASSWORD_CHECKS`] before.
    fn count_password_check(&mut self) -> wasmtime::Result<()> {
        if self.password_checks == MAX_PASSWORD_CHECKS {
            return Err(wasmtime::Error::msg(format!(
                "it had more than {MAX_PASSWORD_CHECKS} passwords checked"
            )));
        }
        self.password_checks += 1;
        Ok(())
    }

    /// The caller.
    fn caller(&self) -> Result<&Caller, Error> {
        self.caller
            .as_ref()
            .ok_or_else(|| Error::Denied("There is no caller".into()))
    }

    /// The caller, where its credential holds `scope`. Asked at every call, whatever the route declared.
    fn holder(&self, scope: Scope) -> Result<&Caller, Error> {
        let caller = self.caller()?;
        if caller.holds(scope) {
            Ok(caller)
        } else {
            Err(Error::Denied(missing(scope)))
        }
    }

    /// The caller's account, where the caller is a web session. Asked at every call, whatever the route declared.
    fn own(&self) -> Result<Own, Error> {
        let caller = self.caller()?;
        match &caller.credential {
            Credential::Session { sid } => Ok(Own {
                auth: Arc::clone(&self.services.auth),
                account: caller.account.clone(),
                address: caller.address.clone(),
                sid: sid.clone(),
                mail: caller.mail.clone(),
                code: self.code.clone(),
                origin: self.origin.clone(),
            }),
            Credential::ApiToken { .. } | Credential::OAuth { .. } => {
                Err(Error::Denied(SESSION_ONLY.into()))
            }
        }
    }

    /// The mailbox that the caller acts in, where its credential holds `scope`: its own, or one that is shared with it. What it was granted there is kept
    /// to by the room that the mailbox is in.
    fn mailbox(&self, scope: Scope) -> Result<Access, Error> {
        let caller = self.holder(scope)?;
        Ok(match &caller.shared {
            None => Access {
                account: caller.account.clone(),
                credential: caller.mail.clone(),
                guest: None,
            },
            Some(shared) => Access {
                account: shared.account.clone(),
                credential: shared.mail.clone(),
                guest: Some(Guest {
                    account: caller.account.clone(),
                    grants: Arc::clone(&shared.grants),
                    origin: self.origin.clone(),
                    permit: None,
                }),
            },
        })
    }
}
