//! Somebody else's site, as far as a browser is led there: it answers every request with a page, and remembers what it was asked.

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

/// Nobody's secret.
const CERTIFICATE: &[u8] = include_bytes!("../../host/src/fetch/tests/certificate.pem");
const KEY: &[u8] = include_bytes!("../../host/src/fetch/tests/key.pem");

/// The site, until it is dropped.
#[derive(Debug)]
pub struct Site {
    /// Where it listens.
    pub address: SocketAddr,
    asked: Arc<Mutex<Vec<String>>>,
    serving: JoinHandle<()>,
}

impl Site {
    /// One whose every page is this.
    pub async fn start(page: &str) -> Self {
        Self::serve(page, "127.0.0.1:0", None).await
    }

    /// One that redirects every request to a URL.
    pub async fn redirecting(to: &str) -> Self {
        let answer = format!(
            "HTTP/1.1 302 Found\r\nLocation: {to}\r\nContent-Length: 0\r\nConnection: close\r\n\r\n"
        );
        Self::answering(answer, "127.0.0.1:0", None).await
    }

    /// The same at this machine's address of IPv6.
    pub async fn start_v6(page: &str) -> Self {
        Self::serve(page, "[::1]:0", None).await
    }

    /// The same over TLS. Its certificate is nobody's.
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

    /// The targets of the requests so far that begin so.
    pub fn asked(&self, beginning: &str) -> Vec<String> {
        let asked = self.asked.lock().unwrap();
        let mut targets = asked.clone();
        targets.retain(|target| target.starts_with(beginning));
        targets
    }

    /// An address on it, without TLS.
    pub fn at(&self, path: &str) -> String {
        format!("http://{}{path}", self.address)
    }

    async fn serve(page: &str, at: &str, tls: Option<TlsAcceptor>) -> Self {
        let answer = format!(
            "HTTP/1.1 200 OK\r\nContent-Type: text/html; charset=utf-8\r\nContent-Length: {}\r\nConnection: close\r\n\r\n{page}",
            page.len()
        );
        Self::answering(answer, at, tls).await
    }

    async fn answering(answer: String, at: &str, tls: Option<TlsAcceptor>) -> Self {
        let listener = TcpListener::bind(at).await.unwrap();
        let address = listener.local_addr().unwrap();
        let asked: Arc<Mutex<Vec<String>>> = Arc::default();
        let kept = Arc::clone(&asked);
        let serving = tokio::spawn(async move {
            let mut connections = JoinSet::new();
            while let Ok((stream, _)) = listener.accept().await {
                let (tls, answer, kept) = (tls.clone(), answer.clone(), Arc::clone(&kept));
                connections.spawn(async move {
                    match tls {
                        None => answered(stream, &answer, &kept).await,
                        Some(tls) => match tls.accept(stream).await {
                            Ok(stream) => answered(stream, &answer, &kept).await,
                            Err(_) => None,
                        },
                    }
                });
            }
        });
        Self {
            address,
            asked,
            serving,
        }
    }
}

impl Drop for Site {
    fn drop(&mut self) {
        self.serving.abort();
    }
}

/// One request. A browser that opens a connection for later and never uses it asks nothing.
async fn answered<S>(mut stream: S, answer: &str, kept: &Mutex<Vec<String>>) -> Option<()>
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
    kept.lock().unwrap().push(target.to_owned());
    stream.write_all(answer.as_bytes()).await.ok()?;
    stream.shutdown().await.ok()
}
