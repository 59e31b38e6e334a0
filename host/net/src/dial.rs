//! TCP connections to the mail server, with implicit TLS (RFC 8314) if configured, and the TLS client configuration that other clients use as well. This module
//! knows no protocol above TLS.

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
pub struct Dial {
    address: String,
    tls: Option<(TlsConnector, ServerName<'static>)>,
}

impl fmt::Debug for Dial {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Dial")
            .field("address", &self.address)
            .field("tls", &self.tls.is_some())
            .finish_non_exhaustive()
    }
}

impl fmt::Display for Dial {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.address)
    }
}

/// Returns a TLS connector that trusts the certificates of the system's trust store. `whom` names the server in the error message.
pub(crate) fn tls_towards(whom: &str) -> Result<TlsConnector, StartError> {
    let client = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()))
        .with_safe_default_protocol_versions()
        .and_then(BuilderVerifierExt::with_platform_verifier)
        .map_err(|e| StartError::new(format!("cannot set up TLS for {whom}: {e}")))?
        .with_no_client_auth();
    Ok(TlsConnector::from(Arc::new(client)))
}

impl Dial {
    /// Parses the address in the setting `key`. Does not connect.
    ///
    /// # Errors
    /// Returns an error if the address is invalid or the certificates of the system cannot be read.
    pub fn new(key: &str, address: &str, tls: bool) -> Result<Self, StartError> {
        let unusable =
            |why: &str| StartError::new(format!("{key} {address:?} cannot be used: {why}"));
        let (host, port) = address
            .rsplit_once(':')
            .ok_or_else(|| unusable("it must be host:port"))?;
        if host.is_empty() || port.parse::<u16>().is_err() {
            return Err(unusable("it must be host:port"));
        }
        let tls = if tls {
            let host = host
                .trim_start_matches('[')
                .trim_end_matches(']')
                .to_owned();
            let name = ServerName::try_from(host).map_err(|e| unusable(&e.to_string()))?;
            Some((tls_towards("the mail server")?, name))
        } else {
            None
        };
        Ok(Self {
            address: address.to_owned(),
            tls,
        })
    }

    /// Connects. Sets `TCP_NODELAY`.
    ///
    /// # Errors
    /// Returns the error of the connection or of the TLS handshake.
    pub async fn connect(&self) -> io::Result<Box<dyn Io>> {
        let stream = TcpStream::connect(&self.address).await?;
        stream.set_nodelay(true)?;
        Ok(match &self.tls {
            Some((tls, name)) => Box::new(tls.connect(name.clone(), stream).await?),
            None => Box::new(stream),
        })
    }
}
