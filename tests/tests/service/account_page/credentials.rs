//! App passwords, sessions, aliases and modules.

use latchmail_tests::administrator::{FormBrowser, PageForm, text};
use latchmail_tests::client::between;
use latchmail_tests::{Actor, Person, log_in};
use serde_json::Value;

use super::{assert_done, service, service_with};

/// Returns the credentials of an account as the API lists them.
async fn credentials(person: &Person<'_>) -> Vec<Value> {
    let listed = person.send("GET /api/v1/profile/sessions").await;
    let listed = listed.succeeds(200);
    listed["credentials"].as_array().unwrap().clone()
}

async fn aliases(person: &Person<'_>) -> Vec<Value> {
    let listed = person.send("GET /api/v1/aliases").await.succeeds(200);
    listed["aliases"].as_array().unwrap().clone()
}

#[tokio::test]
async fn an_app_password_is_shown_once_and_revoked() {
    let service = service().await;
    let ada = service.person("ada").await;
    let browser = FormBrowser::of_owner(&service, &ada.address).await;
    let list = "/account/app-passwords";
    for label in ["", "  ", &"x".repeat(65)] {
        let refused = browser
            .press(list, ("Create", ""), &[("label", label)])
            .await;
        assert_eq!(refused.status, 400, "{label}");
    }
    let created = browser
        .press(list, ("Create", ""), &[("label", "Phone & <b>")])
        .await;
    let page = text(&created);
    assert_eq!(created.status, 200, "{page}");
    let password = between(&page, "<code>", "</code>");
    assert!(page.contains(&ada.address), "{page}");
    assert!(log_in(&service, &ada.address, &password).await.is_ok());
    let page = browser.page(list).await;
    assert!(page.contains("Phone &amp; &lt;b&gt;"), "{page}");
    assert!(!page.contains(&password), "{page}");
    let revoked = browser
        .press_and_confirm(list, ("Revoke", "/revoke"), &[])
        .await;
    assert_done(&browser, &revoked, "has ended").await;
    assert!(log_in(&service, &ada.address, &password).await.is_err());
    assert!(
        browser
            .page(list)
            .await
            .contains("There are no app passwords")
    );
}

#[tokio::test]
async fn sessions_are_listed_and_ended() {
    let service = service().await;
    let ada = service.person("ada").await;
    let other = ada.sign_in_again().await;
    let browser = FormBrowser::of_owner(&service, &ada.address).await;
    let page = browser.page("/account/sessions").await;
    assert_eq!(page.matches("This session").count(), 1, "{page}");
    let current = credentials(&other).await;
    let current = current.iter().find(|one| one["current"] == true).unwrap();
    let id = current["id"].as_str().unwrap();
    let ended = browser.press_and_confirm("/account/sessions", ("End", id), &[]);
    assert_done(&browser, &ended.await, "has ended").await;
    assert_eq!(other.send("GET /api/v1/profile/grants").await.status, 401);
    ada.send("GET /api/v1/profile/grants").await.succeeds(200);
    assert_eq!(browser.get("/account/sessions/none/end").await.status, 405);
}

#[tokio::test]
async fn aliases_are_created_changed_and_deleted() {
    let service = service().await;
    let ada = service.person("ada").await;
    let browser = FormBrowser::of_owner(&service, &ada.address).await;
    let list = "/account/aliases";
    let values = [("name", "shop"), ("domain", "first.test")];
    let created = browser.press(list, ("Create", ""), &values).await;
    assert_done(&browser, &created, "shop@first.test can receive mail").await;
    let taken = browser.press(list, ("Create", ""), &values).await;
    assert_eq!(taken.status, 400);
    assert!(text(&taken).contains("shop@first.test is already taken"));
    let note = [("note", "The \"shop\"")];
    let noted = browser.press(list, ("Save the note", ""), &note).await;
    assert_done(&browser, &noted, "is changed").await;
    assert_eq!(aliases(&ada).await[0]["note"], "The \"shop\"");
    for (button, active) in [("Disable", false), ("Enable", true)] {
        let changed = browser.press(list, (button, ""), &[]).await;
        assert_done(&browser, &changed, "is changed").await;
        assert_eq!(aliases(&ada).await[0]["active"], active);
    }
    let deleted = browser.press_and_confirm(list, ("Delete", "/delete"), &[]);
    assert_done(&browser, &deleted.await, "shop@first.test is deleted").await;
    assert!(aliases(&ada).await.is_empty());
}

#[tokio::test]
async fn a_module_is_enabled_and_disabled() {
    let settings = "modules.actor.grants = ['caller', 'mailbox', 'store']\n\
        modules.actor.paths = ['/actor/']\nmodules.actor.scopes = ['mail:read']";
    let service = service_with(settings).await;
    service.install(&[Actor::default().component()]).await;
    let ada = service.person("ada").await;
    let browser = FormBrowser::of_owner(&service, &ada.address).await;
    let list = "/account/modules";
    assert!(browser.page(list).await.contains("mail:read"));
    for (button, enabled) in [("Enable", true), ("Disable", false)] {
        let switched = browser.press(list, (button, "/actor/"), &[]).await;
        assert_done(&browser, &switched, "The module actor is").await;
        let listed = ada.send("GET /api/v1/profile/modules").await.succeeds(200);
        assert_eq!(listed["modules"][0]["enabled"], enabled, "{listed}");
    }
    let form = PageForm::named(&browser.page(list).await, "Enable");
    let missing = PageForm {
        action: "/account/modules/missing/enable".into(),
        ..form
    };
    assert_eq!(browser.submit(&missing).await.status, 404);
}
