//! The page of the modules.

use std::time::Duration;

use latchmail_tests::Service;
use latchmail_tests::administrator::{Administrator, FormBrowser, PageForm, text};
use tokio::time::Instant;

use super::{ROOT, service, variant};

/// Returns the row of a module.
async fn row(browser: &FormBrowser, module: &str) -> String {
    let page = browser.page("/admin/modules").await;
    let mut rows = page.split("<tr>").skip(1);
    let mark = format!("id=\"module-{module}\"");
    let row = rows.find(|row| row.contains(&mark)).unwrap();
    row.split("</tr>").next().unwrap().to_owned()
}

/// Returns the row of a version on the page of a module.
fn version_row<'a>(page: &'a str, version: &str) -> &'a str {
    let mut rows = page.split("<tr>").skip(1);
    let end = format!(">{version}</th>");
    rows.find(|row| row.contains(&end)).unwrap()
}

async fn last_event(service: &Service) -> serde_json::Value {
    let log = service.operator("audit --json", "").await.succeeds();
    serde_json::from_str(log.lines().last().unwrap()).unwrap()
}

#[tokio::test]
async fn a_module_that_traps_is_shown_as_failing_and_is_rolled_back_with_two_clicks() {
    let service = service().await;
    // The metrics are those of the process. No other test has these versions.
    let root = Administrator::create(&service, ROOT).await;
    let browser = root.sign_in().await;
    service.install(&[variant("7.6.0", "serve")]).await;
    assert_eq!(service.send("GET /variant/version").await.status, 200);
    assert!(row(&browser, "variant").await.contains("Serving"));
    service.install(&[variant("7.6.1", "trap")]).await;
    let start = Instant::now();
    for _ in 0..3 {
        assert_eq!(service.send("GET /variant/version").await.status, 500);
    }
    let shown = row(&browser, "variant").await;
    assert!(start.elapsed() < Duration::from_secs(5));
    for part in ["Failing", "trapped: 3", "7.6.1", "7.6.0"] {
        assert!(shown.contains(part), "{part}: {shown}");
    }
    // The first click.
    let form = PageForm::named(&shown, "Roll back");
    let question = browser.submit(&form).await;
    assert_eq!(question.status, 200);
    assert_eq!(service.send("GET /variant/version").await.status, 500);
    // The second click.
    let form = PageForm::named(&text(&question), "Roll back");
    service.clock.advance(Duration::from_secs(1));
    let done = browser.submit(&form).await;
    assert_eq!(done.header("location"), Some("/admin/modules"));
    assert_eq!(service.send("GET /variant/version").await.status, 200);
    let event = last_event(&service).await;
    assert_eq!(event["kind"], "module_rolled_back");
    assert_eq!(event["actor"], ROOT);
    let page = browser.page("/admin/modules").await;
    assert!(page.contains("serves version 7.6.0"), "{page}");
    // The same form again does not roll back further.
    browser.submit(&form).await;
    assert!(row(&browser, "variant").await.contains("Serving"));
}

#[tokio::test]
async fn every_version_has_its_numbers_and_a_module_is_switched_to_any_of_them() {
    let service = service().await;
    let root = Administrator::create(&service, ROOT).await;
    let browser = root.sign_in().await;
    // The metrics are those of the process. No other test has these versions.
    let versions = ["7.0.1", "7.0.2", "7.0.3"];
    for version in versions {
        service.install(&[variant(version, "serve")]).await;
        assert_eq!(service.send("GET /variant/version").await.status, 200);
        service.clock.advance(Duration::from_secs(1));
    }
    service.send("GET /variant/version").await;
    let shown = row(&browser, "variant").await;
    assert!(shown.contains("data-text=\"calls\">2<"), "{shown}");
    let page = browser.page("/admin/modules/variant").await;
    for (version, calls) in versions.iter().zip([1, 1, 2]) {
        let row = version_row(&page, version);
        assert!(row.contains(&format!(">{calls}<")), "{row}");
        assert!(row.contains(" s</td>"), "{row}");
        assert_eq!(row.contains("Current"), *version == "7.0.3", "{row}");
    }
    // Back to the oldest version, and then to a newer one. A rollback offers only the earlier
    // version.
    for version in ["7.0.1", "7.0.3"] {
        let page = browser.page("/admin/modules/variant").await;
        let form = PageForm::named(version_row(&page, version), "Switch");
        let question = text(&browser.submit(&form).await);
        assert!(question.contains("Switch the module variant?"));
        assert!(question.contains(version), "{question}");
        service.clock.advance(Duration::from_secs(1));
        let form = PageForm::named(&question, "Switch");
        assert_eq!(browser.submit(&form).await.status, 303);
        let response = service.send("GET /variant/version").await;
        assert!(text(&response).contains(version), "{}", text(&response));
        let event = last_event(&service).await;
        assert_eq!(event["kind"], "module_rolled_back");
        assert_eq!(event["actor"], ROOT);
        assert!(event["detail"].as_str().unwrap().contains(version));
    }
    let mut form = PageForm::named(version_row(&page, "7.0.1"), "Switch");
    form.fields.insert("digest".into(), "0".repeat(64));
    assert_eq!(browser.submit(&form).await.status, 404);
    form.fields.insert("csrf".into(), "x".into());
    assert_eq!(browser.submit(&form).await.status, 403);
    assert_eq!(browser.get("/admin/modules/missing").await.status, 404);
}

#[tokio::test]
async fn a_module_is_disabled_after_a_confirmation_and_enabled_again() {
    let service = service().await;
    let root = Administrator::create(&service, ROOT).await;
    let browser = root.sign_in().await;
    service.install(&[variant("1.0.0", "serve")]).await;
    let form = PageForm::named(&row(&browser, "variant").await, "Disable");
    let question = browser.submit(&form).await;
    assert!(row(&browser, "variant").await.contains("Serving"));
    let form = PageForm::named(&text(&question), "Disable");
    service.clock.advance(Duration::from_secs(1));
    assert_eq!(browser.submit(&form).await.status, 303);
    assert_eq!(service.send("GET /variant/version").await.status, 404);
    let event = last_event(&service).await;
    assert_eq!(
        (&event["kind"], &event["actor"]),
        (&"module_disabled".into(), &ROOT.into())
    );
    let shown = row(&browser, "variant").await;
    assert!(shown.contains("Disabled"), "{shown}");
    let form = PageForm::named(&shown, "Enable");
    assert_eq!(browser.submit(&form).await.status, 303);
    assert_eq!(service.send("GET /variant/version").await.status, 200);
}

#[tokio::test]
async fn an_action_on_a_missing_module_or_version_is_an_error_page() {
    let service = service().await;
    let root = Administrator::create(&service, ROOT).await;
    let browser = root.sign_in().await;
    let shown = row(&browser, "aliases").await;
    let mut form = PageForm::named(&shown, "Disable");
    form.action = "/admin/modules/missing/disable".into();
    let response = browser.submit(&form).await;
    assert_eq!(response.status, 404);
    assert!(text(&response).contains("role=\"alert\""));
    form.action = "/admin/modules/aliases/rollback".into();
    assert_eq!(browser.submit(&form).await.status, 409);
}
