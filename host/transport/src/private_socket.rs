//! The server on a Unix socket that accepts only connections from processes of root or of the
//! service's own user. The operating system reports the user of the connecting process.

use std::convert::Infallible;
use std::net::{IpAddr, Ipv4Addr};
use std::path::Path;

use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use rustix::process::geteuid;
use tokio::net::{UnixListener, UnixStream};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::accept_task::{AcceptTask, RETRY_DELAY};
use crate::client::Peer;
use crate::handler::Handler;
use crate::listener::Role;
use crate::unix_socket::{self, SocketFile};

/// The user id of root.
const ROOT: u32 = 0;

/// The permissions of the socket file. Only the owner can connect. The accept loop rejects a
/// connection of another user that arrived before the permissions were set.
const MODE: u32 = 0o600;

/// The client address of all requests. A Unix socket has no IP addresses.
pub const CLIENT: IpAddr = IpAddr::V4(Ipv4Addr::LOCALHOST);

/// The running server on the socket. Dropping this value does not end the server.
/// [`PrivateSocket::stop`] ends the server.
#[derive(Debug)]
#[must_use = "the server runs until it is stopped"]
pub struct PrivateSocket {
    file: SocketFile,
    accept_task: AcceptTask,
}

/// Starts a server on the socket at `path`.
///
/// # Errors
/// Returns the reason if the path cannot be used or another service uses the socket.
pub async fn serve<H: Handler>(handler: H, path: &Path) -> Result<PrivateSocket, String> {
    let (listener, file) = unix_socket::bind(path, MODE).await?;
    Ok(PrivateSocket {
        file,
        accept_task: AcceptTask::spawn(handler, |handler, stop, connections| {
            accept(handler, listener, stop, connections)
        }),
    })
}

impl PrivateSocket {
    /// Ends the accept loop, and waits for requests in progress and for tasks that change data.
    /// After `http.shutdown_grace`, aborts the unfinished requests and tasks. Removes the socket
    /// file.
    pub async fn stop(self) {
        self.accept_task.stop("the operator's socket").await;
        self.file.remove();
    }
}

async fn accept<H: Handler>(
    handler: H,
    listener: UnixListener,
    stop: CancellationToken,
    connections: TaskTracker,
) {
    while let Some(accepted) = stop.run_until_cancelled(listener.accept()).await {
        let stream = match accepted {
            Ok((stream, _)) => stream,
            Err(error) => {
                tracing::warn!(%error, "cannot accept a connection on the operator's socket");
                stop.run_until_cancelled(tokio::time::sleep(RETRY_DELAY))
                    .await;
                continue;
            }
        };
        if !is_trusted(&stream) {
            tracing::warn!("rejected a connection of another user to the operator's socket");
            continue;
        }
        let (handler, stop) = (handler.clone(), stop.clone());
        connections.spawn(async move {
            let abort = handler.server().abort.clone();
            abort
                .run_until_cancelled(serve_connection(handler, stream, stop))
                .await;
        });
    }
}

/// Returns `true` if the process that opened the connection belongs to the service's user or to
/// root.
fn is_trusted(stream: &UnixStream) -> bool {
    stream
        .peer_cred()
        .is_ok_and(|peer| [ROOT, geteuid().as_raw()].contains(&peer.uid()))
}

async fn serve_connection<H: Handler>(handler: H, stream: UnixStream, stop: CancellationToken) {
    let header_timeout = handler.server().config.header_timeout;
    let service = service_fn(move |request| {
        let handler = handler.clone();
        async move {
            let peer = Peer::from(CLIENT);
            Ok::<_, Infallible>(handler.handle(peer, Role::Service, request).await)
        }
    });
    let connection = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(header_timeout)
        .serve_connection(TokioIo::new(stream), service);
    tokio::pin!(connection);
    let ended = tokio::select! {
        ended = connection.as_mut() => ended,
        () = stop.cancelled() => {
            connection.as_mut().graceful_shutdown();
            connection.await
        }
    };
    if let Err(error) = ended {
        tracing::debug!(%error, "a connection of a command to the admin socket failed");
    }
}
