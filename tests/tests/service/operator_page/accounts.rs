//! The pages of the accounts and of the log.

use latchmail_tests::administrator::{Administrator, FormBrowser, PageForm, text};
use latchmail_tests::client::REDIRECT_URI;
use latchmail_tests::{Client, PASSWORD, Response, Service};
use serde_json::json;

use super::{ROOT, service};

const ADA: &str = "ada@first.test";

/// Returns the row of the table that contains a text.
fn row<'a>(page: &'a str, part: &str) -> &'a str {
    let mut rows = page.split("<tr>").skip(1);
    let row = rows.find(|row| row.contains(part));
    let row = row.unwrap_or_else(|| panic!("no {part}: {page}"));
    row.split("</tr>").next().unwrap()
}

async fn api_sign_in(service: &Service) -> Response {
    let body = json!({ "email": ADA, "password": PASSWORD });
    service.post("/api/v1/auth/login", &body).await
}

async fn search(browser: &FormBrowser, path: &str, field: &str, value: &str) -> String {
    let page = browser.page(path).await;
    let mut form = PageForm::named(&page, "Search");
    form.fields.insert(field.into(), value.into());
    let found = browser.submit(&form).await;
    assert_eq!(found.status, 303, "{}", text(&found));
    let location = found.header("location").unwrap().to_owned();
    browser.page(&location).await
}

#[tokio::test]
async fn an_account_is_disabled_after_a_confirmation_and_the_log_names_the_administrator() {
    let service = service().await;
    service.create_account(ADA).await;
    service.create_account("bob@first.test").await;
    let root = Administrator::create(&service, ROOT).await;
    let browser = root.sign_in().await;
    let page = search(&browser, "/admin/accounts", "q", "ADA").await;
    assert!(!page.contains("bob@first.test"), "{page}");
    let form = PageForm::named(row(&page, ADA), "Disable");
    let question = browser.submit(&form).await;
    let listed = browser.page("/admin/accounts").await;
    assert!(row(&listed, ADA).contains("Active"), "{listed}");
    let form = PageForm::named(&text(&question), "Disable");
    assert_eq!(browser.submit(&form).await.status, 303);
    let listed = browser.page("/admin/accounts").await;
    assert!(listed.contains("The account ada@first.test is disabled."));
    assert!(row(&listed, &format!(">{ADA}<")).contains("Disabled"));
    assert_eq!(api_sign_in(&service).await.status, 401);

    let log = search(&browser, "/admin/log", "address", ADA).await;
    let event = row(&log, "account_disabled");
    assert!(event.contains(ADA) && event.contains(ROOT), "{event}");
    let audit = format!("audit --json --account {ADA}");
    let audit = service.operator(&audit, "").await.succeeds();
    let event = audit.lines().find(|line| line.contains("account_disabled"));
    let event: serde_json::Value = serde_json::from_str(event.unwrap()).unwrap();
    assert_eq!(event["actor"], ROOT);

    let form = PageForm::named(row(&listed, &format!(">{ADA}<")), "Enable");
    assert_eq!(browser.submit(&form).await.status, 303);
    let listed = browser.page("/admin/accounts").await;
    assert!(row(&listed, &format!(">{ADA}<")).contains("Active"));
}

#[tokio::test]
async fn the_page_of_an_account_shows_its_sessions_and_events() {
    let service = service().await;
    let root = Administrator::create(&service, ROOT).await;
    let browser = root.sign_in().await;
    let page = browser.page("/admin/accounts/root@first.test").await;
    let session = row(&page, "Operator's page, ");
    assert!(session.contains("web session"), "{session}");
    for event in ["signed_in", "two_factor_on", "account_changed"] {
        row(&page, event);
    }
    for missing in ["nobody@first.test", "x"] {
        let path = format!("/admin/accounts/{missing}");
        assert_eq!(browser.get(&path).await.status, 404);
    }
}

#[tokio::test]
async fn the_page_of_an_account_lists_its_oauth_grants() {
    let service = service().await;
    let ada = service.person("ada").await;
    let root = Administrator::create(&service, ROOT).await;
    let browser = root.sign_in().await;
    let page = format!("/admin/accounts/{ADA}");
    let grants = |page: &str| {
        let (_, rest) = page.split_once("<h2>OAuth grants</h2>").unwrap();
        rest.split("<h2>").next().unwrap().to_owned()
    };
    assert!(grants(&browser.page(&page).await).contains("None."));
    let client = Client::register_as(&service, "Mail assistant", &[REDIRECT_URI]).await;
    client.tokens(&ada).await;
    let shown = browser.page(&page).await;
    let grants = grants(&shown);
    assert!(grants.contains("Mail assistant"), "{grants}");
    assert!(grants.contains("oauth grant"), "{grants}");
    let (others, _) = shown.split_once("<h2>OAuth grants</h2>").unwrap();
    assert!(!others.contains("Mail assistant"), "{shown}");
}

#[tokio::test]
async fn administrators_cannot_disable_their_own_accounts() {
    let service = service().await;
    let root = Administrator::create(&service, ROOT).await;
    let browser = root.sign_in().await;
    let page = browser.page("/admin/accounts").await;
    let mut form = PageForm::named(row(&page, ROOT), "Disable");
    form.fields.insert("confirm".into(), "yes".into());
    let response = browser.submit(&form).await;
    assert_eq!(response.status, 409);
    assert!(text(&response).contains("your own account"));
}

#[tokio::test]
async fn texts_from_users_are_escaped() {
    let service = service().await;
    let root = Administrator::create(&service, ROOT).await;
    let browser = root.sign_in().await;
    let attack = "\"><script>alert(1)</script>";
    for (path, field) in [("/admin/accounts", "q"), ("/admin/log", "address")] {
        let page = search(&browser, path, field, attack).await;
        assert!(!page.contains("<script"), "{page}");
        assert!(page.contains("&lt;script"), "{page}");
    }
    let body = json!({ "email": "<b>@first.test", "password": "x" });
    service.post("/api/v1/auth/login", &body).await;
    assert!(!browser.page("/admin/log").await.contains("<b>"));
}
