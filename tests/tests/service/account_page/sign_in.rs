//! Sessions on the owner's page.

use std::time::Duration;

use latchmail_tests::administrator::{FormBrowser, PageForm, text};
use latchmail_tests::provider::Provider;
use latchmail_tests::{PASSWORD, PersonBrowser, Setup};

use super::service;

/// Returns the path to which a browser without a session is redirected, or `None` with a session.
async fn redirect(browser: &FormBrowser, path: &str) -> Option<String> {
    let response = browser.get(path).await;
    match response.status {
        200 => None,
        303 => Some(response.header("location").unwrap().to_owned()),
        status => panic!("{status}: {}", text(&response)),
    }
}

#[tokio::test]
async fn an_owner_signs_in_with_a_password_returns_to_the_page_and_signs_out() {
    let service = service().await;
    let ada = service.person("ada").await;
    let browser = FormBrowser::open(&service.base);
    let sign_in = redirect(&browser, "/account/holds").await.unwrap();
    assert_eq!(sign_in, "/account/sign-in?next=%2Faccount%2Fholds");
    let wrong = browser.sign_in_to_account(&sign_in, &ada.address, "Wrong-Horse-7", "");
    let wrong = wrong.await;
    assert_eq!(wrong.status, 403);
    assert!(text(&wrong).contains("Incorrect email address"));
    assert!(redirect(&browser, "/account").await.is_some());
    let response = browser.sign_in_to_account(&sign_in, &ada.address, PASSWORD, "");
    let response = response.await;
    assert_eq!(response.status, 303, "{}", text(&response));
    assert_eq!(response.header("location"), Some("/account/holds"));
    let cookie = response.header("set-cookie").unwrap();
    assert!(cookie.starts_with("latchmail-account="), "{cookie}");
    assert!(
        cookie.ends_with("; Path=/; HttpOnly; SameSite=Lax"),
        "{cookie}"
    );
    let page = browser.page("/account").await;
    assert!(page.contains(&ada.address), "{page}");
    assert_eq!(
        redirect(&browser, "/account/sign-in").await.unwrap(),
        "/account"
    );

    let signed_in = browser.cookie();
    let signed_out = browser.submit(&PageForm::named(&page, "Sign out")).await;
    assert_eq!(signed_out.header("location"), Some("/account/sign-in"));
    browser.set_cookie(&signed_in);
    assert!(
        redirect(&browser, "/account").await.is_some(),
        "the session has ended"
    );
    // The other sessions continue.
    ada.send("GET /api/v1/profile/grants").await.succeeds(200);
}

#[tokio::test]
async fn the_sign_in_redirects_only_to_pages_of_the_owner() {
    let service = service().await;
    let ada = service.person("ada").await;
    for next in [
        "https://evil.test/",
        "//evil.test/account/",
        "/login",
        "/account@evil.test",
    ] {
        let browser = FormBrowser::open(&service.base);
        let encoded: String = url::form_urlencoded::byte_serialize(next.as_bytes()).collect();
        let path = format!("/account/sign-in?next={encoded}");
        let response = browser.sign_in_to_account(&path, &ada.address, PASSWORD, "");
        assert_eq!(
            response.await.header("location"),
            Some("/account"),
            "{next}"
        );
        let again = browser.get(&path).await;
        assert_eq!(again.header("location"), Some("/account"), "{next}");
    }
}

#[tokio::test]
async fn a_session_ends_after_an_hour_without_use_after_twelve_hours_and_by_its_owner() {
    let service = service().await;
    let ada = service.person("ada").await;
    let browser = FormBrowser::of_owner(&service, &ada.address).await;
    let page = browser.page("/account/app-passwords").await;
    service.clock.advance(Duration::from_mins(61));
    assert!(redirect(&browser, "/account").await.is_some());
    // A form of an ended session changes nothing.
    let mut form = PageForm::named(&page, "Create");
    form.fields.insert("label".into(), "Phone".into());
    let refused = browser.submit(&form).await;
    assert_eq!(refused.header("location"), Some("/account/sign-in"));
    let ada = ada.refreshed().await;
    let listed = ada.send("GET /api/v1/profile/sessions").await.succeeds(200);
    assert!(!listed.to_string().contains("Phone"), "{listed}");

    let browser = FormBrowser::of_owner(&service, &ada.address).await;
    for _ in 0..12 {
        assert_eq!(redirect(&browser, "/account").await, None);
        service.clock.advance(Duration::from_mins(59));
    }
    assert_eq!(redirect(&browser, "/account").await, None);
    service.clock.advance(Duration::from_mins(13));
    assert!(redirect(&browser, "/account").await.is_some());

    let browser = FormBrowser::of_owner(&service, &ada.address).await;
    let ada = ada.sign_in_again().await;
    let listed = ada.send("GET /api/v1/profile/sessions").await.succeeds(200);
    let credentials = listed["credentials"].as_array().unwrap();
    let label =
        |one: &&serde_json::Value| one["label"].as_str().unwrap().starts_with("Account page");
    let id = credentials.iter().find(label).unwrap()["id"]
        .as_str()
        .unwrap();
    let ended = ada
        .send(&format!("DELETE /api/v1/profile/sessions/{id}"))
        .await;
    ended.succeeds(200);
    assert!(redirect(&browser, "/account").await.is_some());
}

#[tokio::test]
async fn an_owner_signs_in_at_the_identity_provider() {
    let provider = Provider::start().await;
    provider.add_person("ada", "ada@first.test").await;
    let setup = Setup::default().with_mail().with(&provider.settings());
    let service = setup.start().await;
    provider.register(&service).await;
    let create = "account create ada@first.test";
    service.operator(create, "").await.succeeds();
    let browser = PersonBrowser::new();
    let sign_in = format!("{}/account/sign-in", service.base);
    let page = browser
        .get(&format!("{sign_in}?next=%2Faccount%2Fsessions"))
        .await;
    let form = PageForm::all(&text(&page)).remove(0);
    assert!(!form.fields.contains_key("password"), "{form:?}");
    let fields = [("request", &*form.fields["request"]), ("provider", "yes")];
    let redirect = browser.submit(&sign_in, &fields).await;
    let callback = browser.from_redirect(redirect, "ada").await;
    let response = browser.get(&callback).await;
    assert_eq!(response.status, 303, "{}", text(&response));
    assert_eq!(response.header("location"), Some("/account/sessions"));
    let sessions = format!("{}/account/sessions", service.base);
    let page = browser.get(&sessions).await;
    assert!(text(&page).contains("ada@first.test"));
    let page = browser
        .get(&format!("{}/account/two-factor", service.base))
        .await;
    assert!(text(&page).contains("You sign in at an identity provider"));
    // The session ends with the one at the provider.
    browser.sign_out(&provider).await;
    assert_eq!(browser.get(&sessions).await.status, 303);
}
