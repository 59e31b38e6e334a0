//! Sessions of administrators.

use std::time::Duration;

use latchmail_tests::administrator::{Administrator, FormBrowser, PageForm, text};
use latchmail_tests::process::free_address;
use latchmail_tests::tls::CertificateFolder;
use latchmail_tests::{PASSWORD, RawClient, Service};

use super::{ROOT, service};

async fn has_session(browser: &FormBrowser) -> bool {
    let response = browser.get("/admin/modules").await;
    match response.status {
        200 => true,
        303 => {
            assert_eq!(response.header("location"), Some("/admin/sign-in"));
            false
        }
        status => panic!("{status}: {}", text(&response)),
    }
}

#[tokio::test]
async fn an_administrator_signs_in_with_password_and_code_and_signs_out() {
    let service = service().await;
    let root = Administrator::create(&service, ROOT).await;
    let browser = FormBrowser::open(&service.operator_page());
    for path in ["/admin/modules", "/admin/modules?x=1"] {
        let response = browser.get(path).await;
        assert_eq!(response.header("location"), Some("/admin/sign-in"));
        assert_eq!(response.status, 303);
    }
    let response = browser.get("/admin").await;
    assert_eq!(response.header("location"), Some("/admin/modules"));
    let code = root.code();
    for (password, code) in [("Wrong-Horse-7", &*code), (PASSWORD, "000000")] {
        let response = browser.sign_in(ROOT, password, code).await;
        assert_eq!(response.status, 403);
        assert!(text(&response).contains("Incorrect email address, password"));
        assert!(!has_session(&browser).await);
    }
    let before = browser.cookie();
    let response = browser.sign_in(ROOT, PASSWORD, "").await;
    assert!(text(&response).contains("Enter your two-factor code"));
    let response = browser.sign_in(ROOT, PASSWORD, &code).await;
    assert_eq!(response.status, 303, "{}", text(&response));
    let cookie = response.header("set-cookie").unwrap();
    assert!(cookie.starts_with("latchmail-admin="), "{cookie}");
    assert!(
        cookie.ends_with("; Path=/; HttpOnly; SameSite=Strict"),
        "{cookie}"
    );
    assert!(has_session(&browser).await);
    let signed_in = browser.cookie();
    browser.set_cookie(&before);
    assert!(!has_session(&browser).await, "the session has a new cookie");

    browser.set_cookie(&signed_in);
    let page = browser.page("/admin/modules").await;
    assert!(page.contains(ROOT));
    let signed_out = browser.submit(&PageForm::named(&page, "Sign out")).await;
    assert_eq!(signed_out.header("location"), Some("/admin/sign-in"));
    browser.set_cookie(&signed_in);
    assert!(!has_session(&browser).await, "the session has ended");
}

#[tokio::test]
async fn only_administrators_with_a_second_factor_get_a_session() {
    let service = service().await;
    service.create_account("ada@first.test").await;
    let browser = FormBrowser::open(&service.operator_page());
    let response = browser.sign_in("ada@first.test", PASSWORD, "").await;
    assert_eq!(response.status, 403);
    assert!(text(&response).contains("not an administrator"));
    service.create_account(ROOT).await;
    let verb = format!("account admin {ROOT} on");
    service.operator(&verb, "").await.succeeds();
    let response = browser.sign_in(ROOT, PASSWORD, "").await;
    assert_eq!(response.status, 403);
    let page = text(&response);
    assert!(
        page.contains(&format!("latchmail account two-factor {ROOT} on")),
        "{page}"
    );
    assert!(!has_session(&browser).await);
    // With a wrong password, the page reveals nothing.
    let response = browser.sign_in(ROOT, "Wrong-Horse-7", "").await;
    assert!(text(&response).contains("Incorrect email address"));
    let log = service.operator("audit --json", "").await.succeeds();
    assert!(
        log.contains("an administrator without a second factor"),
        "{log}"
    );
}

#[tokio::test]
async fn a_session_ends_with_the_password_the_rights_and_the_account() {
    let service = service().await;
    let root = Administrator::create(&service, ROOT).await;
    for (end, undo) in [
        (
            format!("account admin {ROOT} off"),
            format!("account admin {ROOT} on"),
        ),
        (
            format!("account disable {ROOT}"),
            format!("account enable {ROOT}"),
        ),
        (format!("account password {ROOT}"), String::new()),
    ] {
        let browser = root.sign_in().await;
        assert!(has_session(&browser).await);
        assert_eq!(service.operator(&end, "Other-Horse-8\n").await.status, 0);
        assert!(!has_session(&browser).await, "{end}");
        if !undo.is_empty() {
            assert_eq!(service.operator(&undo, "").await.status, 0);
            assert!(!has_session(&browser).await, "{undo}");
        }
    }
}

#[tokio::test]
async fn a_session_ends_after_an_hour_without_use_and_after_twelve_hours() {
    let service = service().await;
    let root = Administrator::create(&service, ROOT).await;
    let browser = root.sign_in().await;
    service.clock.advance(Duration::from_mins(59));
    assert!(has_session(&browser).await);
    service.clock.advance(Duration::from_mins(61));
    assert!(!has_session(&browser).await);
    let browser = root.sign_in().await;
    for _ in 0..12 {
        assert!(has_session(&browser).await);
        service.clock.advance(Duration::from_mins(59));
    }
    assert!(has_session(&browser).await);
    service.clock.advance(Duration::from_mins(13));
    assert!(!has_session(&browser).await);
}

#[tokio::test]
async fn the_cookie_is_secure_with_tls() {
    let folder = tempfile::tempdir().unwrap();
    let files = CertificateFolder::create(folder.path());
    let address = free_address();
    let settings = format!(
        "base_url = ''\n{}admin.listen = '{address}'",
        files.settings()
    );
    let _service = Service::with(&settings).await;
    let stream = files.connect(address, &["http/1.1"]).await.unwrap();
    let mut client = RawClient::over(stream);
    client
        .send("GET /admin/sign-in HTTP/1.1\r\nHost: service.test\r\n\r\n")
        .await;
    let response = client.response().await.unwrap();
    let cookie = response.header("set-cookie").unwrap();
    assert!(cookie.starts_with("__Host-latchmail-admin="), "{cookie}");
    assert!(cookie.ends_with("; SameSite=Strict; Secure"), "{cookie}");
    assert_eq!(response.status, 200);
}
