//! Tests with a provider that counts its requests and fails on demand.

use std::collections::HashMap;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::Mutex as StdMutex;
use std::sync::atomic::{AtomicUsize, Ordering};

use latchmail_core::config::{self, Config};
use latchmail_net::dns::Dns;
use serde_json::json;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::{JoinHandle, JoinSet};

use super::*;
use crate::discovery::TokenKind;

const REDIRECT_URI: &str = "https://mail.example/auth/oidc/callback";

/// What the provider does.
struct Behavior {
    address: SocketAddr,
    discoveries: AtomicUsize,
    /// The status and the body of the token endpoint. `None` closes all connections.
    token: StdMutex<Option<(u16, String)>>,
}

struct FakeProvider {
    behavior: Arc<Behavior>,
    serving: JoinHandle<()>,
}

impl Drop for FakeProvider {
    fn drop(&mut self) {
        self.serving.abort();
    }
}

impl FakeProvider {
    async fn start() -> (Self, Arc<Provider>) {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let behavior = Arc::new(Behavior {
            address: listener.local_addr().unwrap(),
            discoveries: AtomicUsize::new(0),
            token: StdMutex::new(Some((500, String::new()))),
        });
        let serving = tokio::spawn({
            let behavior = Arc::clone(&behavior);
            async move {
                loop {
                    let (stream, _) = listener.accept().await.unwrap();
                    tokio::spawn(serve(stream, Arc::clone(&behavior)));
                }
            }
        });
        let settings = format!(
            "sign_in.source = 'oidc'\n\
             sign_in.oidc.issuer = 'http://{}'\n\
             sign_in.oidc.client_id = 'latchmail'",
            behavior.address
        );
        let config = Config::parse(&settings, "test", HashMap::new()).unwrap();
        let dns = Arc::new(Dns::new(&config::Dns::default(), "mail.invalid").unwrap());
        let fetch = Fetch::new(dns).unwrap();
        let provider = Provider::new(&config, fetch, Clock::system()).unwrap();
        (Self { behavior, serving }, Arc::new(provider.unwrap()))
    }

    fn discoveries(&self) -> usize {
        self.behavior.discoveries.load(Ordering::SeqCst)
    }

    fn set_token_response(&self, response: Option<(u16, serde_json::Value)>) {
        let response = response.map(|(status, body)| (status, body.to_string()));
        *self.behavior.token.lock().unwrap() = response;
    }
}

async fn serve(mut stream: TcpStream, behavior: Arc<Behavior>) {
    let mut request = Vec::new();
    let mut piece = [0; 4096];
    while !request.windows(4).any(|window| window == b"\r\n\r\n") {
        match stream.read(&mut piece).await {
            Ok(0) | Err(_) => return,
            Ok(length) => request.extend(&piece[..length]),
        }
    }
    let head = String::from_utf8_lossy(&request);
    let path = head.split(' ').nth(1).unwrap();
    let base = format!("http://{}", behavior.address);
    let token = behavior.token.lock().unwrap().clone();
    if path.starts_with("/.well-known/") {
        behavior.discoveries.fetch_add(1, Ordering::SeqCst);
    }
    let Some(token) = token else {
        return;
    };
    let (status, body) = match path {
        "/.well-known/openid-configuration" => {
            let metadata = json!({
                "issuer": base,
                "authorization_endpoint": format!("{base}/authorize"),
                "token_endpoint": format!("{base}/token"),
                "jwks_uri": format!("{base}/keys"),
                "response_types_supported": ["code"],
                "subject_types_supported": ["public"],
                "id_token_signing_alg_values_supported": ["RS256"],
            });
            (200, metadata.to_string())
        }
        "/keys" => (200, json!({ "keys": [] }).to_string()),
        _ => token,
    };
    let response = format!(
        "HTTP/1.1 {status} x\r\nContent-Type: application/json\r\nContent-Length: {}\r\n\
         Connection: close\r\n\r\n{body}",
        body.len()
    );
    stream.write_all(response.as_bytes()).await.unwrap();
}

/// Begins sign-ins at the same time. Returns the number of those that could begin.
async fn begin(provider: &Arc<Provider>, count: usize) -> usize {
    let mut sign_ins = JoinSet::new();
    for _ in 0..count {
        let provider = Arc::clone(provider);
        sign_ins.spawn(async move { provider.begin(REDIRECT_URI, None).await.is_ok() });
    }
    let begun = sign_ins.join_all().await;
    begun.into_iter().filter(|begun| *begun).count()
}

#[tokio::test]
async fn many_sign_ins_cause_few_requests() {
    let (fake, provider) = FakeProvider::start().await;
    assert_eq!(begin(&provider, 50).await, 50);
    assert_eq!(begin(&provider, 50).await, 50);
    // At most four requests each second.
    assert!(fake.discoveries() < 20, "{}", fake.discoveries());
}

#[tokio::test]
async fn sign_ins_that_wait_share_a_failure_and_the_next_one_tries_again() {
    let (fake, provider) = FakeProvider::start().await;
    fake.set_token_response(None);
    assert_eq!(begin(&provider, 20).await, 0);
    assert_eq!(fake.discoveries(), 1);
    fake.set_token_response(Some((500, json!({}))));
    assert_eq!(begin(&provider, 1).await, 1);
    assert_eq!(fake.discoveries(), 2);
}

#[tokio::test]
async fn a_failed_request_makes_the_cached_metadata_stale() {
    let (fake, provider) = FakeProvider::start().await;
    assert_eq!(begin(&provider, 1).await, 1);
    fake.set_token_response(None);
    let token = "refresh".into();
    assert!(provider.refresh_sign_in(&token).await.is_err());
    assert_eq!(begin(&provider, 1).await, 0);
    assert_eq!(fake.discoveries(), 2);
}

#[tokio::test]
async fn unknown_keys_of_logout_tokens_cause_few_requests_and_delay_no_sign_in() {
    let (fake, provider) = FakeProvider::start().await;
    for _ in 0..20 {
        provider.refresh(TokenKind::Logout).await.unwrap();
    }
    assert_eq!(fake.discoveries(), 5);
    let refreshed = provider.refresh(TokenKind::Id).await.unwrap();
    assert!(refreshed.is_some());
}

#[tokio::test]
async fn only_invalid_grant_means_that_the_provider_refuses_the_person() {
    let (fake, provider) = FakeProvider::start().await;
    let token = "refresh".into();
    let error = |code: &str| json!({ "error": code });
    for (response, is_refused) in [
        (Some((400, error("invalid_grant"))), true),
        (Some((401, error("invalid_client"))), false),
        (Some((400, error("temporarily_unavailable"))), false),
        (Some((503, json!({}))), false),
        (Some((200, json!({ "unexpected": 1 }))), false),
        (None, false),
    ] {
        fake.set_token_response(response.clone());
        let result = provider.refresh_sign_in(&token).await;
        let refused = matches!(result, Err(Error::Rejected(_)));
        assert!(result.is_err(), "{response:?}");
        assert_eq!(refused, is_refused, "{response:?}: {result:?}");
    }
    for next in [None, Some("next")] {
        let mut tokens = json!({ "access_token": "a", "token_type": "Bearer" });
        if let Some(next) = next {
            tokens["refresh_token"] = next.into();
        }
        fake.set_token_response(Some((200, tokens)));
        let refreshed = provider.refresh_sign_in(&token).await.unwrap();
        let refreshed = refreshed.as_ref().map(secrecy::ExposeSecret::expose_secret);
        assert_eq!(refreshed, next);
    }
}
