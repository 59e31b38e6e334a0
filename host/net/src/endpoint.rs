//! TCP connections to the mail server, and the TLS configuration for all clients. Connections use implicit TLS (RFC 8314) if configured. This module implements
//! no protocol above TLS.

use std::fmt;
use std::io;
use std::sync::Arc;

use latchmail_core::error::StartError;
use rustls_platform_verifier::BuilderVerifierExt;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;
use tokio_rustls::rustls::ClientConfig;
use tokio_rustls::rustls::crypto::ring;
use tokio_rustls::rustls::pki_types::ServerName;

/// A stream to a server, with or without TLS.
pub trait Io: AsyncRead + AsyncWrite + Send + Sync + Unpin {}

impl<T: AsyncRead + AsyncWrite + Send + Sync + Unpin> Io for T {}

/// The address of a server and its TLS settings.
#[derive(Clone)]
pub struct Endpoint {
    address: String,
    tls: Option<(TlsConnector, ServerName<'static>)>,
}

impl fmt::Debug for Endpoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Endpoint")
            .field("address", &self.address)
            .field("tls", &self.tls.is_some())
            .finish_non_exhaustive()
    }
}

impl fmt::Display for Endpoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.address)
    }
}

/// Returns a TLS connector that trusts the certificates in the system's trust store. `server` names the server in the error message.
pub(crate) fn tls_connector(server: &str) -> Result<TlsConnector, StartError> {
    let client = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()))
        .with_safe_default_protocol_versions()
        .and_then(BuilderVerifierExt::with_platform_verifier)
        .map_err(|e| StartError::new(format!("cannot set up TLS for {server}: {e}")))?
        .with_no_client_auth();
    Ok(TlsConnector::from(Arc::new(client)))
}

impl Endpoint {
    /// Parses the address `host:port`. `key` is the name of the setting, for error messages. Does not connect.
    ///
    /// # Errors
    /// Returns an error if the address is invalid or the system's trust store cannot be read.
    pub fn new(key: &str, address: &str, tls: bool) -> Result<Self, StartError> {
        let invalid =
            |reason: &str| StartError::new(format!("{key} {address:?} cannot be used: {reason}"));
        let (host, port) = address
            .rsplit_once(':')
            .ok_or_else(|| invalid("it must be host:port"))?;
        if host.is_empty() || port.parse::<u16>().is_err() {
            return Err(invalid("it must be host:port"));
        }
        let tls = if tls {
            let host = host
                .trim_start_matches('[')
                .trim_end_matches(']')
                .to_owned();
            let name = ServerName::try_from(host).map_err(|e| invalid(&e.to_string()))?;
            Some((tls_connector("the mail server")?, name))
        } else {
            None
        };
        Ok(Self {
            address: address.to_owned(),
            tls,
        })
    }

    /// Connects to the server and sets `TCP_NODELAY`. Uses TLS if TLS is configured.
    ///
    /// # Errors
    /// Returns an error if the connection or the TLS handshake fails.
    pub async fn connect(&self) -> io::Result<Box<dyn Io>> {
        let stream = TcpStream::connect(&self.address).await?;
        stream.set_nodelay(true)?;
        Ok(match &self.tls {
            Some((tls, name)) => Box::new(tls.connect(name.clone(), stream).await?),
            None => Box::new(stream),
        })
    }
}
