//! The viewer of the API description in a browser.

use latchmail_tests::Service;
use latchmail_tests::browser::{Browser, BrowserOptions};
use serde_json::json;

/// The URLs of all requests of the page.
const REQUESTS: &str = "performance.getEntriesByType('resource').map(entry => entry.name)";

#[tokio::test]
async fn the_viewer_sends_requests_only_to_the_service_and_violates_no_policy() {
    let service = Service::start().await;
    let browser = Browser::open(&service.state, &BrowserOptions::DESKTOP).await;
    browser.go(&format!("{}/docs", service.base)).await;
    // The last text of the menu, beside which the viewer would show a logo.
    browser.wait_for_text("API docs by Redocly").await;
    let log = browser.log_entries().await;
    assert!(log.is_empty(), "{log:?}");
    let script = format!("{}/docs/redoc.js", service.base);
    let requests = browser.evaluate(REQUESTS).await;
    assert_eq!(requests, json!([script]));
}
