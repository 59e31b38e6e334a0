//! The server: accepts connections, as many at a time as the configuration allows, in all and of one client, and ends them in good
//! order.

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Semaphore;
use tokio::time::sleep;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use super::accepting::Accepting;
use super::peers::Peers;
use super::{State, connection, descriptors};
use crate::error::StartError;

/// How long to wait after a connection could not be accepted: the system has no more of something, and asking at once does not help.
pub(super) const BREATH: Duration = Duration::from_millis(100);

/// A server that takes requests. It goes on when this is dropped; [`Running::stop`] ends it.
#[derive(Debug)]
#[must_use = "a server is ended by stopping it"]
pub struct Running {
    address: SocketAddr,
    accepting: Accepting,
}

/// Takes requests on `listener` from now on.
///
/// # Errors
/// A sentence where the listener's own address cannot be read.
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
    /// Where it listens.
    #[must_use]
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Accepts no more connections, ends the idle ones, finishes the requests in flight and the changes under way, and cuts off
    /// what is not done within `http.shutdown_grace`.
    pub async fn stop(self) {
        self.accepting.stop("the address listened on").await;
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
        // A seat first: who finds none waits in the system's queue.
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
        // A proxy's connections are many clients'.
        let proxy = state.http().proxies.hold(peer.ip().to_canonical());
        let place = peers.place(peer.ip());
        if place.is_none() && !proxy {
            refused += 1;
            tracing::debug!(peer = %peer.ip(), refused, "closed a connection of a client that has enough");
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
        tracing::debug!(%error, "a connection was gone before it began");
        return;
    }
    connection::serve(state, stream, peer.ip(), stop).await;
}

#[cfg(test)]
mod tests;
