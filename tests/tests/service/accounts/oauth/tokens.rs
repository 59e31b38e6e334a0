//! Access tokens: how a client gets them, and the routes and the resource that they are valid for.

use std::time::Duration;

use latchmail_tests::client::{CHALLENGE, REDIRECT_URI, VERIFIER};
use latchmail_tests::{Client, DOMAIN, PASSWORD, Response, Service, Setup};
use serde_json::{Value, json};

use super::{FOLDERS, UNUSABLE};

const SESSION_ONLY: &str =
    "This endpoint is only available to a signed-in session, not to API or OAuth tokens";

#[tokio::test]
async fn an_agent_gets_tokens_for_an_hour_after_the_user_signs_in() {
    let service = Service::with_mail().await;
    let ada = service.person("ada").await;
    let agent = Client::register(&service).await;
    let page = agent.login_page(&[]).await;
    assert_eq!(page.response.status, 200);
    assert!(
        page.text.contains("Test agent") && page.text.contains("an application on this device")
    );
    let back = agent.sign_in(&page, "ADA@first.test", PASSWORD).await;
    assert_eq!(back.response.status, 303);
    let location = back.response.header("location").unwrap();
    assert!(
        location.starts_with("http://127.0.0.1:33418/callback?code="),
        "{location}"
    );
    assert_eq!(
        back.redirect_parameter("state").as_deref(),
        Some("a state & more")
    );
    assert_eq!(
        back.redirect_parameter("iss").as_deref(),
        Some("http://service.test")
    );
    let response = agent
        .exchange(&back.redirect_parameter("code").unwrap())
        .await;
    assert_eq!(response.header("cache-control"), Some("no-store"));
    let tokens = response.succeeds(200);
    assert_eq!(tokens["token_type"], "Bearer");
    assert_eq!(tokens["expires_in"], 3600);
    assert_eq!(
        tokens["scope"],
        "mail:read mail:write aliases:read aliases:write"
    );
    let access = tokens["access_token"].as_str().unwrap();
    let folders = service.with_bearer(FOLDERS, access).await.succeeds(200);
    assert_eq!(folders, ada.send(FOLDERS).await.succeeds(200));
    service.clock.advance(Duration::from_secs(3599));
    service.with_bearer(FOLDERS, access).await.succeeds(200);
    service.clock.advance(Duration::from_secs(1));
    let over = service.with_bearer(FOLDERS, access).await;
    over.fails(401, UNUSABLE);
    let refresh = tokens["refresh_token"].as_str().unwrap();
    let next = agent.refresh(refresh).await.succeeds(200);
    let access = next["access_token"].as_str().unwrap();
    service.with_bearer(FOLDERS, access).await.succeeds(200);
}

#[tokio::test]
async fn a_token_gives_access_only_to_routes_that_accept_oauth() {
    let service = Service::with_mail().await;
    let ada = service.person("ada").await;
    ada.receive("Subject: one\r\n\r\nHello\r\n").await;
    let uid = ada.uid_of("INBOX", "one").await;
    let token = ada.oauth_token().await;
    for line in [
        FOLDERS,
        "GET /api/v1/mail/folders/INBOX/messages",
        "GET /api/v1/mail/search?q=one",
        "GET /api/v1/aliases",
        "GET /api/v1/aliases/domains",
        &format!("GET /api/v1/mail/messages/{uid}"),
    ] {
        service.with_bearer(line, &token).await.succeeds(200);
    }
    let asked = |line: &str, body: Value| {
        let request = service.request(line).bearer_auth(&token).json(&body);
        Response::of(request)
    };
    let flag = format!("POST /api/v1/mail/messages/{uid}/flag");
    let flagged = asked(&flag, json!({ "flags": ["\\Flagged"], "action": "add" })).await;
    flagged.succeeds(200);
    let missing = |scope: &str| format!("This credential is missing the \"{scope}\" scope");
    let mail = json!({ "from": ada.address, "to": ada.address, "subject": "x", "text": "x" });
    let sent = asked("POST /api/v1/mail/send", mail).await;
    sent.fails(403, &missing("mail:send"));
    let alias = json!({ "domain": DOMAIN, "name": "an-alias" });
    let made = asked("POST /api/v1/aliases", alias).await;
    made.fails(403, &missing("aliases:write"));
    let profile = service.with_bearer("GET /api/v1/profile", &token).await;
    profile.fails(403, &missing("profile:read"));
    for line in [
        "GET /api/v1/tokens",
        "GET /api/v1/teams",
        "GET /api/v1/domains",
    ] {
        let refused = service.with_bearer(line, &token).await;
        refused.fails(403, SESSION_ONLY);
    }
    let shared = format!("{FOLDERS}?mailbox=somebodys");
    let refused = service.with_bearer(&shared, &token).await;
    refused.fails(403, SESSION_ONLY);
}

#[tokio::test]
async fn agents_can_send_only_if_the_operator_allows_it() {
    let service = Setup::default()
        .with_mail()
        .with("mcp.send_tool = true")
        .start()
        .await;
    let ada = service.person("ada").await;
    let token = ada.oauth_token().await;
    let mail =
        json!({ "from": ada.address, "to": ada.address, "subject": "from an agent", "text": "x" });
    let request = service.request("POST /api/v1/mail/send");
    let sent = Response::of(request.bearer_auth(&token).json(&mail)).await;
    sent.succeeds(200);
    ada.wait_for_message("from an agent").await;
    let described = service.send("GET /api/openapi.json").await.succeeds(200);
    let security = &described["paths"]["/api/v1/mail/send"]["post"]["security"];
    assert!(security.to_string().contains("oauth"), "{security}");
}

#[tokio::test]
async fn a_code_is_exchanged_only_by_its_client_with_the_same_parameters() {
    let service = Service::with_mail().await;
    let ada = service.person("ada").await;
    let agent = Client::register(&service).await;
    let other = Client::register(&service).await;
    let usual = |code: &str| {
        [
            ("grant_type", "authorization_code"),
            ("client_id", &agent.client_id),
            ("redirect_uri", REDIRECT_URI),
            ("code_verifier", VERIFIER),
            ("code", code),
        ]
        .map(|(name, value)| (name.to_owned(), value.to_owned()))
    };
    let code = agent.code(&ada).await;
    let changed = async |name: &str, value: &str| {
        let mut fields = usual(&code).to_vec();
        fields.retain(|(key, _)| key != name);
        if !value.is_empty() {
            fields.push((name.into(), value.into()));
        }
        let fields: Vec<(&str, &str)> = fields.iter().map(|(k, v)| (&**k, &**v)).collect();
        let response = agent.token(&fields).await;
        (
            response.status,
            response.json["error"]
                .as_str()
                .unwrap_or_default()
                .to_owned(),
        )
    };
    for (name, value, status, error) in [
        ("client_id", &*other.client_id, 400, "invalid_grant"),
        ("client_id", "nobody", 401, "invalid_client"),
        ("client_id", "", 400, "invalid_request"),
        ("code_verifier", "", 400, "invalid_request"),
        ("code_verifier", CHALLENGE, 400, "invalid_grant"),
        (
            "redirect_uri",
            "http://127.0.0.1:33418/other",
            400,
            "invalid_grant",
        ),
        (
            "resource",
            "https://other.example/mcp",
            400,
            "invalid_target",
        ),
        (
            "resource",
            "http://service.test/api/v1",
            400,
            "invalid_target",
        ),
        ("grant_type", "password", 400, "unsupported_grant_type"),
        (
            "grant_type",
            "client_credentials",
            400,
            "unsupported_grant_type",
        ),
        ("grant_type", "", 400, "invalid_request"),
        ("code", "", 400, "invalid_request"),
        ("code", "lmc_nothing", 400, "invalid_grant"),
    ] {
        let refused = changed(name, value).await;
        assert_eq!(refused, (status, error.into()), "{name} = {value:?}");
    }
    // The refused requests did not use up the code.
    agent.exchange(&code).await.succeeds(200);
    let twice = [
        ("grant_type", "refresh_token"),
        ("client_id", "a"),
        ("client_id", "b"),
    ];
    let refused = agent.token(&twice).await.succeeds(400);
    assert_eq!(refused["error"], "invalid_request");
    let json = service
        .post("/auth/token", &json!({ "grant_type": "x" }))
        .await;
    assert_eq!(json.succeeds(400)["error"], "invalid_request");
}

#[tokio::test]
async fn a_token_is_valid_only_for_the_requested_resource() {
    let service = Service::with_mail().await;
    let ada = service.person("ada").await;
    let agent = Client::register(&service).await;
    let page = agent
        .login_page(&[("resource", "http://service.test/mcp")])
        .await;
    let back = agent.sign_in(&page, &ada.address, PASSWORD).await;
    let tokens = agent
        .exchange(&back.redirect_parameter("code").unwrap())
        .await
        .succeeds(200);
    let access = tokens["access_token"].as_str().unwrap();
    service.with_bearer(FOLDERS, access).await.succeeds(200);
    let refresh = tokens["refresh_token"].as_str().unwrap();
    // Every notation of the same URL is accepted.
    let same = agent
        .token(&[
            ("grant_type", "refresh_token"),
            ("client_id", &agent.client_id),
            ("refresh_token", refresh),
            ("resource", "http://service.test/"),
        ])
        .await
        .succeeds(200);
    let refresh = same["refresh_token"].as_str().unwrap();
    let other_session = agent
        .token(&[
            ("grant_type", "refresh_token"),
            ("client_id", &agent.client_id),
            ("refresh_token", refresh),
            ("resource", "https://other.example/"),
        ])
        .await;
    assert_eq!(other_session.succeeds(400)["error"], "invalid_target");
    let page = agent
        .login_page(&[("resource", "https://other.example/mcp")])
        .await;
    assert_eq!(page.response.status, 400);
    assert!(page.text.contains("error=invalid_target"), "{}", page.text);
    let token = service
        .with_bearer(&format!("{FOLDERS}?access_token={access}"), "")
        .await;
    token.fails(401, "Missing or invalid Authorization header");
}
