//! The handler of the requests of a server, and the state that the server and its handler share.

use std::io;

use bytes::Bytes;
use http::{Request, Response};
use hyper::body::Body;
use latchmail_core::clock::Clock;
use latchmail_core::config::{self, Config};
use latchmail_core::detached_tasks::DetachedTasks;
use latchmail_core::error::StartError;
use tokio_util::sync::CancellationToken;

use crate::client::{Peer, TrustedProxies};
use crate::error::RequestError;
use crate::listener::Role;

/// The handler of the requests of a server. A clone refers to the same state.
pub trait Handler: Clone + Send + Sync + 'static {
    /// The body of a response. A failed body closes the connection.
    type Body: Body<Data = Bytes, Error = io::Error> + Send + Unpin + 'static;

    /// Returns the state of the server.
    fn server(&self) -> &ServerState;

    /// Returns whether the service is about to stop. Responses over HTTP/1 then close their
    /// connections, so that clients do not send another request on a connection that the server
    /// closes.
    fn is_stopping(&self) -> bool;

    /// Returns the response to a request of `peer` on a listener with this role. If the body of the
    /// request was not read to its end, the response must contain `Connection: close`.
    fn handle<B>(
        &self,
        peer: Peer,
        role: Role,
        request: Request<B>,
    ) -> impl Future<Output = Response<Self::Body>> + Send
    where
        B: Body<Data = Bytes, Error: Send> + Send + Unpin;

    /// Returns the response to data that is not a valid request.
    fn reject(&self, role: Role, error: RequestError) -> Response<Self::Body>;
}

/// The settings and the state of a server.
#[derive(Debug)]
pub struct ServerState {
    /// The settings.
    pub config: config::Http,
    /// The clock.
    pub clock: Clock,
    /// The proxies whose information about clients is trusted.
    pub trusted_proxies: TrustedProxies,
    /// The tasks of requests that change data. A task continues if the client disconnects.
    pub tasks: DetachedTasks,
    /// The token that aborts unfinished requests and unfinished tasks in `tasks` at the end of
    /// the shutdown grace period.
    pub abort: CancellationToken,
}

impl ServerState {
    /// Creates the state of a server that does not run yet.
    ///
    /// # Errors
    /// Returns an error if a setting of the configuration is invalid.
    pub fn new(config: &Config, clock: Clock) -> Result<Self, StartError> {
        for (key, value) in [
            ("max_connections", config.http.max_connections),
            ("connections_per_client", config.http.connections_per_client),
            ("body_memory", config.http.body_memory),
        ] {
            if value == 0 {
                return Err(StartError::new(format!("`http.{key}` must be at least 1")));
            }
        }
        Ok(Self {
            config: config.http.clone(),
            clock,
            trusted_proxies: TrustedProxies::parse(&config.http.trusted_proxies)?,
            tasks: DetachedTasks::default(),
            abort: CancellationToken::new(),
        })
    }
}
