//! TLS of the listeners. This module selects the protocol versions, the cipher suites and the
//! certificate. The modules `connection` and `http2` serve the connection.

mod acme;
mod files;

use std::fmt;
use std::io;
use std::sync::Arc;

use latchmail_core::config::Config;
use latchmail_core::error::StartError;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio_rustls::TlsAcceptor;
use tokio_rustls::rustls::crypto::ring;
use tokio_rustls::rustls::server::ResolvesServerCert;
use tokio_rustls::rustls::{ServerConfig, version};
use tokio_rustls::server::TlsStream;

use self::acme::Acme;
use self::files::CertificateFiles;
pub use self::files::{CertificateSummary, check_certificate, check_issued_certificate};

/// The names of protocols in the TLS handshake (ALPN, RFC 7301).
const HTTP_2: &[u8] = b"h2";
const HTTP_1: &[u8] = b"http/1.1";

/// The protocol that a client selected in the TLS handshake.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Protocol {
    Http1,
    Http2,
    /// A certificate authority has verified the name of the service. The connection has no further
    /// purpose.
    AcmeChallenge,
}

/// The TLS settings of the listeners, with the current certificate.
pub struct Tls {
    acceptor: TlsAcceptor,
    source: Source,
}

/// The source of the certificate.
enum Source {
    Files(Arc<CertificateFiles>),
    Acme(Box<Acme>),
}

impl fmt::Debug for Tls {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Tls").finish_non_exhaustive()
    }
}

impl Tls {
    /// Loads the certificate, or prepares the order of a certificate. Returns `None` if the
    /// configuration has no certificate.
    ///
    /// # Errors
    /// Returns an error if a file is unreadable or invalid. The error names the file.
    pub fn load(config: &Config) -> Result<Option<Arc<Self>>, StartError> {
        let (acceptor, source) = if config.acme.is_configured() {
            let acme = Acme::new(config)?;
            let acceptor = acceptor(acme.resolver(), &[HTTP_2, HTTP_1, acme::ALPN])?;
            (acceptor, Source::Acme(Box::new(acme)))
        } else if config.tls.is_configured() {
            let files = Arc::new(CertificateFiles::load(&config.tls)?);
            let acceptor = acceptor(Arc::clone(&files) as _, &[HTTP_2, HTTP_1])?;
            (acceptor, Source::Files(files))
        } else {
            return Ok(None);
        };
        Ok(Some(Arc::new(Self { acceptor, source })))
    }

    /// Reads the files of the certificate again if their content has changed. If the new content is
    /// invalid, keeps the previous certificate and logs the reason once.
    pub async fn reload(&self) {
        if let Source::Files(files) = &self.source {
            files.reload().await;
        }
    }

    /// Reloads the certificate periodically, or orders and renews the certificate. Does not end.
    pub async fn watch(&self) {
        match &self.source {
            Source::Files(files) => files.watch().await,
            Source::Acme(acme) => acme.run().await,
        }
    }

    /// Returns whether the certificate is valid for this name.
    #[must_use]
    pub fn is_valid_for(&self, name: &str) -> bool {
        match &self.source {
            Source::Files(files) => files.is_valid_for(name),
            Source::Acme(acme) => acme.is_valid_for(name),
        }
    }

    /// Performs the TLS handshake with a client.
    pub(crate) async fn accept<T>(&self, stream: T) -> io::Result<(TlsStream<T>, Protocol)>
    where
        T: AsyncRead + AsyncWrite + Unpin,
    {
        let stream = self.acceptor.accept(stream).await?;
        let protocol = match stream.get_ref().1.alpn_protocol() {
            Some(HTTP_2) => Protocol::Http2,
            Some(acme::ALPN) => Protocol::AcmeChallenge,
            _ => Protocol::Http1,
        };
        Ok((stream, protocol))
    }
}

/// Returns an acceptor for TLS 1.3, and for TLS 1.2 with forward secrecy and authenticated
/// encryption. All cipher suites of rustls have these properties. `protocols` are the names for
/// ALPN, in the order of preference.
fn acceptor(
    certificate: Arc<dyn ResolvesServerCert>,
    protocols: &[&[u8]],
) -> Result<TlsAcceptor, StartError> {
    let cannot = |e| StartError::new(format!("cannot set up TLS: {e}"));
    let mut config = ServerConfig::builder_with_provider(Arc::new(ring::default_provider()))
        .with_protocol_versions(&[&version::TLS13, &version::TLS12])
        .map_err(cannot)?
        .with_no_client_auth()
        .with_cert_resolver(certificate);
    // A client can resume a session with a ticket. The server stores no sessions, so its memory
    // does not grow with the number of handshakes.
    config.ticketer = ring::Ticketer::new().map_err(cannot)?;
    config.alpn_protocols = protocols.iter().map(|&name| name.into()).collect();
    Ok(TlsAcceptor::from(Arc::new(config)))
}
