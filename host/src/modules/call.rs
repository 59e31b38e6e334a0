//! One request through one sandbox: wait for a place, make an instance or take one that is kept, call it under the deadline, check its answer.

use std::sync::Arc;
use std::time::Duration;

use super::bounds::{self, CpuTime};
use super::sandbox::{self, Instance};
use super::{CallError, Failing, Module, Request, Response, Route, convert};
use crate::api::Call;
use crate::caller::{Caller, Origin};

/// How long a request waits for a sandbox to become free before it is told that there is none.
const PATIENCE: Duration = Duration::from_secs(5);

impl Module {
    /// Serves one request of `route` in a sandbox, a fresh one unless the operator lets the module keep its own. The deadline covers everything from here on, what the guest asks of the host included.
    ///
    /// # Errors
    /// Any of [`CallError`]; a failure that the module answered itself is a [`Response`].
    pub async fn handle(&self, route: &Route, request: Request) -> Result<Response, CallError> {
        let deadline = self.deadline.min(route.deadline);
        let served = tokio::time::timeout(deadline, self.serve(route, request))
            .await
            .unwrap_or_else(|_| {
                Err(CallError::Deadline {
                    module: self.name.to_string(),
                })
            });
        match &served {
            Ok(_) => self.health.answered(),
            Err(error) => {
                if self.health.failed(error, self.clock.now()) {
                    // Nobody listens any more where the service ends.
                    let _ = self.failing.send(Failing {
                        module: Arc::clone(&self.name),
                        digest: Arc::clone(&self.digest),
                    });
                }
            }
        }
        served
    }

    pub(super) async fn serve(
        &self,
        route: &Route,
        request: Request,
    ) -> Result<Response, CallError> {
        let account = request.caller.as_ref().map(|caller| &caller.account);
        let admitted = async {
            let turn = match account {
                Some(account) => self.turns.turn(account).await,
                None => None,
            };
            (turn, self.places.acquire().await.ok())
        };
        let busy = || CallError::Busy {
            module: self.name.to_string(),
        };
        let Ok((_turn, Some(_place))) = tokio::time::timeout(PATIENCE, admitted).await else {
            return Err(busy());
        };
        let trapped = |detail| CallError::Trapped {
            module: self.name.to_string(),
            detail,
        };
        let mut request = request;
        let call = self.call(request.caller.take(), std::mem::take(&mut request.origin));
        let mut cpu = CpuTime::new(self.budget.cpu);
        let mut instance = match self.idle.take() {
            Some(kept) => kept.again(call, self.budget),
            None => cpu
                .spend(Instance::make(&self.engine, &self.pre, call, self.budget))
                .await
                .map_err(|e| {
                    if bounds::no_room(&e) {
                        busy()
                    } else {
                        trapped(format!("no instance of it can be made: {e:#}"))
                    }
                })?,
        };
        let store = &mut instance.store;
        let request = convert::request(request, &mut store.data_mut().call.table)
            .map_err(|e| trapped(format!("{e:#}")))?;
        let module = instance.guest.latchmail_host_module();
        let response = cpu
            .spend(module.call_handle(&mut *store, &route.operation, &request))
            .await
            .map_err(|error| trapped(sandbox::trap(store, &error)))?;
        if let Some(written) = sandbox::written(store) {
            tracing::info!(target: "module", module = &*self.name, "it wrote: {written}");
        }
        let table = &mut store.data_mut().call.table;
        let response =
            convert::response(response, self.budget.response, table).map_err(|detail| {
                CallError::Answer {
                    module: self.name.to_string(),
                    detail,
                }
            })?;
        self.idle
            .keep(instance, || self.call(None, Origin::default()));
        Ok(response)
    }

    /// Drops the sandboxes that are kept: for a module that no longer serves, so that they take no place of what does. Requests that are at work end as
    /// they would, and the module with the last of them.
    pub fn retire(&self) {
        self.idle.clear();
    }

    /// A call of this module's.
    pub(super) fn call(&self, caller: Option<Caller>, origin: Origin) -> Call {
        Call::new(
            self.services.clone(),
            Arc::clone(&self.name),
            Arc::clone(&self.settings),
            caller,
            origin,
        )
    }
}
