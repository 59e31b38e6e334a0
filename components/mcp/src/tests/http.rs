//! The HTTP layer, before a message is parsed.

use latchmail_sdk::testing::Service;
use serde_json::json;

use super::client::{endpoint, error, post};

const PING: &str = r#"{"jsonrpc":"2.0","id":7,"method":"ping"}"#;

#[test]
fn only_oauth_tokens_are_accepted() {
    let service = Service::of(crate::module());
    let refused = "Missing or invalid Authorization header";
    for method in ["POST", "GET", "DELETE"] {
        service
            .request(method, "/mcp", &[], Vec::new())
            .fails(401, refused);
    }
    service.host.sign_out();
    service.get("/mcp").fails(401, refused);
}

#[test]
fn streams_and_sessions_are_not_supported() {
    let service = endpoint();
    for method in ["GET", "DELETE"] {
        let response = service.request(method, "/mcp", &[], Vec::new());
        assert_eq!(response.header("allow"), Some("POST"));
        response.fails(405, "The agent endpoint supports only POST");
        let page = [("origin", "https://evil.example")];
        service
            .request(method, "/mcp", &page, Vec::new())
            .fails(403, "This origin may not call the agent endpoint");
    }
    let response = post(&service, &[("mcp-session-id", "made-up")], PING);
    assert_eq!(response.status, 200);
    assert_eq!(response.header("mcp-session-id"), None);
    assert_eq!(response.header("cache-control"), Some("private, no-store"));
}

#[test]
fn only_allowed_and_loopback_origins_can_call() {
    let service = endpoint();
    service
        .host
        .set("origins", "https://mail.example.test https://app.example");
    let from = |origin: &str| post(&service, &[("origin", origin)], PING);
    for origin in [
        "https://mail.example.test",
        "https://app.example",
        "http://localhost:6274",
        "http://127.0.0.1:9",
    ] {
        assert_eq!(from(origin).status, 200, "{origin}");
    }
    for origin in [
        "https://evil.example",
        "null",
        "",
        "http://mail.example.test",
        "https://mail.example.test.evil.example",
        "https://mail.example.test:8443",
        "https://MAIL.example.test",
    ] {
        assert_eq!(error(&from(origin)), (403, -32600), "{origin}");
    }
    let twice = [
        ("origin", "http://localhost"),
        ("origin", "https://evil.example"),
    ];
    assert_eq!(post(&service, &twice, PING).status, 403);
}

#[test]
fn requests_and_responses_are_json() {
    let service = endpoint();
    let send = |headers: &[(&str, &str)]| service.request("POST", "/mcp", headers, PING.into());
    let json = ("content-type", "application/json; charset=UTF-8");
    for accept in [
        "application/json, text/event-stream",
        "application/json",
        "*/*",
        "text/event-stream;q=0.9, application/*;q=0.1",
    ] {
        assert_eq!(send(&[json, ("accept", accept)]).status, 200, "{accept}");
    }
    assert_eq!(send(&[json]).status, 200);
    for accept in ["text/event-stream", "text/html", "application/json;q=0", ""] {
        let response = send(&[json, ("accept", accept)]);
        assert_eq!(error(&response), (406, -32600), "{accept}");
    }
    for kind in [
        "text/plain",
        "application/jsonx",
        "application/json; charset=latin1",
        "",
    ] {
        let response = send(&[("content-type", kind)]);
        assert_eq!(error(&response), (415, -32600), "{kind}");
    }
    assert_eq!(error(&send(&[])), (415, -32600));
}

#[test]
fn invalid_messages_have_the_error_codes_of_json_rpc() {
    let service = endpoint();
    let deep = format!("{{\"jsonrpc\":{}", "[".repeat(100_000));
    for (body, code) in [
        ("", -32700),
        ("{", -32700),
        ("{\"jsonrpc\": \"2.0\"} x", -32700),
        (deep.as_str(), -32700),
        ("7", -32600),
        ("null", -32600),
        ("{}", -32600),
        (r#"{"jsonrpc":"1.0","id":1,"method":"ping"}"#, -32600),
        (r#"{"jsonrpc":"2.0","id":null,"method":"ping"}"#, -32600),
        (r#"{"jsonrpc":"2.0","id":1.5,"method":"ping"}"#, -32600),
        (r#"{"jsonrpc":"2.0","id":{},"method":"ping"}"#, -32600),
        (r#"{"jsonrpc":"2.0","id":1,"method":7}"#, -32600),
        (
            r#"{"jsonrpc":"2.0","id":1,"method":"ping","params":[]}"#,
            -32600,
        ),
        (r#"{"jsonrpc":"2.0","id":1,"result":{}}"#, -32600),
        (
            r#"{"jsonrpc":"2.0","id":1,"error":{"code":1,"message":"x"}}"#,
            -32600,
        ),
    ] {
        for revision in ["2026-07-28", "2025-11-25", "2025-06-18", "2025-03-26"] {
            let response = post(&service, &[("mcp-protocol-version", revision)], body);
            assert_eq!(error(&response), (400, code), "{revision} {body:.80}");
        }
    }
    // The error contains the id if it can be read. Otherwise the id is null, or absent if the
    // revision requires it.
    let id = |revision: &str, body: &str| {
        let response = post(&service, &[("mcp-protocol-version", revision)], body).json();
        response.get("id").cloned()
    };
    let known = r#"{"jsonrpc":"1.0","id":"x","method":"ping"}"#;
    assert_eq!(id("2025-06-18", known), Some(json!("x")));
    assert_eq!(id("2025-06-18", "{"), Some(json!(null)));
    // A response from the client has no request here, so its id is ignored.
    let response = r#"{"jsonrpc":"2.0","id":"x","result":{}}"#;
    assert_eq!(id("2025-06-18", response), Some(json!(null)));
    assert_eq!(id("2025-11-25", response), None);
    assert_eq!(id("2025-11-25", "{"), None);
    assert_eq!(id("2026-07-28", "{"), None);
}

#[test]
fn the_size_of_a_body_is_limited() {
    let service = endpoint();
    let body = format!("{PING}{}", " ".repeat(1024 * 1024));
    assert_eq!(post(&service, &[], &body).status, 413);
}
