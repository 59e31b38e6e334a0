//! The sign-in pages for agents and devices continue at the provider.

use latchmail_tests::client::{REDIRECT_URI, between};
use latchmail_tests::provider::{parameter, unused_address};
use latchmail_tests::{Client, PASSWORD};

use super::*;

const BUTTON: &str = "name=\"provider\"";
const PASSWORD_FIELD: &str = "id=\"password\"";

/// Loads a page in a browser. Returns its text and the value of its hidden field.
async fn load(browser: &PersonBrowser, url: &str) -> (String, String) {
    let (status, text) = shown(&browser.get(url).await);
    assert_eq!(status, 200, "{text}");
    let request = between(&text, "name=\"request\" value=\"", "\"");
    (text, request)
}

#[tokio::test]
async fn the_sign_in_page_of_an_agent_continues_at_the_provider() {
    let (_provider, service) = start().await;
    let agent = Client::register(&service).await;
    let browser = PersonBrowser::new();
    let (text, request) = load(&browser, &agent.login_url(&[])).await;
    assert!(
        text.contains(BUTTON) && !text.contains(PASSWORD_FIELD),
        "{text}"
    );
    assert!(text.contains("Sign in at 127.0.0.1 and allow"), "{text}");
    assert!(
        text.contains("read your mail") || text.contains("read, flag"),
        "{text}"
    );
    let login = format!("{}/login", service.base);
    let fields = [("request", request.as_str()), ("provider", "yes")];
    let redirect = browser.submit(&login, &fields).await;
    assert_eq!(redirect.status, 303);
    let callback = browser.from_redirect(redirect, "ada").await;
    // Another browser cannot finish the authorization.
    assert_eq!(PersonBrowser::new().get(&callback).await.status, 403);
    let redirect = browser.submit(&login, &fields).await;
    let callback = browser.from_redirect(redirect, "ada").await;
    let back = browser.get(&callback).await;
    let back = back.header("location").unwrap();
    assert!(back.starts_with(REDIRECT_URI), "{back}");
    assert_eq!(
        parameter(back, "iss").as_deref(),
        Some(service.base.as_str())
    );
    let code = parameter(back, "code").unwrap();
    let tokens = agent.exchange(&code).await.succeeds(200);
    let access = tokens["access_token"].as_str().unwrap();
    service.with_bearer(FOLDERS, access).await.succeeds(200);
    // The code of the agent is no code for a web session.
    assert_eq!(exchange(&service, &code, VERIFIER).await.status, 400);
    let recorded = events(&service, ADA).await;
    assert!(recorded.contains("client_agreed_to"), "{recorded}");
}

#[tokio::test]
async fn an_agent_learns_that_the_person_declined() {
    let (provider, service) = start().await;
    let agent = Client::register(&service).await;
    let browser = PersonBrowser::new();
    let (_, request) = load(&browser, &agent.login_url(&[])).await;
    let login = format!("{}/login", service.base);
    let fields = [("request", request.as_str()), ("provider", "yes")];
    let redirect = browser.submit(&login, &fields).await;
    let callback = browser.from_redirect(redirect, "").await;
    let back = browser.get(&callback).await;
    let back = back.header("location").unwrap();
    assert_eq!(parameter(back, "error").as_deref(), Some("access_denied"));
    // A person without a mailbox authorizes nothing.
    provider.add_person("carol", "carol@first.test").await;
    browser.clear_cookies();
    let (_, request) = load(&browser, &agent.login_url(&[])).await;
    let fields = [("request", request.as_str()), ("provider", "yes")];
    let redirect = browser.submit(&login, &fields).await;
    let callback = browser.from_redirect(redirect, "carol").await;
    let (status, text) = shown(&browser.get(&callback).await);
    assert!(status == 403 && text.contains("carol@first.test"), "{text}");
}

#[tokio::test]
async fn a_page_offers_both_if_domains_have_different_sources() {
    let (_provider, service) =
        start_with("sign_in.domains.'second.test'.source = 'accounts'").await;
    let made = service
        .app()
        .auth
        .registration
        .create_account("dan@second.test", PASSWORD.into());
    made.await.unwrap();
    let agent = Client::register(&service).await;
    let browser = PersonBrowser::new();
    let (text, request) = load(&browser, &agent.login_url(&[])).await;
    assert!(
        text.contains(BUTTON) && text.contains(PASSWORD_FIELD),
        "{text}"
    );
    let login = format!("{}/login", service.base);
    let form = |email: &'static str| {
        [
            ("request", request.clone()),
            ("email", email.into()),
            ("password", PASSWORD.into()),
        ]
    };
    let submit = async |email| {
        let form = form(email);
        let fields: Vec<_> = form
            .iter()
            .map(|(name, value)| (*name, value.as_str()))
            .collect();
        browser.submit(&login, &fields).await
    };
    let with_password = submit("dan@second.test").await;
    let back = with_password.header("location").unwrap();
    assert!(back.starts_with(REDIRECT_URI), "{back}");
    // An address of the provider leads there.
    let redirect = submit("Ada@first.test").await;
    let to = redirect.header("location").unwrap().to_owned();
    assert_eq!(parameter(&to, "login_hint").as_deref(), Some(ADA));
    let callback = browser.from_redirect(redirect, "ada").await;
    let back = browser.get(&callback).await;
    let code = parameter(back.header("location").unwrap(), "code").unwrap();
    agent.exchange(&code).await.succeeds(200);
}

#[tokio::test]
async fn a_device_is_connected_at_the_provider() {
    let (_provider, service) = start().await;
    let agent = Client::register(&service).await;
    let browser = PersonBrowser::new();
    let url = format!("{}/device", service.base);
    let connect = async |device: &Value| {
        let (_, request) = load(&browser, &url).await;
        let code = device["user_code"].as_str().unwrap();
        let page = browser
            .submit(&url, &[("request", request.as_str()), ("user_code", code)])
            .await;
        let (_, text) = shown(&page);
        assert!(
            text.contains(BUTTON) && !text.contains(PASSWORD_FIELD),
            "{text}"
        );
        let request = between(&text, "name=\"request\" value=\"", "\"");
        let fields = [("request", request.as_str()), ("provider", "yes")];
        let redirect = browser.submit(&url, &fields).await;
        browser.from_redirect(redirect, "ada").await
    };
    let device = agent.device_grant().await;
    let (first, second) = (connect(&device).await, connect(&device).await);
    let (status, text) = shown(&browser.get(&first).await);
    assert!(status == 200 && text.contains("Device connected"), "{text}");
    let (status, text) = shown(&browser.get(&second).await);
    assert!(status == 403 && text.contains("no longer valid"), "{text}");
    let tokens = agent.poll(&device).await.succeeds(200);
    let access = tokens["access_token"].as_str().unwrap();
    service.with_bearer(FOLDERS, access).await.succeeds(200);
}

#[tokio::test]
async fn the_pages_for_agents_can_have_a_listener_of_their_own() {
    let address = unused_address();
    let pages = format!("http://{address}");
    let settings = format!("oauth.listen = '{address}'\nauth_url = '{pages}'");
    let (provider, service) = start_with(&settings).await;
    provider.register_with(&service, &[&pages]).await;
    let registration =
        json!({ "redirect_uris": [REDIRECT_URI], "grant_types": ["authorization_code"] });
    let request = reqwest::Client::builder().no_proxy().build().unwrap();
    let request = request.post(format!("{pages}/auth/register"));
    let registered = Response::of_json(request, &registration)
        .await
        .succeeds(201);
    let agent = Client::with_id(&service, registered["client_id"].as_str().unwrap());
    let browser = PersonBrowser::new();
    let url = agent.login_url(&[]).replace(&service.base, &pages);
    let (_, request) = load(&browser, &url).await;
    let fields = [("request", request.as_str()), ("provider", "yes")];
    let redirect = browser.submit(&format!("{pages}/login"), &fields).await;
    let callback = browser.from_redirect(redirect, "ada").await;
    assert!(callback.starts_with(&pages), "{callback}");
    let back = browser.get(&callback).await;
    let back = back.header("location").unwrap();
    assert!(back.starts_with(REDIRECT_URI), "{back}");
    // The sign-in of clients stays at the URL of the service.
    let ada = sign_in_with(&service, &browser, "ada").await;
    ada.send(FOLDERS).await.succeeds(200);
}
