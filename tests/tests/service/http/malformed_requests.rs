//! Malformed, oversized and ambiguous requests: each gets an error in the standard form, no request
//! hidden behind it is executed, and the next valid request is served.

use latchmail_tests::{DOMAIN, PASSWORD, RawClient, RawResponse, Service};
use serde_json::{Value, json};
use tokio::io::AsyncWriteExt as _;

const HEALTH: &str = "GET /api/health HTTP/1.1\r\nHost: a\r\n\r\n";

/// A request with a chunked body whose content returns 400.
const CHUNKED: &str = "POST /api/v1/auth/refresh HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n\
    1\r\n{\r\n1;x=y\r\n}\r\n0\r\nT: x\r\n\r\n";

/// Returns a request that registers an account, so its execution is visible.
fn register(name: &str) -> String {
    let body = json!({
        "local_part": name, "domain": DOMAIN, "password": PASSWORD,
        "first_name": "Eve", "last_name": "Hidden", "dob": "1990-12-10",
    });
    post("/api/v1/auth/register", &body)
}

fn post(path: &str, body: &Value) -> String {
    let body = body.to_string();
    let length = body.len();
    format!("POST {path} HTTP/1.1\r\nHost: a\r\nContent-Length: {length}\r\n\r\n{body}")
}

fn wrong_login() -> String {
    let body = json!({ "email": "nobody@first.test", "password": "Wrong-Horse-7" });
    post("/api/v1/auth/login", &body)
}

/// Asserts that `hidden` was not registered, and that the service works.
async fn assert_not_executed(service: &Service, case: &str) {
    let answer = service
        .send("GET /api/v1/auth/username-available?username=hidden")
        .await;
    assert_eq!(answer.succeeds(200)["available"], true, "{case}");
}

/// Returns the responses to `bytes` on a connection that has served a request before and accepts no
/// more after them.
async fn responses_to(service: &Service, bytes: &[u8]) -> Vec<RawResponse> {
    let mut client = RawClient::connect(service).await;
    client.send(HEALTH).await;
    assert_eq!(client.response().await.unwrap().status, 200);
    client.try_send(bytes).await;
    // The service may have closed the connection already.
    let _ = client.stream.shutdown().await;
    client.responses().await
}

/// Asserts that `bytes` get exactly one response, a failure with this status, and end the
/// connection without executing the request behind them. Checks this after another request on the
/// connection, and in one piece with earlier requests.
async fn assert_refused(service: &Service, status: u16, bytes: &[u8]) {
    let case = String::from_utf8_lossy(&bytes[..bytes.len().min(200)]).into_owned();
    let hidden = register("hidden");
    let behind = [bytes, hidden.as_bytes()].concat();
    let between = [HEALTH.as_bytes(), CHUNKED.as_bytes(), &behind].concat();
    for (output, expected) in [
        (bytes, &[status][..]),
        (&behind, &[status]),
        (&between, &[200, 400, status]),
    ] {
        let answers = responses_to(service, output).await;
        let statuses: Vec<u16> = answers.iter().map(|answer| answer.status).collect();
        assert_eq!(statuses, expected, "{case}");
        let last = answers.last().unwrap();
        assert!(!last.error(status).is_empty());
        assert!(last.closes(), "{case}");
        assert!(last.header("x-request-id").is_some(), "{case}");
    }
    assert_not_executed(service, &case).await;
}

#[tokio::test]
async fn a_well_formed_request_in_a_pipeline_is_executed() {
    // The other tests rely on this: if the hidden request is executed, its effect is visible.
    let service = Service::start().await;
    let both = HEALTH.to_owned() + &register("hidden");
    let answers = responses_to(&service, both.as_bytes()).await;
    let statuses: Vec<u16> = answers.iter().map(|answer| answer.status).collect();
    assert_eq!(statuses, [200, 201]);
    let answer = service
        .send("GET /api/v1/auth/username-available?username=hidden")
        .await;
    assert_eq!(answer.succeeds(200)["available"], false);
}

#[tokio::test]
async fn pipelined_requests_get_their_responses_in_order() {
    let service = Service::with_mail().await;
    let mut all = String::new();
    for n in 0..20 {
        // Every third request has a body, in one piece or in chunks.
        let request = match n % 3 {
            0 => wrong_login(),
            1 => format!(
                "GET /api/v1/auth/username-available?username=user-{n} HTTP/1.1\r\nHost: a\r\n\r\n"
            ),
            _ => CHUNKED.to_owned(),
        };
        all.push_str(&request);
    }
    let mut client = RawClient::connect(&service).await;
    client.send(all).await;
    for n in 0..20 {
        let answer = client.response().await.unwrap();
        match n % 3 {
            0 => assert_eq!(answer.error(401), "Invalid credentials"),
            1 => assert_eq!(answer.json()["address"], format!("user-{n}@{DOMAIN}")),
            _ => assert_eq!(answer.error(400), "Missing refresh token"),
        }
        assert!(!answer.closes());
    }
}

#[tokio::test]
async fn no_request_is_executed_after_one_that_closes_the_connection() {
    let service = Service::with_mail().await;
    let hidden = register("hidden");
    let large = format!(
        "POST /api/v1/auth/login HTTP/1.1\r\nHost: a\r\nContent-Length: 100000\r\n\r\n{}",
        "x".repeat(100_000)
    );
    for (request, status) in [
        (
            "GET /api/health HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n",
            200,
        ),
        ("GET /api/health HTTP/1.0\r\n\r\n", 200),
        (large.as_str(), 413),
    ] {
        let answers = responses_to(&service, format!("{request}{hidden}").as_bytes()).await;
        let statuses: Vec<u16> = answers.iter().map(|answer| answer.status).collect();
        assert_eq!(statuses, [status], "{request:.80}");
        assert_not_executed(&service, request).await;
    }
}

#[tokio::test]
async fn a_body_with_an_ambiguous_length_is_refused() {
    let service = Service::with_mail().await;
    let hidden = register("hidden");
    let chunks = format!("{:x}\r\n{hidden}\r\n0\r\n\r\n", hidden.len());
    for (head, status) in [
        ("Content-Length: 5\r\nTransfer-Encoding: chunked", 400),
        ("Transfer-Encoding: chunked\r\nContent-Length: 5", 400),
        (
            "Transfer-Encoding: chunked\r\nX: y\r\ncontent-length: 0",
            400,
        ),
        ("Content-Length: 5\r\nContent-Length: 6", 400),
        ("Content-Length: 5\r\nContent-Length: 5", 400),
        ("Content-Length: 5, 5", 400),
        ("Content-Length: +5", 400),
        ("Content-Length: -5", 400),
        ("Content-Length: 0x5", 400),
        ("Content-Length: 5 5", 400),
        ("Content-Length: ", 400),
        ("Content-Length: 99999999999999999999999", 400),
        ("Transfer-Encoding: xchunked", 400),
        ("Transfer-Encoding: chunked, identity", 400),
        ("Transfer-Encoding: identity", 400),
        ("Transfer-Encoding: \"chunked\"", 400),
        ("Transfer-Encoding: chunked;q=1", 400),
        ("Transfer-Encoding: \x0bchunked", 400),
        ("Transfer-Encoding: identity, chunked", 501),
        ("Transfer-Encoding: chunked, chunked", 501),
        ("Transfer-Encoding: gzip\r\nTransfer-Encoding: chunked", 501),
        (
            "Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked",
            501,
        ),
        (
            "Transfer-Encoding: chunked\r\nTransfer-Encoding: identity",
            400,
        ),
        ("Transfer-Encoding:\r\n chunked", 400),
        ("Transfer-Encoding : chunked", 400),
        (" Transfer-Encoding: chunked", 400),
        ("X: y\nTransfer-Encoding: chunked", 400),
        ("X: y\rTransfer-Encoding: chunked", 400),
        ("X: y\0\r\nTransfer-Encoding: chunked", 400),
    ] {
        let request =
            format!("POST /api/v1/auth/login HTTP/1.1\r\nHost: a\r\n{head}\r\n\r\n{chunks}");
        assert_refused(&service, status, request.as_bytes()).await;
    }
    let old = "POST /api/v1/auth/login HTTP/1.0\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n";
    assert_refused(&service, 400, old.as_bytes()).await;
}

#[tokio::test]
async fn malformed_chunks_are_refused() {
    let service = Service::start().await;
    let long = "x".repeat(20_000);
    for chunks in [
        "+2\r\n{}\r\n0\r\n\r\n",
        "-2\r\n{}\r\n0\r\n\r\n",
        "0x2\r\n{}\r\n0\r\n\r\n",
        "2 2\r\n{}\r\n0\r\n\r\n",
        "\r\n{}\r\n0\r\n\r\n",
        "z\r\n{}\r\n0\r\n\r\n",
        "10000000000000002\r\n{}\r\n0\r\n\r\n",
        "fffffffffffffffff\r\n{}\r\n0\r\n\r\n",
        &format!("2;{long}\r\n{{}}\r\n0\r\n\r\n"),
        "2\n{}\r\n0\r\n\r\n",
        "2\r{}\r\n0\r\n\r\n",
        "2;a\nb\r\n{}\r\n0\r\n\r\n",
        "2\r\n{}\n0\r\n\r\n",
        "2\r\n{}0\r\n\r\n",
        "2\r\n{}\r\r\n0\r\n\r\n",
        "2\r\n{}\r\n0\n\r\n",
        "2\r\n{}\r\n0\r\nX: y\n\r\n",
        &format!("2\r\n{{}}\r\n0\r\nX: {}\r\n\r\n", "y".repeat(100_000)),
    ] {
        let request = format!(
            "POST /api/v1/auth/refresh HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n{chunks}"
        );
        assert_refused(&service, 400, request.as_bytes()).await;
    }
}

#[tokio::test]
async fn malformed_requests_are_refused() {
    let service = Service::start().await;
    for request in [
        // Bare line feeds: RFC 9112, section 2.2 allows them, but servers differ.
        "GET /api/health HTTP/1.1\nHost: a\n\n",
        "GET /api/health HTTP/1.1\r\nHost: a\n\r\n",
        "GET /api/health HTTP/1.1\r\nHost: a\r\n\n",
        "GET /api/health HTTP/1.1\nHost: a\r\n\r\n",
        // Other protocols and versions.
        "GET /api/health\r\n\r\n",
        "GET /api/health HTTP/1.2\r\nHost: a\r\n\r\n",
        "GET /api/health HTTP/2.0\r\nHost: a\r\n\r\n",
        "GET /api/health HTTP/3\r\nHost: a\r\n\r\n",
        "GET /api/health ICAP/1.0\r\nHost: a\r\n\r\n",
        "EHLO a\r\nMAIL FROM:<a@b>\r\n",
        "\x16\x03\x01\x02\0\x01\0\x01\u{fc}\x03\x03",
        "GET  /api/health HTTP/1.1\r\nHost: a\r\n\r\n",
        "GET\t/api/health HTTP/1.1\r\nHost: a\r\n\r\n",
        " GET /api/health HTTP/1.1\r\nHost: a\r\n\r\n",
        "GET /api/he alth HTTP/1.1\r\nHost: a\r\n\r\n",
        "GET /api/health\0 HTTP/1.1\r\nHost: a\r\n\r\n",
        "GET /api/health HTTP/1.1 x\r\nHost: a\r\n\r\n",
        "G@T /api/health HTTP/1.1\r\nHost: a\r\n\r\n",
        "GET /api/health HTTP/1.1\r\n\r\n",
        "GET /api/health HTTP/1.1\r\nHost:\r\n\r\n",
        "GET /api/health HTTP/1.1\r\nHost: a\r\nHost: a\r\n\r\n",
        "GET /api/health HTTP/1.1\r\nHost: a\r\nHost: b\r\n\r\n",
        "GET /api/health HTTP/1.1\r\nHost: a/b\r\n\r\n",
        "GET /api/health HTTP/1.1\r\nHost: a b\r\n\r\n",
        "GET /api/health HTTP/1.1\r\nHost: a\r\nX y: z\r\n\r\n",
        "GET /api/health HTTP/1.1\r\nHost: a\r\nX : z\r\n\r\n",
        "GET /api/health HTTP/1.1\r\nHost: a\r\nX: y\r\n z\r\n\r\n",
        "GET /api/health HTTP/1.1\r\nHost: a\r\n: y\r\n\r\n",
        "GET /api/health HTTP/1.1\r\nHost: a\r\nX\r\n\r\n",
        "GET /api/health HTTP/1.1\r\nHost: a\r\nX: \x01\r\n\r\n",
        "GET /api/health HTTP/1.1\r\nHost: a\r\nX: y\0z\r\n\r\n",
        "GET /api/health HTTP/1.1\r\nHost: a\r\nX: y\rz\r\n\r\n",
        "GET /api/health HTTP/1.1\r\nHost: a\r\nX: \x7f\r\n\r\n",
        "GET /api/health HTTP/1.1\r\nHost: a\r\nX\u{e4}: y\r\n\r\n",
    ] {
        assert_refused(&service, 400, request.as_bytes()).await;
    }
}

#[tokio::test]
async fn a_head_over_the_size_limit_is_refused() {
    let service = Service::start().await;
    let ask = |headers: &str| format!("GET /api/health HTTP/1.1\r\nHost: a\r\n{headers}\r\n");
    for headers in [
        "X: y\r\n".repeat(99),
        format!("X: {}\r\n", "y".repeat(60_000)),
        "X: \u{e4}\u{ff}\r\n".to_owned(),
    ] {
        let request = ask(&headers) + HEALTH;
        let answers = responses_to(&service, request.as_bytes()).await;
        let statuses: Vec<u16> = answers.iter().map(|answer| answer.status).collect();
        assert_eq!(statuses, [200, 200], "{headers:.40}");
    }
    for headers in [
        "X: y\r\n".repeat(100),
        format!("X: {}\r\n", "y".repeat(70_000)),
        format!("{}: y\r\n", "x".repeat(70_000)),
        format!("X: {}\r\n", "y".repeat(2_000_000)),
    ] {
        assert_refused(&service, 431, ask(&headers).as_bytes()).await;
    }
    let long = format!("GET /{} HTTP/1.1\r\nHost: a\r\n\r\n", "a".repeat(65_000));
    let answers = responses_to(&service, long.as_bytes()).await;
    assert_eq!(answers[0].error(404), "There is no such route");
    let longer = format!("GET /{} HTTP/1.1\r\nHost: a\r\n\r\n", "a".repeat(70_000));
    assert_refused(&service, 431, longer.as_bytes()).await;
}

#[tokio::test]
async fn unusual_methods_and_targets_never_select_another_route() {
    let service = Service::start().await;
    let on = |request: &'static str| responses_to(&service, request.as_bytes());
    let connect = on("CONNECT a:443 HTTP/1.1\r\nHost: a:443\r\n\r\n").await;
    connect[0].error(404);
    let trace =
        on("TRACE /api/health HTTP/1.1\r\nHost: a\r\nAuthorization: Bearer x\r\n\r\n").await;
    trace[0].error(405);
    assert!(!String::from_utf8_lossy(&trace[0].body).contains("Bearer x"));
    let odd = on("BREW /api/health HTTP/1.1\r\nHost: a\r\n\r\n").await;
    odd[0].error(405);
    let star = on("OPTIONS * HTTP/1.1\r\nHost: a\r\n\r\n").await;
    star[0].error(404);
    // The service does not use the host name (RFC 9112, section 3.2.2 would take it from the
    // target).
    let absolute = on("GET http://elsewhere.example/api/health HTTP/1.1\r\nHost: a\r\n\r\n").await;
    assert_eq!(absolute[0].status, 200);
    let upgrade = on(
        "GET /api/health HTTP/1.1\r\nHost: a\r\nConnection: upgrade, http2-settings\r\n\
         Upgrade: h2c\r\nHTTP2-Settings: AAMAAABkAAQAAP__\r\n\r\n",
    )
    .await;
    assert_eq!(
        upgrade[0].status, 200,
        "the connection continues with HTTP/1.1"
    );
}

#[tokio::test]
async fn an_http_2_preface_closes_the_connection() {
    let service = Service::start().await;
    let mut client = RawClient::connect(&service).await;
    client.send("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n").await;
    let answers = client.responses().await;
    assert_eq!(answers.len(), 1);
    answers[0].error(400);
    assert_not_executed(&service, "PRI").await;
}

#[tokio::test]
async fn bytes_after_a_request_without_a_body_are_the_next_request() {
    let service = Service::start().await;
    let request = "GET /api/health HTTP/1.1\r\nHost: a\r\n\r\n{\"hello\": \"world\"}\r\n";
    let answers = responses_to(&service, request.as_bytes()).await;
    assert_eq!(answers.len(), 2);
    assert_eq!(answers[0].status, 200);
    answers[1].error(400);
    // A small body of a route without a body is read and discarded.
    let request = "GET /api/health HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\n\r\nhello";
    let answers = responses_to(&service, format!("{request}{HEALTH}").as_bytes()).await;
    answers[0].error(413);
    assert_eq!(answers[1].status, 200);
}

#[tokio::test]
async fn duplicate_credentials_are_refused() {
    let service = Service::with_mail().await;
    let ada = service.person("ada").await;
    let good = format!("Authorization: Bearer {}\r\n", ada.access);
    for headers in [
        format!("{good}{good}"),
        format!("{good}Authorization: Bearer x\r\n"),
        format!("Authorization:\r\n{good}"),
    ] {
        let request = format!("GET /api/v1/mail/folders HTTP/1.1\r\nHost: a\r\n{headers}\r\n");
        let answers = responses_to(&service, request.as_bytes()).await;
        assert_eq!(
            answers[0].error(401),
            "Missing or invalid Authorization header"
        );
    }
    // A body is parsed as JSON for every content type.
    let body = "{\"refreshToken\": \"x\"}";
    let request = format!(
        "POST /api/v1/auth/refresh HTTP/1.1\r\nHost: a\r\nContent-Type: text/plain\r\n\
         Content-Type: application/json\r\nContent-Length: {}\r\n\r\n{body}",
        body.len()
    );
    let answers = responses_to(&service, request.as_bytes()).await;
    assert_eq!(answers[0].error(401), "Invalid or expired refresh token");
}

#[tokio::test]
async fn a_folder_is_one_path_segment_and_cannot_change_the_route() {
    let service = Service::with_mail().await;
    let ada = service.person("ada").await;
    let ask = async |path: &[u8]| {
        let mut request = b"GET ".to_vec();
        request.extend_from_slice(path);
        let head = format!(
            " HTTP/1.1\r\nHost: a\r\nAuthorization: Bearer {}\r\n\r\n",
            ada.access
        );
        request.extend_from_slice(head.as_bytes());
        responses_to(&service, &request).await.remove(0)
    };
    let folder = async |name: &[u8]| {
        let path = [b"/api/v1/mail/folders/", name, b"/messages"].concat();
        ask(&path).await
    };
    assert_eq!(folder(b"INBOX").await.status, 200);
    for name in [
        "%ff", "%00", "INBOX%00", "%c3%28", "%", "%4", "%zz", "%u0041",
    ] {
        let text = folder(name.as_bytes()).await.error(400);
        assert_eq!(
            text, "The path is not valid percent-encoded UTF-8",
            "{name}"
        );
    }
    for name in [
        "..",
        ".",
        "%2e%2e",
        "%2E%2e",
        "..%2f..%2fada",
        "%2e%2e%2f%2e%2e%2fetc%2fpasswd",
        "%252e%252e",
        "%252f",
        "A%2fB",
        "%2f",
        "%2fetc%2fpasswd",
        "INBOX%2f",
        "INBOX%2f..%2fINBOX",
        "INBOX%5c..",
        "%5c%5chost",
        "INBOX%0d%0aA1%20LOGOUT",
        "%22INBOX%22",
        "INBOX%22%20%22",
        "%7b5%7d",
        "*",
        "%25",
        "INBO?",
        "%ef%bc%8e%ef%bc%8e",
        "&AOQ-",
        "~root",
    ] {
        let answer = folder(name.as_bytes()).await;
        assert!(
            matches!(answer.status, 400 | 404) || name.ends_with('?') && answer.status == 405,
            "{name}: {} {:?}",
            answer.head,
            answer.json()
        );
        answer.error(answer.status);
    }
    // A slash that is not encoded makes another path.
    for path in [
        "/api/v1/mail/folders/A/B/messages",
        "/api/v1/mail/folders//messages",
        "/api/v1/mail/folders/INBOX/../INBOX/messages",
        "/api/v1/mail/../mail/folders",
        "/api//v1/mail/folders",
        "/api/v1/mail%2ffolders",
        "/%61pi/v1/mail/folders",
    ] {
        ask(path.as_bytes()).await.error(404);
    }
    for size in [300, 5_000, 60_000] {
        let answer = folder("a".repeat(size).as_bytes()).await;
        answer.error(404);
    }
    assert_eq!(folder(b"INBOX").await.status, 200);
}

#[tokio::test]
async fn bytes_outside_ascii_are_not_allowed_in_a_path() {
    let service = Service::start().await;
    for byte in [0x80_u8, 0xc3, 0xff] {
        let mut request = b"GET /api/v1/auth/username-available?username=".to_vec();
        request.push(byte);
        request.extend_from_slice(b" HTTP/1.1\r\nHost: a\r\n\r\n");
        assert_refused(&service, 400, &request).await;
        let mut request = b"GET /api/".to_vec();
        request.push(byte);
        request.extend_from_slice(b" HTTP/1.1\r\nHost: a\r\n\r\n");
        assert_refused(&service, 400, &request).await;
    }
}

#[tokio::test]
async fn a_query_can_be_long_and_repeat_parameters() {
    let service = Service::with_mail().await;
    let ada = service.person("ada").await;
    let many = "a=b&".repeat(10_000);
    let answer = ada.send(&format!("GET /api/v1/mail/folders?{many}")).await;
    assert_eq!(answer.status, 200);
    let answer = service
        .send(&format!(
            "GET /api/v1/auth/username-available?{many}username=ada"
        ))
        .await;
    assert_eq!(answer.status, 200);
    // Of several values, the first one counts everywhere.
    let listing = "GET /api/v1/mail/folders/INBOX/messages";
    ada.send(&format!("{listing}?limit=1&limit=1000"))
        .await
        .succeeds(200);
    ada.send(&format!("{listing}?limit=1000&limit=1"))
        .await
        .fails(400, "Invalid paging parameters");
    let twice = service
        .send("GET /api/v1/auth/username-available?username=ada&username=bob")
        .await;
    let reason = &twice.succeeds(200)["reason"];
    assert_eq!(reason, "This email address is already taken");
    for query in ["username=%ff", "username=%00", "%ff=x&username=eve", "x=%"] {
        service
            .send(&format!("GET /api/v1/auth/domains?{query}"))
            .await
            .fails(400, "The query is not valid percent-encoded UTF-8");
    }
}

#[tokio::test]
async fn a_client_that_sends_too_large_a_body_can_read_the_refusal() {
    let service = Service::with_mail().await;
    let piece = vec![b'x'; 1 << 20];
    for chunked in [false, true] {
        let mut client = RawClient::connect(&service).await;
        let length = if chunked {
            "Transfer-Encoding: chunked".to_owned()
        } else {
            format!("Content-Length: {}", 20 << 20)
        };
        let head = format!("POST /api/v1/auth/login HTTP/1.1\r\nHost: a\r\n{length}\r\n\r\n");
        client.send(head).await;
        for _ in 0..20 {
            if chunked {
                client.send("100000\r\n").await;
            }
            client.send(&piece).await;
            if chunked {
                client.send("\r\n").await;
            }
        }
        let answers = client.responses().await;
        assert_eq!(answers.len(), 1);
        let text = answers[0].error(413);
        assert_eq!(text, "The request's body is larger than 16384 bytes");
        assert!(answers[0].closes());
    }
    assert_not_executed(&service, "large").await;
}

#[tokio::test]
async fn expect_100_continue_gets_a_response_before_the_body() {
    let service = Service::start().await;
    let mut client = RawClient::connect(&service).await;
    let head =
        "POST /api/v1/auth/refresh HTTP/1.1\r\nHost: a\r\nExpect: 100-continue\r\nContent-Length:";
    client.send(format!("{head} 2\r\n\r\n")).await;
    assert_eq!(client.response().await.unwrap().status, 100);
    client.send("{}").await;
    let answer = client.response().await.unwrap();
    assert_eq!(answer.error(400), "Missing refresh token");
    client.send(format!("{head} 20000\r\n\r\n")).await;
    let answers = client.responses().await;
    assert_eq!(
        answers.len(),
        1,
        "the service does not ask for a body that it will refuse"
    );
    answers[0].error(413);
    // The service does not ask for a body that the caller may not send.
    let mut client = RawClient::connect(&service).await;
    let head = head.replace("refresh", "logout");
    client.send(format!("{head} 2\r\n\r\n")).await;
    let answers = client.responses().await;
    assert_eq!(answers.len(), 1);
    answers[0].error(401);
}
