//! A client of the endpoint.

use latchmail_sdk::capability::Scope;
use latchmail_sdk::testing::{FakeHost, Response, Service};
use serde_json::{Value, json};

/// The scopes of a caller if agents may not send.
pub(super) const DEFAULT_SCOPES: [Scope; 4] = [
    Scope::MailRead,
    Scope::MailWrite,
    Scope::AliasesRead,
    Scope::AliasesWrite,
];

/// Returns the endpoint for an agent of `ada@example.test`.
pub(super) fn endpoint() -> Service {
    let service = Service::of(crate::module::<FakeHost>());
    service.host.use_grant(&DEFAULT_SCOPES);
    service
}

/// Posts a body unchanged, with the headers that every client sends.
pub(super) fn post(service: &Service, headers: &[(&str, &str)], body: &str) -> Response {
    let usual = [
        ("content-type", "application/json"),
        ("accept", "application/json, text/event-stream"),
    ];
    let headers: Vec<_> = usual.into_iter().chain(headers.iter().copied()).collect();
    service.request("POST", "/mcp", &headers, body.into())
}

/// Sends a request as a client of `revision` does.
#[expect(clippy::needless_pass_by_value, reason = "as tests write it")]
pub(super) fn rpc(service: &Service, revision: &str, method: &str, params: Value) -> Response {
    let message = json!({ "jsonrpc": "2.0", "id": 7, "method": method, "params": params });
    if revision != "2026-07-28" {
        let headers = [("mcp-protocol-version", revision)];
        return post(service, &headers, &message.to_string());
    }
    let mut message = message;
    message["params"]["_meta"] = meta();
    let mut headers = vec![("mcp-protocol-version", revision), ("mcp-method", method)];
    let name = message["params"]["name"].as_str().map(str::to_owned);
    if let Some(name) = &name {
        headers.push(("mcp-name", name));
    }
    post(service, &headers, &message.to_string())
}

/// Returns the fields that the newest revision requires in every request.
pub(super) fn meta() -> Value {
    json!({
        "io.modelcontextprotocol/protocolVersion": "2026-07-28",
        "io.modelcontextprotocol/clientInfo": { "name": "tests", "version": "1" },
        "io.modelcontextprotocol/clientCapabilities": {},
    })
}

/// Returns the result of a response.
#[track_caller]
pub(super) fn result(response: &Response) -> Value {
    let body = response.succeeds(200);
    assert_eq!((&body["jsonrpc"], &body["id"]), (&json!("2.0"), &json!(7)));
    assert!(body.get("error").is_none(), "{body}");
    body["result"].clone()
}

/// Returns the status and the code of an error.
#[track_caller]
pub(super) fn error(response: &Response) -> (u16, i64) {
    let body = response.json();
    assert!(body.get("result").is_none(), "{body}");
    assert!(!body["error"]["message"].as_str().unwrap().is_empty());
    (response.status, body["error"]["code"].as_i64().unwrap())
}

/// Calls a tool. Returns the structured part and the text of its result.
#[expect(clippy::needless_pass_by_value, reason = "as tests write it")]
#[track_caller]
pub(super) fn call(service: &Service, tool: &str, arguments: Value) -> (Value, String) {
    let params = json!({ "name": tool, "arguments": arguments });
    let result = result(&rpc(service, "2026-07-28", "tools/call", params));
    assert_eq!(result["isError"], false, "{result}");
    let text = result["content"][0]["text"].as_str().unwrap().to_owned();
    let others = result["content"].as_array().unwrap().iter().skip(1);
    for other in others {
        assert_eq!(other["type"], "resource_link");
    }
    (result["structuredContent"].clone(), text)
}

/// Calls a tool that fails. Returns the error message.
#[expect(clippy::needless_pass_by_value, reason = "as tests write it")]
#[track_caller]
pub(super) fn tool_error(service: &Service, tool: &str, arguments: Value) -> String {
    let params = json!({ "name": tool, "arguments": arguments });
    let result = result(&rpc(service, "2026-07-28", "tools/call", params));
    assert_eq!(result["isError"], true, "{result}");
    assert!(result.get("structuredContent").is_none());
    result["content"][0]["text"].as_str().unwrap().to_owned()
}
