//! Agents with tokens of the issuer: discovery, tools, and sending.

use latchmail_tests::{Response, Service, fixtures};
use serde_json::{Value, json};

use super::{ADA, BOTH, FOLDERS, NO_ISSUER, TOKEN, ask, offers, start, wait_until};

const AGENT: &str = "GET /older/agent";

#[tokio::test]
async fn the_agent_endpoint_accepts_the_token_and_sends_other_callers_to_discovery() {
    let older = fixtures().join("fixture_older.wasm");
    let settings = format!(
        "modules.older.source = '{}'\nmodules.older.grants = ['caller', 'mailbox']\nmodules.older.paths = ['/older/']",
        older.display()
    );
    let (issuer, service) = start(BOTH, &settings).await;
    assert_eq!(ask(&service, AGENT).await.status, 200);
    let refused = service.with_bearer(AGENT, "made-up").await;
    refused.fails(401, "Missing or invalid Authorization header");
    assert_eq!(
        refused.header("www-authenticate"),
        Some(
            "Bearer resource_metadata=\"http://service.test/.well-known/oauth-protected-resource\", error=\"invalid_token\""
        )
    );
    issuer.override_responses(Some((500, "")));
    service
        .with_bearer(AGENT, "another")
        .await
        .fails(503, NO_ISSUER);
}

/// Calls a tool of the agent endpoint.
async fn tool(service: &Service, token: &str, name: &str, arguments: Value) -> Response {
    let call = json!({
        "jsonrpc": "2.0", "id": 1, "method": "tools/call",
        "params": { "name": name, "arguments": arguments },
    });
    let request = service.request("POST /mcp").bearer_auth(token).json(&call);
    let request = request
        .header("accept", "application/json, text/event-stream")
        .header("mcp-protocol-version", "2025-06-18");
    Response::of(request).await
}

#[tokio::test]
async fn agents_are_sent_to_the_issuer_and_its_tokens_give_access_to_the_tools() {
    let (issuer, service) = start(BOTH, "").await;
    let metadata = service
        .send("GET /.well-known/oauth-protected-resource")
        .await;
    let metadata = metadata.succeeds(200);
    let issuer_url = format!("http://{}", issuer.address);
    assert_eq!(metadata["authorization_servers"], json!([issuer_url]));
    for line in [
        "GET /.well-known/oauth-authorization-server",
        "GET /login",
        "GET /auth/device",
    ] {
        assert_eq!(service.send(line).await.status, 404, "{line}");
    }
    let folders = tool(&service, TOKEN, "list_folders", json!({}))
        .await
        .succeeds(200);
    assert_ne!(folders["result"]["isError"], json!(true), "{folders}");
    let alias = json!({ "domain": "first.test", "name": "shop" });
    let made = tool(&service, TOKEN, "create_alias", alias)
        .await
        .succeeds(200);
    assert_ne!(made["result"]["isError"], json!(true), "{made}");
    let aliases = ask(&service, "GET /api/v1/aliases").await.succeeds(200);
    assert!(aliases.to_string().contains("shop@first.test"), "{aliases}");
}

#[tokio::test]
async fn a_token_for_the_api_gives_no_access_to_the_tools() {
    let (issuer, service) = start(BOTH, "").await;
    issuer.change_response(TOKEN, "aud", json!("http://service.test/api/v1"));
    ask(&service, FOLDERS).await.succeeds(200);
    let refused = tool(&service, TOKEN, "list_folders", json!({})).await;
    refused.fails(401, "Missing or invalid Authorization header");
}

#[tokio::test]
async fn agents_send_with_the_token_if_the_operator_allows_sending() {
    let (_issuer, service) = start(BOTH, "mcp.send_tool = true").await;
    wait_until("OAUTHBEARER", async || {
        offers(&service, "OAUTHBEARER").await
    })
    .await;
    let mail = json!({ "from": ADA, "to": ADA, "subject": "by an agent", "text": "y" });
    let request = service.request("POST /api/v1/mail/send").bearer_auth(TOKEN);
    let sent = Response::of(request.json(&mail)).await.succeeds(200);
    assert_eq!(sent["savedTo"], "Sent");
    let ada = latchmail_tests::Person::sign_in(&service, ADA, latchmail_tests::PASSWORD).await;
    ada.wait_for_message("by an agent").await;
}
