//! The operator's socket: the routes that change modules, over HTTP on a Unix socket that only the service's user and root can use. `latchmail module …` is its
//! client.
//!
//! The socket requires no credential. The system reports the user of the process at the other end of each connection.

use std::convert::Infallible;
use std::io;
use std::net::{IpAddr, Ipv4Addr};
use std::os::unix::fs::{FileTypeExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};
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

use super::Managing;
use crate::App;
use crate::accepting::Accepting;
use crate::{About, Http, Request, State, Table, pipeline};

const ROOT: u32 = 0;

/// The mode of the socket: only its owner can use it.
const PRIVATE: u32 = 0o600;

/// The state of the HTTP server behind the socket.
struct Socket {
    app: Arc<App>,
    http: Http<Self>,
}

impl State for Socket {
    type Credential = ();

    fn http(&self) -> &Http<Self> {
        &self.http
    }

    fn parse_credential(
        &self,
        _headers: &HeaderMap,
        _client: IpAddr,
    ) -> Result<((), Option<Key>), Failure> {
        // The socket has no rate limits.
        Ok(((), Some(Key::client(peer()))))
    }

    async fn authenticate(&self, (): ()) -> Result<Caller, Failure> {
        Ok(operator())
    }
}

impl Managing for Socket {
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

/// The listener of the socket. Dropping this value does not end the listener; [`Listening::stop`] does.
#[derive(Debug)]
#[must_use = "a socket is closed by stopping it"]
pub struct Listening {
    path: PathBuf,
    accepting: Accepting,
}

/// Listens at the configured path. Does nothing if no path is configured.
///
/// # Errors
/// Returns an error if the path cannot be used or another service listens there.
pub async fn listen(app: &Arc<App>) -> Result<Option<Listening>, StartError> {
    let path = &app.config.admin.socket;
    if path.as_os_str().is_empty() {
        return Ok(None);
    }
    let listener = bind(path).await?;
    let table = Table::build(&About::of(&app.config), vec![super::part("")?])?;
    let state = Arc::new(Socket {
        http: Http::new(&app.config, app.clock.clone(), table)?,
        app: Arc::clone(app),
    });
    Ok(Some(Listening {
        path: path.clone(),
        accepting: Accepting::begin(&state, |state, stop, connections| {
            accept(state, listener, stop, connections)
        }),
    }))
}

impl Listening {
    /// Stops accepting connections, waits for the changes in progress, and aborts what is not finished within `http.shutdown_grace`.
    pub async fn stop(self) {
        self.accepting.stop("the operator's socket").await;
        if let Err(error) = std::fs::remove_file(&self.path) {
            tracing::debug!(%error, "the operator's socket was already removed");
        }
    }
}

/// Removes the socket of a service that was killed. Fails if another service listens on the socket or if the file is not a socket.
async fn bind(path: &Path) -> Result<UnixListener, StartError> {
    let cannot = |why: &dyn std::fmt::Display| {
        StartError::new(format!(
            "`admin.socket` {} cannot be used: {why}",
            path.display()
        ))
    };
    match std::fs::symlink_metadata(path) {
        Ok(found) if !found.file_type().is_socket() => {
            return Err(cannot(&"the path exists and is not a socket"));
        }
        Ok(_) => {
            if UnixStream::connect(path).await.is_ok() {
                return Err(cannot(&"another service listens there"));
            }
            std::fs::remove_file(path).map_err(|e| cannot(&e))?;
        }
        Err(error) if error.kind() == io::ErrorKind::NotFound => {}
        Err(error) => return Err(cannot(&error)),
    }
    let listener = UnixListener::bind(path).map_err(|e| cannot(&e))?;
    // A process of another user can connect before the mode is set. It is rejected when its user is checked.
    std::fs::set_permissions(path, std::fs::Permissions::from_mode(PRIVATE))
        .map_err(|e| cannot(&e))?;
    Ok(listener)
}

async fn accept(
    state: Arc<Socket>,
    listener: UnixListener,
    stop: CancellationToken,
    connections: TaskTracker,
) {
    while let Some(accepted) = stop.run_until_cancelled(listener.accept()).await {
        let stream = match accepted {
            Ok((stream, _)) => stream,
            Err(error) => {
                tracing::warn!(%error, "cannot accept a connection on the operator's socket");
                stop.run_until_cancelled(tokio::time::sleep(super::super::server::BREATH))
                    .await;
                continue;
            }
        };
        if !trusted(&stream) {
            tracing::warn!("rejected a process of another user at the operator's socket");
            continue;
        }
        let (state, stop) = (Arc::clone(&state), stop.clone());
        connections.spawn(async move {
            let cut = state.http.cut.clone();
            cut.run_until_cancelled(serve(state, stream, stop)).await;
        });
    }
}

/// Returns `true` if the process at the other end belongs to the service's user or root.
fn trusted(stream: &UnixStream) -> bool {
    stream
        .peer_cred()
        .is_ok_and(|peer| [ROOT, geteuid().as_raw()].contains(&peer.uid()))
}

async fn serve(state: Arc<Socket>, stream: UnixStream, stop: CancellationToken) {
    let header_timeout = state.http.config.header_timeout;
    let service = service_fn(move |request| {
        let state = Arc::clone(&state);
        async move { Ok::<_, Infallible>(pipeline::answer(&state, peer(), request).await) }
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
        tracing::debug!(%error, "a connection to the operator's socket ended early");
    }
}

fn peer() -> IpAddr {
    Ipv4Addr::LOCALHOST.into()
}

/// Returns the caller for the operator, who is authorized for all routes of the socket and has no account.
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
