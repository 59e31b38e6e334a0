//! A receiver of webhooks. It stores the requests, and responds as the test chooses.

use std::convert::Infallible;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use hmac::{Hmac, KeyInit as _, Mac as _};
use http::{Request, Response, StatusCode};
use http_body_util::{BodyExt as _, Full};
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use serde_json::{Value, json};
use sha2::Sha256;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpListener;
use tokio_rustls::TlsAcceptor;

use crate::tls::CertificateFolder;
use crate::wait_until;

/// A running receiver.
#[derive(Debug)]
pub struct Receiver {
    /// The address and port.
    pub address: SocketAddr,
    scheme: &'static str,
    state: Arc<State>,
}

#[derive(Debug, Default)]
struct State {
    received: Mutex<Vec<Received>>,
    /// The number of connections.
    connections: AtomicUsize,
    behaviour: Mutex<Behaviour>,
}

/// How a receiver responds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Behaviour {
    /// With this status.
    Status(u16),
    /// Never.
    Silence,
    /// With a redirect to this URL.
    Redirect(String),
}

impl Default for Behaviour {
    fn default() -> Self {
        Self::Status(204)
    }
}

/// A request that a receiver got.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Received {
    /// The path of the URL.
    pub path: String,
    /// The header `webhook-id`.
    pub id: String,
    /// The header `webhook-timestamp`.
    pub timestamp: String,
    /// The header `webhook-signature`.
    pub signature: String,
    /// The header `X-MCP-Subscription-Id`, or an empty text.
    pub subscription: String,
    /// The body.
    pub text: String,
    /// The body as JSON.
    pub body: Value,
}

impl Received {
    /// Returns whether one of the signatures is that of a secret.
    pub fn is_signed_with(&self, secret: &str) -> bool {
        let key = STANDARD.decode(secret.strip_prefix("whsec_").unwrap());
        let mut mac = Hmac::<Sha256>::new_from_slice(&key.unwrap()).unwrap();
        mac.update(format!("{}.{}.{}", self.id, self.timestamp, self.text).as_bytes());
        let expected = format!("v1,{}", STANDARD.encode(mac.finalize().into_bytes()));
        self.signature.split(' ').any(|one| one == expected)
    }
}

impl Receiver {
    /// Starts a receiver. A request for a verification gets the challenge.
    pub async fn start() -> Self {
        Self::with_tls(None).await
    }

    /// Starts a receiver with TLS and this certificate.
    pub async fn start_tls(certificate: &CertificateFolder) -> Self {
        Self::with_tls(Some(certificate.acceptor())).await
    }

    async fn with_tls(tls: Option<TlsAcceptor>) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let scheme = if tls.is_some() { "https" } else { "http" };
        let state = Arc::<State>::default();
        let shared = Arc::clone(&state);
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                shared.connections.fetch_add(1, Ordering::Relaxed);
                let (shared, tls) = (Arc::clone(&shared), tls.clone());
                tokio::spawn(async move {
                    match tls {
                        None => serve(stream, shared).await,
                        Some(tls) => {
                            if let Ok(stream) = tls.accept(stream).await {
                                serve(stream, shared).await;
                            }
                        }
                    }
                });
            }
        });
        Self {
            address,
            scheme,
            state,
        }
    }

    /// Returns the number of connections.
    pub fn connections(&self) -> usize {
        self.state.connections.load(Ordering::Relaxed)
    }

    /// Returns the setting that allows this receiver.
    pub fn setting(&self) -> String {
        format!("webhooks.allow = ['{}']", self.address)
    }

    /// Returns the URL with this path.
    pub fn url(&self, path: &str) -> String {
        format!("{}://{}{path}", self.scheme, self.address)
    }

    /// Changes how the receiver responds.
    pub fn behave(&self, behaviour: Behaviour) {
        *self.state.behaviour.lock().unwrap() = behaviour;
    }

    /// Returns all requests.
    pub fn received(&self) -> Vec<Received> {
        self.state.received.lock().unwrap().clone()
    }

    /// Returns the requests with this path.
    pub fn received_at(&self, path: &str) -> Vec<Received> {
        let mut received = self.received();
        received.retain(|one| one.path == path);
        received
    }

    /// Waits until the receiver has this number of requests with this path, and returns them.
    pub async fn wait_for(&self, path: &str, count: usize) -> Vec<Received> {
        wait_until(&format!("{count} requests to {path}"), async || {
            self.received_at(path).len() >= count
        })
        .await;
        self.received_at(path)
    }
}

async fn serve(stream: impl AsyncRead + AsyncWrite + Unpin + Send + 'static, state: Arc<State>) {
    let service = service_fn(move |request| respond(request, Arc::clone(&state)));
    let connection = http1::Builder::new().serve_connection(TokioIo::new(stream), service);
    drop(connection.await);
}

async fn respond(
    request: Request<Incoming>,
    state: Arc<State>,
) -> Result<Response<Full<Bytes>>, Infallible> {
    let (head, body) = request.into_parts();
    let header = |name: &str| {
        let value = head.headers.get(name).map(|value| value.to_str().unwrap());
        value.unwrap_or_default().to_owned()
    };
    assert_eq!(header("content-type"), "application/json");
    let text = body.collect().await.unwrap().to_bytes();
    let text = String::from_utf8(text.into()).unwrap();
    let body: Value = serde_json::from_str(&text).unwrap();
    let behaviour = state.behaviour.lock().unwrap().clone();
    let challenge = (body["type"] == "verification").then(|| body["challenge"].clone());
    state.received.lock().unwrap().push(Received {
        path: head.uri.path().to_owned(),
        id: header("webhook-id"),
        timestamp: header("webhook-timestamp"),
        signature: header("webhook-signature"),
        subscription: header("x-mcp-subscription-id"),
        text,
        body,
    });
    let mut response = Response::new(Full::default());
    match behaviour {
        Behaviour::Status(status) => {
            *response.status_mut() = StatusCode::from_u16(status).unwrap();
            if let Some(challenge) = challenge.filter(|_| status == 204) {
                *response.status_mut() = StatusCode::OK;
                *response.body_mut() = json!({ "challenge": challenge }).to_string().into();
            }
        }
        Behaviour::Silence => std::future::pending().await,
        Behaviour::Redirect(url) => {
            *response.status_mut() = StatusCode::TEMPORARY_REDIRECT;
            response
                .headers_mut()
                .insert("location", url.parse().unwrap());
        }
    }
    Ok(response)
}
