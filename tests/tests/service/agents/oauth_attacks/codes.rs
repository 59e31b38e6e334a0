//! Stolen and replayed authorization codes.

use latchmail_tests::client::{CHALLENGE, REDIRECT_URI, VERIFIER};
use latchmail_tests::{Client, Service};

use super::FOLDERS;

#[tokio::test]
async fn a_code_used_twice_ends_its_grant() {
    let service = Service::with_mail().await;
    let ada = service.person("ada").await;
    let agent = Client::register(&service).await;
    let code = agent.code(&ada).await;
    let first = agent.exchange(&code).await.succeeds(200);
    let access = first["access_token"].as_str().unwrap();
    service.with_bearer(FOLDERS, access).await.succeeds(200);
    // Another client that has the code does not end the grant.
    let thief = Client::register(&service).await;
    assert_eq!(
        thief.exchange(&code).await.succeeds(400)["error"],
        "invalid_grant"
    );
    service.with_bearer(FOLDERS, access).await.succeeds(200);
    assert_eq!(
        agent.exchange(&code).await.succeeds(400)["error"],
        "invalid_grant"
    );
    assert_eq!(service.with_bearer(FOLDERS, access).await.status, 401);
}

#[tokio::test]
async fn a_code_is_refused_without_its_verifier() {
    let service = Service::with_mail().await;
    let ada = service.person("ada").await;
    let agent = Client::register(&service).await;
    let code = agent.code(&ada).await;
    for verifier in [
        "",
        CHALLENGE,
        "short",
        &VERIFIER[..42],
        &"a".repeat(43),
        &"a".repeat(129),
    ] {
        let tried = agent
            .token(&[
                ("grant_type", "authorization_code"),
                ("client_id", &agent.client_id),
                ("code", &code),
                ("redirect_uri", REDIRECT_URI),
                ("code_verifier", verifier),
            ])
            .await;
        assert_eq!(tried.status, 400, "{verifier}");
    }
    service.clock.advance(std::time::Duration::from_mins(1));
    assert_eq!(
        agent.exchange(&code).await.succeeds(400)["error"],
        "invalid_grant"
    );
}
