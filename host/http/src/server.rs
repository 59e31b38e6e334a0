//! Connects the routes of a server with its transport: each request runs through the
//! [`crate::pipeline`].

use std::sync::Arc;

use bytes::Bytes;
use http::{Request, Response};
use latchmail_core::metrics;
use latchmail_core::traces::TraceId;
use latchmail_transport::client::Peer;
use latchmail_transport::{Body, Handler, Listener, RequestError, Role, Running, ServerState};

use crate::response_body::ResponseBody;
use crate::state::State;
use crate::{pipeline, redirect, request_id, response};

/// The handler of the requests of a server.
pub(crate) struct StateHandler<S>(pub(crate) Arc<S>);

/// Starts a server on `listeners`.
pub fn serve<S: State>(state: &Arc<S>, listeners: Vec<Listener>) -> Running {
    latchmail_transport::serve(StateHandler(Arc::clone(state)), listeners)
}

impl<S> Clone for StateHandler<S> {
    fn clone(&self) -> Self {
        Self(Arc::clone(&self.0))
    }
}

impl<S: State> Handler for StateHandler<S> {
    type Body = ResponseBody;

    fn server(&self) -> &ServerState {
        &self.0.http().server
    }

    fn is_stopping(&self) -> bool {
        self.0.is_stopping()
    }

    async fn handle<B>(&self, peer: Peer, role: Role, request: Request<B>) -> Response<ResponseBody>
    where
        B: Body<Data = Bytes, Error: Send> + Send + Unpin,
    {
        match role {
            Role::Service => pipeline::handle(&self.0, peer, request).await,
            Role::Redirect => redirect::respond(&self.0.http().base_url, request),
        }
    }

    fn reject(&self, role: Role, error: RequestError) -> Response<ResponseBody> {
        let id = request_id::new_id();
        let status = error.status;
        tracing::info!(%id, trace_id = %TraceId::random(), status = status.as_u16(), "rejected an invalid request");
        metrics::HTTP_REQUESTS.increment(["-", "other", status.as_str()]);
        let mut response = response::from_result(Err(error.into()));
        let hsts = self.0.http().hsts.as_ref();
        let hsts = hsts.filter(|_| role == Role::Service);
        response::add_common_headers(&id, hsts, response.headers_mut());
        response
    }
}

#[cfg(test)]
mod tests;
