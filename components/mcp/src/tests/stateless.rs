//! Revision 2026-07-28: every request describes itself in the body and in headers, which must
//! match.

use latchmail_sdk::capability::Scope;
use serde_json::{Value, json};

use super::client::{endpoint, error, meta, post, result, rpc};

const VERSION: (&str, &str) = ("mcp-protocol-version", "2026-07-28");

#[expect(clippy::needless_pass_by_value, reason = "as tests write it")]
fn message(method: &str, params: Value) -> String {
    json!({ "jsonrpc": "2.0", "id": 7, "method": method, "params": params }).to_string()
}

#[test]
fn discovery_returns_revisions_and_capabilities() {
    let service = endpoint();
    service.host.set("service_name", "Example Mail");
    let found = result(&rpc(&service, "2026-07-28", "server/discover", json!({})));
    let versions = json!(["2026-07-28", "2025-11-25", "2025-06-18", "2025-03-26"]);
    assert_eq!(found["supportedVersions"], versions);
    assert_eq!(
        found["capabilities"],
        json!({
            "tools": {}, "events": {},
            "extensions": { "io.modelcontextprotocol/events": {} },
        })
    );
    assert_eq!(found["resultType"], "complete");
    assert_eq!(found["cacheScope"], "private");
    assert!(found["ttlMs"].is_u64() && found["instructions"].is_string());
    let server = json!({ "name": "Example Mail", "version": "1.0.0" });
    assert_eq!(found["_meta"]["io.modelcontextprotocol/serverInfo"], server);
}

#[test]
fn results_are_complete_and_lists_have_a_cache_lifetime() {
    let service = endpoint();
    let listed = result(&rpc(&service, "2026-07-28", "tools/list", json!({})));
    assert_eq!(listed["cacheScope"], "private");
    let called = json!({ "name": "list_folders", "arguments": {} });
    let called = result(&rpc(&service, "2026-07-28", "tools/call", called));
    assert!(called.get("ttlMs").is_none());
    for result in [listed, called] {
        assert_eq!(result["resultType"], "complete");
        assert!(result["_meta"]["io.modelcontextprotocol/serverInfo"]["name"].is_string());
    }
}

#[test]
fn a_request_without_meta_fields_is_malformed() {
    let service = endpoint();
    let without = |key: &str| {
        let mut meta = meta();
        meta.as_object_mut().unwrap().remove(key);
        json!({ "_meta": meta })
    };
    let headers = [VERSION, ("mcp-method", "server/discover")];
    let send = |params: Value| post(&service, &headers, &message("server/discover", params));
    for params in [
        json!({}),
        json!({ "_meta": 7 }),
        without("io.modelcontextprotocol/protocolVersion"),
        without("io.modelcontextprotocol/clientCapabilities"),
    ] {
        let response = send(params);
        assert_eq!(error(&response), (400, -32602));
        assert_eq!(response.json()["id"], 7);
    }
    assert_eq!(
        send(without("io.modelcontextprotocol/clientInfo")).status,
        200
    );
}

#[test]
fn the_error_for_an_unknown_revision_lists_the_supported_ones() {
    let service = endpoint();
    let mut meta = meta();
    meta["io.modelcontextprotocol/protocolVersion"] = json!("2031-01-01");
    let body = message("server/discover", json!({ "_meta": meta }));
    let method = ("mcp-method", "server/discover");
    let response = post(
        &service,
        &[("mcp-protocol-version", "2031-01-01"), method],
        &body,
    );
    assert_eq!(error(&response), (400, -32022));
    let data = json!({ "requested": "2031-01-01", "supported": ["2026-07-28", "2025-11-25", "2025-06-18", "2025-03-26"] });
    assert_eq!(response.json()["error"]["data"], data);
    assert_eq!(
        error(&post(&service, &[VERSION, method], &body)),
        (400, -32020)
    );
    assert_eq!(error(&post(&service, &[method], &body)), (400, -32020));
    let twice = [VERSION, ("mcp-protocol-version", "2025-11-25"), method];
    assert_eq!(error(&post(&service, &twice, &body)), (400, -32020));
}

#[test]
fn headers_must_match_the_body() {
    let service = endpoint();
    let list = message("tools/list", json!({ "_meta": meta() }));
    let call = message(
        "tools/call",
        json!({ "_meta": meta(), "name": "list_folders" }),
    );
    let send = |body: &str, headers: &[(&str, &str)]| {
        let headers: Vec<_> = [VERSION].iter().chain(headers).copied().collect();
        post(&service, &headers, body)
    };
    for headers in [
        &[][..],
        &[("mcp-method", "prompts/list")],
        &[("mcp-method", "TOOLS/LIST")],
        &[("mcp-method", "tools/list"), ("mcp-method", "tools/call")],
    ] {
        assert_eq!(error(&send(&list, headers)), (400, -32020), "{headers:?}");
    }
    assert_eq!(send(&list, &[("MCP-METHOD", " tools/list ")]).status, 200);
    let method = ("mcp-method", "tools/call");
    for name in [
        None,
        Some("create_alias"),
        Some("LIST_FOLDERS"),
        Some("=?base64?bGlzdF9mb2xkZXJz"),
        Some("=?base64?***?="),
    ] {
        let name = name.map(|name| ("mcp-name", name));
        let headers: Vec<_> = [method].into_iter().chain(name).collect();
        assert_eq!(error(&send(&call, &headers)), (400, -32020), "{name:?}");
    }
    for name in [
        "list_folders",
        "  list_folders ",
        "=?base64?bGlzdF9mb2xkZXJz?=",
    ] {
        assert_eq!(
            send(&call, &[method, ("mcp-name", name)]).status,
            200,
            "{name}"
        );
    }
}

#[test]
fn methods_of_other_revisions_are_unknown() {
    let service = endpoint();
    for method in [
        "initialize",
        "ping",
        "logging/setLevel",
        "resources/list",
        "subscriptions/listen",
        "unknown/method",
    ] {
        let response = rpc(&service, "2026-07-28", method, json!({}));
        assert_eq!(error(&response), (404, -32601), "{method}");
        assert_eq!(response.json()["id"], 7);
    }
    let unknown = json!({ "name": "delete_message", "arguments": {} });
    let response = rpc(&service, "2026-07-28", "tools/call", unknown);
    assert_eq!(error(&response), (200, -32602));
    assert_eq!(
        response.json()["error"]["message"],
        "Unknown tool: delete_message"
    );
    let notification = json!({ "jsonrpc": "2.0", "method": "notifications/cancelled", "params": { "requestId": 1 } });
    let accepted = post(&service, &[VERSION], &notification.to_string());
    assert_eq!((accepted.status, accepted.body.len()), (202, 0));
}

#[test]
fn a_request_of_an_older_revision_can_name_it_in_the_body() {
    let service = endpoint();
    let mut meta = meta();
    meta["io.modelcontextprotocol/protocolVersion"] = json!("2025-11-25");
    let body = message("ping", json!({ "_meta": meta }));
    let response = post(&service, &[("mcp-protocol-version", "2025-11-25")], &body);
    assert_eq!(result(&response), json!({}));
}

#[test]
fn tools_are_listed_for_the_scopes_of_the_token_and_others_name_the_missing_scope() {
    let service = endpoint();
    service.host.set("send_tool", "true");
    let reading = [
        "list_folders",
        "list_messages",
        "search_messages",
        "get_message",
    ];
    for (scopes, expected) in [
        (&[][..], &[][..]),
        (&[Scope::MailWrite, Scope::ProfileRead], &[]),
        (&[Scope::MailRead], &reading),
        (&[Scope::AliasesRead], &["list_aliases"]),
        (&[Scope::AliasesWrite], &["create_alias"]),
        (&[Scope::MailSend], &["send_message"]),
    ] {
        service.host.use_grant(scopes);
        let listed = result(&rpc(&service, "2026-07-28", "tools/list", json!({})));
        let tools = listed["tools"].as_array().unwrap().iter();
        let names: Vec<_> = tools.map(|tool| tool["name"].as_str().unwrap()).collect();
        assert_eq!(names, expected);
        for tool in [
            "list_folders",
            "get_message",
            "list_aliases",
            "create_alias",
            "send_message",
        ] {
            let arguments =
                json!({ "uid": 1, "domain": "example.test", "to": "a@b.example", "subject": "x" });
            let call = json!({ "name": tool, "arguments": arguments });
            let response = rpc(&service, "2026-07-28", "tools/call", call);
            if expected.contains(&tool) {
                assert_eq!(response.status, 200, "{tool} with {scopes:?}");
                continue;
            }
            let scope = match tool {
                "list_aliases" => "aliases:read",
                "create_alias" => "aliases:write",
                "send_message" => "mail:send",
                _ => "mail:read",
            };
            assert_eq!(error(&response), (403, -32600), "{tool} with {scopes:?}");
            let message = format!("This credential is missing the \"{scope}\" scope");
            assert_eq!(response.json()["error"]["message"], message);
            let challenge = format!("Bearer error=\"insufficient_scope\", scope=\"{scope}\"");
            let given = response.header("www-authenticate");
            assert_eq!(given, Some(&*challenge), "{tool} with {scopes:?}");
        }
    }
}

#[test]
fn a_tool_that_the_operator_did_not_turn_on_is_unknown() {
    let service = endpoint();
    let call = json!({ "name": "send_message", "arguments": {} });
    let response = rpc(&service, "2026-07-28", "tools/call", call);
    assert_eq!(error(&response), (200, -32602));
    assert_eq!(
        response.json()["error"]["message"],
        "Unknown tool: send_message"
    );
}
