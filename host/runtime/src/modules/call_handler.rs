//! Runs one call of a handler in one sandbox. The call first waits for its permits, which are
//! separate from the permits of requests.

use std::sync::Arc;

use latchmail_core::caller::{Caller, Origin};
use latchmail_core::traces::{Kind, Span};
use tokio::time::{Instant, timeout};

use super::error::CallError;
use super::handlers::{self, HandlerOutcome, Trigger};
use super::limits::CpuTime;
use super::module::Module;
use crate::api::{Preview, Recorder};

impl Module {
    /// Calls the handler of an event or of a timer in a new sandbox. `caller` is the owner of the
    /// mailbox, with [`Credential::Handler`](latchmail_core::caller::Credential). With `recorder`,
    /// the call is a preview: changes are recorded there and not made.
    ///
    /// The result does not count towards the health of the module, which counts requests. An error
    /// is written to the log of the module, with the id `event-ID` or `timer-NAME`.
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
        let id = trigger.call_id();
        let start = Instant::now();
        let mut span =
            Span::start(Kind::Internal, || format!("sandbox {}", self.name).into()).entered();
        let result = self.wait_and_call(trigger, &id, caller, recorder).await;
        let outcome = self.metrics.finished(&result, start.elapsed());
        span.set("latchmail.module.version", &self.manifest.version);
        span.set("latchmail.outcome", outcome);
        if let Err(error) = &result {
            if !matches!(error, CallError::EndedByHost { .. }) {
                span.fail(outcome);
            }
            self.report(&id, error);
        }
        result
    }

    /// Waits for the permits and runs the call. The wait and the call have the same deadline each.
    async fn wait_and_call(
        &self,
        trigger: Trigger<'_>,
        id: &str,
        caller: Caller,
        recorder: Option<Arc<Recorder>>,
    ) -> Result<HandlerOutcome, CallError> {
        let deadline = self.handlers.deadline;
        let permits = async {
            // The permit of the module is first, so that the waiting calls of one module do not
            // delay the calls of other modules.
            let call_permit = Arc::clone(&self.handlers.call_permits)
                .acquire_owned()
                .await;
            let sandbox_permit = self.handlers.sandbox_permits.acquire().await?;
            Some((call_permit.ok()?, sandbox_permit))
        };
        // The sandbox is dropped before its permits.
        let Ok(Some(_permits)) = timeout(deadline, permits).await else {
            return Err(self.busy());
        };
        let _in_use = self.metrics.use_sandbox();
        // Boxing reduces the size of this function's future while the call waits for permits.
        let call = Box::pin(self.run_handler(trigger, id, caller, recorder));
        let result = timeout(deadline, call).await;
        result.unwrap_or_else(|_| Err(self.late()))
    }

    /// Runs one call in a new sandbox. The caller must have the permits.
    async fn run_handler(
        &self,
        trigger: Trigger<'_>,
        id: &str,
        caller: Caller,
        recorder: Option<Arc<Recorder>>,
    ) -> Result<HandlerOutcome, CallError> {
        let budget = self.handlers.budget;
        let origin = Origin::handler(&self.name, id, &caller);
        let mut call = self.new_call(Some(caller), origin);
        call.preview = Preview(recorder);
        let mut cpu = CpuTime::new(budget.cpu).counted_in(&self.metrics.cpu);
        let mut instance = self.create(&mut cpu, call, budget).await?;
        let store = &mut instance.store;
        let Some(guest) = instance.guest.handlers() else {
            return Err(self.trapped("it does not export `handlers`".into()));
        };
        let result = match trigger {
            Trigger::Event {
                id,
                kind,
                time,
                data,
            } => {
                let event = handlers::event(id, kind, time, data);
                cpu.spend(guest.call_on_event(&mut *store, &event)).await
            }
            Trigger::Timer(name) => cpu.spend(guest.call_on_timer(&mut *store, name)).await,
        };
        let outcome = match result {
            Ok(outcome) => outcome,
            Err(error) => return Err(self.ended(&cpu, instance, error)),
        };
        self.log_output(id, store);
        cpu.run_exclusively(|| drop(instance));
        Ok(handlers::outcome(outcome))
    }
}
