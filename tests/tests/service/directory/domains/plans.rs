//! The number of domains that a plan allows.

use futures_util::future::join_all;
use serde_json::json;

use super::{INVALID, TAKEN, TestEnv, claim, list, release, text};

const NOT_INCLUDED: &str = "Custom domains aren't included in your plan";
const FULL: &str = "Your plan's custom domains are all in use";

#[tokio::test]
async fn a_plan_limits_the_domains_of_an_account() {
    let env = TestEnv::with("plans.default.custom_domains = 2\nplans.none.custom_domains = 0\nplans.pro.custom_domains = 50").await;
    let service = &env.service;
    let (ada, bob) = (service.person("ada").await, service.person("bob").await);
    claim(&ada, "one.example").await.succeeds(201);
    env.active(&ada, "two.example").await;
    claim(&ada, "three.example").await.fails(403, FULL);
    claim(&ada, "one.example").await.succeeds(200);
    let held = list(&ada).await;
    assert_eq!((&held["limit"], &held["used"]), (&json!(2), &json!(2)));
    let names: Vec<&str> = held["domains"]
        .as_array()
        .unwrap()
        .iter()
        .map(|domain| text(domain, "domain"))
        .collect();
    assert_eq!(names.len(), 2);
    claim(&ada, "com").await.fails(400, INVALID);
    claim(&bob, "two.example").await.fails(409, TAKEN);

    let plan = async |name: &str| {
        let verb = format!("account plan ada@first.test {name}");
        service.operator(&verb, "").await.succeeds();
    };
    plan("none").await;
    assert_eq!(list(&ada).await["limit"], 0);
    assert_eq!(list(&ada).await["used"], 2, "existing domains stay");
    claim(&ada, "two.example").await.succeeds(200);
    for name in ["three.example", "anybodys.example"] {
        claim(&ada, name).await.fails(403, NOT_INCLUDED);
    }
    plan("pro").await;
    claim(&ada, "three.example").await.succeeds(201);
    release(&ada, "three.example").await.succeeds(200);
    plan("default").await;
    claim(&ada, "three.example").await.fails(403, FULL);
    release(&ada, "one.example").await.succeeds(200);
    claim(&ada, "three.example").await.succeeds(201);

    service
        .execute("UPDATE accounts SET plan = 'of-old' WHERE address = 'bob@first.test'")
        .await;
    assert_eq!(list(&bob).await["limit"], 2);
}

#[tokio::test]
async fn concurrent_claims_cannot_exceed_the_limit_of_the_plan() {
    let env = TestEnv::with("plans.default.custom_domains = 3").await;
    let ada = env.service.person("ada").await;
    let names: Vec<String> = (0..10).map(|n| format!("d{n}.example")).collect();
    let responses = join_all(names.iter().map(|name| claim(&ada, name))).await;
    let made = responses.iter().filter(|response| response.status == 201);
    assert_eq!(made.count(), 3);
    for response in responses.iter().filter(|response| response.status != 201) {
        response.fails(403, FULL);
    }
    assert_eq!(list(&ada).await["used"], 3);
}
