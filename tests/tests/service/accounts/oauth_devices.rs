//! The device grant (RFC 8628), for agents on machines without a browser.

use std::time::Duration;

use latchmail_tests::{Client, PASSWORD, Service};

const FOLDERS: &str = "GET /api/v1/mail/folders";

#[tokio::test]
async fn a_device_shows_eight_letters_and_gets_tokens_after_the_user_enters_them() {
    let service = Service::with_mail().await;
    let ada = service.person("ada").await;
    let agent = Client::register(&service).await;
    let device = agent.device_grant().await;
    let code = device["user_code"].as_str().unwrap();
    assert_eq!(code.len(), 9);
    assert_eq!(device["verification_uri"], "http://service.test/device");
    assert_eq!(
        device["verification_uri_complete"],
        format!("http://service.test/device?user_code={code}")
    );
    assert_eq!(
        (&device["expires_in"], &device["interval"]),
        (&600.into(), &5.into())
    );
    let waiting = agent.poll(&device).await.succeeds(400);
    assert_eq!(waiting["error"], "authorization_pending");
    let page = agent.load_page("/device", &[]).await;
    // Notation and case of the code do not matter.
    let typed = code.to_lowercase().replace('-', " ");
    let named = agent
        .submit("/device", &page, &[("user_code", &typed)])
        .await;
    assert!(
        named.text.contains("Test agent") && named.text.contains(code),
        "{}",
        named.text
    );
    let wrong = [("email", &*ada.address), ("password", "Wrong-Horse-7")];
    let refused = agent.submit("/device", &named, &wrong).await;
    assert_eq!(refused.response.status, 403);
    let right = [
        ("email", &*ada.address),
        ("password", PASSWORD),
        ("answer", "yes"),
    ];
    let done = agent.submit("/device", &refused, &right).await;
    assert!(done.text.contains("Device connected"), "{}", done.text);
    let tokens = agent.poll(&device).await.succeeds(200);
    let access = tokens["access_token"].as_str().unwrap();
    service.with_bearer(FOLDERS, access).await.succeeds(200);
    agent
        .refresh(tokens["refresh_token"].as_str().unwrap())
        .await
        .succeeds(200);
    // The code is valid only once.
    assert_eq!(
        agent.poll(&device).await.succeeds(400)["error"],
        "invalid_grant"
    );
    let page = agent.load_page("/device", &[]).await;
    let again = agent.submit("/device", &page, &[("user_code", code)]).await;
    assert_eq!(again.response.status, 403);
}

#[tokio::test]
async fn a_device_that_polls_too_fast_must_slow_down_and_an_unused_code_expires() {
    let service = Service::with_mail().await;
    let agent = Client::register(&service).await;
    let device = agent.device_grant().await;
    let poll_error = async || agent.poll(&device).await.succeeds(400)["error"].clone();
    assert_eq!(poll_error().await, "authorization_pending");
    assert_eq!(poll_error().await, "slow_down");
    service.clock.advance(Duration::from_secs(6));
    assert_eq!(poll_error().await, "slow_down");
    service.clock.advance(Duration::from_secs(15));
    assert_eq!(poll_error().await, "authorization_pending");
    service.clock.advance(Duration::from_mins(10));
    assert_eq!(poll_error().await, "expired_token");
}

#[tokio::test]
async fn a_device_code_is_valid_only_for_its_client() {
    let service = Service::with_mail().await;
    let agent = Client::register(&service).await;
    let device = agent.device_grant().await;
    let other = Client::register(&service).await;
    assert_eq!(
        other.poll(&device).await.succeeds(400)["error"],
        "invalid_grant"
    );
    let unknown = Client::with_id(&service, "unknown");
    assert_eq!(
        unknown.start_device_grant("").await.succeeds(401)["error"],
        "invalid_client"
    );
    let other_session = agent
        .start_device_grant("&resource=https%3A%2F%2Fother.example")
        .await;
    assert_eq!(other_session.succeeds(400)["error"], "invalid_target");
}
