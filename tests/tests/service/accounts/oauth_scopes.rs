//! The scopes that a client requests, and what its tokens can do then (RFC 6749, sections 3.3 and
//! 6).

use latchmail_tests::{Agent, Client, PASSWORD, Person, Response, Service, Setup};
use serde_json::{Value, json};

const FOLDERS: &str = "GET /api/v1/mail/folders";
const ALIASES: &str = "GET /api/v1/aliases";
const DELETE: &str = "DELETE /api/v1/mail/messages/1";
const ALL: &str = "mail:read mail:write aliases:read aliases:write";

fn text(value: &Value) -> &str {
    value.as_str().unwrap()
}

/// Returns the scopes in a list that are valid for the REST API.
fn rest_scopes(list: &str) -> Vec<&str> {
    let scopes = list.split(' ');
    scopes.filter(|scope| *scope != "aliases:write").collect()
}

/// Returns the scopes of the REST API that an access token has, as the routes show them.
async fn opened(service: &Service, token: &Value) -> Vec<&'static str> {
    let mut scopes = Vec::new();
    for (line, scope) in [
        (FOLDERS, "mail:read"),
        (DELETE, "mail:write"),
        (ALIASES, "aliases:read"),
    ] {
        let response = service.with_bearer(line, text(token)).await;
        if response.status != 403 {
            assert!(matches!(response.status, 200 | 404), "{line}");
            scopes.push(scope);
            continue;
        }
        let challenge = format!("Bearer error=\"insufficient_scope\", scope=\"{scope}\"");
        assert_eq!(response.header("www-authenticate"), Some(&*challenge));
        let missing = format!("This credential is missing the \"{scope}\" scope");
        response.fails(403, &missing);
    }
    scopes
}

#[tokio::test]
async fn a_client_gets_the_scopes_that_it_requests_and_no_others() {
    let service = Service::with_mail().await;
    let ada = service.person("ada").await;
    let agent = Client::register(&service).await;
    for (requested, granted) in [
        ("", ALL),
        (ALL, ALL),
        ("mail:read", "mail:read"),
        ("mail:write", "mail:write"),
        ("aliases:read mail:read mail:read", "mail:read aliases:read"),
        // No application can be granted these.
        ("mail:send profile:read mail:read", "mail:read"),
        // The service does not know these.
        ("openid mail:read offline_access", "mail:read"),
    ] {
        let tokens = agent.tokens_with(&ada, &[("scope", requested)]).await;
        assert_eq!(tokens["scope"], granted, "{requested:?}");
        let granted = rest_scopes(granted);
        let token = &tokens["access_token"];
        assert_eq!(opened(&service, token).await, granted, "{requested:?}");
        let next = agent.refresh(text(&tokens["refresh_token"])).await;
        let next = next.succeeds(200);
        assert_eq!(next["scope"], tokens["scope"]);
        let token = &next["access_token"];
        assert_eq!(opened(&service, token).await, granted, "{requested:?}");
    }
}

#[tokio::test]
async fn the_sign_in_pages_list_only_the_scopes_that_are_granted() {
    let service = Setup::default()
        .with_mail()
        .with("mcp.send_tool = true")
        .start()
        .await;
    let agent = Client::register(&service).await;
    for (scope, rest, mcp) in [
        ("mail:read", "read your mail", "read and search your mail"),
        ("mail:write", "flag, move and delete your mail", ""),
        ("aliases:read", "list your aliases", "list your aliases"),
        ("aliases:write", "", "create aliases"),
        (
            "aliases:read aliases:write",
            "list your aliases",
            "list and create aliases",
        ),
        ("mail:send", "send mail as you", "send mail as you"),
        (
            "mail:send mail:write mail:read",
            "read, flag, move and delete your mail, and send mail as you",
            "read and search your mail, and send mail as you",
        ),
    ] {
        let sign_in = agent.login_page(&[("scope", scope)]).await;
        let parameter = format!("&scope={}", scope.replace(' ', "+"));
        let device = agent.start_device_grant(&parameter).await.succeeds(200);
        let page = agent.load_page("/device", &[]).await;
        let code = [("user_code", text(&device["user_code"]))];
        let device = agent.submit("/device", &page, &code).await;
        for page in [sign_in, device] {
            let listed = |interface: &str, grant: &str| {
                if grant.is_empty() {
                    String::new()
                } else {
                    format!("<dt>{interface}</dt><dd>{grant}</dd>")
                }
            };
            let list = format!(
                "<dl>{}{}</dl>",
                listed("REST API", rest),
                listed("MCP", mcp)
            );
            assert!(page.text.contains(&list), "{list}: {}", page.text);
        }
    }
}

#[tokio::test]
async fn a_request_without_a_known_scope_is_refused() {
    let service = Service::with_mail().await;
    let agent = Client::register(&service).await;
    for scope in ["mail", "openid offline_access", "profile:read", " "] {
        let page = agent.login_page(&[("scope", scope)]).await;
        assert_eq!(page.response.status, 400, "{scope:?}");
        assert!(page.text.contains("error=invalid_scope"), "{}", page.text);
        let parameter = format!("&scope={}", scope.replace(' ', "+"));
        let refused = agent.start_device_grant(&parameter).await.succeeds(400);
        assert_eq!(refused["error"], "invalid_scope", "{scope:?}");
    }
}

#[tokio::test]
async fn scopes_in_a_registration_are_ignored() {
    let service = Service::with_mail().await;
    for scope in ["mail:read offline_access", "openid"] {
        let body = json!({ "redirect_uris": ["http://127.0.0.1/"], "scope": scope });
        let request = service.request("POST /auth/register").json(&body);
        let client = Response::of(request).await.succeeds(201);
        assert_eq!(client["scope"], ALL, "{scope}");
    }
}

/// Returns the tools that an agent can see.
async fn tools(agent: &Agent<'_>) -> Vec<String> {
    let listed = agent.send("tools/list", json!({})).await.succeeds(200);
    let tools = listed["result"]["tools"].as_array().unwrap().iter();
    tools.map(|tool| text(&tool["name"]).to_owned()).collect()
}

async fn agent<'a>(client: &Client<'a>, person: &Person<'a>, scope: &str) -> Agent<'a> {
    let tokens = client.tokens_with(person, &[("scope", scope)]).await;
    Agent::with_token(person.service, text(&tokens["access_token"]))
}

#[tokio::test]
async fn an_agent_has_the_tools_of_its_scopes_and_errors_name_the_missing_scope() {
    let service = Service::with_mail().await;
    let ada = service.person("ada").await;
    let client = Client::register(&service).await;
    let reading = [
        "list_folders",
        "list_messages",
        "search_messages",
        "get_message",
    ];
    let aliases = ["list_aliases", "create_alias"];
    let reader = agent(&client, &ada, "mail:read mail:write").await;
    assert_eq!(tools(&reader).await, reading);
    let manager = agent(&client, &ada, "aliases:read").await;
    assert_eq!(tools(&manager).await, ["list_aliases"]);
    let creator = agent(&client, &ada, "aliases:write").await;
    assert_eq!(tools(&creator).await, ["create_alias"]);
    assert_eq!(
        tools(&agent(&client, &ada, "").await).await,
        [&reading[..], &aliases].concat()
    );
    for (agent, tool, arguments, scope) in [
        (
            &reader,
            "create_alias",
            json!({ "domain": "first.test", "name": "shop" }),
            "aliases:write",
        ),
        (
            &manager,
            "create_alias",
            json!({ "domain": "first.test", "name": "shop" }),
            "aliases:write",
        ),
        (&reader, "list_aliases", json!({}), "aliases:read"),
        (&manager, "get_message", json!({ "uid": 1 }), "mail:read"),
    ] {
        let call = json!({ "name": tool, "arguments": arguments });
        let response = agent.send("tools/call", call).await;
        assert_eq!(response.status, 403, "{tool}: {}", response.json);
        let challenge = format!("Bearer error=\"insufficient_scope\", scope=\"{scope}\"");
        assert_eq!(response.header("www-authenticate"), Some(&*challenge));
        let message = format!("This credential is missing the \"{scope}\" scope");
        assert_eq!(response.json["error"]["message"], message);
    }
    let left = ada.send(ALIASES).await.succeeds(200);
    assert_eq!(left["aliases"], json!([]));
}

#[tokio::test]
async fn a_refresh_can_narrow_the_access_token_and_not_widen_the_grant() {
    let service = Service::with_mail().await;
    let ada = service.person("ada").await;
    let agent = Client::register(&service).await;
    let requested = [("scope", "mail:read aliases:read")];
    let mut tokens = agent.tokens_with(&ada, &requested).await;
    let refresh = async |token: &Value, scope: &str| {
        agent
            .token(&[
                ("grant_type", "refresh_token"),
                ("client_id", &agent.client_id),
                ("refresh_token", text(token)),
                ("scope", scope),
            ])
            .await
    };
    for scope in ["mail:write", "mail:read mail:write", "everything"] {
        let refused = refresh(&tokens["refresh_token"], scope).await;
        assert_eq!(refused.succeeds(400)["error"], "invalid_scope");
    }
    for (scope, granted) in [
        ("aliases:read offline_access", vec!["aliases:read"]),
        ("mail:read profile:read", vec!["mail:read"]),
        ("mail:read", vec!["mail:read"]),
        // The grant keeps its scopes.
        ("", vec!["mail:read", "aliases:read"]),
    ] {
        let before = tokens["access_token"].clone();
        let could = opened(&service, &before).await;
        tokens = refresh(&tokens["refresh_token"], scope).await.succeeds(200);
        assert_eq!(tokens["scope"], granted.join(" "));
        assert_eq!(opened(&service, &tokens["access_token"]).await, granted);
        assert_eq!(opened(&service, &before).await, could);
    }
}

#[tokio::test]
async fn a_device_gets_the_scopes_that_it_requests() {
    let service = Service::with_mail().await;
    let ada = service.person("ada").await;
    let agent = Client::register(&service).await;
    for (requested, granted) in [
        ("", ALL),
        ("&scope=openid+profile:read+mail:read", "mail:read"),
    ] {
        let device = agent.start_device_grant(requested).await.succeeds(200);
        let page = agent.load_page("/device", &[]).await;
        let code = [("user_code", text(&device["user_code"]))];
        let page = agent.submit("/device", &page, &code).await;
        let yes = [
            ("email", &*ada.address),
            ("password", PASSWORD),
            ("answer", "yes"),
        ];
        agent.submit("/device", &page, &yes).await;
        let tokens = agent.poll(&device).await.succeeds(200);
        assert_eq!(tokens["scope"], granted);
        let opened = opened(&service, &tokens["access_token"]).await;
        assert_eq!(opened, rest_scopes(granted));
    }
}
