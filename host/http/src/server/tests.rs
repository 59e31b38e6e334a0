//! Tests over real sockets, with clients that can send any bytes.

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::time::{Instant, timeout};

use super::*;
use crate::testing::{LARGE, Small, routes};

/// The timeout of the tests, which is sufficient for a loaded machine.
const EVENTUALLY: Duration = Duration::from_secs(20);

async fn start(config: &str) -> (Arc<Small>, Running) {
    let small = Small::with(config, routes());
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let running = serve(&small, listener).unwrap();
    (small, running)
}

struct Client(TcpStream);

impl Client {
    async fn of(running: &Running) -> Self {
        Self(TcpStream::connect(running.address()).await.unwrap())
    }

    async fn say(&mut self, text: &str) {
        self.0.write_all(text.as_bytes()).await.unwrap();
    }

    /// Returns everything until the server closes the connection.
    async fn rest(&mut self) -> String {
        let mut bytes = Vec::new();
        timeout(EVENTUALLY, self.0.read_to_end(&mut bytes))
            .await
            .expect("the server closes")
            .expect("the server does not reset");
        String::from_utf8_lossy(&bytes).into_owned()
    }

    /// Returns one response, with a body of the length in `Content-Length`.
    async fn answer(&mut self) -> String {
        let head = self.until("\r\n\r\n").await;
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

    async fn until(&mut self, end: &str) -> String {
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

fn body(answer: &str) -> serde_json::Value {
    let (_, body) = answer.split_once("\r\n\r\n").unwrap();
    serde_json::from_str(body).unwrap()
}

#[tokio::test]
async fn a_connection_serves_one_request_after_the_other() {
    let (_, running) = start("").await;
    let mut client = Client::of(&running).await;
    for path in ["/echo/a", "/panic", "/nowhere", "/echo/b"] {
        client.say(&get(path)).await;
        let answer = client.answer().await;
        assert!(answer.contains("x-request-id: "), "{answer}");
        assert!(!answer.contains("connection: close"), "{answer}");
    }
    client.say(&(get("/echo/c") + &get("/echo/d"))).await;
    assert_eq!(body(&client.answer().await)["path"][0][1], "c");
    assert_eq!(body(&client.answer().await)["path"][0][1], "d");
    client.say("HEAD /echo/a HTTP/1.1\r\nHost: a\r\n\r\n").await;
    let head = client.until("\r\n\r\n").await;
    assert!(
        head.contains("content-length: ") && !head.contains("content-length: 0"),
        "{head}"
    );
    client.say("POST /echo HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nab\r\n0\r\n\r\n").await;
    let chunked = client.answer().await;
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
        .say("POST /session HTTP/1.1\r\nHost: a\r\nContent-Length: 2\r\n\r\n{}")
        .await;
    assert!(client.answer().await.starts_with("HTTP/1.1 401 "));
    client.say(&get("/echo/a")).await;
    assert!(client.answer().await.starts_with("HTTP/1.1 200 "));
}

#[tokio::test]
async fn a_client_is_asked_for_the_body_that_it_holds_back() {
    let (_, running) = start("").await;
    let mut client = Client::of(&running).await;
    let head = "POST /echo HTTP/1.1\r\nHost: a\r\nExpect: 100-continue\r\nContent-Length: ";
    client.say(&format!("{head}2\r\n\r\n")).await;
    assert!(client.answer().await.starts_with("HTTP/1.1 100 "));
    client.say("ab").await;
    assert_eq!(body(&client.answer().await)["body"], "ab");
    client.say(&format!("{head}100001\r\n\r\n")).await;
    assert!(
        client.rest().await.starts_with("HTTP/1.1 413 "),
        "and not for one that is too large"
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
            .say(&format!("POST /echo HTTP/1.1\r\nHost: a\r\n{head}\r\n\r\n"))
            .await;
        let piece = "x".repeat(1024 * 1024);
        for _ in 0..megabytes {
            if head.starts_with("Transfer") {
                client.say(&format!("100000\r\n{piece}\r\n")).await;
            } else {
                client.say(&piece).await;
            }
        }
        let answer = client.rest().await;
        assert!(answer.starts_with("HTTP/1.1 413 "), "{answer}");
        assert!(answer.contains("connection: close"), "{answer}");
        assert!(body(&answer)["error"].is_string());
    }
}

#[tokio::test]
async fn what_is_no_request_is_answered_like_any_failure() {
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
        client.say(&get("/echo/a")).await;
        assert!(client.answer().await.starts_with("HTTP/1.1 200 "));
        client.say(&request).await;
        let answer = client.rest().await;
        assert!(
            answer.starts_with(&format!("HTTP/1.1 {status}")),
            "{answer}"
        );
        for header in ["x-request-id: ", "connection: close", "nosniff", "date: "] {
            assert!(answer.contains(header), "{header} in {answer}");
        }
        assert!(body(&answer)["error"].is_string());
    }
}

#[tokio::test]
async fn a_request_that_comes_too_slowly_is_given_up() {
    let (_, running) = start("[http]\nheader_timeout = 0.2\nbody_timeout = 0.2").await;
    let mut client = Client::of(&running).await;
    client.say("GET /echo/a HTTP/1.1\r\nHos").await;
    let answer = client.rest().await;
    assert!(answer.starts_with("HTTP/1.1 408 "), "{answer}");
    assert!(body(&answer)["error"].is_string());
    let mut client = Client::of(&running).await;
    client
        .say("POST /echo HTTP/1.1\r\nHost: a\r\nContent-Length: 9\r\n\r\nab")
        .await;
    let answer = client.rest().await;
    assert!(answer.starts_with("HTTP/1.1 408 "), "{answer}");
    assert!(body(&answer)["error"].is_string());
}

#[tokio::test]
async fn an_idle_connection_may_wait_longer_than_a_request_and_not_for_ever() {
    let (_, running) = start("[http]\nheader_timeout = 0.1\nidle_timeout = 0.5").await;
    let before = Instant::now();
    let mut used = Client::of(&running).await;
    used.say(&get("/echo/a")).await;
    assert!(used.answer().await.starts_with("HTTP/1.1 200 "));
    assert_eq!(used.rest().await, "", "closed without a word");
    assert!(before.elapsed() >= Duration::from_millis(500));
}

#[tokio::test]
async fn a_connection_that_never_asks_does_not_wait_as_long_as_one_that_has() {
    let (_, running) = start("[http]\nheader_timeout = 0.2\nidle_timeout = 3600").await;
    let mut silent = Client::of(&running).await;
    let before = Instant::now();
    assert_eq!(silent.rest().await, "", "closed without a word");
    assert!(before.elapsed() >= Duration::from_millis(200));
}

#[tokio::test]
async fn a_request_whose_framing_can_be_read_in_two_ways_is_refused() {
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
        client.say(&get("/echo/a")).await;
        assert!(client.answer().await.starts_with("HTTP/1.1 200 "));
        client.say("POST /echo HTTP/1.1\r\n").await;
        client.say(&format!("{head}\r\n{chunks}")).await;
        let answer = client.rest().await;
        assert!(
            answer.starts_with(&format!("HTTP/1.1 {status}")),
            "{head}: {answer}"
        );
        assert!(answer.contains("connection: close"), "{head}: {answer}");
        let (first, rest) = answer.split_once("\r\n\r\n").unwrap();
        assert!(!rest.contains("HTTP/1.1"), "{first}: one answer");
        assert!(body(&answer)["error"].is_string());
    }
}

#[tokio::test]
async fn a_client_that_takes_no_answer_is_given_up() {
    let (small, running) = start("[http]\nidle_timeout = 0.2").await;
    let mut client = Client::of(&running).await;
    client.say(&get("/large")).await;
    // The server closes the connection because the client does not read, so the rest of the response does not arrive.
    let ended = async {
        while !running.accepting.connections().is_empty() {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    };
    while running.accepting.connections().is_empty() {
        tokio::task::yield_now().await;
    }
    timeout(EVENTUALLY, ended)
        .await
        .expect("the server gives up");
    let mut bytes = Vec::new();
    let _ = client.0.read_to_end(&mut bytes).await;
    assert!(bytes.len() < LARGE);
    drop(small);
}

#[tokio::test]
async fn a_client_beyond_the_cap_waits_for_its_turn() {
    let (_, running) = start("http.max_connections = 1").await;
    let mut first = Client::of(&running).await;
    first.say(&get("/echo/a")).await;
    first.answer().await;
    let mut second = Client::of(&running).await;
    second.say(&get("/echo/b")).await;
    assert_eq!(running.accepting.connections().len(), 1);
    drop(first);
    assert_eq!(body(&second.answer().await)["path"][0][1], "b");
}

#[tokio::test]
async fn one_client_cannot_have_all_connections() {
    let (_, running) = start("http.connections_per_client = 2").await;
    let mut first = Client::of(&running).await;
    let mut second = Client::of(&running).await;
    for client in [&mut first, &mut second] {
        client.say(&get("/echo/a")).await;
        client.answer().await;
    }
    let mut third = Client::of(&running).await;
    assert_eq!(third.rest().await, "", "closed at once");
    drop(first);
    while running.accepting.connections().len() > 1 {
        tokio::task::yield_now().await;
    }
    let mut fourth = Client::of(&running).await;
    fourth.say(&get("/echo/b")).await;
    assert_eq!(body(&fourth.answer().await)["path"][0][1], "b");
}

#[tokio::test]
async fn a_proxy_has_as_many_connections_as_its_clients() {
    let config = "[http]\nconnections_per_client = 1\ntrusted_proxies = ['127.0.0.0/8']";
    let (_, running) = start(config).await;
    let mut clients = Vec::new();
    for _ in 0..3 {
        let mut client = Client::of(&running).await;
        client.say(&get("/echo/a")).await;
        assert!(client.answer().await.starts_with("HTTP/1.1 200 "));
        clients.push(client);
    }
}

#[tokio::test]
async fn a_shutdown_finishes_what_is_in_flight() {
    let (small, running) = start("").await;
    let mut idle = Client::of(&running).await;
    idle.say(&get("/echo/a")).await;
    idle.answer().await;
    let mut client = Client::of(&running).await;
    client.say(&get("/wait")).await;
    small.entered.acquire().await.unwrap().forget();
    let address = running.address();
    let stopping = tokio::spawn(running.stop());
    assert_eq!(idle.rest().await, "", "an idle connection is ended at once");
    small.gate.add_permits(1);
    let answer = client.rest().await;
    assert!(answer.starts_with("HTTP/1.1 200 "), "{answer}");
    timeout(EVENTUALLY, stopping).await.unwrap().unwrap();
    assert!(TcpStream::connect(address).await.is_err());
}

#[tokio::test]
async fn a_shutdown_waits_for_a_change_whose_client_is_gone() {
    let (small, running) = start("").await;
    let mut client = Client::of(&running).await;
    client.say("POST /wait HTTP/1.1\r\nHost: a\r\n\r\n").await;
    small.entered.acquire().await.unwrap().forget();
    drop(client);
    let mut stopping = tokio::spawn(running.stop());
    let early = timeout(Duration::from_millis(100), &mut stopping).await;
    assert!(early.is_err(), "the change is still under way");
    small.gate.add_permits(1);
    timeout(EVENTUALLY, stopping).await.unwrap().unwrap();
    assert_eq!(small.finished.available_permits(), 1);
}

#[tokio::test]
async fn a_shutdown_cuts_off_what_takes_longer_than_its_grace() {
    let (small, running) = start("http.shutdown_grace = 0.1").await;
    let mut reading = Client::of(&running).await;
    reading.say(&get("/wait")).await;
    let mut changing = Client::of(&running).await;
    changing.say("POST /wait HTTP/1.1\r\nHost: a\r\n\r\n").await;
    small.entered.acquire_many(2).await.unwrap().forget();
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
            client.say(&pipeline).await;
            for _ in 0..2 {
                let answer = client.answer().await;
                assert!(answer.starts_with("HTTP/1.1 200 "), "{answer}");
                assert!(!answer.contains("connection: close"), "{answer}");
            }
            let answer = client.rest().await;
            assert!(answer.starts_with("HTTP/1.1 400 "), "{head:?}: {answer}");
            assert!(body(&answer)["error"].is_string());
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
            .say(&format!("{head}2\r\nab\r\n0\r\n{trailers}{hidden}{hidden}"))
            .await;
        let answer = client.rest().await;
        assert_eq!(answer.matches("HTTP/1.1 ").count(), 1, "{answer}");
        assert!(answer.contains("connection: close"), "{answer}");
    }
}
