//! Runs one request in one sandbox. The request first waits for its permits. Then the module's
//! function is called in an idle or a new sandbox. Finally, the response of the module is checked.
//! The deadline limits the whole duration.

use std::future::Future;
use std::mem;
use std::sync::Arc;
use std::time::Duration;

use http::{StatusCode, header};
use latchmail_core::caller::Origin;
use latchmail_core::error::Failure;
use latchmail_core::mail_server_start;
use latchmail_core::traces::{Kind, Span};
use wasmtime::Store;

use super::convert;
use super::error::CallError;
use super::health::Failing;
use super::limits::{self, CpuTime};
use super::manifest::Route;
use super::message::{Request, Response};
use super::module::Module;
use super::recording::StartedRecording;
use super::sandbox::{self, Budget, Instance, Sandbox};
use super::sandbox_permits::SandboxPermit;
use super::wasi_http;
use crate::api::Call;
use crate::log_line::to_log_line;
use crate::module_log::{Level, Source};

/// The maximum time for which a request waits for its permits. After this time, the request fails
/// with [`CallError::Busy`].
const PERMIT_TIMEOUT: Duration = Duration::from_secs(5);

/// The maximum time for creating a sandbox in advance. During this time, the new sandbox uses one
/// permit.
const PREPARE_TIMEOUT: Duration = Duration::from_secs(1);

impl Module {
    /// Serves one request of `route` in an idle sandbox, or in a new sandbox if no sandbox is idle.
    /// The deadline includes the wait for permits and all host calls of the guest.
    ///
    /// # Errors
    /// Returns a [`CallError`] if the module returns no valid response. A valid response with an
    /// error status is `Ok`.
    pub async fn handle(
        self: &Arc<Self>,
        route: &Route,
        request: Request,
    ) -> Result<Response, CallError> {
        let id = request.id.clone();
        let start = std::time::Instant::now();
        let mut span =
            Span::start(Kind::Internal, || format!("sandbox {}", self.name).into()).entered();
        let result = self.with_deadline(route, self.serve(route, request)).await;
        let outcome = self.metrics.finished(&result, start.elapsed());
        span.set("latchmail.module.version", &self.manifest.version);
        span.set("latchmail.outcome", outcome);
        // `EndedByHost` is not a fault of the module, for example if a rate limit was exceeded. So
        // the span does not fail.
        if !matches!(result, Ok(_) | Err(CallError::EndedByHost { .. })) {
            span.fail(outcome);
        }
        drop(span);
        match &result {
            Ok(_) => self.health.succeeded(),
            Err(error) => {
                // If the host ended the request, the client receives the reason, so the log needs
                // no entry.
                if !matches!(error, CallError::EndedByHost { .. }) {
                    self.report(&id, error);
                }
                if self.health.failed(error, self.clock.now()) {
                    // An error is ignored, because sending fails only after the receiver was
                    // dropped at the end of the service.
                    let _ = self.failing.send(Failing {
                        module: Arc::clone(&self.name),
                        digest: Arc::clone(&self.digest),
                    });
                }
            }
        }
        result
    }

    /// Awaits `call`. Returns an error if the deadline of the module or the deadline of the route
    /// passes.
    pub(super) async fn with_deadline<T>(
        &self,
        route: &Route,
        call: impl Future<Output = Result<T, CallError>>,
    ) -> Result<T, CallError> {
        let deadline = self.deadline.min(route.deadline);
        tokio::time::timeout(deadline, call)
            .await
            .unwrap_or_else(|_| Err(self.late()))
    }

    /// Writes the error of a failed request or call to the log of the module.
    pub(super) fn report(&self, request: &str, error: &CallError) {
        let backtrace = match error {
            CallError::Trapped { backtrace, .. } => backtrace.clone(),
            _ => Vec::new(),
        };
        self.log
            .report(request, to_log_line(&error.to_string()), backtrace);
    }

    /// Waits for the permits and runs the request. After the request, the sandbox becomes idle or
    /// is replaced with a new sandbox.
    async fn serve(
        self: &Arc<Self>,
        route: &Route,
        request: Request,
    ) -> Result<Response, CallError> {
        let recording = self.recorder.start(route, &request);
        let account = request.caller.as_ref().map(|caller| &caller.account);
        let permits = async {
            let account_permit = match account {
                Some(account) => self.account_permits.acquire(account).await,
                None => None,
            };
            let call_permit = Arc::clone(&self.call_permits).acquire_owned().await.ok()?;
            let (sandbox_permit, idle) = match self.idle.take() {
                Some((permit, instance)) => (permit, Some(instance)),
                None => (self.sandbox_permits.acquire().await?, None),
            };
            Some((account_permit, call_permit, sandbox_permit, idle))
        };
        let permits = tokio::time::timeout(PERMIT_TIMEOUT, permits).await;
        // The variables of this pattern are dropped in reverse order, so the sandbox is dropped
        // before its permit.
        let Ok(Some((account_permit, call_permit, sandbox_permit, idle))) = permits else {
            return Err(self.busy());
        };
        // A recorded request needs a new sandbox, whose time and randomness can be repeated.
        let is_recorded = recording.is_some();
        let idle = idle.filter(|_| !is_recorded);
        let in_use = self.metrics.use_sandbox();
        // Boxing reduces the size of this function's future while the request waits for permits.
        let (response, instance) = Box::pin(self.run(route, request, idle, recording)).await?;
        drop(in_use);
        let not_kept = if self.sandbox_permits.allows_idle() && !is_recorded {
            self.idle.keep(sandbox_permit, instance, || {
                self.new_call(None, Origin::default())
            })
        } else {
            Some((sandbox_permit, instance))
        };
        if let Some((sandbox_permit, instance)) = not_kept {
            // Dropping the sandbox wipes its memory. The wipe and the creation of the next sandbox
            // take time, so a separate task does this work after the response. The work delays only
            // the next request with this permit.
            let (module, span) = (Arc::clone(self), tracing::Span::current());
            tokio::spawn(async move {
                span.in_scope(|| drop(instance));
                drop((account_permit, span));
                module.prepare_next(sandbox_permit).await;
                drop(call_permit);
            });
        }
        Ok(response)
    }

    /// Creates a sandbox for the next request, unless a sandbox is idle. The new sandbox uses
    /// `permit` of the finished request. If the creation fails, the next request creates a sandbox
    /// and reports the error.
    ///
    /// During this call, the calling task has a call permit of the module. A module has at most as
    /// many call permits as sandbox permits, so no other request of the module has to wait for
    /// `permit`.
    async fn prepare_next(&self, permit: SandboxPermit) {
        if !self.sandbox_permits.allows_idle() {
            return;
        }
        let Some(preparation) = self.idle.prepare() else {
            return;
        };
        match tokio::time::timeout(PREPARE_TIMEOUT, self.instantiate()).await {
            Ok(Ok(instance)) => {
                if let Some((permit, instance)) = preparation.finish(permit, instance) {
                    drop(instance);
                    drop(permit);
                }
            }
            Err(_) => tracing::debug!(
                module = &*self.name,
                "timed out creating a sandbox in advance"
            ),
            Ok(Err(error)) => tracing::debug!(
                module = &*self.name,
                error,
                "failed to create a sandbox in advance"
            ),
        }
    }

    /// Runs one request in the sandbox `idle`, or in a new sandbox if `idle` is `None`. The caller
    /// must have the permits. A request with a `recording` must have a new sandbox.
    pub(super) async fn run(
        &self,
        route: &Route,
        request: Request,
        idle: Option<Instance>,
        recording: Option<Box<StartedRecording>>,
    ) -> Result<(Response, Instance), CallError> {
        let mut request = request;
        let id = request.id.clone();
        let origin = request.origin();
        let mut call = self.new_call(request.caller.take(), origin);
        call.has_range = request.headers.contains_key(header::RANGE);
        call.authorization = request.headers.get(header::AUTHORIZATION).cloned();
        if let Some(authorization) = &mut call.authorization {
            authorization.set_sensitive(true);
        }
        if let Some(recording) = &recording {
            call.tape = recording.tape();
        }
        let mut cpu = CpuTime::new(self.budget.cpu).counted_in(&self.metrics.cpu);
        let mut instance = match idle {
            Some(instance) => instance.reuse(call, self.budget),
            None => self.create(&mut cpu, call, self.budget).await?,
        };
        let store = &mut instance.store;
        let invalid = |detail| CallError::InvalidResponse {
            module: self.name.to_string(),
            detail,
        };
        let called = if let Some(guest) = instance.guest.standard() {
            let max = self.budget.response;
            wasi_http::handle(guest, store, &route.method, request, max, &mut cpu).await
        } else if let Some(module) = instance.guest.module() {
            let request = convert::request(request, route.body, &mut store.data_mut().call.table)
                .map_err(|e| self.trapped(format!("{e:#}")))?;
            cpu.spend(module.call_handle(&mut *store, &route.operation, &request))
                .await
                .map(Ok)
        } else {
            return Err(self.trapped("it has no routes".into()));
        };
        let response = match called {
            Ok(response) => response.map_err(invalid)?,
            Err(error) => return Err(self.ended(&cpu, instance, error)),
        };
        self.log_output(&id, store);
        let call = &mut store.data_mut().call;
        let json_strings = mem::take(&mut call.json_strings);
        let tape = mem::take(&mut call.tape);
        let response = convert::response(response, json_strings, self.budget, &mut call.table)
            .map_err(invalid)?;
        if response.status == StatusCode::SERVICE_UNAVAILABLE
            && self.uses_mail_server()
            && mail_server_start::is_starting()
        {
            // The module cannot distinguish an outage from the start of the mail server. The host's
            // text says that the mail server is starting.
            return Err(CallError::EndedByHost {
                module: self.name.to_string(),
                failure: Failure::mail_unavailable(),
            });
        }
        if let Some(recording) = recording {
            recording.finish(tape);
        }
        Ok((response, instance))
    }

    /// Creates a sandbox within the CPU time `cpu`.
    pub(super) async fn create(
        &self,
        cpu: &mut CpuTime,
        call: Call,
        budget: Budget,
    ) -> Result<Instance, CallError> {
        let metrics = Some(Arc::clone(&self.metrics));
        let instance = Instance::new(&self.engine, &self.linked, call, budget, metrics);
        cpu.spend(instance).await.map_err(|error| {
            if limits::is_pool_full(&error) {
                self.busy()
            } else {
                self.trapped(format!("it cannot be instantiated: {error:#}"))
            }
        })
    }

    /// Drops an instance whose call ended with `error`, and returns the error of the call.
    pub(super) fn ended(
        &self,
        cpu: &CpuTime,
        instance: Instance,
        error: wasmtime::Error,
    ) -> CallError {
        let error = match error.downcast::<Failure>() {
            Ok(failure) => {
                return CallError::EndedByHost {
                    module: self.name.to_string(),
                    failure,
                };
            }
            Err(error) => error,
        };
        let trapped = CallError::Trapped {
            module: self.name.to_string(),
            detail: sandbox::trap_reason(&instance.store, &error),
            backtrace: sandbox::backtrace(&error),
        };
        // Dropping the instance wipes its memory. This can take a long time, so the other tasks of
        // this thread can move to another thread.
        cpu.run_exclusively(|| drop(instance));
        trapped
    }

    /// Writes the standard output of a call to the logs. `call` is the id of the call.
    pub(super) fn log_output(&self, call: &str, store: &Store<Sandbox>) {
        if let Some(output) = sandbox::output(store) {
            tracing::info!(target: "module", module = &*self.name, "it wrote: {output}");
            self.log
                .write(Some(call), Level::Info, Source::Output, output);
        }
    }

    /// Returns whether the module imports an interface of the mail server.
    fn uses_mail_server(&self) -> bool {
        let names = ["mailbox", "outbox", "compose", "drafts"];
        let prefixes = names.map(|name| format!("latchmail:host/{name}@"));
        let is_used = |import: &String| prefixes.iter().any(|prefix| import.starts_with(prefix));
        self.imports.iter().any(is_used)
    }

    pub(super) fn busy(&self) -> CallError {
        CallError::Busy {
            module: self.name.to_string(),
        }
    }

    pub(super) fn late(&self) -> CallError {
        CallError::Deadline {
            module: self.name.to_string(),
        }
    }

    pub(super) fn trapped(&self, detail: String) -> CallError {
        CallError::Trapped {
            module: self.name.to_string(),
            detail,
            backtrace: Vec::new(),
        }
    }
}
