//! An agent's sign-in in a real browser: from the page of the service over the provider to the
//! application.

use latchmail_tests::{Browser, BrowserOptions, Client, Site};

use super::*;

const WELCOME: &str = "<!doctype html><title>The application</title><p>You are back.";

#[tokio::test]
async fn an_agent_gets_its_token_after_the_sign_in_at_the_provider() {
    let (_provider, service) = start().await;
    let application = Site::start(WELCOME).await;
    let agent = Client::register(&service).await;
    let back = application.url("/callback");
    let options = BrowserOptions::DESKTOP.without_scripts();
    let browser = Browser::open(&service.state, &options).await;
    let login = agent.login_url(&[("redirect_uri", &back)]);
    browser.go(&login).await;
    browser.press("Sign in at 127.0.0.1 and allow").await;
    browser.wait_for_text("Sign in as ada").await;
    browser.press("Sign in as ada").await;
    browser.wait_for_url(&format!("{back}?code=")).await;
    browser.wait_for_text("You are back").await;
    let code = browser.query_parameter("code").await.unwrap();
    let tokens = agent.exchange_for(&code, &back).await.succeeds(200);
    let access = tokens["access_token"].as_str().unwrap();
    service.with_bearer(FOLDERS, access).await.succeeds(200);
    // The provider knows the person now. The form is redirected to the application without another
    // page, which the content policy must allow.
    browser.go(&login).await;
    browser.press("Sign in at 127.0.0.1 and allow").await;
    browser.wait_for_url(&format!("{back}?code=")).await;
    let log = browser.log_entries().await.join("\n");
    assert!(!log.contains("Content Security Policy"), "{log}");
}
