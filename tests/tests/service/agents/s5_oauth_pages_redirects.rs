//! Specification, section 5: the content policy of the sign-in page in a real browser. It lets the form redirect to the application, on any origin.

use std::time::Duration;

use latchmail_tests::{Browser, Client, EVENTUALLY, Look, PASSWORD, Service, Setup, Site};
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
    let agent = Client::called(&service, "A site", &[back]).await;
    let look = Look::DESK.knowing("app.example:443", application.address);
    let browser = Browser::open(&service.state, &look).await;
    browser.go(&agent.asking(&[("redirect_uri", back)])).await;
    browser.shows("https://app.example").await;
    browser.sign_in(&ada.address, PASSWORD).await;
    browser.arrives(&format!("{back}?code=")).await;
    browser.shows("You are back").await;
    let code = browser.told("code").await.unwrap();
    agent.exchange_for(&code, back).await.succeeds(200);
    assert_eq!(browser.complaints().await.join("\n"), "");
}

#[tokio::test]
async fn a_client_can_redirect_from_its_callback_to_another_origin() {
    let service = service().await;
    let welcome = Site::start(WELCOME).await;
    let callback = Site::redirecting(&welcome.at("/welcome")).await;
    let ada = service.person("ada").await;
    let agent = Client::called(&service, "An agent", &["http://127.0.0.1/callback"]).await;
    let back = callback.at("/callback");
    let browser = Browser::open(&service.state, &Look::DESK).await;
    browser.go(&agent.asking(&[("redirect_uri", &back)])).await;
    browser.sign_in(&ada.address, PASSWORD).await;
    browser.arrives(&welcome.at("/welcome")).await;
    browser.shows("You are back").await;
    assert_eq!(callback.asked("/callback?code=").len(), 1);
    assert_eq!(browser.complaints().await.join("\n"), "");
}

#[tokio::test]
async fn the_form_can_redirect_to_an_ipv6_address() {
    let service = service().await;
    let application = Site::start_v6(WELCOME).await;
    let ada = service.person("ada").await;
    let agent = Client::called(&service, "An agent", &["http://[::1]/callback"]).await;
    let back = application.at("/callback");
    let browser = Browser::open(&service.state, &Look::DESK).await;
    browser.go(&agent.asking(&[("redirect_uri", &back)])).await;
    browser.sign_in(&ada.address, PASSWORD).await;
    browser.arrives(&format!("{back}?code=")).await;
    assert_eq!(browser.complaints().await.join("\n"), "");
}

#[tokio::test]
async fn the_form_can_redirect_to_a_custom_scheme() {
    let service = service().await;
    let ada = service.person("ada").await;
    let back = "com.example.app:/callback";
    let agent = Client::called(&service, "An app", &[back]).await;
    let browser = Browser::open(&service.state, &Look::PHONE).await;
    browser.go(&agent.asking(&[("redirect_uri", back)])).await;
    browser
        .shows("the application that opens “com.example.app:” links")
        .await;
    browser.sign_in(&ada.address, PASSWORD).await;
    // There is no such application here, so the page stays. Only the record shows that the form was sent.
    let patience = Instant::now() + EVENTUALLY;
    let recorded = async || service.operator("audit --account ada@first.test", "").await;
    while !recorded().await.done().contains("client_agreed_to") {
        assert!(Instant::now() < patience, "no agreement was recorded");
        sleep(Duration::from_millis(25)).await;
    }
    // The browser logs what a policy has blocked.
    browser.go(&format!("{}/device", service.base)).await;
    assert_eq!(browser.complaints().await.join("\n"), "");
}
