//! Device codes: links from an attacker, and requests that are denied after their approval.

use latchmail_tests::{Client, PASSWORD, Service};

#[tokio::test]
async fn a_link_alone_does_not_approve_a_device() {
    let service = Service::with_mail().await;
    let ada = service.person("ada").await;
    let agent = Client::register(&service).await;
    let begun = agent.device_grant().await;
    let code = begun["user_code"].as_str().unwrap();
    let query = [("user_code".to_owned(), code.to_owned())];
    let page = agent.load_page("/device", &query).await;
    assert!(
        page.text.contains(code),
        "the code is filled in, and the user submits the form"
    );
    assert!(
        page.text
            .contains("Do not enter a code that someone sent you"),
        "{}",
        page.text
    );
    let named = agent.submit("/device", &page, &[("user_code", code)]).await;
    assert!(
        named.text.contains("Test agent"),
        "the client is named before the sign-in"
    );
    let poll = [
        ("grant_type", "urn:ietf:params:oauth:grant-type:device_code"),
        ("client_id", &*agent.client_id),
        ("device_code", begun["device_code"].as_str().unwrap()),
    ];
    let pending = agent.token(&poll).await.succeeds(400);
    assert_eq!(pending["error"], "authorization_pending");
    let no = agent.submit("/device", &named, &[("answer", "no")]).await;
    assert_eq!(no.response.status, 200, "{}", no.text);
    let denied = agent.token(&poll).await.succeeds(400);
    assert_eq!(denied["error"], "access_denied");
    // A denied request cannot be approved any more.
    let fields = [("email", &*ada.address), ("password", PASSWORD)];
    let late = agent.submit("/device", &named, &fields).await;
    assert_eq!(late.response.status, 403, "{}", late.text);
}

#[tokio::test]
async fn a_denial_after_an_approval_applies_until_the_device_has_tokens() {
    let service = Service::with_mail().await;
    let ada = service.person("ada").await;
    let agent = Client::register(&service).await;
    let begun = agent.device_grant().await;
    let code = begun["user_code"].as_str().unwrap();
    let page = agent.load_page("/device", &[]).await;
    let named = agent.submit("/device", &page, &[("user_code", code)]).await;
    let yes = [("email", &*ada.address), ("password", PASSWORD)];
    let done = agent.submit("/device", &named, &yes).await;
    assert!(done.text.contains("Device connected"), "{}", done.text);
    let no = agent.submit("/device", &named, &[("answer", "no")]).await;
    assert!(no.text.contains("Access denied"), "{}", no.text);
    let denied = agent.poll(&begun).await.succeeds(400);
    assert_eq!(denied["error"], "access_denied");
    let again = agent.submit("/device", &named, &[("answer", "no")]).await;
    assert!(again.text.contains("no longer valid"), "{}", again.text);
}
