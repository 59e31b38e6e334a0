//! One request through one sandbox: wait for a place, make an instance or take one that is kept, call it under the deadline, check its answer.

use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use super::bounds::{self, CpuTime};
use super::room::Seat;
use super::sandbox::{self, Instance};
use super::{CallError, Failing, Module, Request, Response, Route, convert};
use crate::api::{Call, bounded};
use crate::caller::{Caller, Origin};
use crate::error::Failure;
use crate::module_log::{Level, Source};

/// How long a request waits for a sandbox to become free before it is told that there is none.
const PATIENCE: Duration = Duration::from_secs(5);

/// How long the making of a sandbox that nobody waits for may keep a place.
const AHEAD: Duration = Duration::from_secs(1);

impl Module {
    /// Serves one request of `route` in a sandbox, a fresh one unless the operator lets the module keep its own. The deadline covers everything from here on, what the guest asks of the host included.
    ///
    /// # Errors
    /// Any of [`CallError`]; a failure that the module answered itself is a [`Response`].
    pub async fn handle(
        self: &Arc<Self>,
        route: &Route,
        request: Request,
    ) -> Result<Response, CallError> {
        let id = request.id.clone();
        let served = self.in_time(route, self.serve(route, request)).await;
        match &served {
            Ok(_) => self.health.answered(),
            Err(error) => {
                self.report(&id, error);
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

    /// What is done within the deadline of the module and of the route, whatever the guest waits for.
    pub(super) async fn in_time<T>(
        &self,
        route: &Route,
        done: impl Future<Output = Result<T, CallError>>,
    ) -> Result<T, CallError> {
        let deadline = self.deadline.min(route.deadline);
        tokio::time::timeout(deadline, done)
            .await
            .unwrap_or_else(|_| {
                Err(CallError::Deadline {
                    module: self.name.to_string(),
                })
            })
    }

    /// Adds a failed request to the module's log.
    fn report(&self, request: &str, error: &CallError) {
        let backtrace = match error {
            // The client has the response, which the host chose.
            CallError::Refused { .. } => return,
            CallError::Trapped { backtrace, .. } => backtrace.clone(),
            _ => Vec::new(),
        };
        self.log
            .report(request, bounded(&error.to_string()), backtrace);
    }

    async fn serve(
        self: &Arc<Self>,
        route: &Route,
        request: Request,
    ) -> Result<Response, CallError> {
        let account = request.caller.as_ref().map(|caller| &caller.account);
        let admitted = async {
            let turn = match account {
                Some(account) => self.turns.turn(account).await,
                None => None,
            };
            let place = Arc::clone(&self.places).acquire_owned().await.ok()?;
            let (seat, kept) = match self.idle.take() {
                Some((seat, instance)) => (seat, Some(instance)),
                None => (self.room.seat().await?, None),
            };
            Some((turn, place, seat, kept))
        };
        // Given up in the opposite order: the place of a sandbox after the sandbox.
        let admitted = tokio::time::timeout(PATIENCE, admitted).await;
        let Ok(Some((turn, place, seat, kept))) = admitted else {
            return Err(self.busy());
        };
        // Apart: what waits for a place is small then.
        let (response, instance) = Box::pin(self.run(route, request, kept)).await?;
        let spent = if self.room.may_rest() {
            self.idle
                .keep(seat, instance, || self.call(None, Origin::default()))
        } else {
            Some((seat, instance))
        };
        if let Some((seat, instance)) = spent {
            // When the answer is on its way its memory is wiped and the next one made: only the next request waits for the place.
            let (module, span) = (Arc::clone(self), tracing::Span::current());
            tokio::spawn(async move {
                span.in_scope(|| drop(instance));
                drop((turn, span));
                module.make_ahead(seat).await;
                drop(place);
            });
        }
        Ok(response)
    }

    /// Makes the sandbox of the next request, in a place that was used for the last one, unless one waits already. Where that fails, the next request is told, if it
    /// fails there too. The caller holds a place of the module's: nobody waits for the place of a sandbox that waits for a request.
    async fn make_ahead(&self, seat: Seat) {
        if !self.room.may_rest() {
            return;
        }
        let Some(ahead) = self.idle.ahead() else {
            return;
        };
        match tokio::time::timeout(AHEAD, self.made()).await {
            Ok(Ok(instance)) => {
                if let Some((seat, instance)) = ahead.made(seat, instance) {
                    drop(instance);
                    drop(seat);
                }
            }
            Err(_) => tracing::debug!(module = &*self.name, "none was made ahead in time"),
            Ok(Err(error)) => tracing::debug!(module = &*self.name, error, "none was made ahead"),
        }
    }

    /// One request in a sandbox that is kept or, where none is, in a fresh one, for which the caller has a place.
    pub(super) async fn run(
        &self,
        route: &Route,
        request: Request,
        kept: Option<Instance>,
    ) -> Result<(Response, Instance), CallError> {
        let trapped = |detail| CallError::Trapped {
            module: self.name.to_string(),
            detail,
            backtrace: Vec::new(),
        };
        let mut request = request;
        let id = request.id.clone();
        let call = self.call(request.caller.take(), std::mem::take(&mut request.origin));
        let mut cpu = CpuTime::new(self.budget.cpu);
        let mut instance = match kept {
            Some(kept) => kept.again(call, self.budget),
            None => cpu
                .spend(Instance::make(&self.engine, &self.pre, call, self.budget))
                .await
                .map_err(|e| {
                    if bounds::no_room(&e) {
                        self.busy()
                    } else {
                        trapped(format!("no instance of it can be made: {e:#}"))
                    }
                })?,
        };
        let store = &mut instance.store;
        let request = convert::request(request, &mut store.data_mut().call.table)
            .map_err(|e| trapped(format!("{e:#}")))?;
        let module = instance.guest.latchmail_host_module();
        let called = cpu
            .spend(module.call_handle(&mut *store, &route.operation, &request))
            .await;
        let response = match called {
            Ok(response) => response,
            Err(error) => {
                let error = match error.downcast::<Failure>() {
                    Ok(failure) => {
                        return Err(CallError::Refused {
                            module: self.name.to_string(),
                            failure,
                        });
                    }
                    Err(error) => error,
                };
                let trapped = CallError::Trapped {
                    module: self.name.to_string(),
                    detail: sandbox::trap(store, &error),
                    backtrace: sandbox::backtrace(&error),
                };
                // To wipe its memory may take long, too.
                cpu.apart(|| drop(instance));
                return Err(trapped);
            }
        };
        if let Some(written) = sandbox::written(store) {
            tracing::info!(target: "module", module = &*self.name, "it wrote: {written}");
            self.log
                .write(Some(&id), Level::Info, Source::Output, written);
        }
        let table = &mut store.data_mut().call.table;
        let response = convert::response(response, self.budget, table).map_err(|detail| {
            CallError::Answer {
                module: self.name.to_string(),
                detail,
            }
        })?;
        Ok((response, instance))
    }

    fn busy(&self) -> CallError {
        CallError::Busy {
            module: self.name.to_string(),
        }
    }

    /// Drops the sandboxes that are kept, and keeps none any more: for a module that no longer serves, so that they take no place of what does. Requests that are at work end as
    /// they would, and the module with the last of them.
    pub fn retire(&self) {
        self.idle.close();
    }

    /// A call of this module's.
    pub(super) fn call(&self, caller: Option<Caller>, origin: Origin) -> Call {
        Call::new(
            self.services.clone(),
            Arc::clone(&self.name),
            Arc::clone(&self.settings),
            Arc::clone(&self.log),
            caller,
            origin,
        )
    }
}
