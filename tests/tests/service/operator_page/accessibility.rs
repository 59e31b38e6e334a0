//! The pages in a real browser: the rules of axe, and the keyboard.

use latchmail_tests::administrator::Administrator;
use latchmail_tests::browser::{ENTER, TAB};
use latchmail_tests::{Browser, BrowserOptions, PASSWORD, tools_folder};
use serde_json::{Value, json};

use super::{ROOT, service, variant};

/// The paths of the pages below `/admin/`. One of them is an error page.
const PAGES: [&str; 9] = [
    "modules",
    "modules/variant",
    "accounts",
    "accounts/ada@first.test",
    "accounts/missing@first.test",
    "domains",
    "mail-server",
    "limits",
    "log",
];

/// Checks the page with the default rules of axe and `target-size`.
pub(crate) async fn assert_accessible(browser: &Browser, page: &str) {
    let file = tools_folder().join("axe/node_modules/axe-core/axe.min.js");
    let axe = std::fs::read_to_string(file).expect("scripts/setup --tests installs axe-core");
    let script = format!(
        "(() => {{ {axe}; return window.axe.run({{ rules: {{ 'target-size': {{ enabled: true }} }} }}).then(r => r.violations.map(v => v.id + ': ' + v.nodes.map(n => n.html).join(' '))); }})()"
    );
    let violations = browser.evaluate(&script).await;
    assert_eq!(violations, json!([]), "{page}");
    let log: Vec<String> = browser.log_entries().await;
    let reported = log.iter().find(|line| line.contains("Security Policy"));
    assert_eq!(reported, None, "{page}");
}

/// Presses Tab until the focused button or link has this name, then Enter.
pub(crate) async fn press_with_keyboard(browser: &Browser, name: &str) {
    for _ in 0..60 {
        browser.keys(TAB).await;
        if browser.focused().await.name().await == name {
            browser.keys(ENTER).await;
            return;
        }
    }
    panic!("the keyboard does not reach {name:?}");
}

async fn heading(browser: &Browser) -> Value {
    browser
        .evaluate("document.querySelector('h1').textContent")
        .await
}

#[tokio::test]
async fn axe_finds_nothing_on_any_page() {
    let service = service().await;
    service.create_account("ada@first.test").await;
    service.install(&[variant("1.0.0", "serve")]).await;
    service.install(&[variant("2.0.0", "trap")]).await;
    for _ in 0..3 {
        assert_eq!(service.send("GET /variant/version").await.status, 500);
    }
    let root = Administrator::create(&service, ROOT).await;
    let base = service.operator_page();
    let browser = Browser::open(&service.state, &BrowserOptions::DESKTOP).await;
    for options in [
        BrowserOptions::DESKTOP,
        BrowserOptions::PHONE,
        BrowserOptions::DESKTOP.dark(),
    ] {
        // This deletes the cookie, too.
        browser.apply_options(&options).await;
        browser.go(&format!("{base}/admin/sign-in")).await;
        assert_accessible(&browser, "sign-in").await;
        browser.find("#email").await.enter(ROOT).await;
        browser.find("#password").await.enter("Wrong-Horse-7").await;
        browser.press("Sign in").await;
        browser.wait_for_text("Incorrect email address").await;
        assert_accessible(&browser, "wrong password").await;
        browser.find("#password").await.enter(PASSWORD).await;
        browser.find("#code").await.enter(&root.code()).await;
        browser.press("Sign in").await;
        browser.wait_for_text("Sign out").await;
        for page in PAGES {
            let url = format!("{base}/admin/{page}");
            browser.go(&url).await;
            assert_eq!(browser.address().await, url);
            assert_accessible(&browser, page).await;
            let name = page.replace('/', "-");
            let name = format!("admin-{name}-{}", options.name);
            browser.screenshot(&name).await;
        }
        browser.go(&format!("{base}/admin/modules")).await;
        browser.press("Roll back").await;
        browser.wait_for_text("Roll back the module").await;
        assert_accessible(&browser, "confirmation").await;
        browser.go(&format!("{base}/admin/modules/variant")).await;
        browser.press("Switch").await;
        browser.wait_for_text("Switch the module").await;
        assert_accessible(&browser, "confirmation of a switch").await;
    }
}

#[tokio::test]
async fn the_keyboard_alone_is_enough_without_scripts() {
    let service = service().await;
    service.install(&[variant("1.0.0", "serve")]).await;
    service.install(&[variant("2.0.0", "trap")]).await;
    let root = Administrator::create(&service, ROOT).await;
    let options = BrowserOptions::DESKTOP.without_scripts();
    let browser = Browser::open(&service.state, &options).await;
    let base = service.operator_page();
    browser.go(&format!("{base}/admin")).await;
    browser.wait_for_url(&format!("{base}/admin/sign-in")).await;
    // The skip link and the content come before the first field.
    for text in [ROOT, PASSWORD, &root.code()] {
        while browser.focused().await.role().await != "textbox" {
            browser.keys(TAB).await;
        }
        browser.keys(text).await;
        browser.keys(TAB).await;
    }
    browser.keys(ENTER).await;
    browser.wait_for_url(&format!("{base}/admin/modules")).await;
    press_with_keyboard(&browser, "Roll back").await;
    browser.wait_for_text("Roll back the module variant?").await;
    press_with_keyboard(&browser, "Roll back").await;
    browser.wait_for_text("serves version 1.0.0").await;
    assert_eq!(service.send("GET /variant/version").await.status, 200);
    assert_eq!(heading(&browser).await, "Modules");
    press_with_keyboard(&browser, "variant").await;
    browser.wait_for_text("Installed versions").await;
    press_with_keyboard(&browser, "Switch").await;
    browser.wait_for_text("Switch the module variant?").await;
    press_with_keyboard(&browser, "Switch").await;
    browser.wait_for_text("serves version 2.0.0").await;
    press_with_keyboard(&browser, "Sign out").await;
    browser.wait_for_url(&format!("{base}/admin/sign-in")).await;
}
