//! Connects to servers on the internet. For each connection, the server's name is resolved only
//! once. The connection uses a checked address from the DNS response. So another DNS response
//! cannot redirect the connection to an unchecked address.

use std::fmt;
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use latchmail_core::error::StartError;
use tokio::net::TcpStream;
use tokio::time::timeout;
use tokio_rustls::TlsConnector;
use tokio_rustls::rustls::pki_types::ServerName;

use super::target::{Host, Target};
use crate::dns::Dns;
use crate::endpoint::{Io, tls_connector};

/// Timeout of a connection attempt to one address. After the timeout, the connector tries the next
/// address.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);

/// Maximum number of addresses of one name that are tried.
const MAX_ADDRESSES: usize = 8;

/// The reason why there is no connection. No part of the request was sent.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Error {
    /// The server's name resolves only to blocked addresses.
    #[error("resolves only to blocked addresses: {0}")]
    Blocked(String),
    /// The server does not respond or has no valid certificate.
    #[error("{0}")]
    Unreachable(Reason),
}

/// The reason why a request has no response.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Reason {
    /// The kind of the failure.
    pub cause: Cause,
    text: String,
}

/// The kind of a failure, which does not depend on the words of the server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cause {
    /// The server's name has no address, or the server accepts no connection.
    Connection,
    /// The server did not respond in time.
    Timeout,
    /// The TLS handshake failed, for example because the certificate is not valid.
    Tls,
    /// The connection failed after the request was sent.
    Exchange,
}

impl Reason {
    pub(super) fn new(cause: Cause, text: impl fmt::Display) -> Self {
        Self {
            cause,
            text: text.to_string(),
        }
    }

    /// Adds the server to the text.
    pub(super) fn at(self, target: &Target) -> Self {
        Self {
            text: format!("{target}: {}", self.text),
            ..self
        }
    }
}

/// The text is for the log.
impl fmt::Display for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

/// Opens connections.
#[derive(Clone)]
pub(crate) struct Connector {
    dns: Arc<Dns>,
    tls: TlsConnector,
}

impl fmt::Debug for Connector {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Connector").finish_non_exhaustive()
    }
}

impl Connector {
    /// Creates a connector that trusts the certificates in the system's trust store.
    pub(crate) fn new(dns: Arc<Dns>) -> Result<Self, StartError> {
        let tls = tls_connector("internet hosts")?;
        Ok(Self::with(dns, tls))
    }

    pub(super) fn with(dns: Arc<Dns>, tls: TlsConnector) -> Self {
        Self { dns, tls }
    }

    /// Connects to a server. Uses only addresses for which `is_allowed` returns `true`.
    ///
    /// # Errors
    /// Returns [`Error::Blocked`] if `is_allowed` rejects all addresses of the server, and
    /// [`Error::Unreachable`] if every connection fails.
    pub(crate) async fn connect(
        &self,
        target: &Target,
        is_allowed: impl Fn(SocketAddr) -> bool,
    ) -> Result<Box<dyn Io>, Error> {
        let stream = self.connect_tcp(target, is_allowed).await?;
        stream.set_nodelay(true).map_err(unreachable)?;
        if !target.tls {
            return Ok(Box::new(stream));
        }
        let name = match &target.host {
            Host::Name(name) => ServerName::try_from(name.clone()).map_err(unreachable)?,
            Host::Address(address) => ServerName::from(*address),
        };
        let stream = self.tls.connect(name, stream).await;
        let failed = |error| Error::Unreachable(Reason::new(Cause::Tls, error));
        Ok(Box::new(stream.map_err(failed)?))
    }

    async fn connect_tcp(
        &self,
        target: &Target,
        is_allowed: impl Fn(SocketAddr) -> bool,
    ) -> Result<TcpStream, Error> {
        let found = match &target.host {
            Host::Address(address) => vec![*address],
            Host::Name(name) => self.dns.addresses(name).await.map_err(unreachable)?,
        };
        let with_port = |address| SocketAddr::new(address, target.port);
        let allowed: Vec<SocketAddr> = found
            .iter()
            .copied()
            .map(with_port)
            .filter(|address| is_allowed(*address))
            .collect();
        if allowed.is_empty() && !found.is_empty() {
            return Err(Error::Blocked(format!("{found:?}")));
        }
        let mut last_error = io::Error::new(io::ErrorKind::NotFound, "the name has no address");
        for address in allowed.into_iter().take(MAX_ADDRESSES) {
            last_error = match timeout(CONNECT_TIMEOUT, TcpStream::connect(address)).await {
                Ok(Ok(stream)) => return Ok(stream),
                Ok(Err(error)) => error,
                Err(elapsed) => elapsed.into(),
            };
        }
        let cause = match last_error.kind() {
            io::ErrorKind::TimedOut => Cause::Timeout,
            _ => Cause::Connection,
        };
        Err(Error::Unreachable(Reason::new(cause, last_error)))
    }
}

fn unreachable(error: impl fmt::Display) -> Error {
    Error::Unreachable(Reason::new(Cause::Connection, error))
}
