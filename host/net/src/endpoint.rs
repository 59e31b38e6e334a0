//! TCP connections to the mail server, and the TLS configuration for all clients. Connections use
//! implicit TLS (RFC 8314) if configured. This module implements no protocol above TLS.
//!
//! On a loopback address, the server's certificate is not verified. The service also accepts
//! unencrypted connections to the machine itself, and the certificate of a mail server contains its
//! public name, not `127.0.0.1`.

use std::fmt;
use std::io;
use std::net::{IpAddr, Ipv4Addr};
use std::sync::Arc;

use latchmail_core::error::StartError;
use latchmail_core::network::is_local;
use rustls_platform_verifier::{BuilderVerifierExt, Verifier};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;
use tokio_rustls::rustls::client::danger::{
    HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier,
};
use tokio_rustls::rustls::crypto::{self, CryptoProvider, ring};
use tokio_rustls::rustls::pki_types::pem::PemObject as _;
use tokio_rustls::rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use tokio_rustls::rustls::{ClientConfig, DigitallySignedStruct, Error, SignatureScheme};

/// A stream to a server, with or without TLS.
pub trait Io: AsyncRead + AsyncWrite + fmt::Debug + Send + Sync + Unpin {}

impl<T: AsyncRead + AsyncWrite + fmt::Debug + Send + Sync + Unpin> Io for T {}

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

/// Returns the TLS settings of a client that trusts the certificates in the system's trust store.
/// `server` names the server in the error message.
///
/// # Errors
/// Returns an error if the trust store cannot be read.
pub fn client_tls(server: &str) -> Result<ClientConfig, StartError> {
    let client = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()))
        .with_safe_default_protocol_versions()
        .and_then(BuilderVerifierExt::with_platform_verifier)
        .map_err(|e| StartError::new(format!("cannot set up TLS for {server}: {e}")))?
        .with_no_client_auth();
    Ok(client)
}

/// Returns a TLS connector that trusts the certificates in the system's trust store. `server` names
/// the server in the error message.
pub(crate) fn tls_connector(server: &str) -> Result<TlsConnector, StartError> {
    Ok(TlsConnector::from(Arc::new(client_tls(server)?)))
}

/// Works like [`tls_connector`], and also trusts the certificates in `pem`.
pub(crate) fn tls_connector_with(server: &str, pem: &[u8]) -> Result<TlsConnector, StartError> {
    let failed = |reason: &dyn fmt::Display| {
        StartError::new(format!("cannot set up TLS for {server}: {reason}"))
    };
    let authorities = CertificateDer::pem_slice_iter(pem).collect::<Result<Vec<_>, _>>();
    let authorities = authorities.map_err(|error| failed(&error))?;
    if authorities.is_empty() {
        return Err(failed(&"the file contains no certificate in PEM"));
    }
    let provider = Arc::new(ring::default_provider());
    let verifier = Verifier::new_with_extra_roots(authorities, Arc::clone(&provider));
    let client = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .map_err(|error| failed(&error))?
        .dangerous()
        .with_custom_certificate_verifier(Arc::new(verifier.map_err(|error| failed(&error))?))
        .with_no_client_auth();
    Ok(TlsConnector::from(Arc::new(client)))
}

/// Returns a TLS connector for servers on the machine itself. The connector accepts every
/// certificate.
fn loopback_tls_connector() -> Result<TlsConnector, StartError> {
    let provider = Arc::new(ring::default_provider());
    let client = ClientConfig::builder_with_provider(Arc::clone(&provider))
        .with_safe_default_protocol_versions()
        .map_err(|e| StartError::new(format!("cannot set up TLS: {e}")))?
        .dangerous()
        .with_custom_certificate_verifier(Arc::new(AnyCertificate(provider)))
        .with_no_client_auth();
    Ok(TlsConnector::from(Arc::new(client)))
}

/// Starts TLS on a connection to a server on the machine itself. Accepts every certificate.
///
/// # Errors
/// Returns an error if the TLS handshake fails.
pub async fn encrypt_local<S: Io>(stream: S) -> io::Result<TlsStream<S>> {
    let tls = loopback_tls_connector().map_err(io::Error::other)?;
    tls.connect(ServerName::from(IpAddr::from(Ipv4Addr::LOCALHOST)), stream)
        .await
}

/// Accepts every certificate, but checks that the server has the certificate's private key.
#[derive(Debug)]
struct AnyCertificate(Arc<CryptoProvider>);

impl ServerCertVerifier for AnyCertificate {
    fn verify_server_cert(
        &self,
        _: &CertificateDer<'_>,
        _: &[CertificateDer<'_>],
        _: &ServerName<'_>,
        _: &[u8],
        _: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        let algorithms = &self.0.signature_verification_algorithms;
        crypto::verify_tls12_signature(message, certificate, signature, algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        let algorithms = &self.0.signature_verification_algorithms;
        crypto::verify_tls13_signature(message, certificate, signature, algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.0.signature_verification_algorithms.supported_schemes()
    }
}

impl Endpoint {
    /// Parses the address `host:port`. `key` is the name of the setting, for error messages. Does
    /// not connect.
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
            let connector = if is_local(&host) {
                loopback_tls_connector()?
            } else {
                tls_connector("the mail server")?
            };
            let name = ServerName::try_from(host).map_err(|e| invalid(&e.to_string()))?;
            Some((connector, name))
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
        self.encrypt(self.connect_tcp().await?).await
    }

    /// Connects to the server without TLS and sets `TCP_NODELAY`. A protocol that negotiates TLS
    /// (STARTTLS) calls [`encrypt`](Self::encrypt) afterwards.
    ///
    /// # Errors
    /// Returns an error if the connection fails.
    pub async fn connect_tcp(&self) -> io::Result<TcpStream> {
        let stream = TcpStream::connect(&self.address).await?;
        stream.set_nodelay(true)?;
        Ok(stream)
    }

    /// Starts TLS on a connection. Returns the connection unchanged if TLS is not configured.
    ///
    /// # Errors
    /// Returns an error if the TLS handshake fails.
    pub async fn encrypt(&self, stream: TcpStream) -> io::Result<Box<dyn Io>> {
        Ok(match &self.tls {
            Some((tls, name)) => Box::new(tls.connect(name.clone(), stream).await?),
            None => Box::new(stream),
        })
    }
}
