//! Grants: the owner lists, suspends, resumes and ends API tokens and connected agents, and agents
//! revoke their tokens (RFC 7009).

use latchmail_tests::{Client, Response, Service};
use serde_json::{Value, json};

const FOLDERS: &str = "GET /api/v1/mail/folders";
const GRANTS: &str = "/api/v1/profile/grants";
const SUSPENDED: &str = "This grant is suspended";
const MISSING: &str = "Grant not found";
const SESSION_ONLY: &str =
    "This endpoint is only available to a signed-in session, not to API or OAuth tokens";
const UNUSABLE: &str = "Invalid or expired access token";

async fn grants(person: &latchmail_tests::Person<'_>) -> Vec<Value> {
    let listed = person.send(&format!("GET {GRANTS}")).await.succeeds(200);
    listed["grants"].as_array().unwrap().clone()
}

/// Sends a form to the revocation endpoint.
async fn post_form(service: &Service, form: &str) -> Response {
    let request = service
        .request("POST /auth/revoke")
        .header("content-type", "application/x-www-form-urlencoded")
        .body(form.to_owned());
    Response::of(request).await
}

fn text<'a>(value: &'a Value, field: &str) -> &'a str {
    value[field].as_str().unwrap()
}

#[tokio::test]
#[expect(clippy::too_many_lines, reason = "one service and many steps")]
async fn grants_are_listed_suspended_resumed_and_ended_by_their_owner() {
    let service = Service::with_mail().await;
    let (ada, bob) = (service.person("ada").await, service.person("bob").await);
    assert_eq!(grants(&ada).await, [Value::Null; 0]);
    let token = ada.token(&["mail:read"]).await;
    let secret = text(&token, "token");
    let agent = Client::register(&service).await;
    let tokens = agent.tokens(&ada).await;

    let listed = grants(&ada).await;
    let fields: Vec<&String> = listed[0].as_object().unwrap().keys().collect();
    assert_eq!(
        fields,
        [
            "createdAt",
            "expiresAt",
            "id",
            "kind",
            "lastUsedAt",
            "name",
            "policy",
            "scopes",
            "suspended"
        ]
    );
    let by_kind = |kind: &str| {
        let found = listed.iter().find(|grant| grant["kind"] == kind);
        found.unwrap().clone()
    };
    let (oauth, own) = (by_kind("oauth"), by_kind("token"));
    assert_eq!(listed.len(), 2);
    assert_eq!(
        (&own["id"], &own["scopes"]),
        (&token["id"], &json!(["mail:read"]))
    );
    assert_eq!(
        (&oauth["name"], &oauth["suspended"]),
        (&json!("Test agent"), &json!(false))
    );
    assert_eq!(
        oauth["scopes"],
        json!(["mail:read", "mail:write", "aliases:read", "aliases:write"])
    );
    assert!(oauth["policy"].is_null() && own["expiresAt"].is_null());

    let ids = [text(&oauth, "id"), text(&own, "id")];
    let act = async |what: &str| {
        for id in ids {
            // A second call has no effect.
            for _ in 0..2 {
                let line = format!("POST {GRANTS}/{id}/{what}");
                let done = ada.send(&line).await.succeeds(200);
                assert_eq!(done, json!({ "success": true }));
            }
        }
    };
    let call = async |credential: &str| service.with_bearer(FOLDERS, credential).await;
    for credential in [&tokens.access, secret] {
        call(credential).await.succeeds(200);
    }
    act("suspend").await;
    for credential in [&tokens.access, secret] {
        let refused = call(credential).await;
        assert_eq!(refused.json["code"], "grant_suspended");
        refused.fails(403, SUSPENDED);
    }
    let shown = service.operator("account show ada@first.test --json", "");
    let shown: Value = serde_json::from_str(&shown.await.succeeds()).unwrap();
    for credential in shown["credentials"].as_array().unwrap() {
        let kind = credential["type"].as_str().unwrap();
        let is_grant = matches!(kind, "oauth_grant" | "api_token");
        assert_eq!(credential["suspendedAt"].is_string(), is_grant, "{kind}");
    }
    let request = json!({ "jsonrpc": "2.0", "id": 1, "method": "tools/list" });
    let agents = service
        .request("POST /mcp")
        .bearer_auth(&tokens.access)
        .json(&request);
    assert_eq!(Response::of(agents).await.status, 403);
    let refused = agent.refresh(&tokens.refresh).await.succeeds(400);
    assert_eq!(refused["error"], "invalid_grant");
    assert!(
        grants(&ada)
            .await
            .iter()
            .all(|grant| grant["suspended"] == true)
    );
    act("resume").await;
    for credential in [&tokens.access, secret] {
        call(credential).await.succeeds(200);
    }
    // The refused refresh did not consume the token.
    let next = agent.refreshed_tokens(&tokens).await;

    for id in ids {
        for line in [
            format!("DELETE {GRANTS}/{id}"),
            format!("POST {GRANTS}/{id}/suspend"),
            format!("POST {GRANTS}/{id}/resume"),
        ] {
            bob.send(&line).await.fails(404, MISSING);
            service
                .with_bearer(&line, secret)
                .await
                .fails(403, SESSION_ONLY);
            service
                .with_bearer(&line, &next.access)
                .await
                .fails(403, SESSION_ONLY);
        }
    }
    let list = format!("GET {GRANTS}");
    service
        .with_bearer(&list, secret)
        .await
        .fails(403, SESSION_ONLY);
    assert_eq!(grants(&bob).await, [Value::Null; 0]);
    for id in ids {
        let line = format!("DELETE {GRANTS}/{id}");
        ada.send(&line).await.succeeds(200);
        ada.send(&line).await.fails(404, MISSING);
        let line = format!("POST {GRANTS}/{id}/suspend");
        ada.send(&line).await.fails(404, MISSING);
    }
    call(secret)
        .await
        .fails(401, "This API token has been revoked");
    call(&next.access).await.fails(401, UNUSABLE);
    let over = agent.refresh(&next.refresh).await.succeeds(400);
    assert_eq!(over["error"], "invalid_grant");
    assert_eq!(grants(&ada).await, [Value::Null; 0]);
}

#[tokio::test]
async fn an_agent_ends_its_grant_by_revoking_one_of_its_tokens() {
    let service = Service::start().await;
    let ada = service.person("ada").await;
    let (agent, other) = (
        Client::register(&service).await,
        Client::register(&service).await,
    );
    let metadata = service
        .send("GET /.well-known/oauth-authorization-server")
        .await
        .succeeds(200);
    let endpoint = text(&metadata, "revocation_endpoint");
    assert!(endpoint.ends_with("/auth/revoke"), "{endpoint}");
    assert_eq!(
        metadata["revocation_endpoint_auth_methods_supported"],
        metadata["token_endpoint_auth_methods_supported"]
    );
    let revoke = async |client: &Client<'_>, token: &str| {
        let client = &client.client_id;
        let form = format!("client_id={client}&token={token}&token_type_hint=refresh_token");
        post_form(&service, &form).await
    };
    for use_refresh_token in [true, false] {
        let tokens = agent.tokens(&ada).await;
        let kept = agent.tokens(&ada).await;
        let token = if use_refresh_token {
            &tokens.refresh
        } else {
            &tokens.access
        };
        let foreign = revoke(&other, token).await.succeeds(400);
        assert_eq!(foreign["error"], "invalid_grant");
        let done = revoke(&agent, token).await;
        assert_eq!((done.status, &done.body[..]), (200, &b""[..]));
        service
            .with_bearer(FOLDERS, &tokens.access)
            .await
            .fails(401, UNUSABLE);
        let over = agent.refresh(&tokens.refresh).await.succeeds(400);
        assert_eq!(over["error"], "invalid_grant");
        // The token is unknown now, and other grants of the client continue.
        assert_eq!(revoke(&agent, token).await.status, 200);
        agent.refreshed_tokens(&kept).await;
    }
    assert_eq!(revoke(&agent, "unknown").await.status, 200);
    let own = &agent.client_id;
    for (form, status, error) in [
        (format!("client_id={own}"), 400, "invalid_request"),
        ("token=x".into(), 400, "invalid_request"),
        ("client_id=unknown&token=x".into(), 401, "invalid_client"),
    ] {
        let refused = post_form(&service, &form).await.succeeds(status);
        assert_eq!(refused["error"], error);
    }
}
