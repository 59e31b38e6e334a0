//! Requests that other sites cause, requests with the session of another account, and credentials
//! of the API.

use latchmail_tests::administrator::{FormBrowser, PageForm, text};
use latchmail_tests::{Response, Service};

use super::{FOLDERS, service, string};

/// The pages with forms.
const PAGES: [&str; 8] = [
    "/account",
    "/account/app-passwords",
    "/account/sessions",
    "/account/aliases",
    "/account/two-factor",
    "/account/two-factor/disable",
    "/account/two-factor/recovery-codes",
    "/account/grants",
];

fn assert_refused(response: &Response, case: &str) {
    assert_eq!(response.status, 403, "{case}: {}", text(response));
}

/// Returns the pages with forms of an account that has a token and an alias.
async fn pages(service: &Service, browser: &FormBrowser) -> (Vec<String>, String) {
    let ada =
        latchmail_tests::Person::sign_in(service, "ada@first.test", latchmail_tests::PASSWORD);
    let ada = ada.await;
    let token = ada.token(&["mail:read"]).await;
    let values = [("name", "shop"), ("domain", "first.test")];
    browser
        .press("/account/aliases", ("Create", ""), &values)
        .await;
    let grant = format!("/account/grants/{}", string(&token, "id"));
    let mut pages: Vec<String> = PAGES.map(str::to_owned).into();
    pages.extend([grant.clone(), format!("{grant}/policy")]);
    (pages, string(&token, "token").to_owned())
}

#[tokio::test]
async fn every_form_has_a_token_and_is_refused_without_the_right_one() {
    let service = service().await;
    service.person("ada").await;
    service.create_account("bob@first.test").await;
    let browser = FormBrowser::of_owner(&service, "ada@first.test").await;
    let bob = FormBrowser::of_owner(&service, "bob@first.test").await;
    let foreign = PageForm::named(&bob.page("/account").await, "Sign out");
    let foreign = &foreign.fields["csrf"];
    let (pages, secret) = pages(&service, &browser).await;
    let mut forms = 0;
    for path in &pages {
        for form in PageForm::all(&browser.page(path).await) {
            forms += 1;
            assert!(form.fields.contains_key("csrf"), "{form:?}");
            for wrong in [None, Some(""), Some("x"), Some(&**foreign)] {
                let mut changed = form.clone();
                changed.fields.remove("csrf");
                changed.fields.insert("confirm".into(), "yes".into());
                let wrong = wrong.map(|wrong| ("csrf".to_owned(), wrong.to_owned()));
                changed.fields.extend(wrong);
                let response = browser.submit(&changed).await;
                assert_refused(&response, &format!("{changed:?}"));
            }
        }
    }
    assert!(forms > 20, "{forms}");
    // The sign-in form is bound to its browser.
    let stranger = FormBrowser::open(&service.base);
    let form = PageForm::named(&stranger.page("/account/sign-in").await, "Sign in");
    stranger.set_cookie("");
    assert_refused(&stranger.submit(&form).await, "sign-in without a cookie");
    service.with_bearer(FOLDERS, &secret).await.succeeds(200);
}

#[tokio::test]
async fn requests_from_other_sites_and_in_frames_are_refused() {
    let service = service().await;
    let ada = service.person("ada").await;
    let token = ada.token(&["mail:read"]).await;
    let browser = FormBrowser::of_owner(&service, &ada.address).await;
    let path = format!("/account/grants/{}", string(&token, "id"));
    let form = PageForm::named(&browser.page(&path).await, "Suspend");
    for (name, value) in [
        ("Origin", "null"),
        ("Origin", "http://evil.test"),
        ("Origin", "http://127.0.0.1:1"),
        ("Sec-Fetch-Site", "cross-site"),
        ("Sec-Fetch-Site", "same-site"),
        ("Sec-Fetch-Site", "none"),
        ("Sec-Fetch-Dest", "iframe"),
    ] {
        let request = browser.form_request(&form).header(name, value);
        assert_refused(&Response::of(request).await, value);
    }
    let framed = browser.request(&format!("GET {path}"));
    let framed = Response::of(framed.header("Sec-Fetch-Dest", "iframe")).await;
    assert_refused(&framed, "framed");
    let shown = browser.get(&path).await;
    let policy = "default-src 'none'; style-src 'self'; form-action 'self'; frame-ancestors 'none'; base-uri 'none'";
    assert_eq!(shown.header("content-security-policy"), Some(policy));
    assert_eq!(shown.header("x-frame-options"), Some("DENY"));
    assert_eq!(shown.header("cache-control"), Some("no-store"));
    assert!(!text(&shown).contains("<script"));
    let secret = string(&token, "token");
    service.with_bearer(FOLDERS, secret).await.succeeds(200);
}

#[tokio::test]
async fn another_account_has_no_access_to_an_item() {
    let service = service().await;
    service.person("ada").await;
    service.create_account("bob@first.test").await;
    let browser = FormBrowser::of_owner(&service, "ada@first.test").await;
    let (pages, secret) = pages(&service, &browser).await;
    let bob = FormBrowser::of_owner(&service, "bob@first.test").await;
    let own = PageForm::named(&bob.page("/account").await, "Sign out");
    let csrf = &own.fields["csrf"];
    let mut forms = 0;
    for path in pages.iter().filter(|path| path.contains("/grants/")) {
        assert_eq!(bob.get(path).await.status, 404, "{path}");
    }
    let journal = format!("{}/journal", pages[PAGES.len()]);
    assert_eq!(bob.get(&journal).await.status, 404);
    for path in &pages {
        for mut form in PageForm::all(&browser.page(path).await) {
            // Forms of items have the id in the path.
            let segments = form.action.split('/').count();
            if segments < 5 || form.action.starts_with("/account/two-factor") {
                continue;
            }
            forms += 1;
            form.fields.insert("csrf".into(), csrf.clone());
            form.fields.insert("confirm".into(), "yes".into());
            let status = bob.submit(&form).await.status;
            assert_eq!(status, 404, "{form:?}");
        }
    }
    assert!(forms > 8, "{forms}");
    service.with_bearer(FOLDERS, &secret).await.succeeds(200);
}

#[tokio::test]
async fn credentials_of_the_api_and_changed_cookies_give_no_session() {
    let service = service().await;
    let ada = service.person("ada").await;
    let browser = FormBrowser::of_owner(&service, &ada.address).await;
    let cookie = browser.cookie();
    let mut changed = cookie.clone();
    let last = changed.pop().unwrap();
    changed.push(if last == 'A' { 'B' } else { 'A' });
    let token = format!("latchmail-account={}", ada.access);
    for wrong in [
        &*changed,
        &token,
        "latchmail-account=",
        "latchmail-account=AAAA",
        "",
    ] {
        browser.set_cookie(wrong);
        assert_eq!(browser.get("/account").await.status, 303, "{wrong}");
    }
    let bearer = browser.request("GET /account").bearer_auth(&ada.access);
    assert_eq!(Response::of(bearer).await.status, 303);
    // The cookie is not a credential of the API.
    let value = cookie.split_once('=').unwrap().1;
    let response = service
        .with_bearer("GET /api/v1/profile/grants", value)
        .await;
    assert_eq!(response.status, 401);
    let request = service.request("GET /api/v1/profile/grants");
    let response = Response::of(request.header("Cookie", &cookie)).await;
    assert_eq!(response.status, 401);
}
