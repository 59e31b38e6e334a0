use http_body_util::{BodyExt as _, Full};
use latchmail_core::logging::testing::logged;
use serde_json::{Value, json};

use super::*;
use crate::testing::{Small, routes};

const PEER: &str = "192.0.2.1";

struct Answered {
    status: u16,
    headers: HeaderMap,
    body: Bytes,
}

impl Answered {
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

fn small() -> Arc<Small> {
    Small::with("", routes())
}

async fn ask(
    small: &Arc<Small>,
    method: &str,
    uri: &str,
    headers: &[(&str, &str)],
    body: &'static str,
) -> Answered {
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
    let response = answer(small, PEER.parse().unwrap(), request).await;
    let (parts, body) = response.into_parts();
    Answered {
        status: parts.status.as_u16(),
        headers: parts.headers,
        body: body.collect().await.unwrap().to_bytes(),
    }
}

async fn get(small: &Arc<Small>, uri: &str) -> Answered {
    ask(small, "GET", uri, &[], "").await
}

async fn post_as(small: &Arc<Small>, uri: &str, credential: &str) -> Answered {
    let bearer = format!("Bearer {credential}");
    ask(small, "POST", uri, &[("Authorization", &bearer)], "{}").await
}

#[tokio::test]
async fn an_unknown_path_is_404_and_a_known_one_with_a_wrong_method_405() {
    let small = small();
    let unknown = get(&small, "/nowhere").await;
    assert_eq!(unknown.status, 404);
    assert_eq!(unknown.header("content-type"), Some("application/json"));
    assert!(!unknown.error().is_empty());
    let wrong = ask(&small, "PUT", "/echo/a", &[], "").await;
    assert_eq!(wrong.status, 405);
    assert_eq!(wrong.header("allow"), Some("GET, HEAD"));
    assert!(!wrong.error().is_empty());
    let options = ask(&small, "OPTIONS", "/echo", &[], "").await;
    assert_eq!(
        (options.status, options.header("allow")),
        (405, Some("POST"))
    );
    assert_eq!(ask(&small, "OPTIONS", "*", &[], "").await.status, 404);
}

#[tokio::test]
async fn segments_and_query_reach_the_handler_decoded() {
    let answered = get(&small(), "/echo/Gel%C3%B6scht%2FAlt?q=a+b&q=%26&folder").await;
    let seen = answered.json();
    assert_eq!(seen["path"], json!([["value", "Gelöscht/Alt"]]));
    assert_eq!(
        seen["query"],
        json!([["q", "a b"], ["q", "&"], ["folder", ""]])
    );
    assert_eq!(seen["client"], PEER);
}

#[tokio::test]
async fn what_is_not_text_is_400() {
    let small = small();
    for uri in [
        "/echo/%ff",
        "/echo/%00",
        "/echo/a%2",
        "/echo/a?q=%ff",
        "/echo/a?%zz=1",
    ] {
        let answered = get(&small, uri).await;
        assert_eq!(answered.status, 400, "{uri}");
        assert!(answered.error().contains("UTF-8"), "{uri}");
    }
}

#[tokio::test]
async fn head_answers_as_get_without_a_body() {
    let small = small();
    let whole = get(&small, "/echo/a").await;
    let head = ask(&small, "HEAD", "/echo/a", &[], "").await;
    assert_eq!((head.status, head.body.len()), (200, 0));
    assert_eq!(
        head.header("content-length"),
        whole.header("content-length")
    );
    assert_eq!(
        head.header("content-length").unwrap(),
        whole.body.len().to_string()
    );
}

#[tokio::test]
async fn every_answer_carries_an_id_of_its_own_and_is_for_its_asker_alone() {
    let small = small();
    let mut ids = std::collections::HashSet::new();
    for uri in ["/echo/a", "/nowhere", "/panic", "/echo/%ff"] {
        let answered = get(&small, uri).await;
        ids.insert(answered.header("x-request-id").unwrap().to_owned());
        assert_eq!(answered.header("x-content-type-options"), Some("nosniff"));
        assert_eq!(answered.header("cache-control"), Some("no-store"));
    }
    assert_eq!(ids.len(), 4);
    assert!(ids.iter().all(|id| id.len() >= 20));
    let given = [("X-Request-Id", "mine")];
    let answered = ask(&small, "GET", "/echo/a", &given, "").await;
    assert_ne!(
        answered.header("x-request-id"),
        Some("mine"),
        "from a stranger"
    );
    let behind = Small::with("http.trusted_proxies = ['192.0.2.0/24']", routes());
    let answered = ask(&behind, "GET", "/echo/a", &given, "").await;
    assert_eq!(
        answered.header("x-request-id"),
        Some("mine"),
        "from a proxy"
    );
}

#[tokio::test]
async fn a_panic_is_500_for_that_request_alone() {
    let small = small();
    for method in ["GET", "POST"] {
        let answered = ask(&small, method, "/panic", &[], "").await;
        assert_eq!(answered.status, 500);
        assert_eq!(answered.error(), "The operation could not be completed");
    }
    assert_eq!(post_as(&small, "/session", "broken").await.status, 500);
    assert_eq!(get(&small, "/echo/a").await.status, 200);
}

#[tokio::test]
async fn credentials_are_asked_for_before_anything_else_is_told() {
    let small = small();
    let none = ask(&small, "POST", "/session?q=%ff", &[], "").await;
    assert_eq!(
        (none.status, none.error().as_str()),
        (401, "Invalid API token")
    );
    assert_eq!(none.header("www-authenticate"), Some("Bearer"));
    assert_eq!(none.header("x-ratelimit-limit"), Some("300"));
    let served = post_as(&small, "/session", "session-1").await;
    assert_eq!(
        (served.status, served.json()["account"].as_str()),
        (200, Some("account-1"))
    );
    let token = post_as(&small, "/session", "token-1").await;
    assert_eq!(token.status, 403);
    assert_eq!(
        token.error(),
        "This endpoint is only available to a signed-in session, not to API or OAuth tokens"
    );
    let scope = post_as(&small, "/send", "token-1").await;
    assert_eq!(
        scope.error(),
        "This credential is missing the \"mail:send\" scope"
    );
}

#[tokio::test]
async fn the_agents_route_tells_where_tokens_come_from() {
    let small = Small::with("base_url = 'https://a.example'", routes());
    let metadata =
        "Bearer resource_metadata=\"https://a.example/.well-known/oauth-protected-resource\"";
    for credential in ["", "nonsense", "session-1", "token-1"] {
        let refused = post_as(&small, "/agent", credential).await;
        let error = match credential {
            "" => "",
            _ => ", error=\"invalid_token\"",
        };
        assert_eq!(refused.status, 401, "{credential}");
        assert_eq!(refused.error(), "Missing or invalid Authorization header");
        assert_eq!(
            refused.header("www-authenticate"),
            Some(&*format!("{metadata}{error}"))
        );
    }
    assert_eq!(post_as(&small, "/agent", "grant-1").await.status, 200);
}

#[tokio::test]
async fn limited_answers_say_how_much_is_left_and_then_when_to_come_back() {
    let small = small();
    for left in (0..20).rev() {
        let answered = post_as(&small, "/session", "session-1").await;
        assert_eq!(answered.status, 200);
        assert_eq!(answered.header("x-ratelimit-limit"), Some("20"));
        assert_eq!(
            answered.header("x-ratelimit-remaining"),
            Some(left.to_string().as_str())
        );
    }
    let refused = post_as(&small, "/session", "session-1").await;
    assert_eq!(refused.status, 429);
    assert_eq!(refused.error(), "Too many requests, please try again later");
    assert_eq!(refused.header("retry-after"), Some("3"));
    assert_eq!(refused.header("x-ratelimit-remaining"), Some("0"));
    assert_eq!(refused.header("x-ratelimit-reset"), Some("1795161660"));
    assert_eq!(post_as(&small, "/session", "session-2").await.status, 200);
    small.clock.advance(std::time::Duration::from_secs(3));
    assert_eq!(post_as(&small, "/session", "session-1").await.status, 200);
    assert_eq!(post_as(&small, "/session", "session-1").await.status, 429);
}

#[tokio::test]
async fn nobody_is_asked_about_a_credential_more_often_than_a_budget_allows() {
    let looked_up = |small: &Small| small.looked_up.load(std::sync::atomic::Ordering::Relaxed);
    let small = Small::with("limits.unproven = 7", routes());
    for n in 0..20 {
        let made_up = post_as(&small, "/session", &format!("made-up-{n}")).await;
        assert_eq!(made_up.status, if n < 7 { 401 } else { 429 });
        assert!(made_up.header("x-ratelimit-limit") == Some("7"));
    }
    assert_eq!(looked_up(&small), 7);
    // A client with a session at the same IP address is not affected.
    assert_eq!(post_as(&small, "/session", "session-1").await.status, 200);
    // An ended credential is looked up at most as often as the rate limit of a valid one allows.
    let before = looked_up(&small);
    for n in 0..30 {
        let over = post_as(&small, "/session", "ended-1").await;
        assert_eq!(over.status, if n < 20 { 401 } else { 429 });
    }
    assert_eq!(looked_up(&small), before + 20);
    assert_eq!(post_as(&small, "/session", "session-2").await.status, 200);
}

#[tokio::test]
async fn a_request_that_is_refused_later_carries_its_limit_too() {
    let small = small();
    let session = [("Authorization", "Bearer session-1")];
    let answered = ask(&small, "POST", "/session?q=%ff", &session, "").await;
    assert_eq!(
        (answered.status, answered.header("x-ratelimit-remaining")),
        (400, Some("19"))
    );
}

#[tokio::test]
async fn clients_without_a_credential_are_told_apart_by_their_address() {
    let small = Small::with("http.trusted_proxies = ['192.0.2.1']", routes());
    let status = async |client: &str| {
        ask(&small, "POST", "/login", &[("X-Forwarded-For", client)], "")
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
async fn a_body_over_the_routes_cap_is_413() {
    let small = small();
    let taken = ask(&small, "POST", "/echo", &[], "ab").await;
    assert_eq!(taken.json()["body"], "ab");
    let refused = ask(&small, "GET", "/echo/a", &[], "ab").await;
    assert_eq!((refused.status, refused.header("connection")), (413, None));
    assert!(!refused.error().is_empty());
}

#[tokio::test]
async fn pages_of_the_allow_list_alone_may_read_answers() {
    let preflight = [
        ("Origin", "https://app.example"),
        ("Access-Control-Request-Method", "POST"),
    ];
    let open = Small::with("cors_origins = ['https://app.example']", routes());
    let allowed = ask(&open, "OPTIONS", "/echo", &preflight, "").await;
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
    let read = ask(&open, "GET", "/echo/a", &preflight[..1], "").await;
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
    let failed = ask(&open, "GET", "/nowhere", &preflight[..1], "").await;
    assert!(failed.header("access-control-allow-origin").is_some());

    let other = [("Origin", "https://evil.example"), preflight[1]];
    let refused = ask(&open, "OPTIONS", "/echo", &other, "").await;
    assert_eq!(
        (
            refused.status,
            refused.header("access-control-allow-origin")
        ),
        (405, None)
    );

    let closed = small();
    let refused = ask(&closed, "OPTIONS", "/echo", &preflight, "").await;
    assert_eq!(
        (
            refused.status,
            refused.header("access-control-allow-origin")
        ),
        (405, None)
    );
    let read = ask(&closed, "GET", "/echo/a", &preflight, "").await;
    assert_eq!((read.status, read.header("vary")), (200, None));
}

#[tokio::test]
async fn a_change_runs_to_its_end_though_its_client_hangs_up() {
    let small = small();
    let asked = {
        let small = Arc::clone(&small);
        tokio::spawn(async move { ask(&small, "POST", "/wait", &[], "").await.status })
    };
    small.entered.acquire().await.unwrap().forget();
    asked.abort();
    assert!(asked.await.unwrap_err().is_cancelled());
    small.gate.add_permits(1);
    small.finished.acquire().await.unwrap().forget();
}

#[tokio::test]
async fn a_handler_that_is_late_is_answered_for() {
    let mut routes = routes();
    for (route, _) in &mut routes {
        route.deadline = std::time::Duration::from_millis(10);
    }
    let small = Small::with("", routes);
    let reading = get(&small, "/wait").await;
    assert_eq!(
        (reading.status, reading.header("retry-after")),
        (503, Some("2"))
    );
    let changing = ask(&small, "POST", "/wait", &[], "").await;
    assert_eq!(changing.status, 500);
    assert!(changing.error().contains("may still complete"));
}

#[tokio::test]
async fn a_request_is_one_line_that_holds_nothing_of_its_content() {
    let small = small();
    let mut id = String::new();
    let log = logged(async {
        let headers = [("Authorization", "Bearer session-Secret1")];
        let uri = "/session?q=Secret2";
        let answered = ask(&small, "POST", uri, &headers, "Secret3").await;
        assert!(answered.json()["body"] == "Secret3");
        answered.header("x-request-id").unwrap().clone_into(&mut id);
    })
    .await;
    assert_eq!(log.lines().count(), 1, "{log}");
    for part in [
        " INFO ",
        &format!("request{{id={id}}}"),
        "method=\"POST\" route=\"/session\" status=200",
        "account=\"account-1\"",
    ] {
        assert!(log.contains(part), "{part} in {log}");
    }
    assert!(!log.contains("Secret"), "{log}");
}

#[tokio::test]
async fn a_cause_is_logged_once_with_the_requests_id_and_not_answered() {
    let small = small();
    for method in ["GET", "POST"] {
        let mut id = String::new();
        let log = logged(async {
            let answered = ask(&small, method, "/panic", &[], "").await;
            assert!(!String::from_utf8_lossy(&answered.body).contains("on purpose"));
            answered.header("x-request-id").unwrap().clone_into(&mut id);
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
async fn a_client_that_hangs_up_leaves_a_line() {
    let small = small();
    let log = Box::pin(logged(async {
        let mut asked = std::pin::pin!(get(&small, "/wait"));
        tokio::select! {
            _ = &mut asked => panic!("answered"),
            permit = small.entered.acquire() => permit.unwrap().forget(),
        }
    }))
    .await;
    assert!(
        log.contains("client disconnected before the response"),
        "{log}"
    );
    assert!(log.contains("request{id="), "{log}");
}
