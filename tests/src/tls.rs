//! Certificates and TLS clients.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use chrono::Datelike as _;
use latchmail_core::clock::{Clock, Timestamp};
use rcgen::{
    BasicConstraints, Certificate, CertificateParams, DnType, ExtendedKeyUsagePurpose, IsCa,
    KeyPair, KeyUsagePurpose,
};
use tokio::net::TcpStream;
use tokio_rustls::client::TlsStream;
use tokio_rustls::rustls::crypto::ring;
use tokio_rustls::rustls::pki_types::pem::PemObject as _;
use tokio_rustls::rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use tokio_rustls::rustls::{ClientConfig, RootCertStore, ServerConfig};
use tokio_rustls::{TlsAcceptor, TlsConnector};

/// The name in the certificates.
pub const NAME: &str = "service.test";

const DAY: Duration = Duration::from_hours(24);

/// A certificate in the files `certificate.pem` and `key.pem` of a folder. The file `authority.pem`
/// contains the certificate of the authority that signed it.
pub struct CertificateFolder {
    folder: PathBuf,
    authority: Certificate,
    authority_key: KeyPair,
    current: CertificateDer<'static>,
}

impl CertificateFolder {
    /// Creates the files with a new authority.
    pub fn create(folder: &Path) -> Self {
        let mut params = CertificateParams::new(Vec::new()).unwrap();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        params
            .distinguished_name
            .push(DnType::CommonName, "Test authority");
        params.key_usages = vec![KeyUsagePurpose::KeyCertSign];
        let authority_key = KeyPair::generate().unwrap();
        let authority = params.self_signed(&authority_key).unwrap();
        std::fs::write(folder.join("authority.pem"), authority.pem()).unwrap();
        let mut files = Self {
            folder: folder.to_owned(),
            authority,
            authority_key,
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

    /// Returns the path of the authority's certificate.
    pub fn authority(&self) -> PathBuf {
        self.folder.join("authority.pem")
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
        let names = [NAME, "localhost", "127.0.0.1", "127.0.0.2", "127.0.0.3"];
        let mut params = CertificateParams::new(names.map(String::from)).unwrap();
        let date = |time: Timestamp| {
            let date = time.date();
            let part = |number: u32| u8::try_from(number).unwrap();
            rcgen::date_time_ymd(date.year(), part(date.month()), part(date.day()))
        };
        let now = Clock::system().now();
        params.not_before = date(now.minus(DAY));
        params.not_after = date(now.plus(DAY.saturating_mul(90)));
        params.use_authority_key_identifier_extension = true;
        params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth];
        let key = KeyPair::generate().unwrap();
        let certificate = params
            .signed_by(&key, &self.authority, &self.authority_key)
            .unwrap();
        self.current = certificate.der().clone();
        for (path, text) in [
            (self.certificate(), certificate.pem()),
            (self.key(), key.serialize_pem()),
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

    /// Returns a server with the current certificate.
    pub fn acceptor(&self) -> TlsAcceptor {
        let key = std::fs::read(self.key()).unwrap();
        let config = ServerConfig::builder_with_provider(Arc::new(ring::default_provider()))
            .with_safe_default_protocol_versions()
            .unwrap()
            .with_no_client_auth()
            .with_single_cert(
                vec![self.current.clone()],
                PrivateKeyDer::from_pem_slice(&key).unwrap(),
            );
        TlsAcceptor::from(Arc::new(config.unwrap()))
    }

    /// Returns a client that trusts the certificates of this authority.
    pub fn client(&self) -> TlsClient {
        let mut roots = RootCertStore::empty();
        roots.add(self.authority.der().clone()).unwrap();
        TlsClient(roots)
    }

    /// Works like [`TlsClient::connect`].
    ///
    /// # Errors
    /// Returns an error if the connection or the handshake fails.
    pub async fn connect(
        &self,
        address: SocketAddr,
        protocols: &[&str],
    ) -> std::io::Result<TlsStream<TcpStream>> {
        self.client().connect(address, protocols).await
    }
}

/// A client that trusts the certificates of one authority.
#[derive(Clone, Debug)]
pub struct TlsClient(RootCertStore);

impl TlsClient {
    /// Connects to a service. `protocols` are the names for ALPN.
    ///
    /// # Errors
    /// Returns an error if the connection or the handshake fails.
    pub async fn connect(
        &self,
        address: SocketAddr,
        protocols: &[&str],
    ) -> std::io::Result<TlsStream<TcpStream>> {
        let mut config = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()))
            .with_safe_default_protocol_versions()
            .unwrap()
            .with_root_certificates(self.0.clone())
            .with_no_client_auth();
        config.alpn_protocols = protocols
            .iter()
            .map(|name| name.as_bytes().into())
            .collect();
        let stream = TcpStream::connect(address).await?;
        stream.set_nodelay(true)?;
        let name = ServerName::try_from(NAME).unwrap();
        TlsConnector::from(Arc::new(config))
            .connect(name, stream)
            .await
    }
}

/// Returns the first certificate that the service sent on a connection.
pub fn certificate_of(stream: &TlsStream<TcpStream>) -> CertificateDer<'static> {
    let chain = stream.get_ref().1.peer_certificates().unwrap();
    chain[0].clone().into_owned()
}
