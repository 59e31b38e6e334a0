//! The budgets of the token endpoint. Many clients can share one address,
//! so what is valid does not depend on what others behind that address do.

use std::time::Duration;

use latchmail_tests::{Client, Response};

use super::{TOO_MANY, limited};

/// Sends an exchange of a token that does not exist.
async fn failed_exchange(agent: &Client<'_>) -> Response {
    agent.refresh(&format!("lmr_{}", "a".repeat(43))).await
}

/// Sends failing exchanges until the limit of one address refuses one.
async fn use_up_budget(agent: &Client<'_>) {
    let mut failed = 0;
    loop {
        let response = failed_exchange(agent).await;
        if response.status == 429 {
            break;
        }
        assert_eq!(response.succeeds(400)["error"], "invalid_grant");
        failed += 1;
    }
    assert!(failed >= 20, "{failed}");
}

fn left(response: &Response) -> &str {
    response.header("x-ratelimit-remaining").unwrap()
}

#[tokio::test]
async fn failed_exchanges_do_not_affect_valid_exchanges_from_the_same_address() {
    let service = limited().await;
    let ada = service.person("ada").await;
    let agent = Client::register(&service).await;
    let granted = agent.tokens(&ada).await;
    let code = agent.code(&ada).await;
    let device = agent.device_grant().await;
    let other = Client::register(&service).await;
    use_up_budget(&other).await;

    let refused = failed_exchange(&agent).await;
    assert_eq!(refused.header("x-ratelimit-limit"), Some("30"));
    assert_eq!(left(&refused), "0");
    assert!(refused.header("retry-after").is_some());
    refused.fails(429, TOO_MANY);
    let waits = agent.poll(&device).await;
    assert_eq!(left(&waits), "29");
    assert_eq!(waits.succeeds(400)["error"], "authorization_pending");
    let refreshed = agent.refresh(&granted.refresh).await;
    assert_eq!(refreshed.header("x-ratelimit-limit"), Some("30"));
    assert_eq!(left(&refreshed), "29");
    refreshed.succeeds(200);
    agent.exchange(&code).await.succeeds(200);
    // A token that comes a second time ends its grant, and is a failure.
    agent.refresh(&granted.refresh).await.fails(429, TOO_MANY);
    let ended = service
        .with_bearer("GET /api/v1/mail/folders", &granted.access)
        .await;
    assert_eq!(ended.status, 401);
}

#[tokio::test]
async fn a_grant_has_its_own_budget() {
    let service = limited().await;
    let ada = service.person("ada").await;
    let agent = Client::register(&service).await;
    let mut granted = agent.tokens(&ada).await;
    let other = agent.tokens(&ada).await;
    for _ in 0..30 {
        granted = agent.refreshed_tokens(&granted).await;
    }
    let refused = agent.refresh(&granted.refresh).await;
    let wait = refused.header("retry-after").unwrap().parse().unwrap();
    refused.fails(429, TOO_MANY);
    agent.refreshed_tokens(&other).await;
    let failed = failed_exchange(&agent).await;
    assert_eq!(failed.succeeds(400)["error"], "invalid_grant");
    // The token was not used by what was refused.
    service.clock.advance(Duration::from_secs(wait));
    agent.refreshed_tokens(&granted).await;
}

#[tokio::test]
async fn a_polling_device_is_not_a_failure() {
    let service = limited().await;
    let agent = Client::register(&service).await;
    let (eager, patient) = (agent.device_grant().await, agent.device_grant().await);
    for _ in 0..30 {
        let polled = agent.poll(&eager).await.succeeds(400);
        let known =
            ["authorization_pending", "slow_down"].contains(&polled["error"].as_str().unwrap());
        assert!(known, "{polled}");
    }
    agent.poll(&eager).await.fails(429, TOO_MANY);
    let polled = agent.poll(&patient).await.succeeds(400);
    assert_eq!(polled["error"], "authorization_pending");
    assert_eq!(
        failed_exchange(&agent).await.succeeds(400)["error"],
        "invalid_grant"
    );
}

#[tokio::test]
async fn an_unknown_or_foreign_token_is_a_failure() {
    let service = limited().await;
    let ada = service.person("ada").await;
    let agent = Client::register(&service).await;
    let granted = agent.tokens(&ada).await;
    let device = agent.device_grant().await;
    let other = Client::register(&service).await;
    use_up_budget(&other).await;
    other.refresh(&granted.refresh).await.fails(429, TOO_MANY);
    other.poll(&device).await.fails(429, TOO_MANY);
    other.token(&[]).await.fails(429, TOO_MANY);
    agent.refreshed_tokens(&granted).await;
}
