//! A registry of one test, which returns what the test chooses: also wrong content, and signatures
//! of other artifacts. It stores nothing that clients send.

use std::collections::HashMap;
use std::convert::Infallible;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use http::{Request, Response, StatusCode};
use http_body_util::Full;
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use latchmail_registry::Digest;
use rcgen::KeyPair;
use ring::rand::SystemRandom;
use ring::signature::{ECDSA_P256_SHA256_ASN1_SIGNING, EcdsaKeyPair};
use serde_json::{Value, json};
use tokio::net::TcpListener;
use tokio::task::JoinHandle;

/// The repository of the artifacts.
const REPOSITORY: &str = "modules/variant";

/// The name and the password that [`FakeRegistry::require_token`] accepts, in base64.
pub const REGISTRY_CREDENTIALS: &str = "YWRhOnMzY3JldA==";

const TOKEN: &str = "token-of-the-registry";

/// A running registry.
#[derive(Debug)]
pub struct FakeRegistry {
    /// The address and port.
    pub address: SocketAddr,
    state: Arc<Mutex<State>>,
    server: JoinHandle<()>,
}

#[derive(Debug, Default)]
struct State {
    replies: HashMap<String, Reply>,
    requires_token: bool,
    requests: Vec<(String, Option<String>)>,
}

#[derive(Clone, Debug)]
enum Reply {
    Content(Bytes),
    Redirect(String),
}

/// A key pair that signs artifacts as cosign does.
#[derive(Debug)]
pub struct SigningKey(KeyPair);

impl Default for SigningKey {
    fn default() -> Self {
        Self(KeyPair::generate().unwrap())
    }
}

impl SigningKey {
    /// Returns the public key in PEM.
    pub fn public_key(&self) -> String {
        self.0.public_key_pem()
    }

    fn sign(&self, text: &str) -> String {
        let (random, der) = (SystemRandom::new(), self.0.serialize_der());
        let key = EcdsaKeyPair::from_pkcs8(&ECDSA_P256_SHA256_ASN1_SIGNING, &der, &random);
        let signature = key.unwrap().sign(&random, text.as_bytes()).unwrap();
        STANDARD.encode(signature)
    }
}

impl FakeRegistry {
    /// Starts an empty registry.
    pub async fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let state = Arc::<Mutex<State>>::default();
        let shared = Arc::clone(&state);
        let server = tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                let shared = Arc::clone(&shared);
                let service = service_fn(move |request: Request<Incoming>| {
                    let response = respond(&request, address, &mut shared.lock().unwrap());
                    async move { Ok::<_, Infallible>(response) }
                });
                tokio::spawn(async move {
                    let stream = TokioIo::new(stream);
                    drop(
                        http1::Builder::new()
                            .serve_connection(stream, service)
                            .await,
                    );
                });
            }
        });
        Self {
            address,
            state,
            server,
        }
    }

    /// Stops the registry. Nothing listens at its address afterwards.
    pub async fn stop(&mut self) {
        self.server.abort();
        let _ = (&mut self.server).await;
    }

    /// Returns the settings of a service that uses this registry.
    pub fn settings(&self) -> String {
        format!("registry.plain_http = ['{}']\n", self.address)
    }

    /// Returns the reference to a tag.
    pub fn reference(&self, tag: &str) -> String {
        format!("oci://{}/{REPOSITORY}:{tag}", self.address)
    }

    /// Returns the reference to a digest.
    pub fn reference_to(&self, digest: &str) -> String {
        format!("oci://{}/{REPOSITORY}@{digest}", self.address)
    }

    /// Publishes a component with a tag, without a signature. Returns its manifest.
    pub fn publish(&self, tag: &str, component: &[u8]) -> Value {
        let config = json!({ "architecture": "wasm", "os": "wasip2" }).to_string();
        let manifest = json!({
            "schemaVersion": 2,
            "config": self.add_blob("application/vnd.wasm.config.v0+json", config.as_bytes()),
            "layers": [self.add_blob("application/wasm", component)],
        });
        self.publish_manifest(tag, manifest.to_string().as_bytes());
        manifest
    }

    /// Publishes a manifest with a tag. Returns its digest.
    pub fn publish_manifest(&self, tag: &str, manifest: &[u8]) -> String {
        let digest = Digest::of(manifest).to_string();
        for name in [tag, digest.as_str()] {
            self.reply(&format!("manifests/{name}"), manifest);
        }
        digest
    }

    /// Publishes the signature of the manifest with the digest `artifact`. The signature signs the
    /// digest `signed` in the repository `repository`.
    pub fn sign_as(&self, artifact: &str, key: &SigningKey, signed: &str, repository: &str) {
        let text = json!({
            "critical": {
                "identity": { "docker-reference": format!("{}/{repository}", self.address) },
                "image": { "docker-manifest-digest": signed },
                "type": "cosign container image signature",
            },
            "optional": null,
        })
        .to_string();
        let media_type = "application/vnd.dev.cosign.simplesigning.v1+json";
        let mut layer = self.add_blob(media_type, text.as_bytes());
        layer["annotations"] = json!({ "dev.cosignproject.cosign/signature": key.sign(&text) });
        let manifest = json!({
            "schemaVersion": 2,
            "config": self.add_blob("application/vnd.oci.image.config.v1+json", b"{}"),
            "layers": [layer],
        });
        let tag = format!("{}.sig", artifact.replace(':', "-"));
        self.publish_manifest(&tag, manifest.to_string().as_bytes());
    }

    /// Publishes a valid signature of the manifest with this digest.
    pub fn sign(&self, digest: &str, key: &SigningKey) {
        self.sign_as(digest, key, digest, REPOSITORY);
    }

    /// Stores content, and returns its descriptor.
    fn add_blob(&self, media_type: &str, content: &[u8]) -> Value {
        let digest = Digest::of(content).to_string();
        self.reply(&format!("blobs/{digest}"), content);
        json!({ "mediaType": media_type, "digest": digest, "size": content.len() })
    }

    /// Returns this content for a path in the repository, whatever its digest is.
    pub fn reply(&self, path: &str, content: &[u8]) {
        self.set(path, Reply::Content(content.to_vec().into()));
    }

    /// Redirects requests for a path in the repository.
    pub fn redirect(&self, path: &str, url: &str) {
        self.set(path, Reply::Redirect(url.to_owned()));
    }

    fn set(&self, path: &str, reply: Reply) {
        let path = format!("/v2/{REPOSITORY}/{path}");
        self.state.lock().unwrap().replies.insert(path, reply);
    }

    /// Requires a token. Its server issues a token for [`REGISTRY_CREDENTIALS`].
    pub fn require_token(&self) {
        self.state.lock().unwrap().requires_token = true;
    }

    /// Returns the paths of all requests, and their header `Authorization`.
    pub fn requests(&self) -> Vec<(String, Option<String>)> {
        self.state.lock().unwrap().requests.clone()
    }
}

impl Drop for FakeRegistry {
    fn drop(&mut self) {
        self.server.abort();
    }
}

fn respond(
    request: &Request<Incoming>,
    address: SocketAddr,
    state: &mut State,
) -> Response<Full<Bytes>> {
    let path = request.uri().path().to_owned();
    let authorization = request.headers().get("authorization");
    let authorization = authorization.map(|value| value.to_str().unwrap().to_owned());
    state.requests.push((path.clone(), authorization.clone()));
    let mut response = Response::new(Full::default());
    if path == "/token" {
        if authorization == Some(format!("Basic {REGISTRY_CREDENTIALS}")) {
            *response.body_mut() = json!({ "token": TOKEN }).to_string().into();
        } else {
            *response.status_mut() = StatusCode::UNAUTHORIZED;
        }
        return response;
    }
    if state.requires_token && authorization != Some(format!("Bearer {TOKEN}")) {
        let challenge = format!("Bearer realm=\"http://{address}/token\",service=\"registry\"");
        let headers = response.headers_mut();
        headers.insert("www-authenticate", challenge.parse().unwrap());
        *response.status_mut() = StatusCode::UNAUTHORIZED;
        return response;
    }
    match state.replies.get(&path) {
        Some(Reply::Content(content)) => *response.body_mut() = Full::new(content.clone()),
        Some(Reply::Redirect(url)) => {
            let headers = response.headers_mut();
            headers.insert("location", url.parse().unwrap());
            *response.status_mut() = StatusCode::TEMPORARY_REDIRECT;
        }
        None => *response.status_mut() = StatusCode::NOT_FOUND,
    }
    response
}
