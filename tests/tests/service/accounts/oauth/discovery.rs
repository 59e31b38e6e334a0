//! The metadata of the authorization server, its own URL, and its pages.

use latchmail_tests::process::free_address;
use latchmail_tests::{Client, PASSWORD, Service, Setup};
use serde_json::{Value, json};

#[tokio::test]
async fn the_sign_in_pages_list_the_permissions_of_each_interface() {
    for send in [false, true] {
        let service = Setup::default()
            .with_mail()
            .with(&format!("mcp.send_tool = {send}"))
            .start()
            .await;
        let agent = Client::register(&service).await;
        let sign_in = agent.login_page(&[]).await;
        let device = agent.device_grant().await;
        let code = device["user_code"].as_str().unwrap();
        let page = agent.load_page("/device", &[]).await;
        let device = agent.submit("/device", &page, &[("user_code", code)]).await;
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
async fn an_agent_discovers_the_authorization_server() {
    let service = Service::start().await;
    let path = "GET /.well-known/oauth-protected-resource";
    let resource = service.send(path).await.succeeds(200);
    assert_eq!(resource["resource"], "http://service.test/mcp");
    assert_eq!(
        resource["authorization_servers"],
        json!(["http://service.test"])
    );
    assert_eq!(resource["bearer_methods_supported"], json!(["header"]));
    let suffixed = service.send(&format!("{path}/mcp")).await.succeeds(200);
    assert_eq!(suffixed, resource);
    let server = service
        .send("GET /.well-known/oauth-authorization-server")
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
        json!(["mail:read", "mail:write", "aliases:read", "aliases:write"])
    );
    for flag in [
        "authorization_response_iss_parameter_supported",
        "client_id_metadata_document_supported",
    ] {
        assert_eq!(server[flag], true, "{flag}");
    }
    assert_eq!(server["revocation_endpoint"], at("/auth/revoke"));
}

#[tokio::test]
async fn the_sign_in_page_requires_the_second_factor_too() {
    let service = Service::with_mail().await;
    let ada = service.person("ada").await;
    let on = service
        .operator("account two-factor ada@first.test on", "")
        .await;
    let printed = on.succeeds();
    let recovery = printed
        .split_whitespace()
        .find(|word| word.len() == 19 && word.matches('-').count() == 3)
        .unwrap();
    let agent = Client::register(&service).await;
    let page = agent.login_page(&[]).await;
    let second_page = agent.sign_in(&page, &ada.address, PASSWORD).await;
    assert_eq!(second_page.response.status, 403);
    assert!(
        second_page.text.contains("two-factor code"),
        "{}",
        second_page.text
    );
    assert!(
        second_page.text.contains("ada@first.test"),
        "what was typed stays"
    );
    assert!(!second_page.text.contains(PASSWORD), "but for the password");
    let fields = |code| {
        [
            ("email", "ada@first.test"),
            ("password", PASSWORD),
            ("code", code),
        ]
    };
    let wrong = agent
        .submit("/login", &second_page, &fields("000000"))
        .await;
    assert_eq!(wrong.response.status, 403);
    let right = agent.submit("/login", &wrong, &fields(recovery)).await;
    assert_eq!(right.response.status, 303, "{}", right.text);
    let once = agent.login_page(&[]).await;
    let once = agent.submit("/login", &once, &fields(recovery)).await;
    assert_eq!(once.response.status, 403);
}

#[tokio::test]
async fn the_authorization_server_can_have_its_own_url() {
    let address = free_address();
    let settings = format!("oauth.listen = '{address}'\nauth_url = 'http://{address}'");
    let service = Setup::default().with(&settings).start().await;
    let resource = service
        .send("GET /.well-known/oauth-protected-resource")
        .await
        .succeeds(200);
    assert_eq!(
        resource["authorization_servers"],
        json!([format!("http://{address}")])
    );
    let metadata = "/.well-known/oauth-authorization-server";
    let metadata_there = reqwest::get(format!("http://{address}{metadata}"))
        .await
        .unwrap();
    let metadata_there: Value =
        serde_json::from_slice(&metadata_there.bytes().await.unwrap()).unwrap();
    assert_eq!(metadata_there["issuer"], format!("http://{address}"));
    for line in [&format!("GET {metadata}"), "GET /login", "GET /device"] {
        service
            .send(line)
            .await
            .fails(404, "There is no such route");
    }
    let api = reqwest::get(format!("http://{address}/api/health"))
        .await
        .unwrap();
    assert_eq!(api.status(), 404);
}
