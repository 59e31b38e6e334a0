//! Connections to servers on the internet, each to an address that was checked. A name is resolved once, its addresses are checked, and the
//! connection goes to one of these addresses. A later DNS response cannot redirect it.

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
use crate::dial::{self, Io};
use crate::dns::Dns;

/// Timeout of one address, after which the next address is tried.
const PATIENCE: Duration = Duration::from_secs(5);

/// Maximum number of addresses of one name that are tried.
const MOST: usize = 8;

/// Why there is no connection. Nothing was sent.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Error {
    /// The server's name resolves only to blocked addresses.
    #[error("resolves only to blocked addresses: {0}")]
    Forbidden(String),
    /// The server cannot be reached or its certificate is not valid for it. The message is for the log.
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
    /// Creates a connector that trusts this machine's certificate store.
    pub(crate) fn new(dns: Arc<Dns>) -> Result<Self, StartError> {
        let tls = dial::tls_towards("internet hosts")?;
        Ok(Self::with(dns, tls))
    }

    pub(super) fn with(dns: Arc<Dns>, tls: TlsConnector) -> Self {
        Self { dns, tls }
    }

    /// Connects to a server at one of its addresses for which `may` returns true.
    ///
    /// # Errors
    /// Returns [`Error::Forbidden`] if the server has addresses but `may` accepts none, and [`Error::Unreachable`] if every connection
    /// fails.
    pub(crate) async fn connect(
        &self,
        target: &Target,
        may: impl Fn(SocketAddr) -> bool,
    ) -> Result<Box<dyn Io>, Error> {
        let stream = self.tcp(target, may).await?;
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

    async fn tcp(
        &self,
        target: &Target,
        may: impl Fn(SocketAddr) -> bool,
    ) -> Result<TcpStream, Error> {
        let found = match &target.host {
            Host::Address(address) => vec![*address],
            Host::Name(name) => self.dns.addresses(name).await.map_err(unreachable)?,
        };
        let at = |address| SocketAddr::new(address, target.port);
        let open: Vec<SocketAddr> = found
            .iter()
            .copied()
            .map(at)
            .filter(|at| may(*at))
            .collect();
        if open.is_empty() && !found.is_empty() {
            return Err(Error::Forbidden(format!("{found:?}")));
        }
        let mut last = io::Error::new(io::ErrorKind::NotFound, "the name has no address");
        for address in open.into_iter().take(MOST) {
            last = match timeout(PATIENCE, TcpStream::connect(address)).await {
                Ok(Ok(stream)) => return Ok(stream),
                Ok(Err(error)) => error,
                Err(late) => late.into(),
            };
        }
        Err(unreachable(last))
    }
}

fn unreachable(error: impl fmt::Display) -> Error {
    Error::Unreachable(error.to_string())
}
