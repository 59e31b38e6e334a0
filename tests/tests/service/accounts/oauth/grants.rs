//! Grants: refresh tokens, and the events that end a grant.

use std::time::Duration;

use latchmail_tests::{Client, PASSWORD, Service};
use serde_json::{Value, json};

use super::{FOLDERS, UNUSABLE};

#[tokio::test]
async fn a_refresh_token_is_valid_once_and_its_reuse_ends_the_grant() {
    let service = Service::with_mail().await;
    let ada = service.person("ada").await;
    let agent = Client::register(&service).await;
    let first = agent.tokens(&ada).await;
    let second = agent.refreshed_tokens(&first).await;
    // The earlier access tokens are valid until their hour ends.
    for token in [&first.access, &second.access] {
        service.with_bearer(FOLDERS, token).await.succeeds(200);
    }
    let again = agent.refresh(&first.refresh).await.succeeds(400);
    assert_eq!(again["error"], "invalid_grant");
    for token in [&first.access, &second.access] {
        service
            .with_bearer(FOLDERS, token)
            .await
            .fails(401, UNUSABLE);
    }
    let ended = agent.refresh(&second.refresh).await.succeeds(400);
    assert_eq!(ended["error"], "invalid_grant");
    // The grants of other accounts continue.
    agent.tokens(&ada).await;
}

#[tokio::test]
async fn a_grant_expires_after_thirty_days_without_a_refresh() {
    let service = Service::with_mail().await;
    let ada = service.person("ada").await;
    let agent = Client::register(&service).await;
    let first = agent.tokens(&ada).await;
    service.clock.advance(Duration::from_hours(29 * 24));
    let second = agent.refreshed_tokens(&first).await;
    service.clock.advance(Duration::from_hours(29 * 24));
    let third = agent.refreshed_tokens(&second).await;
    service.clock.advance(Duration::from_hours(30 * 24));
    let over = agent.refresh(&third.refresh).await.succeeds(400);
    assert_eq!(over["error"], "invalid_grant");
}

#[tokio::test]
async fn a_password_change_and_a_disabled_account_end_all_grants() {
    let service = Service::with_mail().await;
    let (ada, bob) = (service.person("ada").await, service.person("bob").await);
    let agent = Client::register(&service).await;
    let (adas, bobs) = (agent.tokens(&ada).await, agent.tokens(&bob).await);
    let late = agent.code(&ada).await;
    let change = json!({ "current_password": PASSWORD, "new_password": "Another-Horse-8" });
    ada.post("/api/v1/profile/password", &change)
        .await
        .succeeds(200);
    let over = service.with_bearer(FOLDERS, &adas.access).await;
    over.fails(401, UNUSABLE);
    for refused in [
        agent.refresh(&adas.refresh).await,
        agent.exchange(&late).await,
    ] {
        assert_eq!(refused.succeeds(400)["error"], "invalid_grant");
    }
    service
        .with_bearer(FOLDERS, &bobs.access)
        .await
        .succeeds(200);
    service
        .operator("account disable bob@first.test", "")
        .await
        .succeeds();
    let over = service.with_bearer(FOLDERS, &bobs.access).await;
    over.fails(401, UNUSABLE);
    let page = agent.login_page(&[]).await;
    let refused = agent.sign_in(&page, &bob.address, PASSWORD).await;
    assert_eq!(refused.response.status, 403);
}

#[tokio::test]
async fn the_operator_can_list_and_revoke_grants() {
    let service = Service::with_mail().await;
    let ada = service.person("ada").await;
    let agent = Client::register(&service).await;
    let granted = agent.tokens(&ada).await;
    let shown = service
        .operator("account show ada@first.test --json", "")
        .await;
    let shown: Value = serde_json::from_str(&shown.succeeds()).unwrap();
    let credentials = shown["credentials"].as_array().unwrap();
    let grant = credentials.iter().find(|c| c["type"] == "oauth_grant");
    let grant = grant.unwrap();
    let label = format!("Test agent ({})", agent.client_id);
    assert_eq!(grant["label"], label);
    // The owner's list has no such type.
    let listed = ada.send("GET /api/v1/profile/sessions").await;
    let listed = listed.succeeds(200).to_string();
    assert!(!listed.contains("Test agent"), "{listed}");
    let id = grant["id"].as_str().unwrap();
    let withdraw = format!("account withdraw ada@first.test {id}");
    service.operator(&withdraw, "").await.succeeds();
    let over = service.with_bearer(FOLDERS, &granted.access).await;
    over.fails(401, UNUSABLE);
    service
        .operator(&withdraw, "")
        .await
        .fails_mentioning("has no grant");
    let record = service.operator("audit --account ada@first.test", "").await;
    let record = record.succeeds();
    for kind in ["client_agreed_to", "oauth_grant_made", "oauth_grant_ended"] {
        assert!(record.contains(kind), "{kind}: {record}");
    }
}
