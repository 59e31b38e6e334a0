//! Certificates and TLS clients.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use rcgen::{CertifiedKey, generate_simple_self_signed};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;
use tokio_rustls::rustls::crypto::ring;
use tokio_rustls::rustls::pki_types::{CertificateDer, ServerName};
use tokio_rustls::rustls::{ClientConfig, RootCertStore};

/// The name in the certificates.
pub const NAME: &str = "service.test";

/// A certificate in the files `certificate.pem` and `key.pem` of a folder.
#[derive(Debug)]
pub struct CertificateFolder {
    folder: PathBuf,
    current: CertificateDer<'static>,
}

impl CertificateFolder {
    /// Creates the files with a self-signed certificate.
    pub fn create(folder: &Path) -> Self {
        let mut files = Self {
            folder: folder.to_owned(),
            current: Vec::new().into(),
        };
        files.renew();
        files
    }

    /// Returns the path of the certificate.
    pub fn certificate(&self) -> PathBuf {
        self.folder.join("certificate.pem")
    }

    /// Returns the path of the key.
    pub fn key(&self) -> PathBuf {
        self.folder.join("key.pem")
    }

    /// Returns the settings of a service with this certificate.
    pub fn settings(&self) -> String {
        format!(
            "tls.certificate = '{}'\ntls.key = '{}'\n",
            self.certificate().display(),
            self.key().display()
        )
    }

    /// Replaces the certificate and its key by new ones, each with a rename.
    pub fn renew(&mut self) {
        let CertifiedKey { cert, key_pair } = generate_simple_self_signed([
            NAME.to_owned(),
            "localhost".to_owned(),
            "127.0.0.1".to_owned(),
        ])
        .unwrap();
        self.current = cert.der().clone();
        for (path, text) in [
            (self.certificate(), cert.pem()),
            (self.key(), key_pair.serialize_pem()),
        ] {
            let new = path.with_extension("new");
            std::fs::write(&new, text).unwrap();
            std::fs::rename(new, path).unwrap();
        }
    }

    /// Returns the current certificate.
    pub fn current(&self) -> &CertificateDer<'static> {
        &self.current
    }

    /// Returns a client that trusts only the current certificate. `protocols` are the names for ALPN.
    pub fn client(&self, protocols: &[&str]) -> TlsConnector {
        let mut roots = RootCertStore::empty();
        roots.add(self.current.clone()).unwrap();
        let mut config = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()))
            .with_safe_default_protocol_versions()
            .unwrap()
            .with_root_certificates(roots)
            .with_no_client_auth();
        config.alpn_protocols = protocols
            .iter()
            .map(|name| name.as_bytes().into())
            .collect();
        TlsConnector::from(Arc::new(config))
    }

    /// Connects to a service.
    ///
    /// # Errors
    /// Returns an error if the connection or the handshake fails.
    pub async fn connect(
        &self,
        address: SocketAddr,
        protocols: &[&str],
    ) -> std::io::Result<TlsStream<TcpStream>> {
        let stream = TcpStream::connect(address).await?;
        stream.set_nodelay(true)?;
        let name = ServerName::try_from(NAME).unwrap();
        self.client(protocols).connect(name, stream).await
    }
}
