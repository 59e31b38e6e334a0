//! Clients that register themselves.

use std::time::Duration;

use latchmail_tests::client::REDIRECT_URI;
use latchmail_tests::{Client, Response, Service, Setup};
use serde_json::{Value, json};

const DEVICE: &str = "urn:ietf:params:oauth:grant-type:device_code";

#[tokio::test]
async fn any_caller_can_register_a_client_without_a_secret() {
    let service = Service::start().await;
    let metadata = json!({
        "client_name": "An\u{202E} agent",
        "redirect_uris": [REDIRECT_URI, "https://app.example/cb", "com.example.app:/cb"],
        "token_endpoint_auth_method": "client_secret_basic",
        "grant_types": ["authorization_code", "refresh_token", "password"],
        "scope": "everything",
    });
    let response = service.post("/auth/register", &metadata).await;
    assert_eq!(response.header("cache-control"), Some("no-store"));
    let registered = response.succeeds(201);
    assert!(registered["client_id"].as_str().unwrap().len() >= 20);
    assert_eq!(registered["client_name"], "An agent");
    assert_eq!(registered["redirect_uris"], metadata["redirect_uris"]);
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
async fn a_flood_of_registrations_evicts_only_its_own_clients() {
    let service = Setup::default()
        .with("http.trusted_proxies = ['127.0.0.0/8']")
        .start()
        .await;
    let register = async |from: &str| {
        let request = service.request("POST /auth/register");
        let body = json!({ "client_name": from, "redirect_uris": [REDIRECT_URI] });
        let request = request.header("x-forwarded-for", from).json(&body);
        let registered = Response::of(request).await.succeeds(201);
        registered["client_id"].as_str().unwrap().to_owned()
    };
    let known = async |id: &str| {
        let agent = Client::with_id(&service, id);
        agent.login_page(&[]).await.response.status == 200
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
    let other_session = register("198.51.100.1").await;
    assert!(known(&oldest).await && known(&newest).await && known(&other_session).await);
    assert!(!known("flood1").await && !known("flood2").await);
    assert!(known("flood3").await);
}

#[tokio::test]
async fn the_operator_can_reserve_the_device_grant_for_configured_clients() {
    let service = Setup::default()
        .with("oauth.device_grant = false")
        .start()
        .await;
    let register = async |grants: &[&str]| {
        let body = json!({ "redirect_uris": [REDIRECT_URI], "grant_types": grants });
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
        Response::of(request.header(kind.0, kind.1).body(form)).await
    };
    let id = both["client_id"].as_str().unwrap();
    let refused = begin(format!("client_id={id}")).await.succeeds(400);
    assert_eq!(refused["error"], "unauthorized_client");
    let add = format!("client add Terminal --redirect-uri {REDIRECT_URI} --json");
    let own: Value = serde_json::from_str(&service.operator(&add, "").await.succeeds()).unwrap();
    let shown = ["client_id", "client_secret"].map(|name| own[name].as_str().unwrap());
    begin(format!("client_id={}&client_secret={}", shown[0], shown[1]))
        .await
        .succeeds(200);
}

#[tokio::test]
async fn an_invalid_registration_is_refused_with_an_error_code() {
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
    let description = refused["error_description"].as_str().unwrap();
    assert!(description.contains("http://127.0.0.1"), "{description}");
    for (body, code) in [
        (json!({}), "invalid_redirect_uri"),
        (json!({ "redirect_uris": [] }), "invalid_redirect_uri"),
        (
            json!({ "redirect_uris": REDIRECT_URI }),
            "invalid_redirect_uri",
        ),
        (json!({ "redirect_uris": [7] }), "invalid_redirect_uri"),
        (json!([]), "invalid_client_metadata"),
        (
            json!({ "redirect_uris": [REDIRECT_URI], "grant_types": ["implicit"] }),
            "invalid_client_metadata",
        ),
    ] {
        let refused = service.post("/auth/register", &body).await.succeeds(400);
        assert_eq!(refused["error"], code, "{body}");
    }
}
