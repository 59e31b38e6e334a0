//! Revisions 2025-03-26, 2025-06-18 and 2025-11-25, in the order in which a client proceeds: a
//! handshake that the server does not store, then requests.

use latchmail_sdk::testing::Letter;
use serde_json::{Value, json};

use super::client::{endpoint, error, post, result, rpc};

const REVISIONS: [&str; 3] = ["2025-11-25", "2025-06-18", "2025-03-26"];

fn initialize(requested: &str) -> String {
    json!({
        "jsonrpc": "2.0", "id": 7, "method": "initialize",
        "params": { "protocolVersion": requested, "capabilities": {}, "clientInfo": { "name": "tests", "version": "1" } },
    })
    .to_string()
}

#[test]
fn the_handshake_returns_the_requested_revision() {
    let service = endpoint();
    service.host.set("service_name", "Example Mail");
    for revision in REVISIONS {
        let response = post(&service, &[], &initialize(revision));
        assert_eq!(response.header("mcp-session-id"), None);
        let negotiated = result(&response);
        assert_eq!(negotiated["protocolVersion"], revision);
        assert_eq!(
            negotiated["capabilities"],
            json!({
                "tools": {}, "events": {},
                "extensions": { "io.modelcontextprotocol/events": {} },
            })
        );
        let server = json!({ "name": "Example Mail", "version": "1.0.0" });
        assert_eq!(negotiated["serverInfo"], server);
        assert!(
            negotiated["instructions"]
                .as_str()
                .unwrap()
                .contains("data")
        );
        assert!(negotiated.get("resultType").is_none() && negotiated.get("_meta").is_none());

        let initialized = r#"{"jsonrpc":"2.0","method":"notifications/initialized"}"#;
        let header = [("mcp-protocol-version", revision)];
        let accepted = post(&service, &header, initialized);
        assert_eq!((accepted.status, accepted.body.len()), (202, 0));
        assert_eq!(accepted.header("content-type"), None);
        assert_eq!(
            result(&rpc(&service, revision, "ping", json!({}))),
            json!({})
        );
    }
}

#[test]
fn the_handshake_offers_the_newest_revision_with_a_handshake_for_unsupported_requests() {
    let service = endpoint();
    for requested in ["2026-07-28", "2024-11-05", "2031-01-01", "x"] {
        let negotiated = result(&post(&service, &[], &initialize(requested)));
        assert_eq!(negotiated["protocolVersion"], "2025-11-25", "{requested}");
        assert_eq!(negotiated["serverInfo"]["name"], "Latchmail");
    }
    let without_version =
        json!({ "jsonrpc": "2.0", "id": 1, "method": "initialize", "params": {} });
    assert_eq!(
        error(&post(&service, &[], &without_version.to_string())),
        (200, -32602)
    );
}

#[test]
fn an_unknown_revision_in_the_header_is_400_with_the_supported_revisions() {
    let service = endpoint();
    for method in ["ping", "initialize", "tools/list"] {
        let response = rpc(&service, "2024-11-05", method, json!({}));
        assert_eq!(error(&response), (400, -32022));
        let data = &response.json()["error"]["data"];
        assert_eq!(data["requested"], "2024-11-05");
        assert_eq!(data["supported"].as_array().unwrap().len(), 4);
    }
    let notification = r#"{"jsonrpc":"2.0","method":"notifications/initialized"}"#;
    let header = [("mcp-protocol-version", "2024-11-05")];
    assert_eq!(error(&post(&service, &header, notification)), (400, -32022));
}

#[test]
fn lists_and_results_of_tools_depend_on_the_revision() {
    let service = endpoint();
    service
        .host
        .deliver(Letter::from("Grace <grace@example.org>").subject("Hello"));
    for revision in REVISIONS {
        let structured = revision != "2025-03-26";
        let listed = result(&rpc(&service, revision, "tools/list", json!({})));
        for tool in listed["tools"].as_array().unwrap() {
            assert_eq!(tool.get("outputSchema").is_some(), structured);
            assert_eq!(tool.get("title").is_some(), structured);
            assert_eq!(tool["inputSchema"]["additionalProperties"], false);
            assert!(tool["annotations"]["title"].is_string());
        }
        for modern in ["ttlMs", "cacheScope", "resultType", "_meta", "nextCursor"] {
            assert!(listed.get(modern).is_none(), "{modern}");
        }
        let params = json!({ "name": "list_messages" });
        let called = result(&rpc(&service, revision, "tools/call", params));
        assert_eq!(called["isError"], false);
        assert_eq!(called.get("structuredContent").is_some(), structured);
        let text = called["content"][0]["text"].as_str().unwrap();
        assert!(text.contains("\"subject\":\"Hello\""), "{text}");
    }
}

#[test]
fn an_unknown_method_or_tool_is_an_error_response() {
    let service = endpoint();
    for revision in REVISIONS {
        let error_of =
            |method: &str, params: Value| error(&rpc(&service, revision, method, params));
        for method in [
            "server/discover",
            "resources/list",
            "prompts/list",
            "logging/setLevel",
            "",
            "tools/List",
        ] {
            assert_eq!(error_of(method, json!({})), (200, -32601), "{method}");
        }
        assert_eq!(
            error_of("tools/call", json!({ "name": "delete_message" })),
            (200, -32602)
        );
        assert_eq!(error_of("tools/call", json!({})), (200, -32602));
        let listed = json!({ "name": "list_folders", "arguments": [] });
        assert_eq!(error_of("tools/call", listed), (200, -32602));
        assert_eq!(
            error_of("tools/list", json!({ "cursor": "x" })),
            (200, -32602)
        );
    }
}

#[test]
fn only_the_oldest_revision_has_batches() {
    let service = endpoint();
    let ping = |id: u32| json!({ "jsonrpc": "2.0", "id": id, "method": "ping" });
    let notification = json!({ "jsonrpc": "2.0", "method": "notifications/cancelled" });
    let batch = |messages: &[Value]| json!(messages).to_string();
    let mixed = batch(&[
        ping(1),
        notification.clone(),
        json!(7),
        ping(2),
        json!({ "jsonrpc": "2.0", "id": 3, "method": "x" }),
    ]);
    for header in [&[][..], &[("mcp-protocol-version", "2025-03-26")]] {
        let responses = post(&service, header, &mixed).succeeds(200);
        let shape: Vec<_> = responses
            .as_array()
            .unwrap()
            .iter()
            .map(|response| (response["id"].clone(), response["error"]["code"].as_i64()))
            .collect();
        assert_eq!(
            shape,
            [
                (json!(1), None),
                (json!(null), Some(-32600)),
                (json!(2), None),
                (json!(3), Some(-32601))
            ]
        );
        let silent = post(
            &service,
            header,
            &batch(std::slice::from_ref(&notification)),
        );
        assert_eq!((silent.status, silent.body.len()), (202, 0));
        for wrong in [batch(&[]), batch(&vec![ping(1); 11])] {
            assert_eq!(error(&post(&service, header, &wrong)), (400, -32600));
        }
    }
    let ten = post(&service, &[], &batch(&vec![ping(1); 10])).succeeds(200);
    assert_eq!(ten.as_array().unwrap().len(), 10);
    // A batch that exceeds the budget gets responses up to the limit.
    let text = "\u{e0041}".repeat(60_000);
    let uid = service
        .host
        .deliver(Letter::from("x@evil.example").text(&text));
    let read = json!({ "jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": { "name": "get_message", "arguments": { "uid": uid } } });
    let long = post(&service, &[], &batch(&vec![read; 10]));
    assert!(long.body.len() < 8 * 1024 * 1024, "{}", long.body.len());
    let responses = long.succeeds(200);
    let results = responses
        .as_array()
        .unwrap()
        .iter()
        .filter(|response| response.get("result").is_some())
        .count();
    assert!(
        (1..10).contains(&results) && responses[9]["error"]["code"] == -32600,
        "{results}"
    );
    // The same applies to HTML that takes long to convert, even if the result is short.
    let html = format!("<p>Hi</p>{}", "<b></b>".repeat(60_000));
    let uid = service
        .host
        .deliver(Letter::from("x@evil.example").html(&html));
    let read = |arguments: Value| json!({ "jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": { "name": "get_message", "arguments": arguments } });
    let served = |arguments: Value| {
        let responses = post(&service, &[], &batch(&vec![read(arguments); 10])).succeeds(200);
        let responses = responses.as_array().unwrap().clone();
        responses
            .iter()
            .filter(|response| response.get("result").is_some())
            .count()
    };
    assert_eq!(served(json!({ "uid": uid, "format": "text" })), 3);
    assert!(served(json!({ "uid": uid })) < 4);
    // A later piece is not converted.
    assert_eq!(served(json!({ "uid": uid, "offset": 419_000 })), 10);
    let handshake: Value = serde_json::from_str(&initialize("2025-03-26")).unwrap();
    let responses = post(&service, &[], &batch(&[handshake])).succeeds(200);
    assert_eq!(responses[0]["error"]["code"], -32600);
    for revision in ["2025-06-18", "2025-11-25", "2026-07-28"] {
        let header = [("mcp-protocol-version", revision)];
        assert_eq!(
            error(&post(&service, &header, &batch(&[ping(1)]))),
            (400, -32600)
        );
    }
}
