//! The screens in a real browser: the rules of axe, the width of a phone, and the keyboard.

use latchmail_tests::{Browser, BrowserOptions, PASSWORD, Response, Service};
use serde_json::json;

use super::{service, string};
use crate::operator_page::accessibility::{assert_accessible, press_with_keyboard};

/// The screens without an id in their path. One of them is an error page.
const SCREENS: [&str; 12] = [
    "",
    "/holds",
    "/grants",
    "/app-passwords",
    "/sessions",
    "/aliases",
    "/two-factor",
    "/two-factor/disable",
    "/two-factor/recovery-codes",
    "/modules",
    "/grants/missing",
    "/holds/missing",
];

/// A subject of the maximum length without a place for a line break.
const LONG: &str =
    "An_unusually_long_subject_which_has_nowhere_to_break_and_must_still_fit_a_phone";

/// Signs in with a browser. The page at the path `next` is then open.
pub(super) async fn sign_in(browser: &Browser, service: &Service, next: &str) {
    let base = &service.base;
    browser.go(&format!("{base}{next}")).await;
    browser.wait_for_text("Sign in to your account").await;
    browser.find("#email").await.enter("ada@first.test").await;
    browser.find("#password").await.enter(PASSWORD).await;
    browser.press("Sign in").await;
    browser.wait_for_url(&format!("{base}{next}")).await;
    browser.wait_for_text("Sign out").await;
}

/// Fills the account of Ada, and returns the paths of the screens with ids below `/account`.
pub(super) async fn fill(service: &Service) -> Vec<String> {
    let ada = service.person("ada").await;
    service.create_account("bob@first.test").await;
    ada.app_password("Phone").await;
    let alias = json!({ "domain": "first.test", "name": "shop" });
    ada.post("/api/v1/aliases", &alias).await.succeeds(201);
    let message = "From: Ann <ann@elsewhere.example>\nSubject: Minutes of the meeting\n\nHello";
    ada.receive(message).await;
    let uid = ada.uid_of("INBOX", "Minutes of the meeting").await;
    let scopes = ["mail:read", "mail:write", "mail:send"];
    let token = ada.token(&scopes).await;
    let id = string(&token, "id");
    let assistant = json!({ "send": "thread", "sendPerDay": 50, "hideCodes": true,
        "delete": "trash", "onDenied": "hold" });
    let line = format!("PUT /api/v1/profile/grants/{id}/policy");
    ada.send_json(&line, &assistant).await.succeeds(200);
    let secret = string(&token, "token");
    let flag = json!({ "flags": ["\\Flagged"], "action": "add" });
    let request = service.request(&format!("POST /api/v1/mail/messages/{uid}/flag"));
    let flagged = Response::of_json(request.bearer_auth(secret), &flag).await;
    flagged.succeeds(200);
    let mut paths = Vec::new();
    for subject in ["Invoice 2041", LONG] {
        let mail = json!({
            "from": "ada@first.test", "to": "bob@first.test", "subject": subject,
            "text": format!("See {LONG}.\n\nhttps://elsewhere.example/{LONG}"),
            "attachments": [{ "filename": "invoice.pdf", "content": "JVBERi0=" }],
        });
        let request = service.request("POST /api/v1/mail/send");
        let held = Response::of_json(request.bearer_auth(secret), &mail).await;
        let held = held.succeeds(202);
        paths.push(format!("/holds/{}", string(&held, "holdId")));
    }
    let grant = format!("/grants/{id}");
    paths.push(format!("{grant}/policy"));
    paths.push(format!("{grant}/journal"));
    paths.push(grant);
    paths
}

async fn assert_fits(browser: &Browser, screen: &str) {
    let widths = "[document.documentElement.scrollWidth, document.documentElement.clientWidth]";
    let widths = browser.evaluate(widths).await;
    assert!(
        widths[0].as_u64() <= widths[1].as_u64(),
        "{screen}: {widths}"
    );
    assert_eq!(browser.all("h1").await.len(), 1, "{screen}");
}

#[tokio::test]
async fn axe_finds_nothing_on_any_screen_and_all_fit_a_phone() {
    let service = service().await;
    let mut screens = fill(&service).await;
    screens.extend(SCREENS.map(str::to_owned));
    let browser = Browser::open(&service.state, &BrowserOptions::NARROW_PHONE).await;
    for options in [BrowserOptions::NARROW_PHONE, BrowserOptions::DESKTOP.dark()] {
        // This deletes the cookies, too.
        browser.apply_options(&options).await;
        let base = format!("{}/account", service.base);
        browser.go(&format!("{base}/sign-in")).await;
        assert_accessible(&browser, "sign-in").await;
        assert_fits(&browser, "sign-in").await;
        sign_in(&browser, &service, "/account/holds").await;
        for screen in &screens {
            let url = format!("{base}{screen}");
            browser.go(&url).await;
            assert_eq!(browser.address().await, url);
            assert_accessible(&browser, screen).await;
            assert_fits(&browser, screen).await;
        }
        let grant = screens.iter().find(|one| one.ends_with("/policy")).unwrap();
        browser
            .go(&format!("{base}{}", grant.trim_end_matches("/policy")))
            .await;
        browser.press("Delete").await;
        browser.wait_for_text("Delete a token?").await;
        assert_accessible(&browser, "confirmation").await;
    }
}

#[tokio::test]
async fn the_keyboard_alone_is_enough_without_scripts() {
    let service = service().await;
    let screens = fill(&service).await;
    let options = BrowserOptions::NARROW_PHONE.without_scripts();
    let browser = Browser::open(&service.state, &options).await;
    let hold = format!("/account{}", screens[0]);
    sign_in(&browser, &service, &hold).await;
    browser.wait_for_text("Invoice 2041").await;
    press_with_keyboard(&browser, "Reject").await;
    browser.wait_for_text("The message is rejected").await;
    press_with_keyboard(&browser, "Agents and tokens").await;
    browser.wait_for_text("a token").await;
    press_with_keyboard(&browser, "Suspend").await;
    browser.wait_for_text("is suspended").await;
    press_with_keyboard(&browser, "Sign out").await;
    browser
        .wait_for_url(&format!("{}/account/sign-in", service.base))
        .await;
}
