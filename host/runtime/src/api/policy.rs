//! Checks of the policy of the caller's grant, for actions that are not operations on a mailbox.
//! The mailbox and the outbox ask the policy themselves.

use latchmail_bindings::latchmail::host::types::Error;
use latchmail_core::caller::{Caller, Scope};
use latchmail_core::policy::{Action, denied};

use super::call::Call;
use super::problem;

/// Checks that the policy of the caller's grant allows an action. `what` completes the sentence
/// "The policy of this grant does not allow …".
pub(super) fn require_policy(call: &Call, action: Action, what: &str) -> Result<(), Error> {
    let policy = call.caller.as_ref().and_then(Caller::policy);
    if policy.is_none_or(|policy| policy.allows(action)) {
        Ok(())
    } else {
        Err(Error::Denied(problem::of(denied(what))))
    }
}

/// Returns `true` if the caller has the scope, and the policy of the caller's grant leaves an
/// action that needs the scope.
pub(super) fn is_usable(caller: &Caller, scope: Scope) -> bool {
    let action = match scope {
        Scope::MailSend => Some(Action::Send),
        Scope::AliasesWrite => Some(Action::Aliases),
        Scope::MailRead | Scope::MailWrite | Scope::AliasesRead | Scope::ProfileRead => None,
    };
    let policy = caller.policy().zip(action);
    caller.holds(scope) && policy.is_none_or(|(policy, action)| policy.allows(action))
}
