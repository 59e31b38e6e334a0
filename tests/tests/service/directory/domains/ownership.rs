//! Domains that several accounts claim, and domains of the platform.

use futures_util::future::join_all;
use latchmail_tests::{PASSWORD, Person, add_alias};
use serde_json::Value;

use super::{
    EXAMPLE, INVALID, MEMORY, MISSING, TAKEN, TestEnv, UNKNOWN, claim, list, read, release, text,
    verify,
};

#[tokio::test]
async fn several_accounts_can_claim_a_domain_and_the_first_to_verify_wins() {
    let env = TestEnv::start().await;
    let service = &env.service;
    let (ada, bob) = (service.person("ada").await, service.person("bob").await);
    let eve = service.person("eve").await;
    let claimed = claim(&ada, EXAMPLE).await.succeeds(201);
    let others = claim(&bob, EXAMPLE).await.succeeds(201);
    assert_ne!(claimed["verification"], others["verification"]);
    // Another account's record does not verify the claim.
    env.publish_record(&claimed);
    verify(&bob, EXAMPLE).await.fails(400, MISSING);
    assert_eq!(list(&bob).await["domains"][0]["domain"], EXAMPLE);
    verify(&ada, EXAMPLE).await.succeeds(200);

    // The other claimant gets 404, even if its record is published.
    env.publish_record(&others);
    service.clock.advance(MEMORY);
    verify(&bob, EXAMPLE).await.fails(404, UNKNOWN);
    read(&bob, EXAMPLE).await.fails(404, UNKNOWN);
    release(&bob, EXAMPLE).await.fails(404, UNKNOWN);
    assert_eq!(list(&bob).await["used"], 0);
    for person in [&bob, &eve] {
        claim(person, EXAMPLE).await.fails(409, TAKEN);
        claim(person, "ADA.example.").await.fails(409, TAKEN);
    }
    // A subdomain is another domain.
    claim(&bob, "sub.ada.example").await.succeeds(201);

    release(&ada, EXAMPLE).await.succeeds(200);
    let again = claim(&bob, EXAMPLE).await.succeeds(201);
    assert_ne!(again["verification"], others["verification"]);
    env.dns.clear();
    env.publish_record(&others);
    verify(&bob, EXAMPLE).await.fails(400, MISSING);
    service.clock.advance(MEMORY);
    env.publish_record(&again);
    verify(&bob, EXAMPLE).await.succeeds(200);
    claim(&ada, EXAMPLE).await.fails(409, TAKEN);
}

#[tokio::test]
async fn of_concurrent_verifications_one_succeeds() {
    let env = TestEnv::start().await;
    let service = &env.service;
    let mut people = Vec::new();
    for name in ["ada", "bob", "eve", "joe"] {
        people.push(service.person(name).await);
    }
    let mut values = Vec::new();
    for person in &people {
        let claimed = claim(person, EXAMPLE).await.succeeds(201);
        values.push(text(&claimed["verification"], "value").to_owned());
    }
    let host = "_latchmail-challenge.ada.example";
    let values: Vec<&str> = values.iter().map(String::as_str).collect();
    env.dns.txts(host, &values);
    // Each account sends the request twice, because a client that repeats a request also competes
    // with itself.
    let claimants = people.iter().chain(&people);
    let responses = join_all(claimants.map(|person| verify(person, EXAMPLE))).await;
    let mut holders = 0;
    for (number, person) in people.iter().enumerate() {
        let own = [&responses[number], &responses[number + people.len()]];
        if list(person).await["used"] == 1 {
            holders += 1;
            assert!(own.iter().all(|response| response.status == 200), "{own:?}");
            let keys: Vec<&Value> = own.iter().map(|a| &a.json["records"][2]["value"]).collect();
            assert_eq!(keys[0], keys[1], "one key");
        } else {
            for response in own {
                match response.status {
                    409 => response.fails(409, TAKEN),
                    _ => response.fails(404, UNKNOWN),
                }
            }
        }
    }
    assert_eq!(holders, 1);
}

#[tokio::test]
async fn a_domain_is_visible_only_to_its_owner() {
    let env = TestEnv::start().await;
    let (ada, bob) = (
        env.service.person("ada").await,
        env.service.person("bob").await,
    );
    env.active(&ada, EXAMPLE).await;
    let before = list(&ada).await;
    for response in [
        read(&bob, EXAMPLE).await,
        verify(&bob, EXAMPLE).await,
        release(&bob, EXAMPLE).await,
    ] {
        response.fails(404, UNKNOWN);
    }
    assert_eq!(list(&ada).await, before);
}

#[tokio::test]
async fn a_domain_with_addresses_of_accounts_cannot_be_claimed() {
    let mut env = TestEnv::with_own_mail().await;
    {
        let bob = env.service.person("bob").await;
        add_alias(&bob, "bob@once.example", true).await;
        let ada = env.service.person("ada").await;
        claim(&ada, "once.example").await.fails(400, INVALID);
    }
    // A domain that is no longer in the configuration.
    env.service
        .restart_with(|config| config.registration.domains = vec!["second.test".into()])
        .await;
    let bob = Person::sign_in(&env.service, "bob@first.test", PASSWORD).await;
    claim(&bob, "first.test").await.fails(400, INVALID);
}
