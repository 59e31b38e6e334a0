//! ID tokens of the provider with one fault each, and new keys of the provider.

use latchmail_tests::provider::PROVIDER_SECRET;

use super::*;

#[tokio::test]
async fn an_id_token_with_a_fault_opens_nothing() {
    let (provider, service) = start().await;
    let browser = PersonBrowser::new();
    let now = service.clock.now().seconds();
    for fault in [
        json!({ "claims": { "iss": "http://127.0.0.1:1" } }),
        json!({ "remove": ["iss"] }),
        json!({ "claims": { "aud": "another-client" } }),
        json!({ "claims": { "aud": ["latchmail", "another-client"] } }),
        json!({ "remove": ["aud"] }),
        json!({ "claims": { "azp": "another-client" } }),
        json!({ "claims": { "nonce": "another-nonce" } }),
        json!({ "remove": ["nonce"] }),
        json!({ "claims": { "exp": now - 1 } }),
        json!({ "remove": ["exp"] }),
        json!({ "claims": { "iat": now + 3600, "exp": now + 7200 } }),
        json!({ "claims": { "at_hash": "AAAAAAAAAAAAAAAAAAAAAA" } }),
        json!({ "claims": { "sub": "" } }),
        json!({ "claims": { "sub": "x".repeat(256) } }),
        json!({ "key": "foreign" }),
        json!({ "key": "foreign", "kid": "unknown" }),
        json!({ "alg": "none" }),
        json!({ "alg": "HS256", "secret": PROVIDER_SECRET }),
        json!({ "header": { "crit": ["x"], "x": 1 } }),
        json!({ "header": { "typ": "logout+jwt" } }),
    ] {
        provider.set_fault(fault.clone()).await;
        let response = browser.sign_in(&start_url(&service), "ada").await;
        let (status, text) = shown(&response);
        assert_eq!(
            (status, response.header("location")),
            (400, None),
            "{fault}: {text}"
        );
        assert!(text.contains("could not be completed"), "{fault}: {text}");
    }
    provider
        .set_fault(json!({ "claims": { "azp": "latchmail" } }))
        .await;
    sign_in_with(&service, &browser, "ada").await;
    let events = events(&service, ADA).await;
    assert_eq!(events.matches("signed_in").count(), 1, "{events}");
}

#[tokio::test]
async fn new_keys_of_the_provider_are_noticed() {
    let (provider, service) = start().await;
    let browser = PersonBrowser::new();
    sign_in_with(&service, &browser, "ada").await;
    provider.rotate_keys().await;
    sign_in_with(&service, &browser, "ada").await;
    // The service fetched the keys at the start, and the key of the ID token is newer.
    let callback = browser.to_callback(&start_url(&service), "ada").await;
    provider.rotate_keys().await;
    assert_eq!(browser.get(&callback).await.status, 303);
}
