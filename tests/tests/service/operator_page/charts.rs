//! The charts of the modules.

use std::time::Duration;

use latchmail_tests::administrator::{Administrator, FormBrowser, text};
use latchmail_tests::{Browser, BrowserOptions};
use serde_json::{Value, json};

use super::accessibility::{assert_accessible, press_with_keyboard};
use super::{ROOT, service, sign_in, variant};

/// The numbers that the script reads.
const DATA: &str = "/admin/modules.json";

/// The text alternative of the chart of the module `variant`.
const LABEL: &str = "document.querySelector('[data-chart=variant] svg').ariaLabel";

/// The number of points in the line of the calls.
const POINTS: &str = "document.querySelector('[data-chart=variant] .calls').points.length";

async fn is_true(browser: &Browser, condition: &str) {
    browser.wait_for_value(condition, &json!(true)).await;
}

#[tokio::test]
async fn the_chart_shows_calls_and_traps_without_a_reload() {
    let service = service().await;
    service.install(&[variant("7.1.0", "serve")]).await;
    service.install(&[variant("7.1.1", "trap")]).await;
    let root = Administrator::create(&service, ROOT).await;
    let browser = Browser::open(&service.state, &BrowserOptions::DESKTOP).await;
    let base = service.operator_page();
    sign_in(&browser, &root, &base).await;
    // The first response has the numbers before the traps.
    is_true(&browser, &format!("{POINTS} > 0")).await;
    for _ in 0..3 {
        assert_eq!(service.send("GET /variant/version").await.status, 500);
    }
    // The administrator does not reload the page.
    browser.wait_for_text("trapped: 3").await;
    let cell = |name: &str| {
        format!(
            "document.querySelector('[data-chart=variant]').closest('tr').querySelector('[data-text={name}]').textContent"
        )
    };
    assert_eq!(browser.evaluate(&cell("state")).await, "Failing");
    assert_eq!(browser.evaluate(&cell("calls")).await, "3");
    is_true(&browser, &format!("!{LABEL}.includes('at most 0.0')")).await;
    let label = browser.evaluate(LABEL).await;
    let label = label.as_str().unwrap();
    assert!(label.starts_with("variant: "), "{label}");
    assert!(label.contains(" calls per second, "), "{label}");
    assert_accessible(&browser, "charts").await;

    // The charts can be paused and started with the keyboard.
    press_with_keyboard(&browser, "Pause the charts").await;
    let points = browser.evaluate(POINTS).await;
    browser.wait_for_text("Start the charts").await;
    press_with_keyboard(&browser, "Start the charts").await;
    let more = format!("{POINTS} > {points}");
    is_true(&browser, &more).await;

    // An hour without another page ends the session, although the charts send requests.
    service.clock.advance(Duration::from_mins(61));
    browser.wait_for_text("The session has ended").await;
    browser.wait_for_text("Start the charts").await;
    assert_accessible(&browser, "charts after the session").await;
}

#[tokio::test]
async fn the_charts_wait_for_the_button_if_the_user_prefers_less_motion() {
    let service = service().await;
    service.install(&[variant("7.2.0", "serve")]).await;
    let root = Administrator::create(&service, ROOT).await;
    let options = BrowserOptions::DESKTOP.with_reduced_motion();
    let browser = Browser::open(&service.state, &options).await;
    let base = service.operator_page();
    sign_in(&browser, &root, &base).await;
    browser.wait_for_text("Start the charts").await;
    assert_eq!(browser.evaluate(POINTS).await, 0);
    assert_accessible(&browser, "charts that wait").await;
    press_with_keyboard(&browser, "Start the charts").await;
    is_true(&browser, &format!("{POINTS} > 0")).await;
}

#[tokio::test]
async fn without_scripts_the_page_shows_the_numbers_and_no_button() {
    let service = service().await;
    service.install(&[variant("7.3.0", "serve")]).await;
    service.send("GET /variant/version").await;
    let root = Administrator::create(&service, ROOT).await;
    let options = BrowserOptions::DESKTOP.without_scripts();
    let browser = Browser::open(&service.state, &options).await;
    let base = service.operator_page();
    sign_in(&browser, &root, &base).await;
    browser.wait_for_text("The charts need JavaScript.").await;
    let row = browser.find("[data-chart=variant]").await;
    assert_eq!(row.text().await, "–");
    assert_eq!(browser.find("#charts-button").await.text().await, "");
}

#[tokio::test]
async fn the_numbers_of_the_charts_need_a_session_and_do_not_renew_it() {
    let service = service().await;
    service.install(&[variant("7.4.0", "serve")]).await;
    let root = Administrator::create(&service, ROOT).await;
    let browser = root.sign_in().await;
    service.send("GET /variant/version").await;
    let response = browser.get(DATA).await;
    assert_eq!(response.status, 200);
    assert_eq!(response.header("content-type"), Some("application/json"));
    assert_eq!(response.header("set-cookie"), None);
    let data: Value = serde_json::from_slice(&response.body).unwrap();
    let mut modules = data["modules"].as_array().unwrap().iter();
    let module = modules.find(|module| module["name"] == "variant").unwrap();
    assert_eq!(module["calls"], 1.0);
    assert_eq!(module["texts"]["state"], "Serving");
    assert_eq!(module["texts"]["version"], "7.4.0");

    let stranger = FormBrowser::open(&service.operator_page());
    let response = stranger.get(DATA).await;
    assert_eq!(response.status, 303);
    assert!(!text(&response).contains("variant"));
    let response = service.send(&format!("GET {DATA}")).await;
    assert_eq!(response.status, 404, "the API has no such route");
    service.clock.advance(Duration::from_mins(61));
    assert_eq!(browser.get(DATA).await.status, 303);
}

#[tokio::test]
async fn only_the_page_with_charts_allows_the_script() {
    let service = service().await;
    let root = Administrator::create(&service, ROOT).await;
    let browser = root.sign_in().await;
    let policy = |response: &latchmail_tests::Response| {
        let policy = response.header("content-security-policy").unwrap();
        assert!(policy.contains("default-src 'none'"), "{policy}");
        assert!(!policy.contains("unsafe"), "{policy}");
        policy.contains("script-src 'self'")
    };
    assert!(policy(&browser.get("/admin/modules").await));
    for path in ["/admin/sign-in", "/admin/accounts", "/admin/modules/mail"] {
        assert!(!policy(&browser.get(path).await), "{path}");
    }
    let script = browser.get("/admin/charts.js").await;
    assert_eq!(script.header("content-type"), Some("text/javascript"));
    assert_eq!(script.header("x-content-type-options"), Some("nosniff"));
}
