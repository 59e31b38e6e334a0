//! Forms and frames of other sites, and hostile text on the pages.

use latchmail_tests::client::REDIRECT_URI;
use latchmail_tests::{Client, PASSWORD, Response, Service};
use serde_json::json;

use super::registered;

#[tokio::test]
async fn a_form_of_another_site_cannot_sign_in_a_user() {
    let service = Service::with_mail().await;
    let ada = service.person("ada").await;
    let agent = Client::register(&service).await;
    let page = agent.login_page(&[]).await;
    let mine = agent.login_page(&[]).await;
    assert_ne!(page.cookie, mine.cookie);
    let refused = async |page: &latchmail_tests::client::Page| {
        let tried = agent.sign_in(page, &ada.address, PASSWORD).await;
        assert_eq!(tried.response.header("location"), None);
        tried.response.status
    };
    // The attacker's form in the victim's browser; without a cookie; without the form.
    let mut crossed = page.clone();
    crossed.cookie.clone_from(&mine.cookie);
    assert_eq!(refused(&crossed).await, 403);
    let mut bare = page.clone();
    bare.cookie = "other=1".into();
    assert_eq!(refused(&bare).await, 403);
    let mut empty = page.clone();
    empty.request.clear();
    assert_eq!(refused(&empty).await, 403);
    let mut changed = page.clone();
    let other = if &page.request[10..11] == "A" {
        "B"
    } else {
        "A"
    };
    changed.request.replace_range(10..11, other);
    assert_eq!(refused(&changed).await, 403);
    // A form of the device page is not valid on the sign-in page.
    let device = agent.load_page("/device", &[]).await;
    assert_eq!(refused(&device).await, 403);
    let cookie = page.response.header("set-cookie").unwrap();
    assert!(
        cookie.contains("HttpOnly") && cookie.contains("SameSite=Lax"),
        "{cookie}"
    );
    for (name, value) in [
        ("origin", "https://evil.example"),
        ("origin", "null"),
        ("sec-fetch-site", "cross-site"),
        ("sec-fetch-site", "same-site"),
    ] {
        let url = format!("{}/login", service.base);
        let form = [
            ("request", &*page.request),
            ("email", &ada.address),
            ("password", PASSWORD),
        ];
        let body: Vec<String> = form
            .iter()
            .map(|(k, v)| format!("{k}={}", v.replace('@', "%40")))
            .collect();
        let request = agent
            .browser
            .post(url)
            .header("cookie", &page.cookie)
            .header("content-type", "application/x-www-form-urlencoded")
            .header(name, value)
            .body(body.join("&"));
        assert_eq!(Response::of(request).await.status, 403, "{name}: {value}");
    }
    // A page is valid for half an hour.
    service.clock.advance(std::time::Duration::from_mins(30));
    assert_eq!(refused(&page).await, 403);
}

#[tokio::test]
async fn the_pages_cannot_be_framed_and_load_nothing() {
    let service = Service::with_mail().await;
    let id = registered(&service, &["https://app.example/cb", "com.example.app:/cb"]).await;
    let agent = Client::with_id(&service, &id);
    for (uri, leads_to) in [
        ("https://app.example/cb", "https:"),
        ("com.example.app:/cb", "com.example.app:"),
    ] {
        let page = agent.login_page(&[("redirect_uri", uri)]).await;
        let policy = page.response.header("content-security-policy").unwrap();
        for part in [
            "default-src 'none'",
            "frame-ancestors 'none'",
            "base-uri 'none'",
            &format!("form-action 'self' {leads_to};"),
        ] {
            assert!(policy.contains(part), "{part}: {policy}");
        }
        assert!(!policy.contains("unsafe"), "{policy}");
        assert_eq!(page.response.header("x-frame-options"), Some("DENY"));
        assert_eq!(page.response.header("cache-control"), Some("no-store"));
        assert!(!page.text.contains("<script"), "{}", page.text);
    }
}

#[tokio::test]
async fn the_description_of_a_client_is_escaped_on_the_page() {
    let service = Service::with_mail().await;
    let body = json!({
        "client_name": "<img src=x onerror=alert(1)>\"'&",
        "redirect_uris": [REDIRECT_URI],
    });
    let registered = service.post("/auth/register", &body).await.succeeds(201);
    let agent = Client::with_id(&service, registered["client_id"].as_str().unwrap());
    let page = agent
        .login_page(&[("state", "\"><script>alert(1)</script>")])
        .await;
    assert_eq!(page.response.status, 200);
    assert!(
        page.text.contains("&lt;img src=x onerror=alert(1)&gt;"),
        "{}",
        page.text
    );
    for raw in ["<img", "<script"] {
        assert!(!page.text.contains(raw), "{raw}: {}", page.text);
    }
    let typed = agent
        .sign_in(&page, "\"><script>x</script>@first.test", "x")
        .await;
    assert!(!typed.text.contains("<script"), "{}", typed.text);
}
