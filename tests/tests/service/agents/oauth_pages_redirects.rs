//! The content policy of the sign-in page in a real browser. It lets the
//! form redirect to the application, on any origin.

use std::time::Duration;

use latchmail_tests::{
    Browser, BrowserOptions, Client, PASSWORD, Service, Setup, Site, TEST_TIMEOUT,
};
use tokio::time::{Instant, sleep};

const WELCOME: &str = "<!doctype html><title>The application</title><p>You are back.";

async fn service() -> Service {
    Setup::default()
        .with_mail()
        .with("base_url = ''")
        .start()
        .await
}

#[tokio::test]
async fn the_form_can_redirect_to_a_web_site() {
    let service = service().await;
    let application = Site::start_tls(WELCOME).await;
    let ada = service.person("ada").await;
    let back = "https://app.example/callback";
    let agent = Client::register_as(&service, "A site", &[back]).await;
    let options = BrowserOptions::DESKTOP.with_host("app.example:443", application.address);
    let browser = Browser::open(&service.state, &options).await;
    browser
        .go(&agent.login_url(&[("redirect_uri", back)]))
        .await;
    browser.wait_for_text("https://app.example").await;
    browser.sign_in(&ada.address, PASSWORD).await;
    browser.wait_for_url(&format!("{back}?code=")).await;
    browser.wait_for_text("You are back").await;
    let code = browser.query_parameter("code").await.unwrap();
    agent.exchange_for(&code, back).await.succeeds(200);
    assert_eq!(browser.log_entries().await.join("\n"), "");
}

#[tokio::test]
async fn a_client_can_redirect_from_its_callback_to_another_origin() {
    let service = service().await;
    let welcome = Site::start(WELCOME).await;
    let callback = Site::redirecting(&welcome.url("/welcome")).await;
    let ada = service.person("ada").await;
    let agent = Client::register_as(&service, "An agent", &["http://127.0.0.1/callback"]).await;
    let back = callback.url("/callback");
    let browser = Browser::open(&service.state, &BrowserOptions::DESKTOP).await;
    browser
        .go(&agent.login_url(&[("redirect_uri", &back)]))
        .await;
    browser.sign_in(&ada.address, PASSWORD).await;
    browser.wait_for_url(&welcome.url("/welcome")).await;
    browser.wait_for_text("You are back").await;
    assert_eq!(callback.requests("/callback?code=").len(), 1);
    assert_eq!(browser.log_entries().await.join("\n"), "");
}

#[tokio::test]
async fn the_form_can_redirect_to_an_ipv6_address() {
    let service = service().await;
    let application = Site::start_v6(WELCOME).await;
    let ada = service.person("ada").await;
    let agent = Client::register_as(&service, "An agent", &["http://[::1]/callback"]).await;
    let back = application.url("/callback");
    let browser = Browser::open(&service.state, &BrowserOptions::DESKTOP).await;
    browser
        .go(&agent.login_url(&[("redirect_uri", &back)]))
        .await;
    browser.sign_in(&ada.address, PASSWORD).await;
    browser.wait_for_url(&format!("{back}?code=")).await;
    assert_eq!(browser.log_entries().await.join("\n"), "");
}

#[tokio::test]
async fn the_form_can_redirect_to_a_custom_scheme() {
    let service = service().await;
    let ada = service.person("ada").await;
    let back = "com.example.app:/callback";
    let agent = Client::register_as(&service, "An app", &[back]).await;
    let browser = Browser::open(&service.state, &BrowserOptions::PHONE).await;
    browser
        .go(&agent.login_url(&[("redirect_uri", back)]))
        .await;
    browser
        .wait_for_text("the application that opens “com.example.app:” links")
        .await;
    browser.sign_in(&ada.address, PASSWORD).await;
    // No application handles this scheme here, so the browser stays on the page. Only the audit log
    // shows that the form was submitted.
    let deadline = Instant::now() + TEST_TIMEOUT;
    let recorded = async || service.operator("audit --account ada@first.test", "").await;
    while !recorded().await.succeeds().contains("client_agreed_to") {
        assert!(
            Instant::now() < deadline,
            "the audit log has no entry about the sign-in"
        );
        sleep(Duration::from_millis(25)).await;
    }
    // The browser logs what a policy has blocked.
    browser.go(&format!("{}/device", service.base)).await;
    assert_eq!(browser.log_entries().await.join("\n"), "");
}
