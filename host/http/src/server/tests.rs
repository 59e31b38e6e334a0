//! Tests over real sockets, with clients that can send any bytes.

use std::net::SocketAddr;
use std::sync::atomic::Ordering;
use std::time::Duration;

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio::time::{Instant, timeout};

use super::*;
use crate::testing::{LARGE, TestService, routes};

/// The timeout of the tests, which is sufficient for a loaded machine.
const EVENTUALLY: Duration = Duration::from_secs(20);

async fn start(config: &str) -> (Arc<TestService>, Running) {
    let small = TestService::with(config, routes());
    let address = SocketAddr::from(([127, 0, 0, 1], 0));
    let listener = Listener::bind(&address.into(), "listen").await.unwrap();
    let running = serve(&small, vec![listener]);
    (small, running)
}

fn address(running: &Running) -> SocketAddr {
    running.addresses()[0].tcp().unwrap()
}

struct Client(TcpStream);

impl Client {
    async fn of(running: &Running) -> Self {
        Self(TcpStream::connect(address(running)).await.unwrap())
    }

    async fn send(&mut self, text: &str) {
        self.0.write_all(text.as_bytes()).await.unwrap();
    }

    /// Returns everything until the server closes the connection.
    async fn read_to_end(&mut self) -> String {
        let mut bytes = Vec::new();
        timeout(EVENTUALLY, self.0.read_to_end(&mut bytes))
            .await
            .expect("the server closes")
            .expect("the server does not reset");
        String::from_utf8_lossy(&bytes).into_owned()
    }

    /// Returns one response, with a body of the length in `Content-Length`.
    async fn response(&mut self) -> String {
        let head = self.read_until("\r\n\r\n").await;
        let length = head
            .lines()
            .find_map(|line| line.strip_prefix("content-length: ")?.parse().ok())
            .unwrap_or(0);
        let mut body = vec![0; length];
        timeout(EVENTUALLY, self.0.read_exact(&mut body))
            .await
            .unwrap()
            .unwrap();
        head + &String::from_utf8_lossy(&body)
    }

    async fn read_until(&mut self, end: &str) -> String {
        let mut text = String::new();
        while !text.ends_with(end) {
            let byte = timeout(EVENTUALLY, self.0.read_u8())
                .await
                .unwrap()
                .unwrap();
            text.push(byte.into());
        }
        text
    }
}

fn get(path: &str) -> String {
    format!("GET {path} HTTP/1.1\r\nHost: a\r\n\r\n")
}

fn body(response: &str) -> serde_json::Value {
    let (_, body) = response.split_once("\r\n\r\n").unwrap();
    serde_json::from_str(body).unwrap()
}

#[tokio::test]
async fn a_connection_serves_one_request_after_the_other() {
    let (_, running) = start("").await;
    let mut client = Client::of(&running).await;
    for path in ["/echo/a", "/panic", "/nowhere", "/echo/b"] {
        client.send(&get(path)).await;
        let response = client.response().await;
        assert!(response.contains("x-request-id: "), "{response}");
        assert!(!response.contains("connection: close"), "{response}");
    }
    client.send(&(get("/echo/c") + &get("/echo/d"))).await;
    assert_eq!(body(&client.response().await)["path"][0][1], "c");
    assert_eq!(body(&client.response().await)["path"][0][1], "d");
    client
        .send("HEAD /echo/a HTTP/1.1\r\nHost: a\r\n\r\n")
        .await;
    let head = client.read_until("\r\n\r\n").await;
    assert!(
        head.contains("content-length: ") && !head.contains("content-length: 0"),
        "{head}"
    );
    client.send("POST /echo HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nab\r\n0\r\n\r\n").await;
    let chunked = client.response().await;
    assert_eq!(body(&chunked)["body"], "ab");
    assert!(!chunked.contains("connection: close"), "{chunked}");
    drop(client);
    running.stop().await;
}

#[tokio::test]
async fn a_small_body_that_nobody_wants_does_not_end_the_connection() {
    let (_, running) = start("").await;
    let mut client = Client::of(&running).await;
    client
        .send("POST /session HTTP/1.1\r\nHost: a\r\nContent-Length: 2\r\n\r\n{}")
        .await;
    assert!(client.response().await.starts_with("HTTP/1.1 401 "));
    client.send(&get("/echo/a")).await;
    assert!(client.response().await.starts_with("HTTP/1.1 200 "));
}

#[tokio::test]
async fn a_client_is_asked_for_the_body_that_it_holds_back() {
    let (_, running) = start("").await;
    let mut client = Client::of(&running).await;
    let head = "POST /echo HTTP/1.1\r\nHost: a\r\nExpect: 100-continue\r\nContent-Length: ";
    client.send(&format!("{head}2\r\n\r\n")).await;
    assert!(client.response().await.starts_with("HTTP/1.1 100 "));
    client.send("ab").await;
    assert_eq!(body(&client.response().await)["body"], "ab");
    client.send(&format!("{head}100001\r\n\r\n")).await;
    assert!(
        client.read_to_end().await.starts_with("HTTP/1.1 413 "),
        "a body that is too large is not requested"
    );
}

#[tokio::test]
async fn a_client_that_goes_on_writing_sees_that_its_body_is_too_large() {
    let (_, running) = start("").await;
    let megabytes = 20;
    for head in [
        format!("Content-Length: {}", megabytes * 1024 * 1024),
        "Transfer-Encoding: chunked".into(),
    ] {
        let mut client = Client::of(&running).await;
        client
            .send(&format!("POST /echo HTTP/1.1\r\nHost: a\r\n{head}\r\n\r\n"))
            .await;
        let piece = "x".repeat(1024 * 1024);
        for _ in 0..megabytes {
            if head.starts_with("Transfer") {
                client.send(&format!("100000\r\n{piece}\r\n")).await;
            } else {
                client.send(&piece).await;
            }
        }
        let response = client.read_to_end().await;
        assert!(response.starts_with("HTTP/1.1 413 "), "{response}");
        assert!(response.contains("connection: close"), "{response}");
        assert!(body(&response)["error"].is_string());
    }
}

#[tokio::test]
async fn invalid_http_gets_a_response_in_the_format_of_all_errors() {
    let (_, running) = start("").await;
    let many = "x: y\r\n".repeat(101);
    let large = format!("x: {}\r\n", "y".repeat(70_000));
    for (request, status) in [
        ("nonsense\r\n\r\n".to_owned(), "400 Bad Request"),
        (
            "GET / HTTP/1.1\r\nbad header\r\n\r\n".to_owned(),
            "400 Bad Request",
        ),
        (format!("GET / HTTP/1.1\r\n{many}\r\n"), "431 "),
        (format!("GET / HTTP/1.1\r\n{large}\r\n"), "431 "),
        (get(&"/a".repeat(40_000)), "4"),
    ] {
        let mut client = Client::of(&running).await;
        // Also as the second request of a connection.
        client.send(&get("/echo/a")).await;
        assert!(client.response().await.starts_with("HTTP/1.1 200 "));
        client.send(&request).await;
        let response = client.read_to_end().await;
        assert!(
            response.starts_with(&format!("HTTP/1.1 {status}")),
            "{response}"
        );
        for header in ["x-request-id: ", "connection: close", "nosniff", "date: "] {
            assert!(response.contains(header), "{header} in {response}");
        }
        assert!(body(&response)["error"].is_string());
    }
}

#[tokio::test]
async fn a_request_that_comes_too_slowly_is_given_up() {
    let (_, running) = start("[http]\nheader_timeout = 0.2\nbody_timeout = 0.2").await;
    let mut client = Client::of(&running).await;
    client.send("GET /echo/a HTTP/1.1\r\nHos").await;
    let response = client.read_to_end().await;
    assert!(response.starts_with("HTTP/1.1 408 "), "{response}");
    assert!(body(&response)["error"].is_string());
    let mut client = Client::of(&running).await;
    client
        .send("POST /echo HTTP/1.1\r\nHost: a\r\nContent-Length: 9\r\n\r\nab")
        .await;
    let response = client.read_to_end().await;
    assert!(response.starts_with("HTTP/1.1 408 "), "{response}");
    assert!(body(&response)["error"].is_string());
}

#[tokio::test]
async fn an_idle_connection_may_wait_longer_than_a_request_and_not_for_ever() {
    let (_, running) = start("[http]\nheader_timeout = 0.1\nidle_timeout = 0.5").await;
    let before = Instant::now();
    let mut used = Client::of(&running).await;
    used.send(&get("/echo/a")).await;
    assert!(used.response().await.starts_with("HTTP/1.1 200 "));
    assert_eq!(used.read_to_end().await, "", "closed without a response");
    assert!(before.elapsed() >= Duration::from_millis(500));
}

#[tokio::test]
async fn a_connection_that_never_asks_does_not_wait_as_long_as_one_that_has() {
    let (_, running) = start("[http]\nheader_timeout = 0.2\nidle_timeout = 3600").await;
    let mut silent = Client::of(&running).await;
    let before = Instant::now();
    assert_eq!(silent.read_to_end().await, "", "closed without a response");
    assert!(before.elapsed() >= Duration::from_millis(200));
}

#[tokio::test]
async fn an_ambiguous_request_is_rejected() {
    let (_, running) = start("").await;
    let chunks = "2\r\nab\r\n0\r\n\r\n";
    for (head, status) in [
        ("", "400 "),
        ("Host: a\r\nHost: b\r\n", "400 "),
        ("Host: a\r\nTransfer-Encoding: gzip, chunked\r\n", "501 "),
        ("Host: a\r\nTransfer-Encoding: gzip\r\n", "400 "),
        (
            "Host: a\r\nContent-Length: 2\r\nTransfer-Encoding: chunked\r\n",
            "400 ",
        ),
        (
            "Host: a\r\nTransfer-Encoding: chunked\r\nContent-Length: 2\r\n",
            "400 ",
        ),
    ] {
        let mut client = Client::of(&running).await;
        client.send(&get("/echo/a")).await;
        assert!(client.response().await.starts_with("HTTP/1.1 200 "));
        client.send("POST /echo HTTP/1.1\r\n").await;
        client.send(&format!("{head}\r\n{chunks}")).await;
        let response = client.read_to_end().await;
        assert!(
            response.starts_with(&format!("HTTP/1.1 {status}")),
            "{head}: {response}"
        );
        assert!(response.contains("connection: close"), "{head}: {response}");
        let (first, rest) = response.split_once("\r\n\r\n").unwrap();
        assert!(!rest.contains("HTTP/1.1"), "{first}: one response");
        assert!(body(&response)["error"].is_string());
    }
}

#[tokio::test]
async fn a_client_that_takes_no_answer_is_given_up() {
    let (small, running) = start("[http]\nidle_timeout = 0.2").await;
    let mut client = Client::of(&running).await;
    client.send(&get("/large")).await;
    // The server closes the connection because the client does not read, so the rest of the
    // response does not arrive.
    let ended = async {
        while running.open_connections() > 0 {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    };
    while running.open_connections() == 0 {
        tokio::task::yield_now().await;
    }
    timeout(EVENTUALLY, ended)
        .await
        .expect("the server closes the connection");
    let mut bytes = Vec::new();
    let _ = client.0.read_to_end(&mut bytes).await;
    assert!(bytes.len() < LARGE);
    drop(small);
}

#[tokio::test]
async fn a_client_beyond_the_cap_waits_for_its_turn() {
    let (_, running) = start("http.max_connections = 1").await;
    let mut first = Client::of(&running).await;
    first.send(&get("/echo/a")).await;
    first.response().await;
    let mut second = Client::of(&running).await;
    second.send(&get("/echo/b")).await;
    assert_eq!(running.open_connections(), 1);
    drop(first);
    assert_eq!(body(&second.response().await)["path"][0][1], "b");
}

#[tokio::test]
async fn one_client_cannot_have_all_connections() {
    let (_, running) = start("http.connections_per_client = 2").await;
    let mut first = Client::of(&running).await;
    let mut second = Client::of(&running).await;
    for client in [&mut first, &mut second] {
        client.send(&get("/echo/a")).await;
        client.response().await;
    }
    let mut third = Client::of(&running).await;
    assert_eq!(third.read_to_end().await, "", "closed at once");
    drop(first);
    while running.open_connections() > 1 {
        tokio::task::yield_now().await;
    }
    let mut fourth = Client::of(&running).await;
    fourth.send(&get("/echo/b")).await;
    assert_eq!(body(&fourth.response().await)["path"][0][1], "b");
}

#[tokio::test]
async fn a_proxy_has_as_many_connections_as_its_clients() {
    let config = "[http]\nconnections_per_client = 1\ntrusted_proxies = ['127.0.0.0/8']";
    let (_, running) = start(config).await;
    let mut clients = Vec::new();
    for _ in 0..3 {
        let mut client = Client::of(&running).await;
        client.send(&get("/echo/a")).await;
        assert!(client.response().await.starts_with("HTTP/1.1 200 "));
        clients.push(client);
    }
}

#[tokio::test]
async fn responses_close_their_connections_if_the_service_is_about_to_stop() {
    let (small, running) = start("").await;
    let mut client = Client::of(&running).await;
    client.send(&get("/echo/a")).await;
    let response = client.response().await.to_lowercase();
    assert!(!response.contains("connection: close"), "{response}");
    small.stopping.store(true, Ordering::Relaxed);
    client.send(&get("/echo/b")).await;
    let response = client.read_to_end().await.to_lowercase();
    assert!(response.starts_with("http/1.1 200 "), "{response}");
    assert!(response.contains("\r\nconnection: close\r\n"), "{response}");
    // The listener still accepts connections.
    let mut client = Client::of(&running).await;
    client.send(&get("/echo/c")).await;
    assert!(client.read_to_end().await.starts_with("HTTP/1.1 200 "));
}

#[tokio::test]
async fn a_shutdown_finishes_what_is_in_flight() {
    let (small, running) = start("").await;
    let mut idle = Client::of(&running).await;
    idle.send(&get("/echo/a")).await;
    idle.response().await;
    let mut client = Client::of(&running).await;
    client.send(&get("/wait")).await;
    small.started.acquire().await.unwrap().forget();
    let address = address(&running);
    let stopping = tokio::spawn(running.stop());
    assert_eq!(
        idle.read_to_end().await,
        "",
        "an idle connection is closed at once"
    );
    small.gate.add_permits(1);
    let response = client.read_to_end().await;
    assert!(response.starts_with("HTTP/1.1 200 "), "{response}");
    timeout(EVENTUALLY, stopping).await.unwrap().unwrap();
    assert!(TcpStream::connect(address).await.is_err());
}

#[tokio::test]
async fn a_shutdown_waits_for_a_change_whose_client_is_gone() {
    let (small, running) = start("").await;
    let mut client = Client::of(&running).await;
    client.send("POST /wait HTTP/1.1\r\nHost: a\r\n\r\n").await;
    small.started.acquire().await.unwrap().forget();
    drop(client);
    let mut stopping = tokio::spawn(running.stop());
    let early = timeout(Duration::from_millis(100), &mut stopping).await;
    assert!(early.is_err(), "the change is still in progress");
    small.gate.add_permits(1);
    timeout(EVENTUALLY, stopping).await.unwrap().unwrap();
    assert_eq!(small.finished.available_permits(), 1);
}

#[tokio::test]
async fn a_shutdown_cuts_off_what_takes_longer_than_its_grace() {
    let (small, running) = start("http.shutdown_grace = 0.1").await;
    let mut reading = Client::of(&running).await;
    reading.send(&get("/wait")).await;
    let mut changing = Client::of(&running).await;
    changing
        .send("POST /wait HTTP/1.1\r\nHost: a\r\n\r\n")
        .await;
    small.started.acquire_many(2).await.unwrap().forget();
    timeout(EVENTUALLY, running.stop()).await.unwrap();
    assert_eq!(small.finished.available_permits(), 0);
}

#[tokio::test]
async fn an_ambiguous_head_after_a_chunked_body_is_rejected() {
    let (_, running) = start("").await;
    let chunked = |body: &str| {
        format!("POST /echo HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n{body}")
    };
    for chunks in [
        "2\r\nab\r\n0\r\n\r\n",
        // The data contains empty lines, and the end of another chunked body.
        "5\r\n{\n\n}\n\r\n0\r\n\r\n",
        "c;x=y\r\n\r\n\r\n0\r\n\r\nGET\r\n0\r\nX: y\r\n\r\n",
    ] {
        for head in [
            "POST /echo HTTP/1.1\nHost: a\n\n",
            "POST /echo HTTP/1.1\r\nHost: a\r\nContent-Length: 0\r\nContent-Length: 0\r\n\r\n",
        ] {
            let mut client = Client::of(&running).await;
            let pipeline = format!(
                "{}{}{head}{}",
                chunked(chunks),
                get("/echo/a"),
                get("/echo/b")
            );
            client.send(&pipeline).await;
            for _ in 0..2 {
                let response = client.response().await;
                assert!(response.starts_with("HTTP/1.1 200 "), "{response}");
                assert!(!response.contains("connection: close"), "{response}");
            }
            let response = client.read_to_end().await;
            assert!(
                response.starts_with("HTTP/1.1 400 "),
                "{head:?}: {response}"
            );
            assert!(body(&response)["error"].is_string());
        }
    }
}

#[tokio::test]
async fn a_request_inside_an_ambiguous_trailer_section_is_not_executed() {
    let (_, running) = start("").await;
    for trailers in ["X: y\n\r\n", "X: y\r\n\n", "\n"] {
        let mut client = Client::of(&running).await;
        let head = "POST /echo HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n";
        let hidden = get("/echo/b");
        client
            .send(&format!("{head}2\r\nab\r\n0\r\n{trailers}{hidden}{hidden}"))
            .await;
        let response = client.read_to_end().await;
        assert_eq!(response.matches("HTTP/1.1 ").count(), 1, "{response}");
        assert!(response.contains("connection: close"), "{response}");
    }
}
