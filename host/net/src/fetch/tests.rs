use std::net::SocketAddr;
use std::sync::Arc;

use latchmail_core::config;
use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _};
use tokio::net::TcpListener;
use tokio::task::JoinHandle;
use tokio_rustls::rustls::crypto::ring;
use tokio_rustls::rustls::pki_types::pem::PemObject as _;
use tokio_rustls::rustls::pki_types::{CertificateDer, PrivateKeyDer};
use tokio_rustls::rustls::{ClientConfig, RootCertStore, ServerConfig};
use tokio_rustls::{TlsAcceptor, TlsConnector};

use super::*;

/// Certificate of 127.0.0.1, signed by its own key. The key is not secret.
const CERTIFICATE: &[u8] = include_bytes!("tests/certificate.pem");
const KEY: &[u8] = include_bytes!("tests/key.pem");

const SHORT_TIMEOUT: Duration = Duration::from_millis(200);

fn dns() -> Arc<Dns> {
    Arc::new(Dns::new(&config::Dns::default(), "mail.invalid").unwrap())
}

fn fetch() -> Fetch {
    Fetch::new(dns()).unwrap()
}

fn hosts(entry: &str) -> Hosts {
    Hosts::parse(&[entry.to_owned()]).unwrap()
}

fn get(url: &str) -> Request {
    Request {
        method: "GET".into(),
        url: url.into(),
        ..Request::default()
    }
}

fn post(url: &str) -> Request {
    Request {
        method: "POST".into(),
        body: Bytes::from_static(b"body"),
        ..get(url)
    }
}

/// Reads one request with no body or with the body `body`.
async fn read(stream: &mut (impl AsyncRead + Unpin)) -> String {
    let mut read = Vec::new();
    let mut piece = [0; 4096];
    loop {
        let text = String::from_utf8_lossy(&read).into_owned();
        let whole = if text.contains("content-length: 4") {
            text.ends_with("\r\n\r\nbody")
        } else {
            text.ends_with("\r\n\r\n")
        };
        if whole {
            return text;
        }
        let length = stream.read(&mut piece).await.unwrap();
        assert!(length > 0, "the request ended after {text:?}");
        read.extend_from_slice(&piece[..length]);
    }
}

/// Reads one request, sends `response`, and returns the request.
async fn respond(mut stream: impl AsyncRead + AsyncWrite + Unpin, response: &[u8]) -> String {
    let request = read(&mut stream).await;
    // The client may close the connection before it has read the whole response.
    let _ = stream.write_all(response).await;
    let _ = stream.shutdown().await;
    request
}

/// Starts a server for one request. Returns its address, and the request that it received.
async fn server(response: impl Into<Vec<u8>>) -> (SocketAddr, JoinHandle<String>) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let (at, response) = (listener.local_addr().unwrap(), response.into());
    let request = tokio::spawn(async move {
        let (stream, _) = listener.accept().await.unwrap();
        respond(stream, &response).await
    });
    (at, request)
}

/// Returns the result of a request to a server that responds with `response`.
async fn send_to_server(
    response: impl Into<Vec<u8>>,
    request: impl FnOnce(&str) -> Request,
) -> Result<Response, Error> {
    let (at, _request) = server(response).await;
    let server = format!("http://{at}");
    let request = request(&format!("{server}/"));
    fetch().send(&hosts(&server), request).await
}

#[tokio::test]
async fn request_and_response_are_transferred_unchanged() {
    let response = "HTTP/1.1 418 I'm a teapot\r\nX-One: 1\r\nX-One: 2\r\nConnection: close\r\nKeep-Alive: timeout=5\r\nContent-Length: 3\r\n\r\ntea";
    let (at, received) = server(response).await;
    let mut request = post(&format!("http://{at}/a%20b?c=d&e#f"));
    request.headers = vec![
        ("Authorization".into(), "Bearer x".into()),
        ("x-two".into(), "1".into()),
        ("X-Two".into(), "2".into()),
    ];
    let got = fetch()
        .send(&hosts(&format!("http://{at}")), request)
        .await
        .unwrap();
    assert_eq!(got.status, 418);
    assert_eq!(got.body, "tea");
    let ones: Vec<_> = got.headers.get_all("x-one").iter().collect();
    assert_eq!(ones, ["1", "2"]);
    assert!(!got.headers.contains_key("connection") && !got.headers.contains_key("keep-alive"));

    let received = received.await.unwrap();
    assert!(
        received.starts_with("POST /a%20b?c=d&e HTTP/1.1\r\n"),
        "{received}"
    );
    for line in [
        &*format!("host: {at}"),
        "authorization: Bearer x",
        "x-two: 1",
        "x-two: 2",
        "content-length: 4",
        "user-agent: latchmail/",
    ] {
        assert!(
            received.contains(&format!("\r\n{line}")),
            "{line} in {received}"
        );
    }
    assert!(received.ends_with("\r\n\r\nbody"));
}

#[tokio::test]
async fn a_redirect_is_returned_and_not_followed() {
    let response =
        "HTTP/1.1 302 Found\r\nLocation: http://127.0.0.1:1/\r\nContent-Length: 0\r\n\r\n";
    let got = send_to_server(response, get).await.unwrap();
    assert_eq!(got.status, 302);
    assert_eq!(got.headers["location"], "http://127.0.0.1:1/");
}

#[tokio::test]
async fn a_host_that_is_not_listed_receives_no_connection() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let at = listener.local_addr().unwrap();
    let port = at.port();
    for (listed, url) in [
        ("api.example.com", format!("http://{at}/")),
        ("127.0.0.0/8", format!("http://{at}/")),
        ("http://127.0.0.1:1", format!("http://{at}/")),
        ("http://127.0.0.2:1", format!("http://{at}/")),
        (&*at.to_string(), format!("http://{at}/")),
        (
            "api.example.com",
            format!("http://[::ffff:127.0.0.1]:{port}/"),
        ),
        ("api.example.com", format!("http://localhost:{port}/")),
    ] {
        let denied = fetch().send(&hosts(listed), get(&url)).await.unwrap_err();
        assert!(
            matches!(denied, Error::Denied(_)),
            "{listed} {url}: {denied}"
        );
    }
    let connection = tokio::time::timeout(SHORT_TIMEOUT, listener.accept()).await;
    assert!(connection.is_err());
}

#[tokio::test]
async fn an_invalid_request_is_rejected_before_any_connection() {
    let url = "https://api.example.com/";
    let listed = hosts("api.example.com");
    let rejection = async |request: Request| fetch().send(&listed, request).await.unwrap_err();
    for method in [
        "",
        "CONNECT",
        "TRACE",
        "G ET",
        "GET / HTTP/1.1\r\nX: y\r\n\r\n",
    ] {
        let mut request = get(url);
        request.method = method.into();
        let error = rejection(request).await;
        assert!(matches!(error, Error::Invalid(_)), "{method:?}: {error}");
    }
    for (name, value) in [
        ("Host", "evil.example"),
        ("content-length", "0"),
        ("Transfer-Encoding", "chunked"),
        ("connection", "upgrade"),
        ("upgrade", "websocket"),
        ("proxy-authorization", "x"),
        ("te", "trailers"),
        (
            "traceparent",
            "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01",
        ),
        ("tracestate", "a=b"),
        ("expect", "100-continue"),
        ("", "x"),
        ("x y", "x"),
        ("x:", "x"),
        ("x", "a\r\nhost: evil.example"),
        ("x", "a\0b"),
    ] {
        let mut request = get(url);
        request.headers = vec![(name.into(), value.into())];
        let error = rejection(request).await;
        assert!(matches!(error, Error::Invalid(_)), "{name:?}: {error}");
    }
    for url in [
        "",
        "/a",
        "https://user@api.example.com/",
        "gopher://api.example.com/",
    ] {
        let error = rejection(get(url)).await;
        assert!(matches!(error, Error::Invalid(_)), "{url:?}: {error}");
    }
    let mut too_large = Vec::new();
    too_large.push(get(&format!("{url}{}", "a".repeat(9_000))));
    too_large.push(Request {
        headers: vec![("x".into(), "y".into()); 65],
        ..get(url)
    });
    too_large.push(Request {
        headers: vec![("x".into(), "y".repeat(17_000))],
        ..get(url)
    });
    too_large.push(Request {
        body: vec![0; MAX_BODY_SIZE + 1].into(),
        ..post(url)
    });
    for request in too_large {
        let error = rejection(request).await;
        assert!(matches!(error, Error::TooLarge(_)), "{error}");
    }
}

#[tokio::test]
async fn the_size_of_a_response_body_is_limited_for_every_framing() {
    let head = "HTTP/1.1 200 OK\r\n";
    let whole = [format!("{head}\r\n").as_bytes(), &vec![b'x'; MAX_BODY_SIZE]].concat();
    assert_eq!(
        send_to_server(whole.clone(), get).await.unwrap().body.len(),
        MAX_BODY_SIZE
    );
    let mut over = whole;
    over.push(b'x');
    let chunk = format!("{:x}\r\n{}\r\n", 1 << 20, "x".repeat(1 << 20));
    let chunks = format!(
        "{head}Transfer-Encoding: chunked\r\n\r\n{}0\r\n\r\n",
        chunk.repeat(5)
    );
    let claimed = format!("{head}Content-Length: 99999999999\r\n\r\n").into_bytes();
    for response in [over, chunks.into_bytes(), claimed] {
        let error = send_to_server(response, get).await.unwrap_err();
        assert!(matches!(error, Error::TooLarge(_)), "{error}");
    }
}

#[tokio::test]
async fn the_outcome_of_an_unsafe_request_without_a_readable_response_is_unknown() {
    let long = format!("HTTP/1.1 200 OK\r\nx: {}\r\n\r\n", "y".repeat(1 << 20));
    let many = format!("HTTP/1.1 200 OK\r\n{}\r\n", "x: y\r\n".repeat(1000));
    for response in [
        "",
        "SSH-2.0-OpenSSH_9.2\r\n",
        "HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nhalf",
        "HTTP/1.1 200 OK\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\nhalf",
        &long,
        &many,
    ] {
        let error = send_to_server(response, get).await.unwrap_err();
        assert!(matches!(error, Error::Unavailable(_)), "{error}");
        let error = send_to_server(response, post).await.unwrap_err();
        assert!(matches!(error, Error::OutcomeUnknown(_)), "{error}");
    }
}

#[tokio::test]
async fn a_request_to_a_silent_server_ends_at_its_timeout() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let server = format!("http://{}", listener.local_addr().unwrap());
    let with_timeout = |request: Request| Request {
        timeout: Some(SHORT_TIMEOUT),
        ..request
    };
    let failure = async |request| {
        let client = fetch();
        let listed = hosts(&server);
        let sending = client.send(&listed, with_timeout(request));
        tokio::time::timeout(MAX_TIMEOUT / 2, sending)
            .await
            .unwrap()
            .unwrap_err()
    };
    assert!(matches!(failure(get(&server)).await, Error::Unavailable(_)));
    assert!(matches!(
        failure(post(&server)).await,
        Error::OutcomeUnknown(_)
    ));
    drop(listener);
    // No server listens, so the request was not sent.
    assert!(matches!(
        failure(post(&server)).await,
        Error::Unavailable(_)
    ));
}

#[tokio::test]
async fn dropping_a_request_closes_its_connection() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let server = format!("http://{}", listener.local_addr().unwrap());
    let (fetch, listed) = (fetch(), hosts(&server));
    let mut stream = tokio::select! {
        _ = fetch.send(&listed, post(&server)) => panic!("there was no response"),
        stream = async {
            let (mut stream, _) = listener.accept().await.unwrap();
            read(&mut stream).await;
            stream
        } => stream,
    };
    let mut rest = Vec::new();
    let end = tokio::time::timeout(MAX_TIMEOUT, stream.read_to_end(&mut rest)).await;
    assert!(end.is_ok() && rest.is_empty());
}

/// Starts an https server for one request.
async fn tls_server(at: &str) -> SocketAddr {
    let certificate = CertificateDer::from_pem_slice(CERTIFICATE).unwrap();
    let key = PrivateKeyDer::from_pem_slice(KEY).unwrap();
    let config = ServerConfig::builder_with_provider(Arc::new(ring::default_provider()))
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_no_client_auth()
        .with_single_cert(vec![certificate], key)
        .unwrap();
    let listener = TcpListener::bind(at).await.unwrap();
    let at = listener.local_addr().unwrap();
    tokio::spawn(async move {
        let (stream, _) = listener.accept().await.unwrap();
        let response = b"HTTP/1.1 200 OK\r\nContent-Length: 6\r\n\r\nsecret";
        if let Ok(stream) = TlsAcceptor::from(Arc::new(config)).accept(stream).await {
            respond(stream, response).await;
        }
    });
    at
}

#[tokio::test]
async fn the_certificate_must_be_trusted_and_valid_for_the_server() {
    let mut roots = RootCertStore::empty();
    roots
        .add(CertificateDer::from_pem_slice(CERTIFICATE).unwrap())
        .unwrap();
    let client = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()))
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_root_certificates(roots)
        .with_no_client_auth();
    let trusting = Fetch {
        connector: Connector::with(dns(), TlsConnector::from(Arc::new(client))),
    };
    let at = tls_server("127.0.0.1:0").await;
    let got = trusting
        .send(&hosts(&at.to_string()), get(&format!("https://{at}/")))
        .await;
    assert_eq!(got.unwrap().body, "secret");

    // The certificate is for another address.
    let at = tls_server("127.0.0.2:0").await;
    let got = trusting
        .send(&hosts(&at.to_string()), post(&format!("https://{at}/")))
        .await;
    assert!(matches!(got.unwrap_err(), Error::Unavailable(_)));

    // No trusted authority signed the certificate.
    let at = tls_server("127.0.0.1:0").await;
    let got = fetch()
        .send(&hosts(&at.to_string()), post(&format!("https://{at}/")))
        .await;
    assert!(matches!(got.unwrap_err(), Error::Unavailable(_)));
}

#[tokio::test]
async fn the_body_of_an_open_response_arrives_in_pieces() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let server = format!("http://{}", listener.local_addr().unwrap());
    let accept = async {
        let (mut stream, _) = listener.accept().await.unwrap();
        read(&mut stream).await;
        let head = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\none\r\n";
        stream.write_all(head).await.unwrap();
        stream
    };
    let (fetch, hosts) = (fetch(), hosts(&server));
    let open = fetch.open(&hosts, get(&format!("{server}/")));
    let (mut stream, response) = tokio::join!(accept, open);
    let mut response = response.unwrap();
    assert_eq!(response.status, 200);
    assert!(!response.headers.contains_key("transfer-encoding"));
    assert_eq!(response.chunk().await.unwrap().unwrap(), "one");
    stream.write_all(b"3\r\ntwo\r\n").await.unwrap();
    assert_eq!(response.chunk().await.unwrap().unwrap(), "two");
    // The body has no end.
    drop(stream);
    response.chunk().await.unwrap_err();
}

#[tokio::test]
async fn a_server_that_sends_no_head_is_not_waited_for() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let server = format!("http://{}", listener.local_addr().unwrap());
    let request = Request {
        timeout: Some(SHORT_TIMEOUT),
        ..get(&server)
    };
    let error = fetch().open(&hosts(&server), request).await.unwrap_err();
    assert!(matches!(error, Error::Unavailable(_)), "{error}");
}
