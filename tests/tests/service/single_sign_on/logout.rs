//! Back-channel logout (OpenID Connect Back-Channel Logout 1.0).

use latchmail_tests::client::REDIRECT_URI;
use latchmail_tests::{Client, log_in};

use super::*;

const LOGOUT: &str = "/auth/oidc/backchannel-logout";

async fn send(service: &Service, token: &str) -> Response {
    let mut form = url::form_urlencoded::Serializer::new(String::new());
    form.append_pair("logout_token", token);
    let request = service
        .request(&format!("POST {LOGOUT}"))
        .header("content-type", "application/x-www-form-urlencoded");
    Response::of(request.body(form.finish())).await
}

#[tokio::test]
async fn a_sign_out_at_the_provider_ends_the_sessions_of_this_browser() {
    let (provider, service) = start().await;
    let (laptop, phone) = (PersonBrowser::new(), PersonBrowser::new());
    let one = sign_in_with(&service, &laptop, "ada").await;
    let two = sign_in_with(&service, &phone, "ada").await;
    let token = one.token(&["mail:read"]).await;
    let token = token["token"].as_str().unwrap();
    let mail_client = one.app_password("phone").await;
    let mail_client = mail_client["password"].as_str().unwrap();
    let agent = Client::register(&service).await;
    let granted = agent_token(&agent, &phone).await;
    laptop.sign_out(&provider).await;
    one.send(FOLDERS)
        .await
        .fails(401, "Mail session expired, please log in again");
    two.send(FOLDERS).await.succeeds(200);
    // The access of agents, API tokens and mail clients remains.
    service.with_bearer(FOLDERS, token).await.succeeds(200);
    service.with_bearer(FOLDERS, &granted).await.succeeds(200);
    log_in(&service, ADA, mail_client).await.unwrap();
    let recorded = events(&service, ADA).await;
    assert!(
        recorded.contains("back-channel logout; web sessions ended: 1"),
        "{recorded}"
    );
    // An unused code of the ended session at the provider opens nothing.
    let code = phone.code(&service, "ada").await;
    phone.sign_out(&provider).await;
    assert_eq!(exchange(&service, &code, VERIFIER).await.status, 400);
    assert_eq!(two.send(FOLDERS).await.status, 401);
}

/// Signs in for an agent with the button of the page, and returns the access token.
async fn agent_token(agent: &Client<'_>, browser: &PersonBrowser) -> String {
    let page = browser.get(&agent.login_url(&[])).await;
    let text = String::from_utf8(page.body).unwrap();
    let request = latchmail_tests::client::between(&text, "name=\"request\" value=\"", "\"");
    let fields = [("request", request.as_str()), ("provider", "yes")];
    let login = format!("{}/login", agent.service.base);
    let redirect = browser.submit(&login, &fields).await;
    let callback = browser.from_redirect(redirect, "ada").await;
    let back = browser.get(&callback).await;
    let back = back.header("location").unwrap();
    assert!(back.starts_with(REDIRECT_URI), "{back}");
    let code = latchmail_tests::provider::parameter(back, "code").unwrap();
    let tokens = agent.exchange(&code).await.succeeds(200);
    tokens["access_token"].as_str().unwrap().to_owned()
}

#[tokio::test]
async fn a_logout_token_without_a_session_ends_all_sessions_of_the_person() {
    let (provider, service) = start().await;
    let one = sign_in(&service, "ada").await;
    let two = sign_in(&service, "ada").await;
    let bob = sign_in(&service, "bob").await;
    let claims = logout_claims(&provider, "1", &json!({ "sub": "ada" }));
    let token = provider.signed(&claims, json!({})).await;
    let response = send(&service, &token).await;
    assert_eq!((response.status, response.body.len()), (200, 0));
    assert_eq!(response.header("cache-control"), Some("no-store"));
    for ended in [one, two] {
        assert_eq!(ended.send(FOLDERS).await.status, 401);
    }
    bob.send(FOLDERS).await.succeeds(200);
    // The same token is rejected, and a person without sessions is signed out already.
    let again = send(&service, &token).await;
    again.fails(400, "The logout token was used before");
    // The service fetches new keys of the provider.
    provider.rotate_keys().await;
    let claims = logout_claims(&provider, "2", &json!({ "sub": "ada" }));
    let token = provider.signed(&claims, json!({})).await;
    assert_eq!(send(&service, &token).await.status, 200);
    bob.send(FOLDERS).await.succeeds(200);
}

#[tokio::test]
async fn a_wrong_logout_token_ends_nothing() {
    let (provider, service) = start().await;
    let ada = sign_in(&service, "ada").await;
    let now = service.clock.now().seconds();
    let person = json!({ "sub": "ada" });
    for (number, (changes, fault)) in [
        (json!({}), json!({ "key": "foreign" })),
        (json!({}), json!({ "key": "foreign", "kid": "unknown" })),
        (json!({}), json!({ "alg": "none" })),
        (
            json!({}),
            json!({ "alg": "HS256", "secret": "x".repeat(32) }),
        ),
        (json!({}), json!({ "header": { "typ": "at+jwt" } })),
        (json!({ "iss": "http://127.0.0.1:1" }), json!({})),
        (json!({ "aud": "another-client" }), json!({})),
        (json!({ "exp": now - 1 }), json!({})),
        (json!({ "iat": now + 3600, "exp": now + 7200 }), json!({})),
        (json!({ "events": {} }), json!({})),
        (json!({ "nonce": "n" }), json!({})),
        (json!({}), json!({ "remove": ["sub"] })),
        (json!({}), json!({ "remove": ["jti"] })),
        (json!({}), json!({ "remove": ["iat"] })),
        (json!({}), json!({ "remove": ["exp"] })),
    ]
    .into_iter()
    .enumerate()
    {
        let mut claims = logout_claims(&provider, &format!("wrong-{number}"), &person);
        for (name, value) in changes.as_object().unwrap() {
            claims[name] = value.clone();
        }
        let token = provider.signed(&claims, fault.clone()).await;
        let response = send(&service, &token).await;
        assert_eq!(response.status, 400, "{changes} {fault}");
        assert!(response.json["error"].is_string(), "{changes} {fault}");
        assert_eq!(response.header("cache-control"), Some("no-store"));
    }
    for token in ["", "x", "a.b.c", "e30.e30."] {
        assert_eq!(send(&service, token).await.status, 400, "{token}");
    }
    let json = service.post(LOGOUT, &json!({ "logout_token": "x" })).await;
    assert_eq!(json.status, 400);
    ada.send(FOLDERS).await.succeeds(200);
}
