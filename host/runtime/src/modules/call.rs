//! Runs one request in one sandbox: waits for permits, takes an idle instance or makes one, calls the guest under the deadline, and checks its
//! response.

use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use latchmail_core::caller::{Caller, Origin};
use latchmail_core::error::Failure;

use super::bounds::{self, CpuTime};
use super::room::Seat;
use super::sandbox::{self, Instance};
use super::{CallError, Failing, Module, Request, Response, Route, convert};
use crate::api::{Call, bounded};
use crate::module_log::{Level, Source};

/// How long a request waits for its permits before it fails with [`CallError::Busy`].
const PATIENCE: Duration = Duration::from_secs(5);

/// The maximum time for making a sandbox ahead, during which it holds a permit.
const AHEAD: Duration = Duration::from_secs(1);

impl Module {
    /// Serves one request of `route`, in a fresh sandbox or, with `reuse`, in an idle one. The deadline covers the wait for permits and all host
    /// calls of the guest.
    ///
    /// # Errors
    /// Any [`CallError`]. An error response that the module itself returns is a [`Response`].
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
                    // The receiver is dropped when the service stops.
                    let _ = self.failing.send(Failing {
                        module: Arc::clone(&self.name),
                        digest: Arc::clone(&self.digest),
                    });
                }
            }
        }
        served
    }

    /// Runs `done` within the deadlines of the module and of the route.
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
            // The host chose this response, and the client received it.
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
                Some(account) => self.permits.acquire(account).await,
                None => None,
            };
            let place = Arc::clone(&self.places).acquire_owned().await.ok()?;
            let (seat, kept) = match self.idle.take() {
                Some((seat, instance)) => (seat, Some(instance)),
                None => (self.room.seat().await?, None),
            };
            Some((turn, place, seat, kept))
        };
        // Released in the opposite order: the permit of a sandbox after the sandbox.
        let admitted = tokio::time::timeout(PATIENCE, admitted).await;
        let Ok(Some((turn, place, seat, kept))) = admitted else {
            return Err(self.busy());
        };
        // Boxed, so that the future of a request that waits for permits stays small.
        let (response, instance) = Box::pin(self.run(route, request, kept)).await?;
        let spent = if self.room.may_rest() {
            self.idle
                .keep(seat, instance, || self.call(None, Origin::default()))
        } else {
            Some((seat, instance))
        };
        if let Some((seat, instance)) = spent {
            // Wiping the memory and making the next sandbox happen after the response is returned. Only the next request of this permit
            // waits for it.
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

    /// Makes the sandbox of the next request with the permit of the last one, unless a sandbox is idle. If it fails, the next request makes its
    /// own sandbox and reports the error. The caller holds one of the module's permits, so no request waits for the permit of an idle sandbox.
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
            Err(_) => tracing::debug!(module = &*self.name, "timed out making a sandbox ahead"),
            Ok(Err(error)) => tracing::debug!(
                module = &*self.name,
                error,
                "failed to make a sandbox ahead"
            ),
        }
    }

    /// Runs one request in the given idle sandbox or, without one, in a fresh sandbox. The caller holds the permits.
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
        let origin = request.origin();
        let call = self.call(request.caller.take(), origin);
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
                        trapped(format!("it cannot be instantiated: {e:#}"))
                    }
                })?,
        };
        let store = &mut instance.store;
        let request = convert::request(request, route.body, &mut store.data_mut().call.table)
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
                // Wiping the memory can take long.
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

    /// Drops the idle sandboxes and keeps none from now on. For a module that no longer serves, so that it holds no permits. Running requests
    /// finish normally, and the module is dropped after the last of them.
    pub fn retire(&self) {
        self.idle.close();
    }

    /// Makes the call state of a request of this module.
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
