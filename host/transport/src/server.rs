//! The server. It accepts connections up to the configured limits, in total and per client, and
//! shuts down gracefully.

use std::io;
use std::sync::Arc;

use futures_util::future::join_all;
use latchmail_core::config::Listen;
use latchmail_core::metrics;
use tokio::sync::Semaphore;
use tokio::time::{Instant, sleep, timeout_at};
use tokio_util::either::Either;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::accept_task::{AcceptTask, RETRY_DELAY};
use crate::client::Peer;
use crate::client_connections::{ClientConnections, ConnectionPermit};
use crate::handler::Handler;
use crate::listener::{Listener, ListenerOptions, Role, Transport};
use crate::tls::{Protocol, Tls};
use crate::{connection, descriptors, http2, proxy_protocol, tcp_options};

/// A running server. Dropping this value does not end the server. Call [`Running::stop`] to end the
/// server.
#[derive(Debug)]
#[must_use = "the server runs until it is stopped"]
pub struct Running {
    addresses: Vec<Listen>,
    accept_task: AcceptTask,
}

/// Starts a server on `listeners`.
pub fn serve<H: Handler>(handler: H, listeners: Vec<Listener>) -> Running {
    let addresses = listeners.iter().map(|one| one.address().clone()).collect();
    let accept_task = AcceptTask::spawn(handler, |handler, stop, connections| {
        accept(handler, listeners, stop, connections)
    });
    Running {
        addresses,
        accept_task,
    }
}

impl Running {
    /// Returns the addresses of the listeners.
    #[must_use]
    pub fn addresses(&self) -> &[Listen] {
        &self.addresses
    }

    /// Returns the number of open connections.
    #[must_use]
    pub fn open_connections(&self) -> usize {
        self.accept_task.open_connections()
    }

    /// Ends the accept loop, closes idle connections, and waits for requests in progress and for
    /// tasks that change data. After `http.shutdown_grace`, aborts the unfinished requests and
    /// tasks.
    pub async fn stop(self) {
        self.accept_task.stop("the HTTP listener").await;
    }
}

/// The values that all listeners of a server share.
struct Shared<H> {
    handler: H,
    permits: Arc<Semaphore>,
    clients: Arc<ClientConnections>,
    stop: CancellationToken,
    connections: TaskTracker,
    http2: http2::Context,
}

async fn accept<H: Handler>(
    handler: H,
    listeners: Vec<Listener>,
    stop: CancellationToken,
    connections: TaskTracker,
) {
    let config = &handler.server().config;
    let max_connections = descriptors::max_connections(config.max_connections);
    let shared = Arc::new(Shared {
        permits: Arc::new(Semaphore::new(max_connections.min(Semaphore::MAX_PERMITS))),
        clients: ClientConnections::new(config.connections_per_client),
        http2: http2::Context {
            requests: ClientConnections::new(config.connections_per_client),
            tasks: connections.clone(),
            abort: handler.server().abort.clone(),
        },
        handler,
        stop,
        connections,
    });
    join_all(
        listeners
            .into_iter()
            .map(|listener| accept_from(&shared, listener)),
    )
    .await;
}

/// Accepts the connections of one listener until the server stops.
async fn accept_from<H: Handler>(shared: &Arc<Shared<H>>, listener: Listener) {
    let server = shared.handler.server();
    let next = async || -> io::Result<_> {
        // The permit is acquired before the connection is accepted, so that connections above the
        // limit wait in the listener's queue.
        let permit = Arc::clone(&shared.permits)
            .acquire_owned()
            .await
            .map_err(io::Error::other)?;
        let (stream, peer) = listener.accept().await?;
        Ok((permit, stream, peer))
    };
    while let Some(accepted) = shared.stop.run_until_cancelled(next()).await {
        let (permit, stream, peer) = match accepted {
            Ok(accepted) => accepted,
            Err(error) => {
                tracing::warn!(%error, "cannot accept a connection");
                shared.stop.run_until_cancelled(sleep(RETRY_DELAY)).await;
                continue;
            }
        };
        // Only trusted proxies send the header of the PROXY protocol. The address of the client is
        // known only after this header.
        let sends_header = server.config.proxy_protocol && server.trusted_proxies.trusts(peer);
        let client_permit = if sends_header {
            None
        } else if let Ok(permit) = shared.client_permit(peer) {
            permit
        } else {
            continue;
        };
        let (task, options) = (Arc::clone(shared), Arc::clone(listener.options()));
        let open = metrics::HTTP_CONNECTIONS.begin();
        shared.connections.spawn(async move {
            let abort = task.handler.server().abort.clone();
            let serving =
                task.serve_connection(stream, peer, sends_header, client_permit, &options);
            abort.run_until_cancelled(serving).await;
            drop((open, permit));
        });
    }
    listener.close();
}

/// The client has reached its limit of connections.
struct LimitReached;

impl<H: Handler> Shared<H> {
    /// Returns a permit for a connection of `peer`. Returns `None` for a trusted proxy above the
    /// limit, because a proxy sends the requests of many clients.
    fn client_permit(&self, peer: Peer) -> Result<Option<ConnectionPermit>, LimitReached> {
        let permit = self.clients.try_acquire(peer.address);
        if permit.is_none() && !self.handler.server().trusted_proxies.trusts(peer) {
            tracing::debug!(peer = %peer.address, "closed a connection of a client that reached its limit");
            return Err(LimitReached);
        }
        Ok(permit)
    }

    async fn serve_connection(
        &self,
        mut stream: Transport,
        peer: Peer,
        sends_header: bool,
        mut client_permit: Option<ConnectionPermit>,
        options: &ListenerOptions,
    ) {
        let config = &self.handler.server().config;
        if let Either::Left(stream) = &stream
            && let Err(error) = tcp_options::set(stream, config.idle_timeout)
        {
            tracing::debug!(%error, "cannot set the options of the connection, closing it");
            return;
        }
        // The header of the PROXY protocol and the TLS handshake must arrive before this time.
        let deadline = Instant::now() + config.header_timeout;
        let mut client = peer;
        if sends_header {
            match self
                .until(deadline, proxy_protocol::read(&mut stream))
                .await
            {
                Ok(address) => client = address.map_or(peer, Peer::from),
                Err(error) => {
                    tracing::debug!(%error, peer = %peer.address, "closed a connection without a valid header of the PROXY protocol");
                    return;
                }
            }
            match self.client_permit(client) {
                Ok(permit) => client_permit = permit,
                Err(LimitReached) => return,
            }
        }
        let role = options.role;
        if let Some(tls) = &options.tls {
            // The future is large, so it is on the heap. Connections without TLS need less memory.
            Box::pin(self.serve_tls(tls, deadline, stream, client, role)).await;
        } else {
            connection::serve(&self.handler, stream, client, role, &self.stop).await;
        }
        drop(client_permit);
    }

    /// Returns the result of an operation that must end before the deadline and before the server
    /// stops.
    async fn until<T>(
        &self,
        deadline: Instant,
        operation: impl Future<Output = io::Result<T>>,
    ) -> io::Result<T> {
        let operation = timeout_at(deadline, operation);
        match self.stop.run_until_cancelled(operation).await {
            Some(Ok(result)) => result,
            Some(Err(_)) => Err(io::ErrorKind::TimedOut.into()),
            None => Err(io::ErrorKind::Interrupted.into()),
        }
    }

    async fn serve_tls(
        &self,
        tls: &Tls,
        deadline: Instant,
        stream: Transport,
        client: Peer,
        role: Role,
    ) {
        let (stream, protocol) = match self.until(deadline, tls.accept(stream)).await {
            Ok(accepted) => accepted,
            Err(error) => {
                tracing::debug!(%error, peer = %client.address, "TLS handshake failed");
                return;
            }
        };
        match protocol {
            Protocol::AcmeChallenge => {}
            Protocol::Http1 => {
                connection::serve(&self.handler, stream, client, role, &self.stop).await;
            }
            Protocol::Http2 => {
                http2::serve(&self.handler, stream, client, role, &self.http2, &self.stop).await;
            }
        }
    }
}
