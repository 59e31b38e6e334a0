//! The sign-in pages and a module that tries to take over their origin, in a real browser.

use latchmail_tests::{Browser, BrowserOptions, Client, Response, Service, Setup, fixtures};

/// Starts a service with the hostile module, which the operator allows to respond with HTML and
/// JavaScript.
async fn service() -> Service {
    let source = fixtures().join("fixture_hostile.wasm");
    Setup::default()
        .with_mail()
        .with("base_url = ''")
        .with(&format!(
            "modules.hostile.source = '{}'
modules.hostile.grants = ['caller']
modules.hostile.paths = ['/hostile/']
modules.hostile.active_content = true",
            source.display()
        ))
        .start()
        .await
}

#[tokio::test]
async fn a_page_of_a_module_runs_no_script_and_registers_no_service_worker() {
    let service = service().await;
    let agent = Client::register(&service).await;
    let browser = Browser::open(&service.state, &BrowserOptions::DESKTOP).await;
    browser.go(&format!("{}/hostile/page", service.base)).await;
    assert_eq!(browser.title().await, "No script ran");
    // The page has an origin of its own, so it cannot script a window with the sign-in page.
    assert_eq!(browser.evaluate("self.origin").await, "null");
    browser.go(&agent.login_url(&[])).await;
    browser.wait_for_text("Test agent").await;
    assert_eq!(
        browser
            .evaluate("navigator.serviceWorker.controller === null")
            .await,
        true
    );
}

#[tokio::test]
async fn the_host_sets_the_headers_that_protect_the_origin() {
    let service = service().await;
    for (path, content_type) in [("page", "text/html"), ("script", "text/javascript")] {
        let response = service.send(&format!("GET /hostile/{path}")).await;
        assert_eq!(response.status, 200);
        for (name, value) in [
            ("content-type", Some(content_type)),
            (
                "content-security-policy",
                Some("sandbox; default-src 'none'; frame-ancestors 'none'"),
            ),
            ("x-frame-options", Some("DENY")),
            ("cross-origin-opener-policy", Some("same-origin")),
            ("cross-origin-resource-policy", Some("same-origin")),
            ("x-content-type-options", Some("nosniff")),
            ("service-worker-allowed", None),
            ("clear-site-data", None),
        ] {
            assert_eq!(response.header(name), value, "{path}: {name}");
        }
    }
    let worker = service.request("GET /hostile/script");
    Response::of(worker.header("service-worker", "script"))
        .await
        .fails(403, "Service workers are not allowed");
}
