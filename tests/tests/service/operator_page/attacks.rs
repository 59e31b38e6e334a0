//! Requests that other sites cause, and requests with the session of another account.

use latchmail_tests::Response;
use latchmail_tests::administrator::{Administrator, FormBrowser, PageForm, text};

use super::{ROOT, service};

fn assert_refused(response: &Response, case: &str) {
    assert_eq!(response.status, 403, "{case}: {}", text(response));
}

#[tokio::test]
async fn every_form_has_a_token_and_is_refused_without_the_right_one() {
    let service = service().await;
    let root = Administrator::create(&service, ROOT).await;
    let other = Administrator::create(&service, "other@first.test").await;
    let (browser, others) = (root.sign_in().await, other.sign_in().await);
    let stranger = FormBrowser::open(&service.operator_page());
    let foreign = PageForm::named(&others.page("/admin/modules").await, "Sign out");
    let foreign = &foreign.fields["csrf"];
    let sign_in = stranger.page("/admin/sign-in").await;
    let modules = browser.page("/admin/modules").await;
    let mut forms = 0;
    for (browser, page) in [(&stranger, &sign_in), (&browser, &modules)] {
        for form in PageForm::all(page) {
            forms += 1;
            assert!(form.fields.contains_key("csrf"), "{form:?}");
            for wrong in [None, Some(""), Some("x"), Some(&**foreign)] {
                let mut changed = form.clone();
                changed.fields.remove("csrf");
                changed
                    .fields
                    .extend(wrong.map(|wrong| ("csrf".to_owned(), wrong.to_owned())));
                let response = browser.submit(&changed).await;
                assert_refused(&response, &format!("{changed:?}"));
            }
        }
    }
    assert!(forms > 5, "{forms}");
    // Without its cookie, the sign-in form is refused too.
    stranger.set_cookie("");
    let form = PageForm::named(&sign_in, "Sign in");
    assert_refused(&stranger.submit(&form).await, "without a cookie");
}

#[tokio::test]
async fn requests_from_other_sites_and_in_frames_are_refused() {
    let service = service().await;
    let root = Administrator::create(&service, ROOT).await;
    let browser = root.sign_in().await;
    let page = browser.page("/admin/modules").await;
    let mut form = PageForm::of_action(&page, "Disable", "/aliases/");
    form.fields.insert("confirm".into(), "yes".into());
    let port = browser.base.rsplit_once(':').unwrap().1;
    let other_name = format!("http://localhost:{port}");
    for (name, value) in [
        ("Origin", "null"),
        ("Origin", "http://evil.test"),
        ("Origin", "http://127.0.0.1:1"),
        ("Origin", &other_name),
        ("Sec-Fetch-Site", "cross-site"),
        ("Sec-Fetch-Site", "same-site"),
        ("Sec-Fetch-Site", "none"),
        ("Sec-Fetch-Dest", "iframe"),
    ] {
        let request = browser.form_request(&form).header(name, value);
        let response = Response::of(request).await;
        assert_refused(&response, value);
    }
    // A name of another website that resolves to the address of the page (DNS rebinding).
    for (host, status) in [
        (format!("evil.test:{port}"), 421),
        ("evil.test".into(), 421),
        (format!("localhost.evil.test:{port}"), 421),
        (format!("localhost:{port}"), 200),
        (format!("[::1]:{port}"), 200),
        ("service.test".into(), 200),
    ] {
        let request = browser.request("GET /admin/modules").header("Host", &host);
        assert_eq!(Response::of(request).await.status, status, "{host}");
    }
    let framed = browser.request("GET /admin/modules");
    let framed = Response::of(framed.header("Sec-Fetch-Dest", "iframe")).await;
    assert_refused(&framed, "framed");
    for (path, script) in [
        ("/admin/accounts", ""),
        // The script of the charts.
        ("/admin/modules", " script-src 'self'; connect-src 'self';"),
    ] {
        let shown = browser.get(path).await;
        let policy = format!(
            "default-src 'none'; style-src 'self';{script} form-action 'self'; frame-ancestors 'none'; base-uri 'none'"
        );
        let sent = shown.header("content-security-policy");
        assert_eq!(sent, Some(&*policy), "{path}");
        assert_eq!(shown.header("x-frame-options"), Some("DENY"));
    }
    let shown = browser.get("/admin/modules").await;
    assert!(text(&shown).contains("Disable"));
    assert!(!text(&shown).contains("Enable"), "nothing was disabled");
}

#[tokio::test]
async fn credentials_of_the_api_and_changed_cookies_give_no_session() {
    let service = service().await;
    let root = Administrator::create(&service, ROOT).await;
    let browser = root.sign_in().await;
    let cookie = browser.cookie();
    let mut changed = cookie.clone();
    let last = changed.pop().unwrap();
    changed.push(if last == 'A' { 'B' } else { 'A' });
    for wrong in [&changed, "latchmail-admin=", "latchmail-admin=AAAA", ""] {
        browser.set_cookie(wrong);
        let response = browser.get("/admin/modules").await;
        assert_eq!(response.status, 303, "{wrong}");
    }
    // The cookie is not a credential of the API, and the pages are not on its listener.
    let response = service.send("GET /admin/modules").await;
    assert_eq!(response.status, 404);
    let value = cookie.split_once('=').unwrap().1;
    let response = service.with_bearer("GET /api/v1/auth/me", value).await;
    assert!(response.status == 401 || response.status == 404);
}
