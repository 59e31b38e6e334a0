//! Redirects to URIs that no client registered, and redirects before the user acts.

use latchmail_tests::client::{REDIRECT_URI, between};
use latchmail_tests::{Client, PASSWORD, Service};

use super::registered;

#[tokio::test]
async fn only_registered_redirect_uris_are_used() {
    let service = Service::with_mail().await;
    let id = registered(&service, &["https://app.example/cb"]).await;
    let agent = Client::with_id(&service, &id);
    for uri in [
        "https://app.example/cb/",
        "https://app.example/cb/../x",
        "https://app.example/cb?x=1",
        "https://app.example/cb#x",
        "https://app.example/CB",
        "https://app.example:8443/cb",
        "https://app.example.evil.example/cb",
        "https://app.example@evil.example/cb",
        "https://evil.example/cb",
        "https://evil.example/?https://app.example/cb",
        "https://app.example\\@evil.example/cb",
        "http://app.example/cb",
        "//evil.example",
        "javascript:alert(1)",
    ] {
        let page = agent.login_page(&[("redirect_uri", uri)]).await;
        assert_eq!(page.response.status, 400, "{uri}");
        assert_eq!(page.response.header("location"), None, "{uri}");
        assert!(
            page.request.is_empty(),
            "{uri}: the page must not ask to sign in"
        );
        assert!(!page.text.contains("href"), "{uri}: {}", page.text);
    }
    let twice = [("redirect_uri", "https://app.example/cb")];
    let mut wish = agent.default_parameters();
    wish.extend(twice.map(|(k, v)| (k.to_owned(), v.to_owned())));
    let page = agent.load_page("/login", &wish).await;
    assert_eq!(page.response.status, 400);
    let unknown = Client::with_id(&service, "nobody").login_page(&[]).await;
    assert_eq!(unknown.response.status, 400);
    assert!(!unknown.text.contains("href"));
}

#[tokio::test]
async fn the_service_redirects_only_after_the_user_acted() {
    let service = Service::with_mail().await;
    let agent = Client::register(&service).await;
    for (changes, code) in [
        (("response_type", "token"), "unsupported_response_type"),
        (("response_type", ""), "invalid_request"),
        (("response_mode", "fragment"), "invalid_request"),
        (("code_challenge", ""), "invalid_request"),
        (("code_challenge", "short"), "invalid_request"),
        (("code_challenge_method", "plain"), "invalid_request"),
        (("code_challenge_method", ""), "invalid_request"),
        (("resource", "https://other.example/mcp"), "invalid_target"),
        (("request", "x.y.z"), "request_not_supported"),
        (
            ("request_uri", "https://a.example/"),
            "request_uri_not_supported",
        ),
        (("prompt", "none"), "login_required"),
    ] {
        let page = agent.login_page(&[changes]).await;
        assert_eq!(page.response.status, 400, "{changes:?}");
        assert_eq!(page.response.header("location"), None, "{changes:?}");
        // The link back returns the reason to the client.
        let back = between(&page.text, "href=\"", "\"");
        assert!(back.starts_with(REDIRECT_URI), "{changes:?}: {}", page.text);
        assert!(back.contains(&format!("error={code}&amp;")), "{back}");
        assert!(back.contains("iss=http%3A%2F%2Fservice.test"), "{back}");
    }
}

#[tokio::test]
async fn every_redirect_names_the_issuer() {
    let service = Service::with_mail().await;
    let ada = service.person("ada").await;
    let agent = Client::register(&service).await;
    let page = agent.login_page(&[]).await;
    let cancel = between(&page.text, "<a class=\"button quiet\" href=\"", "\"");
    assert!(cancel.contains("error=access_denied&amp;"), "{cancel}");
    assert!(cancel.contains("iss=http%3A%2F%2Fservice.test"), "{cancel}");
    let back = agent.sign_in(&page, &ada.address, PASSWORD).await;
    assert_eq!(
        back.redirect_parameter("iss").as_deref(),
        Some("http://service.test")
    );
}
