//! A web site that returns one page for every request, and records the requests.

use std::net::SocketAddr;
use std::sync::{Arc, Mutex};

use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _};
use tokio::net::TcpListener;
use tokio::task::{JoinHandle, JoinSet};
use tokio_rustls::TlsAcceptor;
use tokio_rustls::rustls::ServerConfig;
use tokio_rustls::rustls::crypto::ring;
use tokio_rustls::rustls::pki_types::pem::PemObject as _;
use tokio_rustls::rustls::pki_types::{CertificateDer, PrivateKeyDer};

/// A key for tests, which protects nothing.
const CERTIFICATE: &[u8] = include_bytes!("../../host/net/src/fetch/tests/certificate.pem");
const KEY: &[u8] = include_bytes!("../../host/net/src/fetch/tests/key.pem");

/// A web site. It stops when it is dropped.
#[derive(Debug)]
pub struct Site {
    /// The address on which it listens.
    pub address: SocketAddr,
    requested: Arc<Mutex<Vec<String>>>,
    serving: JoinHandle<()>,
}

impl Site {
    /// Starts a site that returns this page.
    pub async fn start(page: &str) -> Self {
        Self::serve(page, "127.0.0.1:0", None).await
    }

    /// Starts a site that redirects every request to a URL.
    pub async fn redirecting(to: &str) -> Self {
        let response = format!(
            "HTTP/1.1 302 Found\r\nLocation: {to}\r\nContent-Length: 0\r\nConnection: close\r\n\r\n"
        );
        Self::start_with_response(response, "127.0.0.1:0", None).await
    }

    /// Starts a site on this machine's IPv6 address.
    pub async fn start_v6(page: &str) -> Self {
        Self::serve(page, "[::1]:0", None).await
    }

    /// Starts a site with TLS and a certificate that no client trusts.
    pub async fn start_tls(page: &str) -> Self {
        let certificate = CertificateDer::from_pem_slice(CERTIFICATE).unwrap();
        let key = PrivateKeyDer::from_pem_slice(KEY).unwrap();
        let config = ServerConfig::builder_with_provider(Arc::new(ring::default_provider()))
            .with_safe_default_protocol_versions()
            .unwrap()
            .with_no_client_auth()
            .with_single_cert(vec![certificate], key)
            .unwrap();
        let tls = TlsAcceptor::from(Arc::new(config));
        Self::serve(page, "127.0.0.1:0", Some(tls)).await
    }

    /// Returns the targets of the previous requests that begin with `beginning`.
    pub fn requests(&self, beginning: &str) -> Vec<String> {
        let requested = self.requested.lock().unwrap();
        let mut targets = requested.clone();
        targets.retain(|target| target.starts_with(beginning));
        targets
    }

    /// Returns a URL of this site, without TLS.
    pub fn url(&self, path: &str) -> String {
        format!("http://{}{path}", self.address)
    }

    async fn serve(page: &str, at: &str, tls: Option<TlsAcceptor>) -> Self {
        let response = format!(
            "HTTP/1.1 200 OK\r\nContent-Type: text/html; charset=utf-8\r\nContent-Length: {}\r\nConnection: close\r\n\r\n{page}",
            page.len()
        );
        Self::start_with_response(response, at, tls).await
    }

    async fn start_with_response(response: String, at: &str, tls: Option<TlsAcceptor>) -> Self {
        let listener = TcpListener::bind(at).await.unwrap();
        let address = listener.local_addr().unwrap();
        let requested: Arc<Mutex<Vec<String>>> = Arc::default();
        let record = Arc::clone(&requested);
        let serving = tokio::spawn(async move {
            let mut connections = JoinSet::new();
            while let Ok((stream, _)) = listener.accept().await {
                let (tls, response, record) = (tls.clone(), response.clone(), Arc::clone(&record));
                connections.spawn(async move {
                    match tls {
                        None => serve_one(stream, &response, &record).await,
                        Some(tls) => match tls.accept(stream).await {
                            Ok(stream) => serve_one(stream, &response, &record).await,
                            Err(_) => None,
                        },
                    }
                });
            }
        });
        Self {
            address,
            requested,
            serving,
        }
    }
}

impl Drop for Site {
    fn drop(&mut self) {
        self.serving.abort();
    }
}

/// Serves one request. A browser may also open a connection and never use it.
async fn serve_one<S>(mut stream: S, response: &str, record: &Mutex<Vec<String>>) -> Option<()>
where
    S: AsyncRead + AsyncWrite + Unpin,
{
    let mut head = Vec::new();
    while !head.windows(4).any(|four| four == b"\r\n\r\n") {
        if stream.read_buf(&mut head).await.ok()? == 0 {
            return None;
        }
    }
    let head = String::from_utf8_lossy(&head);
    let target = head.split(' ').nth(1)?;
    record.lock().unwrap().push(target.to_owned());
    stream.write_all(response.as_bytes()).await.ok()?;
    stream.shutdown().await.ok()
}
