//! Another site cannot misuse a user's browser on the pages of the
//! authorization server.

use latchmail_tests::{Browser, BrowserOptions, Client, PASSWORD, Person, Service, Setup, Site};

async fn service() -> Service {
    Setup::default()
        .with_mail()
        .with("base_url = ''")
        .start()
        .await
}

/// Opens a browser that can resolve `evil.example`.
async fn open_evil_site(service: &Service, evil: &Site) -> Browser {
    let options = BrowserOptions::DESKTOP.with_host("evil.example:80", evil.address);
    Browser::open(&service.state, &options).await
}

#[tokio::test]
async fn no_other_site_can_frame_a_page() {
    let service = service().await;
    let agent = Client::register(&service).await;
    for page in [
        agent.login_url(&[]),
        agent.login_url(&[("client_id", "nobody")]),
        format!("{}/device", service.base),
    ] {
        let framed = page.replace('&', "&amp;");
        let evil = format!("<!doctype html><title>Evil</title><iframe src=\"{framed}\"></iframe>");
        let evil = Site::start(&evil).await;
        let browser = open_evil_site(&service, &evil).await;
        // Outside a frame, the page is shown.
        browser.go(&page).await;
        assert_eq!(browser.all("main").await.len(), 1);
        for top in [evil.url("/"), "http://evil.example/".to_owned()] {
            browser.go(&top).await;
            let log_entries = browser.log_entries().await.join("\n");
            assert!(log_entries.contains("frame-ancestors"), "{log_entries}");
            browser.enter_frame().await;
            assert!(browser.all("main, form").await.is_empty());
        }
    }
}

/// Returns a page whose form signs a person in automatically, with additional fields.
fn auto_submitting_page(service: &Service, path: &str, person: &Person<'_>, more: &str) -> String {
    format!(
        "<!doctype html><title>Evil</title><form method=post action=\"{}{path}\">
<input name=email value=\"{}\"><input name=password value=\"{PASSWORD}\"><input name=answer value=yes>{more}<button>Win</button></form>",
        service.base, person.address
    )
}

#[tokio::test]
async fn a_form_of_another_site_cannot_sign_in_a_user() {
    let service = service().await;
    let mallory = service.person("mallory").await;
    let application = Site::start("<!doctype html><title>The application</title>").await;
    let agent = Client::register(&service).await;
    let back = application.url("/callback");
    // The form that the page gave to Mallory's own browser.
    let page = agent.login_page(&[("redirect_uri", &back)]).await;
    let sealed = format!("<input name=request value=\"{}\">", page.request);
    for more in ["", &*sealed] {
        let evil = Site::start(&auto_submitting_page(&service, "/login", &mallory, more)).await;
        let browser = open_evil_site(&service, &evil).await;
        for top in [evil.url("/"), "http://evil.example/".to_owned()] {
            // The user has the page open, and so has its cookie.
            browser
                .go(&agent.login_url(&[("redirect_uri", &back)]))
                .await;
            browser.go(&top).await;
            browser.press("Win").await;
            browser.wait_for_text("This page has expired").await;
            assert_eq!(application.requests("/callback"), [""; 0]);
        }
    }
}

#[tokio::test]
async fn a_form_of_another_site_cannot_approve_a_device() {
    let service = service().await;
    let mallory = service.person("mallory").await;
    let agent = Client::register(&service).await;
    let device = agent.device_grant().await;
    let letters = device["user_code"].as_str().unwrap();
    let page = agent.load_page("/device", &[]).await;
    let named = agent
        .submit("/device", &page, &[("user_code", letters)])
        .await;
    for sealed in [&page.request, &named.request] {
        let more = format!(
            "<input name=request value=\"{sealed}\"><input name=user_code value=\"{letters}\">"
        );
        let evil = Site::start(&auto_submitting_page(&service, "/device", &mallory, &more)).await;
        let browser = open_evil_site(&service, &evil).await;
        browser.go(&format!("{}/device", service.base)).await;
        for top in [evil.url("/"), "http://evil.example/".to_owned()] {
            browser.go(&top).await;
            browser.press("Win").await;
            browser.wait_for_text("This page has expired").await;
        }
    }
    let polled = agent.poll(&device).await.succeeds(400);
    assert_eq!(polled["error"], "authorization_pending");
}

#[tokio::test]
async fn a_site_that_opened_a_page_cannot_control_it() {
    let service = service().await;
    let agent = Client::register(&service).await;
    let page = agent.login_url(&[]);
    let evil = format!(
        "<!doctype html><title>Evil</title><button onclick=\"opened = window.open('{page}')\">Win</button>"
    );
    let evil = Site::start(&evil).await;
    let browser = open_evil_site(&service, &evil).await;
    browser.go("http://evil.example/").await;
    browser.press("Win").await;
    browser.wait_for_value("opened.closed", &true.into()).await;
}
