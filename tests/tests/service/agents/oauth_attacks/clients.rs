//! Identities of clients: metadata documents, secrets, and grant types.

use std::net::SocketAddr;

use latchmail_tests::client::{REDIRECT_URI, VERIFIER};
use latchmail_tests::{Client, Response, Service, Setup};
use serde_json::json;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpListener;

use super::{FOLDERS, registered};

#[tokio::test]
async fn a_client_description_is_not_fetched_from_private_addresses() {
    let service = Service::with_mail().await;
    for id in [
        "https://127.0.0.1/client.json",
        "https://10.0.0.1/client.json",
        "https://[::1]/client.json",
        "https://169.254.169.254/latest/meta-data",
        "http://app.example/client.json",
        "https://user@app.example/client.json",
        "https://app.example/",
        "https://app.example/client.json?x=1",
    ] {
        let page = Client::with_id(&service, id).login_page(&[]).await;
        assert_eq!(page.response.status, 400, "{id}");
        assert!(
            page.request.is_empty() && !page.text.contains("href"),
            "{id}"
        );
    }
}

/// Starts a server for one client description. It is a stub, because no real server returns invalid
/// responses on demand.
async fn serve_description(response: impl Fn(SocketAddr) -> String + Send + 'static) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    tokio::spawn(async move {
        while let Ok((mut stream, _)) = listener.accept().await {
            let response = response(address);
            tokio::spawn(async move {
                let mut request = [0; 4096];
                let _ = stream.read(&mut request).await;
                let _ = stream.write_all(response.as_bytes()).await;
                let _ = stream.shutdown().await;
            });
        }
    });
    address
}

fn json_response(body: &str) -> String {
    format!(
        "HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: {}\r\n\r\n{body}",
        body.len()
    )
}

#[tokio::test]
async fn a_client_can_be_described_by_a_document_at_its_id() {
    let good = serve_description(|address| {
        let body = json!({
            "client_id": format!("http://{address}/client.json"),
            "client_name": "A described agent",
            "redirect_uris": [REDIRECT_URI],
        });
        json_response(&body.to_string())
    })
    .await;
    let other = serve_description(|_| {
        let body =
            json!({ "client_id": "https://app.example/client.json", "redirect_uris": [REDIRECT_URI] });
        json_response(&body.to_string())
    })
    .await;
    let leads_away = serve_description(|address| {
        format!(
            "HTTP/1.1 302 Found\r\nlocation: http://{address}/other\r\ncontent-length: 0\r\n\r\n"
        )
    })
    .await;
    let large = serve_description(|address| {
        let id = format!("http://{address}/client.json");
        let body =
            json!({ "client_id": id, "redirect_uris": [REDIRECT_URI], "more": "x".repeat(20_000) });
        json_response(&body.to_string())
    })
    .await;
    let hosts = [good, other, leads_away, large].map(|address| format!("'http://{address}'"));
    let settings = format!("oauth.client_hosts = [{}]", hosts.join(", "));
    let service = Setup::default().with_mail().with(&settings).start().await;
    let ada = service.person("ada").await;
    let id = |address: SocketAddr| format!("http://{address}/client.json");
    let agent = Client::with_id(&service, &id(good));
    let page = agent.login_page(&[]).await;
    assert!(page.text.contains("A described agent"), "{}", page.text);
    assert!(
        page.text.contains(&id(good)),
        "the page shows the client's URL, which no other client can have"
    );
    let granted = agent.tokens(&ada).await;
    agent.refreshed_tokens(&granted).await;
    for bad in [other, leads_away, large] {
        let page = Client::with_id(&service, &id(bad)).login_page(&[]).await;
        assert_eq!(page.response.status, 400);
        assert!(page.text.contains("is invalid"), "{}", page.text);
    }
}

#[tokio::test]
async fn a_client_with_a_secret_must_authenticate() {
    let service = Service::with_mail().await;
    let ada = service.person("ada").await;
    let add = [
        "client",
        "add",
        "A server",
        "--redirect-uri",
        REDIRECT_URI,
        "--json",
    ];
    let made = service.operator_with(&add, "").await.succeeds();
    let made: serde_json::Value = serde_json::from_str(&made).unwrap();
    let (id, secret) = (
        made["client_id"].as_str().unwrap(),
        made["client_secret"].as_str().unwrap(),
    );
    let agent = Client::with_id(&service, id);
    let code = agent.code(&ada).await;
    assert_eq!(
        agent.exchange(&code).await.succeeds(401)["error"],
        "invalid_client"
    );
    let with = |secret| {
        [
            ("grant_type", "authorization_code"),
            ("client_id", id),
            ("client_secret", secret),
            ("code", &*code),
            ("redirect_uri", REDIRECT_URI),
            ("code_verifier", VERIFIER),
        ]
    };
    let wrong = agent.token(&with("lms_wrong")).await.succeeds(401);
    assert_eq!(wrong["error"], "invalid_client");
    let tokens = agent.token(&with(secret)).await.succeeds(200);
    let refresh = format!(
        "grant_type=refresh_token&refresh_token={}",
        tokens["refresh_token"].as_str().unwrap()
    );
    let by_header = |name: &str, password: &str| {
        let request = agent
            .browser
            .post(format!("{}/auth/token", service.base))
            .header("content-type", "application/x-www-form-urlencoded")
            .basic_auth(name, Some(password))
            .body(refresh.clone());
        Response::of(request)
    };
    let wrong = by_header(id, "x").await;
    assert!(
        wrong
            .header("www-authenticate")
            .unwrap()
            .starts_with("Basic")
    );
    assert_eq!(wrong.succeeds(401)["error"], "invalid_client");
    by_header(id, secret).await.succeeds(200);
    // A client without a secret must send none.
    let public = Client::register(&service).await;
    let shown = public
        .token(&[
            ("grant_type", "refresh_token"),
            ("client_id", &public.client_id),
            ("client_secret", secret),
            ("refresh_token", "lmr_x"),
        ])
        .await;
    assert_eq!(shown.succeeds(401)["error"], "invalid_client");
    let listed = service.operator("client list", "").await.succeeds();
    assert!(
        listed.contains("A server") && !listed.contains(secret),
        "{listed}"
    );
    let removed = format!("client remove {id}");
    service.operator(&removed, "").await.succeeds();
    let access = tokens["access_token"].as_str().unwrap();
    assert_eq!(service.with_bearer(FOLDERS, access).await.status, 401);
}

#[tokio::test]
async fn a_client_can_use_only_its_registered_grant_types() {
    let service = Service::with_mail().await;
    let id = registered(&service, &[REDIRECT_URI]).await;
    let usual = Client::with_id(&service, &id);
    // Codes only: no other party can show device codes in the name of a client that does not use
    // them.
    let refused = usual.start_device_grant("").await.succeeds(400);
    assert_eq!(refused["error"], "unauthorized_client");
    let device = "urn:ietf:params:oauth:grant-type:device_code";
    let body = json!({ "redirect_uris": [REDIRECT_URI], "grant_types": [device] });
    let made = service.post("/auth/register", &body).await.succeeds(201);
    let shown = Client::with_id(&service, made["client_id"].as_str().unwrap());
    shown.device_grant().await;
    let page = shown.login_page(&[]).await;
    assert!(
        page.text.contains("error=unauthorized_client"),
        "{}",
        page.text
    );
}
