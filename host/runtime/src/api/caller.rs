//! The interface `caller`, for the identity of the caller. The identity contains no secret and no
//! account id.

use latchmail_bindings::latchmail::host::caller::{Host, Identity};
use latchmail_core::caller::{Caller, Credential, Scope};
use latchmail_core::policy::Action;
use latchmail_shape::{API_TOKEN, APP_PASSWORD, OAUTH, SESSION};
use secrecy::SecretString;

use super::call::Call;
use super::convert;
use super::host_call::host_call;
use super::policy::is_usable;

/// The kind of a caller without a credential.
const ANONYMOUS: &str = "anonymous";

impl Host for Call {
    async fn current(&mut self) -> wasmtime::Result<Identity> {
        let _span = host_call("caller.current");
        let Some(caller) = &self.caller else {
            return Ok(Identity {
                kind: ANONYMOUS.into(),
                address: String::new(),
                admin: false,
                scopes: Vec::new(),
            });
        };
        Ok(Identity {
            // No operator token can call a module.
            kind: match caller.credential {
                Credential::Session { .. } | Credential::Handler { .. } => SESSION,
                Credential::ApiToken { .. } => API_TOKEN,
                Credential::OAuth { .. } => OAUTH,
                Credential::AppPassword { .. } => APP_PASSWORD,
                Credential::Operator { .. } => ANONYMOUS,
            }
            .into(),
            address: caller.address.clone(),
            admin: caller.admin,
            scopes: convert::scopes_to_wit(
                Scope::ALL
                    .into_iter()
                    .filter(|scope| is_usable(caller, *scope)),
            ),
        })
    }

    async fn allows(&mut self, action: String) -> wasmtime::Result<bool> {
        let _span = host_call("caller.allows");
        let caller = self.caller.as_ref();
        Ok(caller.is_some_and(|caller| allows(caller, &action)))
    }

    async fn is_handler(&mut self) -> wasmtime::Result<bool> {
        let _span = host_call("caller.is-handler");
        let caller = self.caller.as_ref();
        Ok(caller.is_some_and(|caller| matches!(caller.credential, Credential::Handler { .. })))
    }

    async fn present_code(&mut self, code: String) -> wasmtime::Result<()> {
        let _span = host_call("caller.present-code");
        self.code = Some(SecretString::from(code));
        Ok(())
    }
}

/// Returns whether the scopes and the policy of the caller's credential allow an action. Returns
/// `false` for an unknown action.
fn allows(caller: &Caller, action: &str) -> bool {
    let Some(action) = Action::named(action) else {
        return false;
    };
    let scope = match action {
        Action::Read | Action::Attachments | Action::Subscribe => Scope::MailRead,
        Action::Flag
        | Action::Move
        | Action::Trash
        | Action::Folders
        | Action::Draft
        | Action::Filters => Scope::MailWrite,
        Action::Send => Scope::MailSend,
        Action::Aliases => Scope::AliasesWrite,
    };
    let policy = caller.policy();
    caller.holds(scope) && policy.is_none_or(|policy| policy.allows(action))
}
