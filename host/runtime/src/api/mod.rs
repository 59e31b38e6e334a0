//! The host functions that components can call, with one file for each interface of the WIT package. Each function checks the caller's rights,
//! converts values and delegates. It does nothing else.
//!
//! All functions act on [`Call`]: the caller of one request and the resources that the host holds for it. A guest cannot choose the account.

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

use std::sync::Arc;

use latchmail_accounts::aliases::Aliases;
use latchmail_accounts::auth::Auth;
use latchmail_accounts::auth::account::{Confirmation, Session};
use latchmail_accounts::auth::sessions::CODE_REQUIRED;
use latchmail_accounts::domains::Domains;
use latchmail_accounts::teams::Teams;
use latchmail_bindings::latchmail::host::types::Error;
use latchmail_core::caller::{
    Caller, Credential, MailCredential, Origin, SESSION_ONLY, Scope, missing,
};
use latchmail_core::error::{Failure, Kind};
use latchmail_mailbox::outbox::{Outbox, Sender};
use latchmail_mailbox::{Access, Mail, Member};
use latchmail_net::fetch::Fetch;
use secrecy::SecretString;
use wasmtime::component::ResourceTable;

use crate::module_log::ModuleLog;
use crate::store::Store;
pub(crate) use convert::held;
pub(crate) use log::bounded;
pub use settings::Settings;

/// The maximum number of handles of a guest. Each costs memory in the host.
pub(crate) const MOST_HANDLES: usize = 1024;

/// The number of passwords that a module can have checked in one request.
const MAX_PASSWORD_CHECKS: u32 = 3;

/// The services that host functions delegate to.
#[derive(Clone, Debug)]
pub struct Services {
    /// Mailboxes.
    pub mail: Arc<Mail>,
    /// Outbound mail.
    pub outbox: Arc<Outbox>,
    /// Sessions and credentials.
    pub auth: Arc<Auth>,
    /// Aliases.
    pub aliases: Aliases,
    /// Custom domains.
    pub domains: Arc<Domains>,
    /// Shared mailboxes.
    pub teams: Arc<Teams>,
    /// The storage of modules for accounts.
    pub store: Store,
    /// HTTP requests to other hosts.
    pub fetch: Fetch,
}

/// The state of one request for the host functions.
#[derive(Debug)]
pub struct Call {
    services: Services,
    module: Arc<str>,
    settings: Arc<Settings>,
    log: Arc<ModuleLog>,
    caller: Option<Caller>,
    origin: Origin,
    lines: u32,
    /// The number of passwords that were checked in this call.
    password_checks: u32,
    /// The two-factor code that was presented in this call.
    code: Option<SecretString>,
    /// The sender that was checked in this call.
    sender: Option<Sender>,
    /// The host resources that the guest has handles of. They are dropped with the call.
    pub table: ResourceTable,
}

/// The account of a signed-in caller, and what is needed to change it.
struct Own {
    auth: Arc<Auth>,
    account: String,
    address: String,
    sid: String,
    /// The mail credential of the session.
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

/// Returns the result of confirming a password to the module. A rate limit (429) and a missing two-factor code (401) end the call instead, and the
/// client receives them instead of the module's response.
fn confirmed<T>(result: Result<T, Failure>) -> wasmtime::Result<Result<T, Error>> {
    match result {
        Err(failure)
            if matches!(failure.kind, Kind::RateLimited(_)) || failure.text == CODE_REQUIRED =>
        {
            Err(wasmtime::Error::new(failure))
        }
        result => Ok(result.map_err(convert::failed)),
    }
}

impl Call {
    /// Makes the state of a call of `module` for `caller`. The caller is `None` on a public route and for `describe`.
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
                "it exceeded {MAX_PASSWORD_CHECKS} password checks"
            )));
        }
        self.password_checks += 1;
        Ok(())
    }

    /// Returns the caller, or an error on a public route.
    fn caller(&self) -> Result<&Caller, Error> {
        self.caller
            .as_ref()
            .ok_or_else(|| Error::Denied("There is no caller".into()))
    }

    /// Returns the caller if its credential has `scope`. This is checked at every call, independently of the route's access.
    fn holder(&self, scope: Scope) -> Result<&Caller, Error> {
        let caller = self.caller()?;
        if caller.holds(scope) {
            Ok(caller)
        } else {
            Err(Error::Denied(missing(scope)))
        }
    }

    /// Returns the caller's account if the caller is a web session. This is checked at every call, independently of the route's access.
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

    /// Returns the mailbox that the caller acts in, if its credential has `scope`: its own mailbox or one that is shared with it. The mail
    /// service enforces the grants of a shared mailbox.
    fn mailbox(&self, scope: Scope) -> Result<Access, Error> {
        let caller = self.holder(scope)?;
        Ok(match &caller.shared {
            None => Access {
                account: caller.account.clone(),
                credential: caller.mail.clone(),
                member: None,
            },
            Some(shared) => Access {
                account: shared.account.clone(),
                credential: shared.mail.clone(),
                member: Some(Member {
                    account: caller.account.clone(),
                    grants: Arc::clone(&shared.grants),
                    origin: self.origin.clone(),
                    permit: None,
                }),
            },
        })
    }
}
