//! The TCP server. It accepts connections up to the configured limits, in total and per client, and shuts down gracefully.

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;

use latchmail_core::error::StartError;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Semaphore;
use tokio::time::sleep;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::accept_task::{AcceptTask, RETRY_DELAY};
use crate::client_connections::ClientConnections;
use crate::state::State;
use crate::{connection, descriptors};

/// A running server. Dropping this value does not end the server. Call [`Running::stop`] to end the server.
#[derive(Debug)]
#[must_use = "the server runs until it is stopped"]
pub struct Running {
    address: SocketAddr,
    accept_task: AcceptTask,
}

/// Starts a server on `listener`.
///
/// # Errors
/// Returns an error if the listener's address cannot be read.
pub fn serve<S: State>(state: &Arc<S>, listener: TcpListener) -> Result<Running, StartError> {
    let address = listener.local_addr().map_err(|error| {
        StartError::new(format!(
            "cannot read the address of the HTTP listener: {error}"
        ))
    })?;
    let accept_task = AcceptTask::spawn(state, |state, stop, connections| {
        accept(state, listener, stop, connections)
    });
    Ok(Running {
        address,
        accept_task,
    })
}

impl Running {
    /// Returns the address of the listener.
    #[must_use]
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Ends the accept loop, closes idle connections, and waits for requests in progress and for tasks that change data. After `http.shutdown_grace`, aborts
    /// the unfinished requests and tasks.
    pub async fn stop(self) {
        self.accept_task.stop("the HTTP listener").await;
    }
}

async fn accept<S: State>(
    state: Arc<S>,
    listener: TcpListener,
    stop: CancellationToken,
    connections: TaskTracker,
) {
    let max_connections = descriptors::max_connections(state.http().config.max_connections);
    let permits = Arc::new(Semaphore::new(max_connections.min(Semaphore::MAX_PERMITS)));
    let clients = ClientConnections::new(state.http().config.connections_per_client);
    let mut refused = 0_u64;
    let next = async || -> io::Result<_> {
        // The permit is acquired before the connection is accepted, so that connections above the limit wait in the listener's queue.
        let permit = Arc::clone(&permits)
            .acquire_owned()
            .await
            .map_err(io::Error::other)?;
        let (stream, peer) = listener.accept().await?;
        Ok((permit, stream, peer))
    };
    while let Some(accepted) = stop.run_until_cancelled(next()).await {
        let (permit, stream, peer) = match accepted {
            Ok(accepted) => accepted,
            Err(error) => {
                tracing::warn!(%error, "cannot accept a connection");
                stop.run_until_cancelled(sleep(RETRY_DELAY)).await;
                continue;
            }
        };
        // The limit per client does not apply to a trusted proxy, because a proxy sends the requests of many clients.
        let is_proxy = state
            .http()
            .trusted_proxies
            .contains(peer.ip().to_canonical());
        let client_permit = clients.try_acquire(peer.ip());
        if client_permit.is_none() && !is_proxy {
            refused += 1;
            tracing::debug!(peer = %peer.ip(), refused, "closed a connection of a client that reached its limit");
            continue;
        }
        let state = Arc::clone(&state);
        let stop = stop.clone();
        connections.spawn(async move {
            let abort = state.http().abort.clone();
            abort
                .run_until_cancelled(serve_connection(state, stream, peer, &stop))
                .await;
            drop((permit, client_permit));
        });
    }
}

async fn serve_connection<S: State>(
    state: Arc<S>,
    stream: TcpStream,
    peer: SocketAddr,
    stop: &CancellationToken,
) {
    if let Err(error) = stream.set_nodelay(true) {
        tracing::debug!(%error, "cannot set TCP_NODELAY, closing the connection");
        return;
    }
    connection::serve(state, stream, peer.ip(), stop).await;
}

#[cfg(test)]
mod tests;
