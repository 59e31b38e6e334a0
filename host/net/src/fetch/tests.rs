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

const MOMENT: Duration = Duration::from_millis(200);

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
        let more = stream.read(&mut piece).await.unwrap();
        assert!(more > 0, "it ended after {text:?}");
        read.extend_from_slice(&piece[..more]);
    }
}

async fn answer(mut stream: impl AsyncRead + AsyncWrite + Unpin, answer: &[u8]) -> String {
    let asked = read(&mut stream).await;
    // The client may close the connection before it has read the whole response.
    let _ = stream.write_all(answer).await;
    let _ = stream.shutdown().await;
    asked
}

/// Starts a server for one request. Returns its address, and the request that it received.
async fn server(said: impl Into<Vec<u8>>) -> (SocketAddr, JoinHandle<String>) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let (at, said) = (listener.local_addr().unwrap(), said.into());
    let asked = tokio::spawn(async move {
        let (stream, _) = listener.accept().await.unwrap();
        answer(stream, &said).await
    });
    (at, asked)
}

/// Returns the result of a request to a server that responds with `said`.
async fn told(
    said: impl Into<Vec<u8>>,
    request: impl FnOnce(&str) -> Request,
) -> Result<Response, Error> {
    let (at, _asked) = server(said).await;
    let server = format!("http://{at}");
    let request = request(&format!("{server}/"));
    fetch().send(&hosts(&server), request).await
}

#[tokio::test]
async fn a_request_goes_out_as_it_was_given_and_its_answer_comes_back_whole() {
    let said = "HTTP/1.1 418 I'm a teapot\r\nX-One: 1\r\nX-One: 2\r\nConnection: close\r\nKeep-Alive: timeout=5\r\nContent-Length: 3\r\n\r\ntea";
    let (at, asked) = server(said).await;
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

    let asked = asked.await.unwrap();
    assert!(
        asked.starts_with("POST /a%20b?c=d&e HTTP/1.1\r\n"),
        "{asked}"
    );
    for line in [
        &*format!("host: {at}"),
        "authorization: Bearer x",
        "x-two: 1",
        "x-two: 2",
        "content-length: 4",
        "user-agent: latchmail/",
    ] {
        assert!(asked.contains(&format!("\r\n{line}")), "{line} in {asked}");
    }
    assert!(asked.ends_with("\r\n\r\nbody"));
}

#[tokio::test]
async fn a_redirect_is_an_answer_like_any_other() {
    let said = "HTTP/1.1 302 Found\r\nLocation: http://127.0.0.1:1/\r\nContent-Length: 0\r\n\r\n";
    let got = told(said, get).await.unwrap();
    assert_eq!(got.status, 302);
    assert_eq!(got.headers["location"], "http://127.0.0.1:1/");
}

#[tokio::test]
async fn a_host_that_is_not_listed_hears_nothing() {
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
    let heard = tokio::time::timeout(MOMENT, listener.accept()).await;
    assert!(heard.is_err());
}

#[tokio::test]
async fn what_is_no_request_is_refused_before_anybody_is_asked() {
    let url = "https://api.example.com/";
    let listed = hosts("api.example.com");
    let refused = async |request: Request| fetch().send(&listed, request).await.unwrap_err();
    for method in [
        "",
        "CONNECT",
        "TRACE",
        "G ET",
        "GET / HTTP/1.1\r\nX: y\r\n\r\n",
    ] {
        let mut request = get(url);
        request.method = method.into();
        let error = refused(request).await;
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
        ("expect", "100-continue"),
        ("", "x"),
        ("x y", "x"),
        ("x:", "x"),
        ("x", "a\r\nhost: evil.example"),
        ("x", "a\0b"),
    ] {
        let mut request = get(url);
        request.headers = vec![(name.into(), value.into())];
        let error = refused(request).await;
        assert!(matches!(error, Error::Invalid(_)), "{name:?}: {error}");
    }
    for url in [
        "",
        "/a",
        "https://user@api.example.com/",
        "gopher://api.example.com/",
    ] {
        let error = refused(get(url)).await;
        assert!(matches!(error, Error::Invalid(_)), "{url:?}: {error}");
    }
    let mut much = Vec::new();
    much.push(get(&format!("{url}{}", "a".repeat(9_000))));
    much.push(Request {
        headers: vec![("x".into(), "y".into()); 65],
        ..get(url)
    });
    much.push(Request {
        headers: vec![("x".into(), "y".repeat(17_000))],
        ..get(url)
    });
    much.push(Request {
        body: vec![0; LARGEST_BODY + 1].into(),
        ..post(url)
    });
    for request in much {
        let error = refused(request).await;
        assert!(matches!(error, Error::TooLarge(_)), "{error}");
    }
}

#[tokio::test]
async fn an_answer_is_read_up_to_its_bound_however_it_is_framed() {
    let head = "HTTP/1.1 200 OK\r\n";
    let whole = [format!("{head}\r\n").as_bytes(), &vec![b'x'; LARGEST_BODY]].concat();
    assert_eq!(
        told(whole.clone(), get).await.unwrap().body.len(),
        LARGEST_BODY
    );
    let mut over = whole;
    over.push(b'x');
    let chunk = format!("{:x}\r\n{}\r\n", 1 << 20, "x".repeat(1 << 20));
    let chunks = format!(
        "{head}Transfer-Encoding: chunked\r\n\r\n{}0\r\n\r\n",
        chunk.repeat(5)
    );
    let claimed = format!("{head}Content-Length: 99999999999\r\n\r\n").into_bytes();
    for said in [over, chunks.into_bytes(), claimed] {
        let error = told(said, get).await.unwrap_err();
        assert!(matches!(error, Error::TooLarge(_)), "{error}");
    }
}

#[tokio::test]
async fn an_answer_that_cannot_be_read_is_honest_about_what_may_have_happened() {
    let long = format!("HTTP/1.1 200 OK\r\nx: {}\r\n\r\n", "y".repeat(1 << 20));
    let many = format!("HTTP/1.1 200 OK\r\n{}\r\n", "x: y\r\n".repeat(1000));
    for said in [
        "",
        "SSH-2.0-OpenSSH_9.2\r\n",
        "HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nhalf",
        "HTTP/1.1 200 OK\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\nhalf",
        &long,
        &many,
    ] {
        let read = told(said, get).await.unwrap_err();
        assert!(matches!(read, Error::Unavailable(_)), "{read}");
        let changed = told(said, post).await.unwrap_err();
        assert!(matches!(changed, Error::Unknown(_)), "{changed}");
    }
}

#[tokio::test]
async fn a_server_that_says_nothing_is_waited_for_no_longer_than_asked() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let server = format!("http://{}", listener.local_addr().unwrap());
    let patient = |request: Request| Request {
        timeout: Some(MOMENT),
        ..request
    };
    let ask = async |request| {
        let asked = fetch();
        let listed = hosts(&server);
        let asking = asked.send(&listed, patient(request));
        tokio::time::timeout(PATIENCE / 2, asking)
            .await
            .unwrap()
            .unwrap_err()
    };
    assert!(matches!(ask(get(&server)).await, Error::Unavailable(_)));
    assert!(matches!(ask(post(&server)).await, Error::Unknown(_)));
    drop(listener);
    // No server listens, so the request was not sent.
    assert!(matches!(ask(post(&server)).await, Error::Unavailable(_)));
}

#[tokio::test]
async fn a_request_that_is_given_up_leaves_no_connection() {
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
    let end = tokio::time::timeout(PATIENCE, stream.read_to_end(&mut rest)).await;
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
        let said = b"HTTP/1.1 200 OK\r\nContent-Length: 6\r\n\r\nsecret";
        if let Ok(stream) = TlsAcceptor::from(Arc::new(config)).accept(stream).await {
            answer(stream, said).await;
        }
    });
    at
}

#[tokio::test]
async fn a_server_has_to_be_who_it_is_asked_to_be() {
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
