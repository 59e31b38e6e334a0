//! Calls the handler of a route within the route's deadline.

use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::time::Duration;

use futures_util::FutureExt as _;
use latchmail_core::work_queue;
use tokio::sync::oneshot;
use tokio::time::timeout;
use tokio_util::sync::CancellationToken;

use crate::message::{Request, Response};
use crate::rejection::Rejection;
use crate::route_group::Target;
use crate::router::RouteEntry;
use crate::state::State;
use crate::{call_error, response};

/// Calls the handler. If the method of the request is safe, the call is cancelled when the client
/// disconnects. Any other request can change data, so the call runs on a separate task. This task
/// finishes even if the client disconnects, unless it waits in a [`work_queue`].
pub(super) async fn run<S: State>(
    state: &Arc<S>,
    entry: Arc<RouteEntry<S>>,
    request: Request,
) -> Result<Response, Rejection> {
    let http = state.http();
    let is_safe = entry.route.method.is_safe();
    let deadline = match entry.target {
        Target::Host(_) => entry.route.deadline,
        // `Module::handle` enforces the deadline of a module's route.
        Target::Module(_) => Duration::MAX,
    };
    let call = call(Arc::clone(state), entry, request);
    if is_safe {
        return timeout(deadline, call)
            .await
            .unwrap_or_else(|_| Err(call_error::deadline_exceeded()));
    }
    let (sender, receiver) = oneshot::channel();
    let abort = http.server.abort.clone();
    let disconnected = CancellationToken::new();
    let call = work_queue::with_client(disconnected.clone(), call);
    // If the client disconnects, this future is dropped. The guard then cancels `disconnected`.
    let _disconnected = disconnected.drop_guard();
    let task = async move {
        let call = abort
            .run_until_cancelled(call)
            .map(|result| result.unwrap_or_else(|| Err(call_error::outcome_unknown())));
        if let Err(Err(rejection)) = sender.send(catch_panic(call).await) {
            // The client has disconnected, so the error cannot be sent and is only logged.
            response::log(&rejection);
        }
    };
    http.server.tasks.spawn(task);
    match timeout(deadline, receiver).await {
        Ok(Ok(result)) => result,
        Err(_) | Ok(Err(_)) => Err(call_error::outcome_unknown()),
    }
}

/// Returns the result of a future, or the 500 error if the future panics. This function is not an
/// `async fn`, because an `async fn` would store the future twice.
pub(super) fn catch_panic(
    future: impl Future<Output = Result<Response, Rejection>>,
) -> impl Future<Output = Result<Response, Rejection>> {
    AssertUnwindSafe(future)
        .catch_unwind()
        .map(|result| result.unwrap_or_else(|panic| Err(response::panic_rejection(&*panic))))
}

async fn call<S: State>(
    state: Arc<S>,
    entry: Arc<RouteEntry<S>>,
    request: Request,
) -> Result<Response, Rejection> {
    let route = &entry.route;
    match &entry.target {
        Target::Host(handler) => handler(&state, &request).await,
        Target::Module(module) => module
            .handle(route, request)
            .await
            .map_err(|error| call_error::rejection(&route.method, error)),
    }
}
