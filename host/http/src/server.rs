//! The server: accepts connections up to the configured limits, in total and per client, and shuts down gracefully.

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use latchmail_core::error::StartError;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Semaphore;
use tokio::time::sleep;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use super::accepting::Accepting;
use super::peers::Peers;
use super::{State, connection, descriptors};

/// The delay after a failed accept. The system has run out of a resource, so an immediate retry would fail too.
pub(crate) const BREATH: Duration = Duration::from_millis(100);

/// A running server. Dropping this value does not end the server; [`Running::stop`] does.
#[derive(Debug)]
#[must_use = "a server is ended by stopping it"]
pub struct Running {
    address: SocketAddr,
    accepting: Accepting,
}

/// Starts a server on `listener`.
///
/// # Errors
/// Returns an error if the listener's address cannot be read.
pub fn serve<S: State>(state: &Arc<S>, listener: TcpListener) -> Result<Running, StartError> {
    let address = listener
        .local_addr()
        .map_err(|error| StartError::new(format!("cannot listen: {error}")))?;
    let accepting = Accepting::begin(state, |state, stop, connections| {
        accept(state, listener, stop, connections)
    });
    Ok(Running { address, accepting })
}

impl Running {
    /// Returns the address of the listener.
    #[must_use]
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Stops accepting connections, closes the idle ones, and waits for requests and changes in progress. Aborts what is not finished within
    /// `http.shutdown_grace`.
    pub async fn stop(self) {
        self.accepting.stop("the HTTP listener").await;
    }
}

async fn accept<S: State>(
    state: Arc<S>,
    listener: TcpListener,
    stop: CancellationToken,
    connections: TaskTracker,
) {
    let seats = descriptors::seats(state.http().config.max_connections);
    let seats = Arc::new(Semaphore::new(seats.min(Semaphore::MAX_PERMITS)));
    let peers = Peers::new(state.http().config.connections_per_client);
    let mut refused = 0_u64;
    let next = async || -> io::Result<_> {
        // The permit is acquired before the accept, so that further connections wait in the system's queue.
        let seat = Arc::clone(&seats)
            .acquire_owned()
            .await
            .map_err(io::Error::other)?;
        let (stream, peer) = listener.accept().await?;
        Ok((seat, stream, peer))
    };
    while let Some(accepted) = stop.run_until_cancelled(next()).await {
        let (seat, stream, peer) = match accepted {
            Ok(accepted) => accepted,
            Err(error) => {
                tracing::warn!(%error, "cannot accept a connection");
                stop.run_until_cancelled(sleep(BREATH)).await;
                continue;
            }
        };
        // The connections of a proxy serve many clients, so they are not limited per client.
        let proxy = state.http().proxies.hold(peer.ip().to_canonical());
        let place = peers.place(peer.ip());
        if place.is_none() && !proxy {
            refused += 1;
            tracing::debug!(peer = %peer.ip(), refused, "closed a connection of a client that reached its limit");
            continue;
        }
        let state = Arc::clone(&state);
        let stop = stop.clone();
        connections.spawn(async move {
            let cut = state.http().cut.clone();
            cut.run_until_cancelled(one(state, stream, peer, &stop))
                .await;
            drop((seat, place));
        });
    }
}

async fn one<S: State>(
    state: Arc<S>,
    stream: TcpStream,
    peer: SocketAddr,
    stop: &CancellationToken,
) {
    if let Err(error) = stream.set_nodelay(true) {
        tracing::debug!(%error, "connection closed before it was served");
        return;
    }
    connection::serve(state, stream, peer.ip(), stop).await;
}

#[cfg(test)]
mod tests;
