//! Access tokens at the agent endpoint: tokens for another resource, and tokens of ended grants.

use latchmail_tests::{Client, PASSWORD, Response, Service, Setup};
use serde_json::json;

use super::FOLDERS;

#[tokio::test]
async fn the_agent_endpoint_refuses_a_token_for_another_resource() {
    let service = Service::with_mail().await;
    let ada = service.person("ada").await;
    let agent = Client::register(&service).await;
    let page = agent
        .login_page(&[("resource", "http://service.test/api/v1")])
        .await;
    let back = agent.sign_in(&page, &ada.address, PASSWORD).await;
    let api = agent
        .exchange(&back.redirect_parameter("code").unwrap())
        .await
        .succeeds(200);
    let api = api["access_token"].as_str().unwrap();
    service.with_bearer(FOLDERS, api).await.succeeds(200);
    let ping = json!({ "jsonrpc": "2.0", "id": 1, "method": "ping" });
    let mcp = |path: &str, token: &str| {
        let request = service.request(&format!("POST {path}")).json(&ping);
        let request = request.header("accept", "application/json, text/event-stream");
        Response::of(request.bearer_auth(token))
    };
    let text = "Missing or invalid Authorization header";
    let metadata =
        "Bearer resource_metadata=\"http://service.test/.well-known/oauth-protected-resource\"";
    let invalid = format!("{metadata}, error=\"invalid_token\"");
    let good = agent.tokens(&ada).await.access;
    let in_the_query = format!("/mcp?access_token={good}");
    for (path, token) in [
        ("/mcp", api),
        ("/mcp", ada.access.as_str()),
        ("/mcp", "lma_nothing"),
        (in_the_query.as_str(), "x"),
    ] {
        let refused = mcp(path, token).await;
        assert_eq!(
            refused.header("www-authenticate"),
            Some(&*invalid),
            "{path}"
        );
        refused.fails(401, text);
    }
    // RFC 6750, section 3.1: no error code without a bearer token.
    for authorization in [None, Some("Basic eDp4"), Some("Bearer ")] {
        let mut request = service.request("POST /mcp").json(&ping);
        if let Some(authorization) = authorization {
            request = request.header("authorization", authorization);
        }
        let refused = Response::of(request).await;
        assert_eq!(refused.header("www-authenticate"), Some(metadata));
        refused.fails(401, text);
    }
    mcp("/mcp", &good).await.succeeds(200);
}

#[tokio::test]
async fn an_ended_token_counts_for_its_client_address_and_not_for_other_agents() {
    let settings = "limits.mcp = 5\nlimits.unproven = 8";
    let service = Setup::default().with_mail().with(settings).start().await;
    let ada = service.person("ada").await;
    let agent = Client::register(&service).await;
    let first = agent.tokens(&ada).await;
    let ping = json!({ "jsonrpc": "2.0", "id": 1, "method": "ping" });
    let ping_with = |token: &str| {
        let request = service.request("POST /mcp").json(&ping);
        let request = request.header("mcp-protocol-version", "2025-11-25");
        Response::of(request.bearer_auth(token))
    };
    ping_with(&first.access).await.succeeds(200);
    // The code is used a second time, so the grant ends.
    agent.refreshed_tokens(&first).await;
    assert_eq!(agent.refresh(&first.refresh).await.status, 400);
    for _ in 0..4 {
        assert_eq!(ping_with(&first.access).await.status, 401);
    }
    let other = agent.tokens(&ada).await;
    ping_with(&other.access).await.succeeds(200);
}
