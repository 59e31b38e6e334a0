//! Limits on the number of aliases of an account and of a credential.

use std::time::Duration;

use futures_util::future::join_all;
use latchmail_tests::dkim::add_domain;
use latchmail_tests::{DOMAIN, Person, Service};
use serde_json::json;

use super::{ALIASES, addresses, checked, create, created_id, delete, listed};

#[tokio::test]
async fn an_account_has_a_limit_of_aliases_on_platform_domains() {
    let service = Service::start().await;
    let (ada, bob) = (service.person("ada").await, service.person("bob").await);
    add_domain(&ada, "ada.test").await;
    service
        .execute(
            "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 498) \
             INSERT INTO addresses (address, kind, account_id, live) \
             SELECT 'n' || i || '@first.test', 'alias', (SELECT id FROM accounts WHERE address = 'ada@first.test'), i % 2 = 0 FROM n",
        )
        .await;
    created_id(&ada, "one@first.test").await;
    let responses = ["two@first.test", "two@second.test", "three@first.test"];
    let responses = join_all(responses.iter().map(|address| create(&ada, address))).await;
    let full = "You have had 500 different aliases on this service's domains; create one of them again instead";
    let refused = responses.iter().filter(|response| response.status != 201);
    assert_eq!(refused.map(|response| response.fails(409, full)).count(), 2);
    assert_eq!(checked(&ada, "four", DOMAIN).await.as_deref(), Some(full));
    ada.post(ALIASES, &json!({ "domain": DOMAIN }))
        .await
        .fails(409, full);
    created_id(&ada, "n1@first.test").await;
    created_id(&ada, "four@ada.test").await;
    created_id(&bob, "four@first.test").await;
}

#[tokio::test]
async fn a_credential_can_create_fifty_new_aliases_a_day() {
    let service = Service::start().await;
    let ada = service.person("ada").await;
    let token = async || {
        let token = ada.token(&["aliases:write", "aliases:read"]).await;
        Person {
            access: token["token"].as_str().unwrap().into(),
            ..ada.clone()
        }
    };
    let (stolen, other) = (token().await, token().await);
    for n in 0..50 {
        created_id(&stolen, &format!("n{n}@first.test")).await;
        service.clock.advance(Duration::from_mins(1));
    }
    let refused = create(&stolen, "one-more@first.test").await;
    refused.fails(429, "Too many requests, please try again later");
    assert_eq!(refused.header("retry-after"), Some("83400"));
    assert_eq!(addresses(&stolen).await.len(), 50);
    // Creating an existing alias again does not count, and each credential has its own limit.
    let id = listed(&stolen).await[0]["id"].as_u64().unwrap();
    delete(&stolen, id).await.succeeds(200);
    created_id(&stolen, "n0@first.test").await;
    created_id(&other, "hers@first.test").await;
    service.clock.advance(Duration::from_hours(23));
    create(&stolen, "one-more@first.test")
        .await
        .fails(429, "Too many requests, please try again later");
    service.clock.advance(Duration::from_mins(10));
    created_id(&stolen, "one-more@first.test").await;
    create(&stolen, "two-more@first.test")
        .await
        .fails(429, "Too many requests, please try again later");
}
