//! The state of one call to a module, and common checks of the caller for host functions.

use std::sync::Arc;

use crate::api::problem;
use http::HeaderValue;
use latchmail_bindings::HostError;
use latchmail_bindings::latchmail::host::types::{self, Error};
use latchmail_core::caller::{Caller, Credential, Origin, SESSION_ONLY, Scope, missing};
use latchmail_core::codes;
use latchmail_mailbox::{Access, Member};
use secrecy::SecretString;
use wasmtime::component::ResourceTable;

use super::recorder::Preview;
use super::services::Services;
use super::session::SessionAccount;
use super::settings::Settings;
use super::tape::Tape;
use crate::module_log::ModuleLog;

/// The maximum number of handles of host resources that a module can have in one call. Each handle
/// uses memory of the host.
pub(crate) const MAX_HANDLES: usize = 1024;

/// The maximum number of passwords that the host checks for a module in one request.
const MAX_PASSWORD_CHECKS: u32 = 3;

/// A text that the host inserts into the body of a response as a JSON string.
#[derive(Debug)]
pub(crate) struct JsonString {
    /// The byte offset in the module's response body at which the host inserts the text. The offset
    /// does not count other inserted texts.
    pub(crate) offset: u32,
    /// The text before JSON escaping, without quotation marks.
    pub(crate) text: String,
}

/// The state of one call to a module. The host functions use this state.
#[derive(Debug)]
pub struct Call {
    pub(super) services: Services,
    /// The name of the module.
    pub(super) module: Arc<str>,
    pub(super) settings: Arc<Settings>,
    pub(super) log: Arc<ModuleLog>,
    /// The caller. `None` on a public route and during a call of `describe`.
    pub(super) caller: Option<Caller>,
    pub(super) origin: Origin,
    /// The record of changes, if the call is a preview.
    pub(crate) preview: Preview,
    /// Whether the request asks for a range of the content (RFC 9110, section 14.2).
    pub(crate) has_range: bool,
    /// The header `Authorization` of the request. The module cannot read it.
    pub(crate) authorization: Option<HeaderValue>,
    /// The recording of host calls, or the recording that is replayed.
    pub(crate) tape: Tape,
    /// The number of lines that the module has logged in this call.
    pub(super) log_lines: u32,
    /// The number of passwords that the host has checked in this call.
    password_checks: u32,
    /// The two-factor code of this request, which the module passed to the host.
    pub(super) code: Option<SecretString>,
    /// The total size of the texts that the module has received as blobs in this call, in bytes.
    pub(super) text_bytes: usize,
    /// The texts that the host inserts into the body of the module's response.
    pub(crate) json_strings: Vec<JsonString>,
    /// The host resources for which the module has handles. The table is dropped at the end of the
    /// call.
    pub table: ResourceTable,
}

impl types::Host for Call {
    fn convert_error(&mut self, error: HostError<Error>) -> wasmtime::Result<Error> {
        error.into_guest()
    }
}

impl Call {
    /// Creates the state of a call of `module` for `caller`. `caller` is `None` on a public route
    /// and during a call of `describe`.
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
        table.set_max_capacity(MAX_HANDLES);
        Self {
            services,
            module,
            settings,
            log,
            caller,
            origin,
            preview: Preview::default(),
            has_range: false,
            authorization: None,
            tape: Tape::default(),
            log_lines: 0,
            password_checks: 0,
            code: None,
            text_bytes: 0,
            json_strings: Vec::new(),
            table,
        }
    }

    /// Counts one check of a password.
    ///
    /// # Errors
    /// Returns an error if the host has already checked [`MAX_PASSWORD_CHECKS`] passwords. The
    /// error ends the call.
    pub(super) fn count_password_check<E>(&mut self) -> Result<(), HostError<E>> {
        if self.password_checks == MAX_PASSWORD_CHECKS {
            let text = format!("it exceeded {MAX_PASSWORD_CHECKS} password checks");
            return Err(HostError::Trap(wasmtime::Error::msg(text)));
        }
        self.password_checks += 1;
        Ok(())
    }

    /// Returns the caller. Returns an error on a public route.
    pub(super) fn require_caller(&self) -> Result<&Caller, Error> {
        self.caller
            .as_ref()
            .ok_or_else(|| problem::denied(codes::NO_CALLER, "There is no caller"))
    }

    /// Returns the caller if the caller's credential has `scope`. Host functions check the scope in
    /// addition to the check that the HTTP server makes for the route.
    pub(super) fn require_scope(&self, scope: Scope) -> Result<&Caller, Error> {
        let caller = self.require_caller()?;
        if caller.holds(scope) {
            Ok(caller)
        } else {
            Err(problem::denied(codes::MISSING_SCOPE, missing(scope)))
        }
    }

    /// Returns the caller's account if the caller has a web session. Host functions check the
    /// session in addition to the check that the HTTP server makes for the route.
    pub(super) fn require_session(&self) -> Result<SessionAccount, Error> {
        let caller = self.require_caller()?;
        match &caller.credential {
            Credential::Session { sid } => Ok(SessionAccount {
                auth: Arc::clone(&self.services.auth),
                id: caller.account.clone(),
                address: caller.address.clone(),
                sid: sid.clone(),
                mail: caller.mail.clone(),
                code: self.code.clone(),
                origin: self.origin.clone(),
            }),
            Credential::ApiToken { .. }
            | Credential::OAuth { .. }
            | Credential::AppPassword { .. }
            | Credential::Handler { .. }
            | Credential::Operator { .. } => {
                Err(problem::denied(codes::SESSION_REQUIRED, SESSION_ONLY))
            }
        }
    }

    /// Returns access to the mailbox of the request if the caller's credential has `scope`. The
    /// mailbox is the caller's own mailbox or a shared mailbox. For a shared mailbox, the mail
    /// service also checks the caller's grants.
    pub(super) fn mailbox_access(&self, scope: Scope) -> Result<Access, Error> {
        let caller = self.require_scope(scope)?;
        Ok(match &caller.shared {
            None => Access {
                account: caller.account.clone(),
                credential: caller.mail.clone(),
                member: None,
                grant: caller.grant.clone(),
                is_person: caller.is_person(),
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
                grant: caller.grant.clone(),
                is_person: caller.is_person(),
            },
        })
    }
}
