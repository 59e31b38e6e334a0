use std::net::IpAddr;

use http_body_util::{BodyExt as _, Full};
use latchmail_core::logging::testing::logged;
use serde_json::{Value, json};

use super::*;
use crate::testing::{TestService, routes};

const PEER: &str = "192.0.2.1";

struct TestResponse {
    status: u16,
    headers: HeaderMap,
    body: Bytes,
}

impl TestResponse {
    fn json(&self) -> Value {
        serde_json::from_slice(&self.body).unwrap()
    }

    fn error(&self) -> String {
        self.json()["error"].as_str().unwrap().to_owned()
    }

    fn header(&self, name: &str) -> Option<&str> {
        self.headers.get(name).map(|value| value.to_str().unwrap())
    }
}

fn service() -> Arc<TestService> {
    TestService::with("", routes())
}

async fn send(
    service: &Arc<TestService>,
    method: &str,
    uri: &str,
    headers: &[(&str, &str)],
    body: &'static str,
) -> TestResponse {
    let mut request = http::Request::builder()
        .method(method)
        .uri(uri)
        .header("Host", "a");
    for (name, value) in headers {
        request = request.header(*name, *value);
    }
    let request = request
        .body(Full::new(Bytes::from_static(body.as_bytes())))
        .unwrap();
    let response = handle(service, PEER.parse::<IpAddr>().unwrap(), request).await;
    let (parts, body) = response.into_parts();
    TestResponse {
        status: parts.status.as_u16(),
        headers: parts.headers,
        body: body.collect().await.unwrap().to_bytes(),
    }
}

async fn get(service: &Arc<TestService>, uri: &str) -> TestResponse {
    send(service, "GET", uri, &[], "").await
}

async fn post_as(service: &Arc<TestService>, uri: &str, credential: &str) -> TestResponse {
    let bearer = format!("Bearer {credential}");
    send(service, "POST", uri, &[("Authorization", &bearer)], "{}").await
}

#[tokio::test]
async fn an_unknown_path_returns_404_and_an_unknown_method_405() {
    let service = service();
    let unknown = get(&service, "/nowhere").await;
    assert_eq!(unknown.status, 404);
    assert_eq!(unknown.header("content-type"), Some("application/json"));
    assert!(!unknown.error().is_empty());
    let wrong = send(&service, "PUT", "/echo/a", &[], "").await;
    assert_eq!(wrong.status, 405);
    assert_eq!(wrong.header("allow"), Some("GET, HEAD"));
    assert!(!wrong.error().is_empty());
    let options = send(&service, "OPTIONS", "/echo", &[], "").await;
    assert_eq!(
        (options.status, options.header("allow")),
        (405, Some("POST"))
    );
    assert_eq!(send(&service, "OPTIONS", "*", &[], "").await.status, 404);
}

#[tokio::test]
async fn the_handler_receives_decoded_segments_and_query() {
    let response = get(&service(), "/echo/Gel%C3%B6scht%2FAlt?q=a+b&q=%26&folder").await;
    let received = response.json();
    assert_eq!(received["path"], json!([["value", "Gelöscht/Alt"]]));
    assert_eq!(
        received["query"],
        json!([["q", "a b"], ["q", "&"], ["folder", ""]])
    );
    assert_eq!(received["client"], PEER);
}

#[tokio::test]
async fn invalid_encodings_return_400() {
    let service = service();
    for uri in [
        "/echo/%ff",
        "/echo/%00",
        "/echo/a%2",
        "/echo/a?q=%ff",
        "/echo/a?%zz=1",
    ] {
        let response = get(&service, uri).await;
        assert_eq!(response.status, 400, "{uri}");
        assert!(response.error().contains("UTF-8"), "{uri}");
    }
}

#[tokio::test]
async fn head_returns_the_headers_of_get_without_a_body() {
    let service = service();
    let get_response = get(&service, "/echo/a").await;
    let head = send(&service, "HEAD", "/echo/a", &[], "").await;
    assert_eq!((head.status, head.body.len()), (200, 0));
    assert_eq!(
        head.header("content-length"),
        get_response.header("content-length")
    );
    assert_eq!(
        head.header("content-length").unwrap(),
        get_response.body.len().to_string()
    );
}

#[tokio::test]
async fn every_response_has_a_unique_request_id_and_must_not_be_cached() {
    let service = service();
    let mut ids = std::collections::HashSet::new();
    for uri in ["/echo/a", "/nowhere", "/panic", "/echo/%ff"] {
        let response = get(&service, uri).await;
        ids.insert(response.header("x-request-id").unwrap().to_owned());
        assert_eq!(response.header("x-content-type-options"), Some("nosniff"));
        assert_eq!(response.header("cache-control"), Some("no-store"));
    }
    assert_eq!(ids.len(), 4);
    assert!(ids.iter().all(|id| id.len() >= 20));
    let request_id = [("X-Request-Id", "mine")];
    let response = send(&service, "GET", "/echo/a", &request_id, "").await;
    assert_ne!(
        response.header("x-request-id"),
        Some("mine"),
        "from an untrusted peer"
    );
    let behind_proxy = TestService::with("http.trusted_proxies = ['192.0.2.0/24']", routes());
    let response = send(&behind_proxy, "GET", "/echo/a", &request_id, "").await;
    assert_eq!(
        response.header("x-request-id"),
        Some("mine"),
        "from a proxy"
    );
}

#[tokio::test]
async fn a_panic_returns_500_and_does_not_affect_other_requests() {
    let service = service();
    for method in ["GET", "POST"] {
        let response = send(&service, method, "/panic", &[], "").await;
        assert_eq!(response.status, 500);
        assert_eq!(response.error(), "The operation could not be completed");
    }
    assert_eq!(post_as(&service, "/session", "broken").await.status, 500);
    assert_eq!(get(&service, "/echo/a").await.status, 200);
}

#[tokio::test]
async fn the_credential_is_checked_before_the_rest_of_the_request() {
    let service = service();
    let none = send(&service, "POST", "/session?q=%ff", &[], "").await;
    assert_eq!(
        (none.status, none.error().as_str()),
        (401, "Invalid API token")
    );
    assert_eq!(none.header("www-authenticate"), Some("Bearer"));
    assert_eq!(none.header("x-ratelimit-limit"), Some("300"));
    let served = post_as(&service, "/session", "session-1").await;
    assert_eq!(
        (served.status, served.json()["account"].as_str()),
        (200, Some("account-1"))
    );
    let token = post_as(&service, "/session", "token-1").await;
    assert_eq!(token.status, 403);
    assert_eq!(
        token.error(),
        "This endpoint is only available to a signed-in session, not to API or OAuth tokens"
    );
    let scope = post_as(&service, "/send", "token-1").await;
    assert_eq!(
        scope.error(),
        "This credential is missing the \"mail:send\" scope"
    );
}

#[tokio::test]
async fn the_agent_endpoint_names_the_metadata_of_its_authorization_server() {
    let service = TestService::with("base_url = 'https://a.example'", routes());
    let metadata =
        "Bearer resource_metadata=\"https://a.example/.well-known/oauth-protected-resource\"";
    for credential in ["", "nonsense", "session-1", "token-1"] {
        let rejected = post_as(&service, "/agent", credential).await;
        let error = match credential {
            "" => "",
            _ => ", error=\"invalid_token\"",
        };
        assert_eq!(rejected.status, 401, "{credential}");
        assert_eq!(rejected.error(), "Missing or invalid Authorization header");
        assert_eq!(
            rejected.header("www-authenticate"),
            Some(&*format!("{metadata}{error}"))
        );
    }
    assert_eq!(post_as(&service, "/agent", "grant-1").await.status, 200);
}

#[tokio::test]
async fn responses_report_the_rate_limit_and_a_429_the_time_to_retry() {
    let service = service();
    for remaining in (0..20).rev() {
        let response = post_as(&service, "/session", "session-1").await;
        assert_eq!(response.status, 200);
        assert_eq!(response.header("x-ratelimit-limit"), Some("20"));
        assert_eq!(
            response.header("x-ratelimit-remaining"),
            Some(remaining.to_string().as_str())
        );
    }
    let rejected = post_as(&service, "/session", "session-1").await;
    assert_eq!(rejected.status, 429);
    assert_eq!(
        rejected.error(),
        "Too many requests, please try again later"
    );
    assert_eq!(rejected.header("retry-after"), Some("3"));
    assert_eq!(rejected.header("x-ratelimit-remaining"), Some("0"));
    assert_eq!(rejected.header("x-ratelimit-reset"), Some("1795161660"));
    assert_eq!(post_as(&service, "/session", "session-2").await.status, 200);
    service.clock.advance(std::time::Duration::from_secs(3));
    assert_eq!(post_as(&service, "/session", "session-1").await.status, 200);
    assert_eq!(post_as(&service, "/session", "session-1").await.status, 429);
}

#[tokio::test]
async fn rate_limits_apply_to_look_ups_of_invalid_credentials() {
    let lookups =
        |service: &TestService| service.lookups.load(std::sync::atomic::Ordering::Relaxed);
    let service = TestService::with("limits.unproven = 7", routes());
    for n in 0..20 {
        let unknown = post_as(&service, "/session", &format!("unknown-{n}")).await;
        assert_eq!(unknown.status, if n < 7 { 401 } else { 429 });
        assert!(unknown.header("x-ratelimit-limit") == Some("7"));
    }
    assert_eq!(lookups(&service), 7);
    // A client with a session at the same IP address is not affected.
    assert_eq!(post_as(&service, "/session", "session-1").await.status, 200);
    // An ended credential is looked up at most as often as the rate limit of a valid one allows.
    let before = lookups(&service);
    for n in 0..30 {
        let ended = post_as(&service, "/session", "ended-1").await;
        assert_eq!(ended.status, if n < 20 { 401 } else { 429 });
    }
    assert_eq!(lookups(&service), before + 20);
    assert_eq!(post_as(&service, "/session", "session-2").await.status, 200);
}

#[tokio::test]
async fn a_request_that_is_rejected_after_counting_reports_its_rate_limit() {
    let service = service();
    let session = [("Authorization", "Bearer session-1")];
    let response = send(&service, "POST", "/session?q=%ff", &session, "").await;
    assert_eq!(
        (response.status, response.header("x-ratelimit-remaining")),
        (400, Some("19"))
    );
}

#[tokio::test]
async fn public_requests_are_counted_per_client_address() {
    let service = TestService::with("http.trusted_proxies = ['192.0.2.1']", routes());
    let status = async |client: &str| {
        send(
            &service,
            "POST",
            "/login",
            &[("X-Forwarded-For", client)],
            "",
        )
        .await
        .status
    };
    for _ in 0..5 {
        assert_eq!(status("198.51.100.1").await, 200);
    }
    assert_eq!(status("198.51.100.1").await, 429);
    assert_eq!(status("198.51.100.2").await, 200);
}

#[tokio::test]
async fn a_body_above_the_limit_of_the_route_returns_413() {
    let service = service();
    let taken = send(&service, "POST", "/echo", &[], "ab").await;
    assert_eq!(taken.json()["body"], "ab");
    let rejected = send(&service, "GET", "/echo/a", &[], "ab").await;
    assert_eq!(
        (rejected.status, rejected.header("connection")),
        (413, None)
    );
    assert!(!rejected.error().is_empty());
}

#[tokio::test]
async fn only_pages_of_allowed_origins_can_read_responses() {
    let preflight = [
        ("Origin", "https://app.example"),
        ("Access-Control-Request-Method", "POST"),
    ];
    let open = TestService::with("cors_origins = ['https://app.example']", routes());
    let allowed = send(&open, "OPTIONS", "/echo", &preflight, "").await;
    assert_eq!((allowed.status, allowed.body.len()), (204, 0));
    assert_eq!(
        allowed.header("access-control-allow-origin"),
        Some("https://app.example")
    );
    assert_eq!(allowed.header("access-control-allow-methods"), Some("POST"));
    assert!(
        allowed
            .header("access-control-allow-headers")
            .unwrap()
            .contains("Authorization")
    );
    let read = send(&open, "GET", "/echo/a", &preflight[..1], "").await;
    assert_eq!(
        read.header("access-control-allow-origin"),
        Some("https://app.example")
    );
    assert_eq!(read.header("vary"), Some("Origin"));
    assert!(
        read.header("access-control-expose-headers")
            .unwrap()
            .contains("X-Request-Id")
    );
    let failed = send(&open, "GET", "/nowhere", &preflight[..1], "").await;
    assert!(failed.header("access-control-allow-origin").is_some());

    let other = [("Origin", "https://evil.example"), preflight[1]];
    let rejected = send(&open, "OPTIONS", "/echo", &other, "").await;
    assert_eq!(
        (
            rejected.status,
            rejected.header("access-control-allow-origin")
        ),
        (405, None)
    );

    let closed = service();
    let rejected = send(&closed, "OPTIONS", "/echo", &preflight, "").await;
    assert_eq!(
        (
            rejected.status,
            rejected.header("access-control-allow-origin")
        ),
        (405, None)
    );
    let read = send(&closed, "GET", "/echo/a", &preflight, "").await;
    assert_eq!((read.status, read.header("vary")), (200, None));
}

#[tokio::test]
async fn a_change_finishes_if_its_client_disconnects() {
    let service = service();
    let client = {
        let service = Arc::clone(&service);
        tokio::spawn(async move { send(&service, "POST", "/wait", &[], "").await.status })
    };
    service.started.acquire().await.unwrap().forget();
    client.abort();
    assert!(client.await.unwrap_err().is_cancelled());
    service.gate.add_permits(1);
    service.finished.acquire().await.unwrap().forget();
}

#[tokio::test]
async fn a_handler_that_exceeds_its_deadline_returns_an_error() {
    let mut routes = routes();
    for (route, _) in &mut routes {
        route.deadline = std::time::Duration::from_millis(10);
    }
    let service = TestService::with("", routes);
    let reading = get(&service, "/wait").await;
    assert_eq!(
        (reading.status, reading.header("retry-after")),
        (503, Some("2"))
    );
    let changing = send(&service, "POST", "/wait", &[], "").await;
    assert_eq!(changing.status, 500);
    assert!(changing.error().contains("may still complete"));
}

#[tokio::test]
async fn a_request_logs_one_line_without_its_content() {
    let service = service();
    let mut id = String::new();
    let log = logged(async {
        let headers = [("Authorization", "Bearer session-Secret1")];
        let uri = "/session?q=Secret2";
        let response = Box::pin(send(&service, "POST", uri, &headers, "Secret3")).await;
        assert!(response.json()["body"] == "Secret3");
        response.header("x-request-id").unwrap().clone_into(&mut id);
    })
    .await;
    assert_eq!(log.lines().count(), 1, "{log}");
    for part in [
        " INFO ",
        &format!("request{{id={id} trace_id="),
        "method=\"POST\" route=\"/session\" status=200",
        "account=\"account-1\"",
    ] {
        assert!(log.contains(part), "{part} in {log}");
    }
    assert!(!log.contains("Secret"), "{log}");
}

#[tokio::test]
async fn the_cause_of_an_error_is_logged_once_with_the_request_id_and_not_sent() {
    let service = service();
    for method in ["GET", "POST"] {
        let mut id = String::new();
        let log = logged(async {
            let response = Box::pin(send(&service, method, "/panic", &[], "")).await;
            assert!(!String::from_utf8_lossy(&response.body).contains("on purpose"));
            response.header("x-request-id").unwrap().clone_into(&mut id);
        })
        .await;
        let lines: Vec<&str> = log.lines().filter(|l| l.contains("on purpose")).collect();
        assert_eq!(lines.len(), 1, "{log}");
        assert!(
            lines[0].contains("ERROR") && lines[0].contains(&id),
            "{log}"
        );
    }
}

#[tokio::test]
async fn a_disconnect_before_the_response_is_logged() {
    let service = service();
    let log = Box::pin(logged(async {
        let mut request = std::pin::pin!(get(&service, "/wait"));
        tokio::select! {
            _ = &mut request => panic!("unexpected response"),
            permit = service.started.acquire() => permit.unwrap().forget(),
        }
    }))
    .await;
    assert!(
        log.contains("client disconnected before the response"),
        "{log}"
    );
    assert!(log.contains("request{id="), "{log}");
}

#[test]
fn the_authority_of_an_http_2_request_is_its_host() {
    let host = |uri: &str, header: Option<&str>| {
        let mut request = http::Request::builder().uri(uri);
        if let Some(host) = header {
            request = request.header("Host", host);
        }
        let (mut parts, ()) = request.body(()).unwrap().into_parts();
        let headers = take_headers(&mut parts);
        assert!(headers.get_all(header::HOST).iter().count() <= 1);
        let host = headers.get(header::HOST);
        host.map(|host| host.to_str().unwrap().to_owned())
    };
    assert_eq!(host("https://a.test:8443/x", None).unwrap(), "a.test:8443");
    assert_eq!(host("https://a.test/x", Some("a.test")).unwrap(), "a.test");
    assert_eq!(host("/x", Some("a.test")).unwrap(), "a.test");
    assert_eq!(host("/x", None), None);
}

/// Sends a request whose body never arrives. Returns the response if the service does not wait for
/// the body.
fn send_without_body(service: &Arc<TestService>, uri: &str) -> Option<u16> {
    let body = http_body_util::StreamBody::new(futures_util::stream::pending::<
        Result<latchmail_transport::Frame<Bytes>, std::convert::Infallible>,
    >());
    let request = http::Request::post(uri).header("Host", "a");
    let request = request.body(body).unwrap();
    let response = handle(service, PEER.parse::<IpAddr>().unwrap(), request);
    let response = futures_util::FutureExt::now_or_never(response);
    response.map(|response| response.status().as_u16())
}

#[tokio::test]
async fn a_request_beyond_the_limit_is_refused_before_its_body_arrives() {
    let service = service();
    for uri in ["/login", "/page"] {
        while send_without_body(&service, uri).is_none() {}
        assert_eq!(send_without_body(&service, uri), Some(429), "{uri}");
    }
}

#[tokio::test]
async fn requests_with_a_credential_in_the_body_count_until_it_is_verified() {
    let service = TestService::with("limits.unproven = 3", routes());
    for _ in 0..10 {
        assert_eq!(
            send(&service, "POST", "/token", &[], "valid").await.status,
            200
        );
    }
    for _ in 0..2 {
        assert_eq!(
            send(&service, "POST", "/token", &[], "wrong").await.status,
            400
        );
    }
    assert_eq!(send_without_body(&service, "/token"), None);
    assert_eq!(send_without_body(&service, "/token"), Some(429));
    let refused = send(&service, "POST", "/token", &[], "valid").await;
    assert_eq!(refused.status, 429);
    assert_eq!(refused.header("x-ratelimit-limit"), Some("3"));
    service.clock.advance(Duration::from_secs(20));
    assert_eq!(
        send(&service, "POST", "/token", &[], "valid").await.status,
        200
    );
}

#[tokio::test]
async fn the_errors_of_a_page_are_pages() {
    let service = service();
    let wrong = send(&service, "POST", "/page", &[], "wrong").await;
    assert_eq!(
        (wrong.status, &wrong.json()["page"]),
        (400, &json!("invalid"))
    );
    assert_eq!(wrong.header("x-ratelimit-remaining"), Some("4"));
    let beyond = loop {
        let response = send(&service, "POST", "/page", &[], "valid").await;
        if response.status != 200 {
            break response;
        }
    };
    assert_eq!(beyond.status, 429);
    assert!(beyond.json()["page"].is_string());
    assert!(beyond.header("retry-after").is_some());
}
