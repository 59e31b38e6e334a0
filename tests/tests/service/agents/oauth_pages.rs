//! The pages of the authorization server in a real browser, on a desktop
//! and a phone. `oauth_pages_redirects.rs` tests where the form may lead, and
//! `oauth_pages_attacks.rs` attacks by other sites.

use latchmail_tests::browser::{ENTER, TAB};
use latchmail_tests::{Browser, BrowserOptions, Client, PASSWORD, Person, Service, Setup, Site};
use totp_rs::{Builder, Secret};

const WELCOME: &str = "<!doctype html><meta name=viewport content='width=device-width'><title>The application</title><p>You are back.";
const LETTERS: &str = "Sign in to connect a device";
/// A name of the maximum length without a place for a line break.
const LONG: &str =
    "An_application_whose_name_is_as_long_as_anybody_may_make_it_and_has_nowhere_to_break";

/// Starts a service that a browser reaches at the URL of its configuration.
async fn service() -> Service {
    Setup::default()
        .with_mail()
        .with("base_url = ''")
        .start()
        .await
}

async fn application() -> Site {
    Site::start(WELCOME).await
}

/// Asserts that a person can use the page: it fits the screen, all controls are large enough and
/// have a name, and the browser logs no errors.
async fn assert_usable(browser: &Browser, options: &BrowserOptions, picture: &str) {
    browser
        .screenshot(&format!("{picture}-{}", options.name))
        .await;
    let widths = "[document.documentElement.scrollWidth, document.documentElement.clientWidth]";
    let widths = browser.evaluate(widths).await;
    assert!(
        widths[0].as_u64() <= widths[1].as_u64(),
        "{picture}: {widths}"
    );
    let heights = "[...document.querySelectorAll('a, button, input:not([type=hidden])')].map(e => e.getBoundingClientRect().height)";
    let heights = browser.evaluate(heights).await;
    for height in heights.as_array().unwrap() {
        assert!(height.as_f64().unwrap() >= 44.0, "{picture}: {heights}");
    }
    for field in browser.all("input:not([type=hidden]), button, a").await {
        assert_ne!(field.name().await, "", "{picture}");
    }
    assert_eq!(browser.all("h1").await.len(), 1);
    assert_eq!(
        browser.evaluate("document.documentElement.lang").await,
        "en"
    );
    let log_entries = browser.log_entries().await;
    let of_policy = log_entries
        .iter()
        .find(|output| output.contains("Content Security Policy"));
    assert_eq!(of_policy, None, "{picture}");
}

/// Opens a browser on the sign-in page of a client with this redirect URI.
async fn open_sign_in_page(agent: &Client<'_>, back: &str, options: &BrowserOptions) -> Browser {
    let browser = Browser::open(&agent.service.state, options).await;
    browser
        .go(&agent.login_url(&[("redirect_uri", back)]))
        .await;
    browser
}

/// Returns the alert of the page for screen readers.
async fn alert(browser: &Browser) -> String {
    let alert = browser.find("[role=alert]").await;
    assert_eq!(alert.role().await, "alert");
    alert.text().await
}

#[tokio::test]
async fn after_the_sign_in_the_user_returns_to_the_application_with_a_code() {
    let (service, application) = (service().await, application().await);
    let ada = service.person("ada").await;
    let agent = Client::register(&service).await;
    let back = application.url("/callback");
    let browser = Browser::open(&service.state, &BrowserOptions::DESKTOP).await;
    for options in [BrowserOptions::DESKTOP, BrowserOptions::PHONE] {
        browser.apply_options(&options).await;
        browser
            .go(&agent.login_url(&[("redirect_uri", &back)]))
            .await;
        browser.wait_for_text("Test agent").await;
        assert_usable(&browser, &options, "sign-in").await;
        browser.sign_in(&ada.address, PASSWORD).await;
        browser.wait_for_url(&back).await;
        browser.wait_for_text("You are back").await;
        assert_eq!(
            browser.query_parameter("state").await.unwrap(),
            "a state & more"
        );
        assert_eq!(browser.query_parameter("iss").await.unwrap(), service.base);
        assert_eq!(browser.query_parameter("error").await, None);
        let code = browser.query_parameter("code").await.unwrap();
        let asked = application.requests("/callback");
        assert!(asked.last().unwrap().contains(&code), "{asked:?}");
        assert_eq!(browser.log_entries().await.join("\n"), "");
        let exchanged = agent.exchange_for(&code, &back).await;
        exchanged.succeeds(200);
    }
    assert_eq!(application.requests("/callback").len(), 2);
}

#[tokio::test]
async fn a_wrong_password_is_reported_and_the_form_keeps_the_address() {
    let (service, application) = (service().await, application().await);
    let ada = service.person("ada").await;
    let agent = Client::register(&service).await;
    let back = application.url("/callback");
    let browser = Browser::open(&service.state, &BrowserOptions::DESKTOP).await;
    for options in [BrowserOptions::DESKTOP, BrowserOptions::PHONE] {
        browser.apply_options(&options).await;
        browser
            .go(&agent.login_url(&[("redirect_uri", &back)]))
            .await;
        browser.sign_in(&ada.address, "Wrong-Horse-7").await;
        browser.wait_for_text("Incorrect email address").await;
        assert_usable(&browser, &options, "wrong").await;
        assert!(alert(&browser).await.contains("password"));
        assert_eq!(browser.find("#email").await.value().await, ada.address);
        assert_eq!(browser.find("#password").await.value().await, "");
        assert_eq!(browser.focused().await.id().await, "password");
        assert!(application.requests("/callback").is_empty());
    }
    // The right password succeeds.
    browser
        .go(&agent.login_url(&[("redirect_uri", &back)]))
        .await;
    browser.sign_in(&ada.address, "Wrong-Horse-7").await;
    browser.wait_for_text("Incorrect email address").await;
    browser.keys(&format!("{PASSWORD}{ENTER}")).await;
    browser.wait_for_url(&format!("{back}?code=")).await;
}

/// Turns two-factor sign-in on, and returns the secret.
async fn enable_two_factor(person: &Person<'_>) -> String {
    let verb = format!("account two-factor {} on", person.address);
    let shown = person.service.operator(&verb, "").await.succeeds();
    let mut lines = shown.lines();
    lines
        .find_map(|line| line.strip_prefix("secret  "))
        .unwrap()
        .to_owned()
}

#[tokio::test]
async fn two_factor_sign_in_asks_for_a_code() {
    let (service, application) = (service().await, application().await);
    let ada = service.person("ada").await;
    let secret = Secret::try_from_base32(&enable_two_factor(&ada).await).unwrap();
    let codes = Builder::new().with_secret(secret).build().unwrap();
    let now = service.clock.now().seconds();
    let code = codes.generate(now.try_into().unwrap()).to_string();
    let agent = Client::register(&service).await;
    let back = application.url("/callback");
    let options = BrowserOptions::PHONE;
    let browser = open_sign_in_page(&agent, &back, &options).await;
    browser.sign_in(&ada.address, PASSWORD).await;
    browser.wait_for_text("Enter your two-factor code").await;
    assert_usable(&browser, &options, "two-factor").await;
    assert!(alert(&browser).await.contains("two-factor code"));
    // Fields are in order; the browser does not submit the form without the code.
    browser.keys(&format!("{PASSWORD}{ENTER}")).await;
    assert_eq!(browser.focused().await.name().await, "Two-factor code");
    browser.keys(&format!("{code}{ENTER}")).await;
    browser.wait_for_url(&format!("{back}?code=")).await;
}

#[tokio::test]
async fn a_user_who_cancels_returns_to_the_application_without_a_code() {
    let (service, application) = (service().await, application().await);
    let agent = Client::register(&service).await;
    let back = application.url("/callback");
    let browser = open_sign_in_page(&agent, &back, &BrowserOptions::PHONE).await;
    assert!(application.requests("/").is_empty());
    browser.press("Cancel").await;
    browser.wait_for_url(&back).await;
    assert_eq!(
        browser.query_parameter("error").await.unwrap(),
        "access_denied"
    );
    assert_eq!(
        browser.query_parameter("state").await.unwrap(),
        "a state & more"
    );
    assert_eq!(browser.query_parameter("iss").await.unwrap(), service.base);
    assert_eq!(browser.query_parameter("code").await, None);
}

#[tokio::test]
async fn a_device_is_approved_by_its_code() {
    let service = service().await;
    let ada = service.person("ada").await;
    let agent = Client::register(&service).await;
    let browser = Browser::open(&service.state, &BrowserOptions::DESKTOP).await;
    for options in [BrowserOptions::DESKTOP, BrowserOptions::PHONE] {
        browser.apply_options(&options).await;
        let device = agent.device_grant().await;
        browser
            .go(device["verification_uri"].as_str().unwrap())
            .await;
        assert_usable(&browser, &options, "device").await;
        assert_eq!(browser.focused().await.name().await, "Code");
        browser.keys(&format!("bcdf-ghjk{ENTER}")).await;
        browser
            .wait_for_text("This code is invalid or has expired")
            .await;
        assert_usable(&browser, &options, "device-wrong").await;
        let letters = device["user_code"].as_str().unwrap();
        let again = browser.evaluate("document.querySelector('#user_code').select()");
        again.await;
        browser
            .keys(&format!("{}{ENTER}", letters.to_lowercase()))
            .await;
        browser.wait_for_text(LETTERS).await;
        browser.wait_for_text(letters).await;
        assert_usable(&browser, &options, "device-sign-in").await;
        browser.sign_in(&ada.address, PASSWORD).await;
        browser.wait_for_text("Device connected").await;
        assert_usable(&browser, &options, "device-done").await;
        agent.poll(&device).await.succeeds(200);
    }
}

#[tokio::test]
async fn the_user_can_deny_an_unknown_device() {
    let service = service().await;
    let agent = Client::register(&service).await;
    let device = agent.device_grant().await;
    let browser = Browser::open(&service.state, &BrowserOptions::PHONE).await;
    // The code is filled in, and nothing has started.
    let complete = device["verification_uri_complete"].as_str().unwrap();
    browser.go(complete).await;
    let letters = browser.find("#user_code").await.value().await;
    assert_eq!(letters, device["user_code"]);
    browser.press("Continue").await;
    browser.wait_for_text(LETTERS).await;
    browser.press("Deny").await;
    browser.wait_for_text("Access denied").await;
    let polled = agent.poll(&device).await.succeeds(400);
    assert_eq!(polled["error"], "access_denied");
}

#[tokio::test]
async fn an_invalid_request_is_explained_on_a_page() {
    let settings = "base_url = ''\nlimits.sign_in = 1";
    let service = Setup::default().with_mail().with(settings).start().await;
    let application = application().await;
    let agent = Client::register(&service).await;
    let back = application.url("/callback");
    let asking = |changes: &[(&str, &str)]| {
        let mut changes = changes.to_vec();
        changes.push(("redirect_uri", &back));
        agent.login_url(&changes)
    };
    let browser = Browser::open(&service.state, &BrowserOptions::DESKTOP).await;
    for options in [BrowserOptions::DESKTOP, BrowserOptions::PHONE] {
        browser.apply_options(&options).await;
        browser
            .go(&agent.login_url(&[("client_id", "nobody")]))
            .await;
        assert_usable(&browser, &options, "error-client").await;
        assert_ne!(alert(&browser).await, "");
        assert!(browser.all("a, form").await.is_empty());
        // The page does not redirect before the user presses the button.
        browser
            .go(&asking(&[("code_challenge_method", "plain")]))
            .await;
        assert_usable(&browser, &options, "error-request").await;
        assert!(alert(&browser).await.contains("S256"));
        browser.press("Return to Test agent").await;
        browser.wait_for_url(&back).await;
        assert_eq!(
            browser.query_parameter("error").await.unwrap(),
            "invalid_request"
        );
    }
    let options = BrowserOptions::PHONE;
    browser.go(&asking(&[])).await;
    browser
        .evaluate("document.querySelector('[name=request]').value = 'old'")
        .await;
    browser.sign_in("ada@first.test", PASSWORD).await;
    browser.wait_for_text("This page has expired").await;
    assert_usable(&browser, &options, "error-old").await;
    browser.go(&asking(&[])).await;
    browser.sign_in("ada@first.test", PASSWORD).await;
    browser.wait_for_text("Something went wrong").await;
    assert_usable(&browser, &options, "error-limit").await;
    assert_ne!(alert(&browser).await, "");
}

#[tokio::test]
async fn every_page_fits_a_phone_with_any_application_name() {
    let service = service().await;
    let long = format!("https://{}.example/callback", "a-long-host-name".repeat(3));
    let agent = Client::register_as(&service, LONG, &[&long]).await;
    let browser = Browser::open(&service.state, &BrowserOptions::PHONE).await;
    for options in [
        BrowserOptions::PHONE,
        BrowserOptions::PHONE.dark(),
        BrowserOptions::DESKTOP.dark(),
    ] {
        browser.apply_options(&options).await;
        browser
            .go(&agent.login_url(&[("redirect_uri", &long)]))
            .await;
        browser.wait_for_text(LONG).await;
        assert_usable(&browser, &options, "long").await;
        browser.sign_in("nobody@first.test", "Wrong-Horse-7").await;
        browser.wait_for_text("Incorrect email address").await;
        assert_usable(&browser, &options, "long-wrong").await;
    }
}

#[tokio::test]
async fn the_pages_can_be_used_with_the_keyboard_alone() {
    let (service, application) = (service().await, application().await);
    let ada = service.person("ada").await;
    let agent = Client::register(&service).await;
    let back = application.url("/callback");
    let browser = open_sign_in_page(&agent, &back, &BrowserOptions::DESKTOP).await;
    let mut names = Vec::new();
    for _ in 0..5 {
        names.push(browser.focused().await.name().await);
        browser.keys(TAB).await;
    }
    let expected = [
        "Email address",
        "Password",
        "Two-factor code",
        "Sign in and allow",
        "Cancel",
    ];
    assert_eq!(names, expected);
    browser
        .go(&agent.login_url(&[("redirect_uri", &back)]))
        .await;
    let typed = format!("{}{TAB}{PASSWORD}{ENTER}", ada.address);
    browser.keys(&typed).await;
    browser.wait_for_url(&format!("{back}?code=")).await;
}

#[tokio::test]
async fn every_field_has_an_accessible_name() {
    let service = service().await;
    let agent = Client::register(&service).await;
    let browser = Browser::open(&service.state, &BrowserOptions::DESKTOP).await;
    browser.go(&agent.login_url(&[])).await;
    for (id, name) in [
        ("#email", "Email address"),
        ("#password", "Password"),
        ("#code", "Two-factor code"),
    ] {
        assert_eq!(browser.find(id).await.name().await, name);
    }
    let described = browser.evaluate("document.getElementById(document.querySelector('#code').getAttribute('aria-describedby')).textContent");
    assert!(described.await.as_str().unwrap().contains("Six digits"));
    assert_eq!(browser.find("main").await.role().await, "main");
    assert_eq!(browser.find("h1").await.role().await, "heading");
    assert!(browser.title().await.starts_with("Sign in"));
}

#[tokio::test]
async fn the_pages_work_without_scripts() {
    let (service, application) = (service().await, application().await);
    let ada = service.person("ada").await;
    let agent = Client::register(&service).await;
    let back = application.url("/callback");
    let options = BrowserOptions::PHONE.without_scripts();
    let browser = Browser::open(&service.state, &options).await;
    let scripted = "<!doctype html><title>off</title><script>document.title = 'on'</script>";
    let scripted = Site::start(scripted).await;
    browser.go(&scripted.url("/")).await;
    assert_eq!(browser.title().await, "off");
    browser
        .go(&agent.login_url(&[("redirect_uri", &back)]))
        .await;
    browser.sign_in(&ada.address, "Wrong-Horse-7").await;
    browser.wait_for_text("Incorrect email address").await;
    browser.find("#password").await.enter(PASSWORD).await;
    browser.press("Sign in and allow").await;
    browser.wait_for_url(&format!("{back}?code=")).await;
    let device = agent.device_grant().await;
    browser
        .go(device["verification_uri_complete"].as_str().unwrap())
        .await;
    browser.press("Continue").await;
    browser.wait_for_text(LETTERS).await;
    browser.sign_in(&ada.address, PASSWORD).await;
    browser.wait_for_text("Device connected").await;
}
