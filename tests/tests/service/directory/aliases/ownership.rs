//! Ownership of addresses, and ids of aliases.

use futures_util::future::join_all;
use latchmail_tests::{DOMAIN, PASSWORD, Person, Service, add_alias};
use serde_json::json;

use super::{MISSING, checked, create, created_id, delete, listed, set};

#[tokio::test]
async fn an_address_belongs_to_one_account_or_alias() {
    let service = Service::start().await;
    let (ada, bob) = (service.person("ada").await, service.person("bob").await);
    service
        .execute("INSERT INTO addresses (address, kind) VALUES ('list@first.test', 'held')")
        .await;
    let shop = created_id(&ada, "shop@first.test").await;
    let gone = created_id(&ada, "gone@first.test").await;
    delete(&ada, gone).await.succeeds(200);
    let asleep = created_id(&ada, "asleep@first.test").await;
    set(&ada, asleep, false).await.succeeds(200);
    for name in ["ada", "bob", "shop", "gone", "asleep", "list"] {
        let taken = format!("{name}@first.test is already taken");
        create(&bob, &format!("{name}@first.test"))
            .await
            .fails(400, &taken);
        assert_eq!(checked(&bob, name, DOMAIN).await, Some(taken));
        let body = json!({
            "local_part": name, "domain": DOMAIN, "password": PASSWORD,
            "first_name": "Eve", "last_name": "Eve", "dob": "1990-12-10",
        });
        let response = service.post("/api/v1/auth/register", &body).await;
        response.fails(409, "This email address is already taken");
    }
    for name in ["ada", "shop", "list"] {
        let taken = format!("{name}@first.test is already taken");
        create(&ada, &format!("{name}@first.test"))
            .await
            .fails(400, &taken);
    }
    // Its former owner can create it again, with the same id.
    assert_eq!(checked(&ada, "gone", DOMAIN).await, None);
    assert_eq!(created_id(&ada, "gone@first.test").await, gone);
    // The same name on another domain is another address.
    assert_ne!(created_id(&bob, "shop@second.test").await, shop);
    // `username-available` checks only accounts.
    let line = "GET /api/v1/auth/username-available?username=shop";
    assert_eq!(service.send(line).await.succeeds(200)["available"], true);
}

#[tokio::test]
async fn of_concurrent_requests_for_an_address_one_succeeds() {
    let service = Service::start().await;
    let (ada, bob) = (service.person("ada").await, service.person("bob").await);
    for round in 0..5 {
        let address = format!("wanted-{round}@first.test");
        let name = format!("wanted-{round}");
        let body = json!({
            "local_part": name, "domain": DOMAIN, "password": PASSWORD,
            "first_name": "Eve", "last_name": "Eve", "dob": "1990-12-10",
        });
        let people = [&ada, &bob].repeat(3);
        let creations = join_all(people.iter().map(|person| create(person, &address)));
        let registration = service.post("/api/v1/auth/register", &body);
        let (mut responses, registered) = tokio::join!(creations, registration);
        let taken = format!("{address} is already taken");
        for response in responses.iter().filter(|response| response.status != 201) {
            response.fails(400, &taken);
        }
        if registered.status != 201 {
            registered.fails(409, "This email address is already taken");
        }
        responses.push(registered);
        let winners = responses.iter().filter(|response| response.status == 201);
        assert_eq!(winners.count(), 1, "{address}");
    }
}

#[tokio::test]
async fn an_id_depends_only_on_the_address_and_reveals_no_other_alias() {
    let mut service = Service::with_mail().await;
    let ids = {
        let (ada, bob) = (service.person("ada").await, service.person("bob").await);
        let mut ids = Vec::new();
        for n in 0..10 {
            let id = created_id(&ada, &format!("shop{n}@first.test")).await;
            assert!((1..1 << 53).contains(&id));
            // The id of another account's alias looks like an unknown id.
            let (foreign, unknown) = (delete(&bob, id).await, delete(&bob, id ^ 1).await);
            assert_eq!(
                (foreign.status, &foreign.json),
                (unknown.status, &unknown.json)
            );
            foreign.fails(404, MISSING);
            for active in [true, false] {
                set(&bob, id, active).await.fails(404, MISSING);
            }
            ids.push(id);
        }
        assert!(
            listed(&ada)
                .await
                .iter()
                .all(|alias| alias["active"] == true)
        );
        ids
    };
    let ada = "ada@first.test";
    service.restart().await;
    let ada = Person::sign_in(&service, ada, PASSWORD).await;
    let again: Vec<u64> = listed(&ada)
        .await
        .iter()
        .map(|a| a["id"].as_u64().unwrap())
        .collect();
    assert_eq!(again, ids);
}

#[tokio::test]
async fn an_alias_that_the_api_did_not_create_has_no_dates() {
    let service = Service::start().await;
    let ada = service.person("ada").await;
    add_alias(&ada, "old@first.test", true).await;
    let old = listed(&ada).await.remove(0);
    let id = old["id"].as_u64().unwrap();
    let without = |active: bool| {
        json!({
            "id": id, "address": "old@first.test", "active": active,
            "note": null, "expiresAt": null, "lastReceivedAt": null, "received": 0,
        })
    };
    assert_eq!(old, without(true));
    set(&ada, id, false).await.succeeds(200);
    assert_eq!(listed(&ada).await, [without(false)]);
    delete(&ada, id).await.succeeds(200);
    assert_eq!(created_id(&ada, "old@first.test").await, id);
    assert!(listed(&ada).await[0]["created"].is_string());
}
