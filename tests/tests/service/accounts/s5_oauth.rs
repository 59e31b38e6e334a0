//! Specification, section 5: the authorization server, from discovery to a refreshed token, and what its tokens open.

use std::time::Duration;

use latchmail_tests::client::{CHALLENGE, RETURN, VERIFIER};
use latchmail_tests::process::free_address;
use latchmail_tests::{Answer, Client, DOMAIN, PASSWORD, Service, Setup};
use serde_json::{Value, json};

const FOLDERS: &str = "GET /api/v1/mail/folders";
const DEVICE: &str = "urn:ietf:params:oauth:grant-type:device_code";
const UNUSABLE: &str = "Invalid or expired access token";
const SESSION_ONLY: &str =
    "This endpoint is only available to a signed-in session, not to API or OAuth tokens";

#[tokio::test]
async fn the_sign_in_pages_list_what_each_interface_can_do() {
    for send in [false, true] {
        let service = Setup::default()
            .with_mail()
            .with(&format!("mcp.send_tool = {send}"))
            .start()
            .await;
        let agent = Client::register(&service).await;
        let sign_in = agent.page_with(&[]).await;
        let device = agent.device().await;
        let code = device["user_code"].as_str().unwrap();
        let page = agent.page("/device", &[]).await;
        let device = agent.fill("/device", &page, &[("user_code", code)]).await;
        let sends = if send { ", and send mail as you" } else { "" };
        for page in [sign_in, device] {
            for (interface, grant) in [
                (
                    "REST API",
                    "read, flag, move and delete your mail, and list your aliases",
                ),
                (
                    "MCP",
                    "read and search your mail, and list and create aliases",
                ),
            ] {
                let item = format!("<dt>{interface}</dt><dd>{grant}{sends}</dd>");
                assert!(page.text.contains(&item), "{item}: {}", page.text);
            }
        }
    }
}

#[tokio::test]
async fn an_agent_learns_from_the_service_where_it_is_let_in() {
    let service = Service::start().await;
    let path = "GET /.well-known/oauth-protected-resource";
    let resource = service.ask(path).await.succeeds(200);
    assert_eq!(resource["resource"], "http://service.test/mcp");
    assert_eq!(
        resource["authorization_servers"],
        json!(["http://service.test"])
    );
    assert_eq!(resource["bearer_methods_supported"], json!(["header"]));
    let suffixed = service.ask(&format!("{path}/mcp")).await.succeeds(200);
    assert_eq!(suffixed, resource);
    let server = service
        .ask("GET /.well-known/oauth-authorization-server")
        .await
        .succeeds(200);
    let at = |path: &str| json!(format!("http://service.test{path}"));
    assert_eq!(server["issuer"], at(""));
    assert_eq!(server["authorization_endpoint"], at("/login"));
    assert_eq!(server["token_endpoint"], at("/auth/token"));
    assert_eq!(server["registration_endpoint"], at("/auth/register"));
    assert_eq!(server["device_authorization_endpoint"], at("/auth/device"));
    assert_eq!(server["code_challenge_methods_supported"], json!(["S256"]));
    assert_eq!(server["response_types_supported"], json!(["code"]));
    assert_eq!(
        server["grant_types_supported"],
        json!([
            "authorization_code",
            "refresh_token",
            "urn:ietf:params:oauth:grant-type:device_code"
        ])
    );
    assert_eq!(
        server["token_endpoint_auth_methods_supported"],
        json!(["none", "client_secret_post", "client_secret_basic"])
    );
    assert_eq!(
        server["scopes_supported"],
        json!(["mail:read", "mail:write", "aliases:read"])
    );
    for flag in [
        "authorization_response_iss_parameter_supported",
        "client_id_metadata_document_supported",
    ] {
        assert_eq!(server[flag], true, "{flag}");
    }
    assert!(server.get("revocation_endpoint").is_none());
}

#[tokio::test]
async fn anybody_registers_a_client_that_has_no_secret() {
    let service = Service::start().await;
    let asked = json!({
        "client_name": "An\u{202E} agent",
        "redirect_uris": [RETURN, "https://app.example/cb", "com.example.app:/cb"],
        "token_endpoint_auth_method": "client_secret_basic",
        "grant_types": ["authorization_code", "refresh_token", "password"],
        "scope": "everything",
    });
    let answer = service.post("/auth/register", &asked).await;
    assert_eq!(answer.header("cache-control"), Some("no-store"));
    let registered = answer.succeeds(201);
    assert!(registered["client_id"].as_str().unwrap().len() >= 20);
    assert_eq!(registered["client_name"], "An agent");
    assert_eq!(registered["redirect_uris"], asked["redirect_uris"]);
    assert_eq!(registered["token_endpoint_auth_method"], "none");
    assert_eq!(
        registered["grant_types"],
        json!(["authorization_code", "refresh_token"])
    );
    for absent in [
        "client_secret",
        "registration_access_token",
        "registration_client_uri",
    ] {
        assert!(registered.get(absent).is_none(), "{absent}");
    }
}

#[tokio::test]
async fn a_flood_of_registrations_evicts_itself() {
    let service = Setup::default()
        .with("http.trusted_proxies = ['127.0.0.0/8']")
        .start()
        .await;
    let register = async |from: &str| {
        let request = service.request("POST /auth/register");
        let body = json!({ "client_name": from, "redirect_uris": [RETURN] });
        let request = request.header("x-forwarded-for", from).json(&body);
        let registered = Answer::of(request).await.succeeds(201);
        registered["client_id"].as_str().unwrap().to_owned()
    };
    let known = async |id: &str| {
        let agent = Client::known(&service, id);
        agent.page_with(&[]).await.answer.status == 200
    };
    let oldest = register("192.0.2.1").await;
    service
        .execute(
            "INSERT INTO oauth_clients (id, name, redirect_uris, grant_types, created_at, network, region) \
             WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 9999) \
             SELECT 'flood' || i, '', 'http://127.0.0.1:33418/callback', 'authorization_code', (SELECT created_at FROM oauth_clients) + i, '2001:db8:0:' || i || '::', '2001:db8::' FROM n",
        )
        .await;
    assert!(known("flood1").await && known("flood2").await);
    service.clock.advance(Duration::from_mins(1));
    let newest = register("2001:db8:ffff:1::1").await;
    let elsewhere = register("198.51.100.1").await;
    assert!(known(&oldest).await && known(&newest).await && known(&elsewhere).await);
    assert!(!known("flood1").await && !known("flood2").await);
    assert!(known("flood3").await);
}

#[tokio::test]
async fn the_operator_can_keep_the_device_grant_to_its_own_clients() {
    let service = Setup::default()
        .with("oauth.device_grant = false")
        .start()
        .await;
    let register = async |grants: &[&str]| {
        let body = json!({ "redirect_uris": [RETURN], "grant_types": grants });
        service.post("/auth/register", &body).await
    };
    let both = register(&["authorization_code", DEVICE])
        .await
        .succeeds(201);
    assert_eq!(both["grant_types"], json!(["authorization_code"]));
    let refused = register(&[DEVICE, "refresh_token"]).await.succeeds(400);
    assert_eq!(refused["error"], "invalid_client_metadata");
    // A client that registered earlier.
    service
        .execute(
            "UPDATE oauth_clients SET grant_types = 'urn:ietf:params:oauth:grant-type:device_code'",
        )
        .await;
    let begin = async |form: String| {
        let request = service.request("POST /auth/device");
        let kind = ("content-type", "application/x-www-form-urlencoded");
        Answer::of(request.header(kind.0, kind.1).body(form)).await
    };
    let id = both["client_id"].as_str().unwrap();
    let refused = begin(format!("client_id={id}")).await.succeeds(400);
    assert_eq!(refused["error"], "unauthorized_client");
    let add = format!("client add Terminal --redirect-uri {RETURN} --json");
    let own: Value = serde_json::from_str(&service.operator(&add, "").await.done()).unwrap();
    let shown = ["client_id", "client_secret"].map(|name| own[name].as_str().unwrap());
    begin(format!("client_id={}&client_secret={}", shown[0], shown[1]))
        .await
        .succeeds(200);
}

#[tokio::test]
async fn a_registration_that_will_not_do_is_refused_by_its_code() {
    let service = Service::start().await;
    for uri in [
        "http://localhost:8080/cb",
        "http://app.example/cb",
        "https://app.example/cb#x",
        "https://user@app.example/cb",
        "javascript:alert(1)",
        "/callback",
        "",
    ] {
        let body = json!({ "redirect_uris": ["https://app.example/", uri] });
        let refused = service.post("/auth/register", &body).await.succeeds(400);
        assert_eq!(refused["error"], "invalid_redirect_uri", "{uri}");
        assert!(refused["error_description"].is_string(), "{uri}");
    }
    let body = json!({ "redirect_uris": ["http://localhost/cb"] });
    let refused = service.post("/auth/register", &body).await.json;
    let told = refused["error_description"].as_str().unwrap();
    assert!(told.contains("http://127.0.0.1"), "{told}");
    for (body, code) in [
        (json!({}), "invalid_redirect_uri"),
        (json!({ "redirect_uris": [] }), "invalid_redirect_uri"),
        (json!({ "redirect_uris": RETURN }), "invalid_redirect_uri"),
        (json!({ "redirect_uris": [7] }), "invalid_redirect_uri"),
        (json!([]), "invalid_client_metadata"),
        (
            json!({ "redirect_uris": [RETURN], "grant_types": ["implicit"] }),
            "invalid_client_metadata",
        ),
    ] {
        let refused = service.post("/auth/register", &body).await.succeeds(400);
        assert_eq!(refused["error"], code, "{body}");
    }
}

#[tokio::test]
async fn a_person_signs_in_and_the_agent_has_tokens_for_an_hour() {
    let service = Service::with_mail().await;
    let ada = service.person("ada").await;
    let agent = Client::register(&service).await;
    let page = agent.page_with(&[]).await;
    assert_eq!(page.answer.status, 200);
    assert!(
        page.text.contains("Test agent") && page.text.contains("an application on this device")
    );
    let back = agent.sign_in(&page, "ADA@first.test", PASSWORD).await;
    assert_eq!(back.answer.status, 303);
    let location = back.answer.header("location").unwrap();
    assert!(
        location.starts_with("http://127.0.0.1:33418/callback?code="),
        "{location}"
    );
    assert_eq!(back.sent("state").as_deref(), Some("a state & more"));
    assert_eq!(back.sent("iss").as_deref(), Some("http://service.test"));
    let answer = agent.exchange(&back.sent("code").unwrap()).await;
    assert_eq!(answer.header("cache-control"), Some("no-store"));
    let tokens = answer.succeeds(200);
    assert_eq!(tokens["token_type"], "Bearer");
    assert_eq!(tokens["expires_in"], 3600);
    assert_eq!(tokens["scope"], "mail:read mail:write aliases:read");
    let access = tokens["access_token"].as_str().unwrap();
    let folders = service.with_bearer(FOLDERS, access).await.succeeds(200);
    assert_eq!(folders, ada.ask(FOLDERS).await.succeeds(200));
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
async fn a_token_opens_the_routes_that_say_so_and_no_others() {
    let service = Service::with_mail().await;
    let ada = service.person("ada").await;
    ada.receives("Subject: one\r\n\r\nHello\r\n").await;
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
        Answer::of(request)
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
async fn agents_send_where_the_operator_lets_them() {
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
    let sent = Answer::of(request.bearer_auth(&token).json(&mail)).await;
    sent.succeeds(200);
    ada.arrives("from an agent").await;
    let described = service.ask("GET /api/openapi.json").await.succeeds(200);
    let security = &described["paths"]["/api/v1/mail/send"]["post"]["security"];
    assert!(security.to_string().contains("oauth"), "{security}");
}

#[tokio::test]
async fn a_refresh_token_is_good_once_and_coming_again_it_ends_the_grant() {
    let service = Service::with_mail().await;
    let ada = service.person("ada").await;
    let agent = Client::register(&service).await;
    let first = agent.granted(&ada).await;
    let second = agent.refreshed(&first).await;
    // The earlier access tokens are valid until their hour ends.
    for token in [&first.access, &second.access] {
        service.with_bearer(FOLDERS, token).await.succeeds(200);
    }
    let again = agent.refresh(&first.refresh).await.succeeds(400);
    assert_eq!(again["error"], "invalid_grant");
    for token in [&first.access, &second.access] {
        service
            .with_bearer(FOLDERS, token)
            .await
            .fails(401, UNUSABLE);
    }
    let ended = agent.refresh(&second.refresh).await.succeeds(400);
    assert_eq!(ended["error"], "invalid_grant");
    // The grants of other accounts continue.
    agent.granted(&ada).await;
}

#[tokio::test]
async fn a_grant_that_is_not_refreshed_for_thirty_days_is_over() {
    let service = Service::with_mail().await;
    let ada = service.person("ada").await;
    let agent = Client::register(&service).await;
    let first = agent.granted(&ada).await;
    service.clock.advance(Duration::from_hours(29 * 24));
    let second = agent.refreshed(&first).await;
    service.clock.advance(Duration::from_hours(29 * 24));
    let third = agent.refreshed(&second).await;
    service.clock.advance(Duration::from_hours(30 * 24));
    let over = agent.refresh(&third.refresh).await.succeeds(400);
    assert_eq!(over["error"], "invalid_grant");
}

#[tokio::test]
async fn a_password_change_and_a_disabled_account_end_what_agents_were_granted() {
    let service = Service::with_mail().await;
    let (ada, bob) = (service.person("ada").await, service.person("bob").await);
    let agent = Client::register(&service).await;
    let (adas, bobs) = (agent.granted(&ada).await, agent.granted(&bob).await);
    let late = agent.code(&ada).await;
    let change = json!({ "current_password": PASSWORD, "new_password": "Another-Horse-8" });
    ada.post("/api/v1/profile/password", &change)
        .await
        .succeeds(200);
    let over = service.with_bearer(FOLDERS, &adas.access).await;
    over.fails(401, UNUSABLE);
    for refused in [
        agent.refresh(&adas.refresh).await,
        agent.exchange(&late).await,
    ] {
        assert_eq!(refused.succeeds(400)["error"], "invalid_grant");
    }
    service
        .with_bearer(FOLDERS, &bobs.access)
        .await
        .succeeds(200);
    service
        .operator("account disable bob@first.test", "")
        .await
        .done();
    let over = service.with_bearer(FOLDERS, &bobs.access).await;
    over.fails(401, UNUSABLE);
    let page = agent.page_with(&[]).await;
    let refused = agent.sign_in(&page, &bob.address, PASSWORD).await;
    assert_eq!(refused.answer.status, 403);
}

#[tokio::test]
async fn the_operator_sees_what_was_granted_and_withdraws_it() {
    let service = Service::with_mail().await;
    let ada = service.person("ada").await;
    let agent = Client::register(&service).await;
    let granted = agent.granted(&ada).await;
    let shown = service
        .operator("account show ada@first.test --json", "")
        .await;
    let shown: Value = serde_json::from_str(&shown.done()).unwrap();
    let credentials = shown["credentials"].as_array().unwrap();
    let grant = credentials.iter().find(|c| c["type"] == "oauth_grant");
    let grant = grant.unwrap();
    let label = format!("Test agent ({})", agent.client_id);
    assert_eq!(grant["label"], label);
    // The owner's list has no such type.
    let listed = ada.ask("GET /api/v1/profile/sessions").await;
    let listed = listed.succeeds(200).to_string();
    assert!(!listed.contains("Test agent"), "{listed}");
    let id = grant["id"].as_str().unwrap();
    let withdraw = format!("account withdraw ada@first.test {id}");
    service.operator(&withdraw, "").await.done();
    let over = service.with_bearer(FOLDERS, &granted.access).await;
    over.fails(401, UNUSABLE);
    service
        .operator(&withdraw, "")
        .await
        .fails_about("has no grant");
    let record = service.operator("audit --account ada@first.test", "").await;
    let record = record.done();
    for kind in ["client_agreed_to", "oauth_grant_made", "oauth_grant_ended"] {
        assert!(record.contains(kind), "{kind}: {record}");
    }
}

#[tokio::test]
async fn two_factor_sign_in_is_asked_for_on_the_page_too() {
    let service = Service::with_mail().await;
    let ada = service.person("ada").await;
    let on = service
        .operator("account two-factor ada@first.test on", "")
        .await;
    let printed = on.done();
    let recovery = printed
        .split_whitespace()
        .find(|word| word.len() == 19 && word.matches('-').count() == 3)
        .unwrap();
    let agent = Client::register(&service).await;
    let page = agent.page_with(&[]).await;
    let asked = agent.sign_in(&page, &ada.address, PASSWORD).await;
    assert_eq!(asked.answer.status, 403);
    assert!(asked.text.contains("two-factor code"), "{}", asked.text);
    assert!(
        asked.text.contains("ada@first.test"),
        "what was typed stays"
    );
    assert!(!asked.text.contains(PASSWORD), "but for the password");
    let fields = |code| {
        [
            ("email", "ada@first.test"),
            ("password", PASSWORD),
            ("code", code),
        ]
    };
    let wrong = agent.fill("/login", &asked, &fields("000000")).await;
    assert_eq!(wrong.answer.status, 403);
    let right = agent.fill("/login", &wrong, &fields(recovery)).await;
    assert_eq!(right.answer.status, 303, "{}", right.text);
    let once = agent.page_with(&[]).await;
    let once = agent.fill("/login", &once, &fields(recovery)).await;
    assert_eq!(once.answer.status, 403);
}

#[tokio::test]
async fn the_authorization_server_may_have_an_address_of_its_own() {
    let address = free_address();
    let settings = format!("oauth.listen = '{address}'\nauth_url = 'http://{address}'");
    let service = Setup::default().with(&settings).start().await;
    let resource = service
        .ask("GET /.well-known/oauth-protected-resource")
        .await
        .succeeds(200);
    assert_eq!(
        resource["authorization_servers"],
        json!([format!("http://{address}")])
    );
    let metadata = "/.well-known/oauth-authorization-server";
    let there = reqwest::get(format!("http://{address}{metadata}"))
        .await
        .unwrap();
    let there: Value = serde_json::from_slice(&there.bytes().await.unwrap()).unwrap();
    assert_eq!(there["issuer"], format!("http://{address}"));
    for line in [&format!("GET {metadata}"), "GET /login", "GET /device"] {
        service.ask(line).await.fails(404, "There is no such route");
    }
    let api = reqwest::get(format!("http://{address}/api/health"))
        .await
        .unwrap();
    assert_eq!(api.status(), 404);
}

#[tokio::test]
async fn what_is_exchanged_is_the_clients_own_for_what_it_was_asked_for_with() {
    let service = Service::with_mail().await;
    let ada = service.person("ada").await;
    let agent = Client::register(&service).await;
    let other = Client::register(&service).await;
    let usual = |code: &str| {
        [
            ("grant_type", "authorization_code"),
            ("client_id", &agent.client_id),
            ("redirect_uri", RETURN),
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
        let answer = agent.token(&fields).await;
        (
            answer.status,
            answer.json["error"].as_str().unwrap_or_default().to_owned(),
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
    // None of these requests used up the code.
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
async fn a_token_is_for_what_it_was_asked_for() {
    let service = Service::with_mail().await;
    let ada = service.person("ada").await;
    let agent = Client::register(&service).await;
    let page = agent
        .page_with(&[("resource", "http://service.test/mcp")])
        .await;
    let back = agent.sign_in(&page, &ada.address, PASSWORD).await;
    let tokens = agent
        .exchange(&back.sent("code").unwrap())
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
    let elsewhere = agent
        .token(&[
            ("grant_type", "refresh_token"),
            ("client_id", &agent.client_id),
            ("refresh_token", refresh),
            ("resource", "https://other.example/"),
        ])
        .await;
    assert_eq!(elsewhere.succeeds(400)["error"], "invalid_target");
    let page = agent
        .page_with(&[("resource", "https://other.example/mcp")])
        .await;
    assert_eq!(page.answer.status, 400);
    assert!(page.text.contains("error=invalid_target"), "{}", page.text);
    let token = service
        .with_bearer(&format!("{FOLDERS}?access_token={access}"), "")
        .await;
    token.fails(401, "Missing or invalid Authorization header");
}
