//! The HTTP server on the operator's Unix socket. It has the routes of module administration. The
//! command `latchmail module …` uses the socket.
//!
//! Requests need no credential. Instead, the service accepts only connections from processes of
//! root or of the service's own user. The operating system reports the user of the connecting
//! process.

use std::convert::Infallible;
use std::net::{IpAddr, Ipv4Addr};
use std::sync::Arc;

use http::HeaderMap;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use latchmail_core::caller::{Caller, Credential, MailCredential, Origin};
use latchmail_core::error::{Failure, StartError};
use latchmail_core::limits::Key;
use rustix::process::geteuid;
use secrecy::SecretString;
use tokio::net::{UnixListener, UnixStream};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use super::routes::route_group;
use super::state::AdminState;
use crate::accept_task::{AcceptTask, RETRY_DELAY};
use crate::app::App;
use crate::message::Request;
use crate::openapi::info::ApiInfo;
use crate::pipeline;
use crate::router::RouteTable;
use crate::state::{HttpState, State};
use crate::unix_socket::{self, SocketFile};

/// The user id of root.
const ROOT: u32 = 0;

/// The permissions of the socket file. Only the owner can connect. The accept loop rejects a
/// connection of another user that arrived before the permissions were set.
const MODE: u32 = 0o600;

/// The state of the HTTP server on the socket.
struct SocketState {
    app: Arc<App>,
    http: HttpState<Self>,
}

impl State for SocketState {
    type Credential = ();

    fn http(&self) -> &HttpState<Self> {
        &self.http
    }

    async fn parse_credential(
        &self,
        _headers: &HeaderMap,
        _client: IpAddr,
    ) -> Result<((), Option<Key>), Failure> {
        // If this function returns a key, the pipeline counts the request only towards the rate
        // limit of the route. The routes on this socket have no rate limit.
        Ok(((), Some(Key::client(peer()))))
    }

    async fn authenticate(&self, (): ()) -> Result<Caller, Failure> {
        Ok(operator())
    }

    async fn check_administrator(&self, _: &Caller, _: bool) -> Result<(), Failure> {
        Ok(())
    }
}

impl AdminState for SocketState {
    fn app(&self) -> &App {
        &self.app
    }

    fn origin(&self, request: &Request) -> Origin {
        Origin {
            request: Some(request.id.clone()),
            ..Origin::operator()
        }
    }
}

/// The running server on the socket. Dropping this value does not end the server.
/// [`OperatorSocket::stop`] ends the server.
#[derive(Debug)]
#[must_use = "the server runs until it is stopped"]
pub struct OperatorSocket {
    file: SocketFile,
    accept_task: AcceptTask,
}

/// Starts the server on the socket at `admin.socket`. Returns `None` if no path is configured.
///
/// # Errors
/// Returns an error if the path cannot be used or another service uses the socket.
pub async fn listen(app: &Arc<App>) -> Result<Option<OperatorSocket>, StartError> {
    let path = &app.config.admin.socket;
    if path.as_os_str().is_empty() {
        return Ok(None);
    }
    let (listener, file) = unix_socket::bind(path, MODE).await.map_err(|reason| {
        StartError::new(format!(
            "`admin.socket` {} cannot be used: {reason}",
            path.display()
        ))
    })?;
    let table = RouteTable::build(&ApiInfo::from_config(&app.config), vec![route_group("")?])?;
    let state = Arc::new(SocketState {
        http: HttpState::new(&app.config, app.clock.clone(), table)?
            .with_tracer(app.http.tracer.clone()),
        app: Arc::clone(app),
    });
    Ok(Some(OperatorSocket {
        file,
        accept_task: AcceptTask::spawn(&state, |state, stop, connections| {
            accept(state, listener, stop, connections)
        }),
    }))
}

impl OperatorSocket {
    /// Ends the accept loop, and waits for requests in progress and for tasks that change data.
    /// After `http.shutdown_grace`, aborts the unfinished requests and tasks. Removes the socket
    /// file.
    pub async fn stop(self) {
        self.accept_task.stop("the operator's socket").await;
        self.file.remove();
    }
}

async fn accept(
    state: Arc<SocketState>,
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
        let (state, stop) = (Arc::clone(&state), stop.clone());
        connections.spawn(async move {
            let abort = state.http.abort.clone();
            abort
                .run_until_cancelled(serve_connection(state, stream, stop))
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

async fn serve_connection(state: Arc<SocketState>, stream: UnixStream, stop: CancellationToken) {
    let header_timeout = state.http.config.header_timeout;
    let service = service_fn(move |request| {
        let state = Arc::clone(&state);
        async move { Ok::<_, Infallible>(pipeline::handle(&state, peer(), request).await) }
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
        tracing::debug!(%error, "connection to the operator's socket failed");
    }
}

/// Returns the client address of all requests. A Unix socket has no IP addresses.
fn peer() -> IpAddr {
    Ipv4Addr::LOCALHOST.into()
}

/// Returns the operator, who is the caller of all requests. The operator has no account and is
/// authorized for all routes of the socket.
fn operator() -> Caller {
    let name = "operator";
    Caller {
        account: name.into(),
        address: name.into(),
        admin: true,
        credential: Credential::Session { sid: name.into() },
        mail: MailCredential::app_password(String::new(), String::new(), SecretString::default()),
        shared: None,
    }
}
