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
    /// The server does not respond or has no valid certificate. The text of the error is for the
    /// log.
    #[error("{0}")]
    Unreachable(String),
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
        let stream = self.tls.connect(name, stream).await.map_err(unreachable)?;
        Ok(Box::new(stream))
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
        Err(unreachable(last_error))
    }
}

fn unreachable(error: impl fmt::Display) -> Error {
    Error::Unreachable(error.to_string())
}
