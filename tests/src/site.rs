//! A web site of another party: it returns one page for every request, and records the requests.

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

/// The site. Dropping it ends it.
#[derive(Debug)]
pub struct Site {
    /// The address on which it listens.
    pub address: SocketAddr,
    asked: Arc<Mutex<Vec<String>>>,
    serving: JoinHandle<()>,
}

impl Site {
    /// Starts a site that returns this page.
    pub async fn start(page: &str) -> Self {
        Self::serve(page, "127.0.0.1:0", None).await
    }

    /// Starts a site that redirects every request to a URL.
    pub async fn redirecting(to: &str) -> Self {
        let answer = format!(
            "HTTP/1.1 302 Found\r\nLocation: {to}\r\nContent-Length: 0\r\nConnection: close\r\n\r\n"
        );
        Self::answering(answer, "127.0.0.1:0", None).await
    }

    /// The same on this machine's IPv6 address.
    pub async fn start_v6(page: &str) -> Self {
        Self::serve(page, "[::1]:0", None).await
    }

    /// The same over TLS, with a certificate that no client trusts.
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

    /// The targets of the previous requests that begin with `beginning`.
    pub fn asked(&self, beginning: &str) -> Vec<String> {
        let asked = self.asked.lock().unwrap();
        let mut targets = asked.clone();
        targets.retain(|target| target.starts_with(beginning));
        targets
    }

    /// A URL of this site, without TLS.
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

/// Serves one request. A browser may also open a connection and never use it.
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
