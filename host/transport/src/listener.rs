//! Opens the listeners of a server: a TCP port, a Unix socket, or the sockets that a service
//! manager passes to the process (`sd_listen_fds`).

use std::fmt::Display;
use std::io;
use std::sync::Arc;

use latchmail_core::config::{Listen, has_inherited_sockets};
use latchmail_core::error::StartError;
use listenfd::ListenFd;
use tokio::net::{TcpListener, TcpStream, UnixListener, UnixStream};
use tokio_util::either::Either;

use crate::client::Peer;
use crate::tls::Tls;
use crate::unix_socket::{self, SocketFile};

/// The permissions of a Unix socket: the owner and the group can connect.
const MODE: u32 = 0o660;

/// A socket that accepts connections.
#[derive(Debug)]
pub struct Listener {
    address: Listen,
    socket: Socket,
    file: Option<SocketFile>,
    options: Arc<ListenerOptions>,
}

/// The properties of the connections of a listener.
#[derive(Clone, Debug, Default)]
pub(crate) struct ListenerOptions {
    /// The TLS settings. `None` if clients do not use TLS.
    pub(crate) tls: Option<Arc<Tls>>,
    pub(crate) role: Role,
}

/// The kind of responses that the server sends on a listener.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Role {
    /// The responses of the routes.
    #[default]
    Service,
    /// Redirects to the URL of the service.
    Redirect,
}

/// The stream of a connection.
pub(crate) type Transport = Either<TcpStream, UnixStream>;

#[derive(Debug)]
enum Socket {
    Tcp(TcpListener),
    Unix(UnixListener),
}

impl Listener {
    /// Opens a listener. `key` is the configuration key of `address`.
    ///
    /// # Errors
    /// Returns an error if the address cannot be used.
    pub async fn bind(address: &Listen, key: &str) -> Result<Self, StartError> {
        let cannot =
            |e: &dyn Display| StartError::new(format!("cannot listen on {address} (`{key}`): {e}"));
        match address {
            Listen::Tcp(address) => {
                let listener = TcpListener::bind(address).await.map_err(|e| cannot(&e))?;
                Self::from_tcp(listener).map_err(|e| cannot(&e))
            }
            Listen::Unix(path) => {
                let bound = unix_socket::bind(path, MODE).await;
                let (listener, file) = bound.map_err(|e| cannot(&e))?;
                Ok(Self {
                    address: address.clone(),
                    socket: Socket::Unix(listener),
                    file: Some(file),
                    options: Arc::default(),
                })
            }
        }
    }

    /// Returns the listeners that a service manager passed to this process. Returns no listeners if
    /// there is no service manager. The second call returns no listeners.
    ///
    /// # Errors
    /// Returns an error if a file descriptor is neither a TCP socket nor a Unix socket that
    /// listens, or if every local user can connect to a Unix socket.
    pub fn inherited() -> Result<Vec<Self>, StartError> {
        if !has_inherited_sockets() {
            return Ok(Vec::new());
        }
        let mut sockets = ListenFd::from_env();
        (0..sockets.len())
            .map(|index| {
                let listener = match sockets.take_tcp_listener(index) {
                    Ok(Some(listener)) => listener
                        .set_nonblocking(true)
                        .and_then(|()| TcpListener::from_std(listener).and_then(Self::from_tcp)),
                    _ => Self::inherited_unix(&mut sockets, index),
                };
                listener.map_err(|e| {
                    StartError::new(format!(
                        "cannot use socket {index} of the service manager (`LISTEN_FDS`): {e}"
                    ))
                })
            })
            .collect()
    }

    fn inherited_unix(sockets: &mut ListenFd, index: usize) -> io::Result<Self> {
        let listener = sockets
            .take_unix_listener(index)?
            .ok_or(io::ErrorKind::NotFound)?;
        listener.set_nonblocking(true)?;
        let listener = UnixListener::from_std(listener)?;
        let address = listener.local_addr()?;
        let path = address.as_pathname().unwrap_or("".as_ref()).to_owned();
        unix_socket::check_permissions(&path).map_err(io::Error::other)?;
        Ok(Self {
            address: Listen::Unix(path),
            socket: Socket::Unix(listener),
            file: None,
            options: Arc::default(),
        })
    }

    fn from_tcp(listener: TcpListener) -> io::Result<Self> {
        Ok(Self {
            address: listener.local_addr()?.into(),
            socket: Socket::Tcp(listener),
            file: None,
            options: Arc::default(),
        })
    }

    /// Returns the listener with TLS. If `tls` is `None`, the listener does not use TLS.
    #[must_use]
    pub fn with_tls(mut self, tls: Option<&Arc<Tls>>) -> Self {
        Arc::make_mut(&mut self.options).tls = tls.cloned();
        self
    }

    /// Returns a listener that redirects all requests to the URL of the service.
    #[must_use]
    pub fn redirecting(mut self) -> Self {
        Arc::make_mut(&mut self.options).role = Role::Redirect;
        self
    }

    pub(crate) fn options(&self) -> &Arc<ListenerOptions> {
        &self.options
    }

    /// Returns the address of the listener.
    #[must_use]
    pub fn address(&self) -> &Listen {
        &self.address
    }

    /// Accepts a connection.
    pub(crate) async fn accept(&self) -> io::Result<(Transport, Peer)> {
        match &self.socket {
            Socket::Tcp(listener) => {
                let (stream, peer) = listener.accept().await?;
                Ok((Either::Left(stream), peer.ip().into()))
            }
            Socket::Unix(listener) => {
                let (stream, _) = listener.accept().await?;
                Ok((Either::Right(stream), Peer::local_process()))
            }
        }
    }

    /// Closes the listener, and removes the file of its Unix socket.
    pub(crate) fn close(self) {
        drop(self.socket);
        if let Some(file) = self.file {
            file.remove();
        }
    }
}
