//! TLS of the service itself, redirects from HTTP, and HSTS.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use bytes::Bytes;
use http_body_util::{BodyExt as _, Empty};
use hyper::client::conn::{http1, http2};
use hyper_util::rt::{TokioExecutor, TokioIo};
use latchmail_tests::process::free_address;
use latchmail_tests::tls::{CertificateFolder, TlsClient, certificate_of};
use latchmail_tests::{
    RawClient, RawResponse, Service, TEST_TIMEOUT, start_error, tools_folder, wait_until,
};
use tempfile::TempDir;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio::process::Command;
use tokio::time::timeout;
use tokio_rustls::client::TlsStream;

const HEALTH: &str = "GET /api/health HTTP/1.1\r\nHost: a\r\n\r\n";
const HSTS: &str = "strict-transport-security";
const SHORT_TIMEOUTS: &str =
    "http.header_timeout = 0.3\nhttp.body_timeout = 0.1\nhttp.idle_timeout = 0.3";

/// A service with TLS.
struct TlsService {
    service: Service,
    files: CertificateFolder,
    _folder: TempDir,
}

impl TlsService {
    async fn with(settings: &str) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let files = CertificateFolder::create(folder.path());
        let settings = format!("base_url = ''\n{}{settings}", files.settings());
        Self {
            service: Service::with(&settings).await,
            files,
            _folder: folder,
        }
    }

    fn address(&self) -> SocketAddr {
        self.service.addresses()[0].tcp().unwrap()
    }

    async fn client(&self) -> RawClient<TlsStream<TcpStream>> {
        let stream = self.files.connect(self.address(), &["http/1.1"]).await;
        RawClient::over(stream.unwrap())
    }

    /// Returns `true` if a new connection gets the current certificate in the files.
    async fn uses_current_certificate(&self) -> bool {
        let stream = self.files.connect(self.address(), &[]).await.unwrap();
        certificate_of(&stream) == *self.files.current()
    }

    async fn assert_serves(&self) {
        let mut client = self.client().await;
        client.send(HEALTH).await;
        assert_eq!(client.response().await.unwrap().status, 200);
    }
}

async fn response(service: &TlsService, request: &str) -> RawResponse {
    let mut client = service.client().await;
    client.send(request).await;
    client.response().await.unwrap()
}

#[tokio::test]
async fn clients_use_tls_and_every_response_has_hsts() {
    let service = TlsService::with("").await;
    let mut client = service.client().await;
    for (request, status) in [
        (HEALTH, 200),
        ("GET /nowhere HTTP/1.1\r\nHost: a\r\n\r\n", 404),
        ("GET /api/v1/mail/folders HTTP/1.1\r\nHost: a\r\n\r\n", 401),
        ("GET /api/health HTTP/1.1\r\n\r\n", 400),
    ] {
        client.send(request).await;
        let response = client.response().await.unwrap();
        assert_eq!(response.status, status);
        assert_eq!(response.header(HSTS), Some("max-age=31536000"));
    }
    let invalid = response(&service, "EHLO a\r\n").await;
    assert_eq!(
        (invalid.status, invalid.header(HSTS)),
        (400, Some("max-age=31536000"))
    );
    let challenge = response(
        &service,
        "POST /mcp HTTP/1.1\r\nHost: a\r\nContent-Length: 0\r\n\r\n",
    )
    .await;
    let challenge = challenge.header("www-authenticate").unwrap();
    let base = format!("https://{}/", service.address());
    assert!(
        challenge.contains(&base),
        "the default of base_url is {base}: {challenge}"
    );
}

#[tokio::test]
async fn the_listener_of_the_authorization_server_uses_tls() {
    let address = free_address();
    let settings = format!(
        "oauth.listen = '{address}'\nauth_url = 'https://service.test:{}'",
        address.port()
    );
    let service = TlsService::with(&settings).await;
    let stream = service.files.connect(address, &["http/1.1"]).await.unwrap();
    let mut client = RawClient::over(stream);
    client
        .send("GET /.well-known/oauth-authorization-server HTTP/1.1\r\nHost: a\r\n\r\n")
        .await;
    let response = client.response().await.unwrap();
    assert_eq!(
        (response.status, response.header(HSTS)),
        (200, Some("max-age=31536000"))
    );
}

#[tokio::test]
async fn responses_without_tls_have_no_hsts() {
    let service = Service::with("base_url = 'https://service.test'").await;
    let mut client = RawClient::connect(&service).await;
    client.send(HEALTH).await;
    assert_eq!(client.response().await.unwrap().header(HSTS), None);
}

#[tokio::test]
async fn the_guards_of_http_1_apply_over_tls() {
    let service = TlsService::with(SHORT_TIMEOUTS).await;
    let login = "POST /api/v1/auth/login HTTP/1.1\r\nHost: a\r\nContent-Length: 9\r\n\r\n{";
    let long = format!("GET /{} HTTP/1.1\r\nHost: a\r\n\r\n", "a".repeat(70_000));
    let ambiguous = "POST /api/v1/auth/login HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n";
    let large = format!(
        "POST /api/v1/auth/login HTTP/1.1\r\nHost: a\r\nContent-Length: 100000\r\n\r\n{}",
        "x".repeat(100_000)
    );
    for (request, status) in [
        ("GET /api/hea", 408),
        (login, 408),
        (&long, 431),
        (ambiguous, 400),
        (&large, 413),
        ("GET /api/health HTTP/1.1\nHost: a\n\n", 400),
    ] {
        let mut client = service.client().await;
        client.send(request).await;
        let responses = client.responses().await;
        assert_eq!(responses.len(), 1, "{request:.40}");
        responses[0].error(status);
        assert!(responses[0].closes());
    }
    let mut idle = service.client().await;
    idle.send(HEALTH).await;
    assert_eq!(idle.response().await.unwrap().status, 200);
    assert!(
        idle.response().await.is_none(),
        "an idle connection is closed"
    );
    let mut silent = service.client().await;
    assert!(silent.response().await.is_none());
    let mut client = service.client().await;
    let many = "GET /api/openapi.json HTTP/1.1\r\nHost: a\r\n\r\n".repeat(100);
    let refused = async { while client.try_send(&many).await {} };
    timeout(TEST_TIMEOUT, refused)
        .await
        .expect("a client that never reads is disconnected");
    service.assert_serves().await;
}

#[tokio::test]
async fn a_slow_handshake_ends_and_does_not_delay_other_clients() {
    let service = TlsService::with("http.header_timeout = 0.3").await;
    let mut slow = Vec::new();
    // The first bytes of a handshake.
    for bytes in [
        &b""[..],
        b"\x16",
        b"\x16\x03\x01\x02\0\x01\0\x01\xfc\x03\x03",
    ] {
        for _ in 0..20 {
            let mut stream = TcpStream::connect(service.address()).await.unwrap();
            stream.write_all(bytes).await.unwrap();
            slow.push(stream);
        }
    }
    service.assert_serves().await;
    for mut stream in slow {
        let mut rest = Vec::new();
        let closed = timeout(TEST_TIMEOUT, stream.read_to_end(&mut rest));
        let _ = closed.await.expect("the service closes");
        assert!(rest.is_empty());
    }
    // HTTP without TLS gets no response.
    let mut plain = TcpStream::connect(service.address()).await.unwrap();
    plain.write_all(HEALTH.as_bytes()).await.unwrap();
    let mut rest = Vec::new();
    let _ = timeout(TEST_TIMEOUT, plain.read_to_end(&mut rest))
        .await
        .unwrap();
    assert!(!rest.starts_with(b"HTTP"), "{rest:?}");
}

#[tokio::test]
async fn a_shutdown_does_not_wait_for_a_handshake() {
    let settings = "http.header_timeout = 600\nhttp.shutdown_grace = 600";
    let mut service = TlsService::with(settings).await;
    let mut slow = TcpStream::connect(service.address()).await.unwrap();
    slow.write_all(b"\x16\x03\x01").await.unwrap();
    service.assert_serves().await;
    let stopped = timeout(TEST_TIMEOUT, service.service.stop());
    stopped.await.expect("the service stops");
}

#[tokio::test]
async fn a_renewed_certificate_is_used_for_new_connections() {
    let mut service = TlsService::with("").await;
    let mut old = service.client().await;
    let first = service.files.current().clone();
    service.files.renew();
    assert_ne!(first, *service.files.current());
    // The service notices the change itself.
    wait_until("new connections get the new certificate", async || {
        service.uses_current_certificate().await
    })
    .await;
    old.send(HEALTH).await;
    assert_eq!(
        old.response().await.unwrap().status,
        200,
        "old connections continue"
    );
    std::fs::write(service.files.key(), "invalid").unwrap();
    service.service.reload_certificate().await;
    service.assert_serves().await;
}

#[tokio::test]
async fn the_tls_settings_are_checked_at_the_start() {
    let folder = tempfile::tempdir().unwrap();
    let files = CertificateFolder::create(folder.path());
    std::fs::remove_file(files.key()).unwrap();
    let error = start_error(&files.settings()).await;
    assert!(
        error.contains("`tls.key`") && error.contains("key.pem"),
        "{error}"
    );
}

#[tokio::test]
async fn http_is_redirected_to_the_base_url() {
    let redirect = free_address();
    let settings = format!(
        "http.redirect_listen = '{redirect}'\n{SHORT_TIMEOUTS}\nhttp.connections_per_client = 20"
    );
    let folder = tempfile::tempdir().unwrap();
    let files = CertificateFolder::create(folder.path());
    let settings = format!(
        "base_url = 'https://service.test'\n{}{settings}",
        files.settings()
    );
    let _service = Service::with(&settings).await;
    let connect = || RawClient::connect_from([127, 0, 0, 1], redirect);
    let get = |target: &str, host: &str| format!("GET {target} HTTP/1.1\r\nHost: {host}\r\n\r\n");
    let mut client = connect().await;
    for (request, location) in [
        (get("/", "service.test"), "https://service.test/"),
        (
            get("/api/health?x=1", "evil.test"),
            "https://service.test/api/health?x=1",
        ),
        (
            get("http://evil.test/x", "evil.test"),
            "https://service.test/x",
        ),
        (
            "OPTIONS * HTTP/1.1\r\nHost: evil.test\r\n\r\n".into(),
            "https://service.test/",
        ),
    ] {
        client.send(&request).await;
        let response = client.response().await.unwrap();
        assert_eq!(response.status, 308, "{request}");
        assert_eq!(response.header("location"), Some(location));
        assert_eq!(
            response.header(HSTS),
            None,
            "browsers ignore it without TLS (RFC 6797)"
        );
        assert!(!response.closes());
    }
    let post = "POST /api/v1/auth/login HTTP/1.1\r\nHost: a\r\nContent-Length: 9\r\n\r\n";
    let long = format!("GET /{} HTTP/1.1\r\nHost: a\r\n\r\n", "a".repeat(70_000));
    for (request, status) in [
        (post, 308),
        (&*long, 431),
        ("GET /", 408),
        ("GET / HTTP/1.1\r\n\r\n", 400),
        ("GET / HTTP/1.1\nHost: a\n\n", 400),
    ] {
        let mut client = connect().await;
        client.send(request).await;
        let responses = client.responses().await;
        assert_eq!(responses.len(), 1, "{request:.40}");
        assert_eq!(responses[0].status, status, "{request:.40}");
        assert!(responses[0].closes());
    }
}

#[tokio::test]
async fn the_limit_on_connections_covers_the_listener_of_redirects() {
    let redirect = free_address();
    let service = TlsService::with(&format!(
        "http.redirect_listen = '{redirect}'\nhttp.connections_per_client = 2"
    ))
    .await;
    let mut tls = service.client().await;
    tls.send(HEALTH).await;
    assert_eq!(tls.response().await.unwrap().status, 200);
    let connect = || RawClient::connect_from([127, 0, 0, 1], redirect);
    let mut second = connect().await;
    second.send(HEALTH).await;
    assert_eq!(second.response().await.unwrap().status, 308);
    assert!(connect().await.response().await.is_none(), "closed at once");
    assert!(service.files.connect(service.address(), &[]).await.is_err());
    drop(second);
    wait_until("the closed connection no longer counts", async || {
        let mut again = connect().await;
        again.try_send(HEALTH).await && again.response().await.is_some()
    })
    .await;
}

/// Sends requests until `stop` is set, each on a new connection if `reconnects` is true. Returns
/// the number of requests. Every request must succeed.
async fn load(
    tls: &TlsClient,
    address: SocketAddr,
    protocol: &str,
    reconnects: bool,
    stop: &AtomicBool,
) -> usize {
    let mut connection = None;
    let mut count = 0;
    while !stop.load(Ordering::Relaxed) {
        let mut client = match connection.take() {
            Some(client) => client,
            None => HttpClient::connect(tls, address, protocol).await,
        };
        assert_eq!(client.health().await, 200, "{protocol}");
        count += 1;
        if !reconnects {
            connection = Some(client);
        }
    }
    count
}

/// A client of HTTP/1 or HTTP/2.
enum HttpClient {
    Http1(http1::SendRequest<Empty<Bytes>>),
    Http2(http2::SendRequest<Empty<Bytes>>),
}

impl HttpClient {
    async fn connect(tls: &TlsClient, address: SocketAddr, protocol: &str) -> Self {
        let stream = tls.connect(address, &[protocol]).await.unwrap();
        let stream = TokioIo::new(stream);
        if protocol == "h2" {
            let (client, connection) = http2::handshake(TokioExecutor::new(), stream)
                .await
                .unwrap();
            tokio::spawn(connection);
            Self::Http2(client)
        } else {
            let (client, connection) = http1::handshake(stream).await.unwrap();
            tokio::spawn(connection);
            Self::Http1(client)
        }
    }

    /// Returns the status of a response that arrives completely.
    async fn health(&mut self) -> u16 {
        let request = |uri: &str| {
            let request = http::Request::builder()
                .uri(uri)
                .header("host", "service.test");
            request.body(Empty::new()).unwrap()
        };
        let response = match self {
            Self::Http1(client) => {
                client.ready().await.unwrap();
                client.send_request(request("/api/health")).await
            }
            Self::Http2(client) => {
                client.ready().await.unwrap();
                client
                    .send_request(request("https://service.test/api/health"))
                    .await
            }
        };
        let response = response.unwrap();
        let status = response.status().as_u16();
        response.into_body().collect().await.unwrap();
        status
    }
}

#[tokio::test]
async fn renewals_under_load_fail_no_request() {
    let mut service = TlsService::with("").await;
    let address = service.address();
    let stop = Arc::new(AtomicBool::new(false));
    let client = service.files.client();
    let mut loads = Vec::new();
    for protocol in ["h2", "http/1.1"] {
        for reconnects in [true, true, false, false] {
            let (client, stop) = (client.clone(), Arc::clone(&stop));
            loads.push(tokio::spawn(async move {
                load(&client, address, protocol, reconnects, &stop).await
            }));
        }
    }
    for _ in 0..4 {
        service.files.renew();
        wait_until("new connections get the new certificate", async || {
            service.uses_current_certificate().await
        })
        .await;
    }
    stop.store(true, Ordering::Relaxed);
    for load in loads {
        assert!(load.await.unwrap() > 0);
    }
}

#[tokio::test]
async fn sslyze_finds_no_weak_protocol_or_cipher() {
    let service = TlsService::with("").await;
    let output = Command::new(tools_folder().join("tls-clients/bin/python"))
        .args(["-m", "sslyze", "--mozilla_config", "intermediate"])
        .arg("--certinfo_ca_file")
        .arg(service.files.authority())
        .arg("--sni=service.test")
        .arg(service.address().to_string())
        .output()
        .await
        .unwrap();
    let report = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success(), "{report}");
    assert!(report.contains("OK - Compliant"), "{report}");
}
