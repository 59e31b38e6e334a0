//! The list of teams, and the responses to members and to other accounts.

use latchmail_tests::{DOMAIN, PASSWORD, Person, Service};
use serde_json::json;

use super::{
    EVERY_RIGHT, NO_TEAM, NOT_MANAGING, OWNERS, change, grant, invite, members, remove, revoke,
    send_invitation, team_of, teams, text,
};

#[tokio::test]
async fn the_callers_own_mailbox_is_a_team_with_every_right() {
    let service = Service::with_mail().await;
    let ada = service.person("ada").await;
    let [own] = &teams(&ada).await[..] else {
        panic!("one team");
    };
    let expected = json!({
        "id": own["id"], "address": ada.address, "name": "Ada Lovelace", "role": "owner",
        "rights": EVERY_RIGHT, "mailboxRights": ["mail:read", "mail:write", "mail:send"],
    });
    assert_eq!(*own, expected);

    // An account without a name.
    let address = format!("operators.own@{DOMAIN}");
    service.create_account(&address).await;
    let made = Person::sign_in(&service, &address, PASSWORD).await;
    assert_eq!(teams(&made).await[0]["name"], "operators.own");
}

#[tokio::test]
async fn shared_mailboxes_are_listed_by_address_with_the_callers_rights() {
    let service = Service::with_mail().await;
    let (ada, bob, cyd) = (
        service.person("ada").await,
        service.person("bob").await,
        service.person("cyd").await,
    );
    let team = team_of(&cyd).await;
    let alias = json!({
        "username": "bob", "password": PASSWORD, "resource_kind": "alias_set", "resource_id": "own", "rights": ["mail:send", "aliases:write"],
    });
    send_invitation(&cyd, &team, &alias).await.succeeds(201);
    let team = team_of(&ada).await;
    invite(&ada, &team, "bob", &["members:manage", "mail:read"])
        .await
        .succeeds(201);
    let listed = teams(&bob).await;
    let summaries: Vec<_> = listed
        .iter()
        .map(|team| {
            (
                &team["address"],
                &team["role"],
                &team["rights"],
                &team["mailboxRights"],
            )
        })
        .collect();
    assert_eq!(summaries[0].0, &json!(bob.address));
    let expected = [
        (
            &json!(ada.address),
            &json!("guest"),
            &json!(["mail:read", "members:manage"]),
            &json!(["mail:read"]),
        ),
        (
            &json!(cyd.address),
            &json!("guest"),
            &json!(["mail:send", "aliases:write"]),
            &json!(["mail:send"]),
        ),
    ];
    assert_eq!(summaries[1..], expected);
}

#[tokio::test]
async fn a_member_that_is_not_a_manager_sees_only_the_owner_and_itself() {
    let service = Service::with_mail().await;
    let (ada, bob, cyd) = (
        service.person("ada").await,
        service.person("bob").await,
        service.person("cyd").await,
    );
    let team = team_of(&ada).await;
    let bobs = invite(&ada, &team, "bob", &["mail:read"]).await;
    let bobs = text(&bobs.succeeds(201)["grantId"]);
    invite(&ada, &team, "cyd", &["members:manage"])
        .await
        .succeeds(201);
    let seen = async |person: &Person<'_>| {
        let listed = members(person, &team).await.succeeds(200);
        let names = listed["members"].as_array().unwrap().iter();
        let names = names.map(|member| text(&member["username"]));
        names.collect::<Vec<_>>()
    };
    assert_eq!(seen(&ada).await, ["ada", "bob", "cyd"]);
    assert_eq!(seen(&cyd).await, ["ada", "bob", "cyd"]);
    assert_eq!(seen(&bob).await, ["ada", "bob"]);
    let body = json!({ "resource_kind": "mailbox", "rights": ["mail:read"] });
    let cyds = team_of(&cyd).await;
    for member in [&cyds, "none", &team] {
        let responses = [
            grant(&bob, &team, member, &body).await,
            remove(&bob, &team, member).await,
        ];
        for response in responses {
            response.fails(403, NOT_MANAGING);
        }
    }
    for id in [&bobs, "none"] {
        let changed = change(&bob, &team, id, &["mail:read"]).await;
        changed.fails(403, NOT_MANAGING);
        revoke(&bob, &team, id).await.fails(403, NOT_MANAGING);
    }
    let invited = invite(&bob, &team, "dan", &["mail:read"]).await;
    invited.fails(403, NOT_MANAGING);
    let owner = remove(&ada, &team, &team).await;
    owner.fails(403, OWNERS);
}

#[tokio::test]
async fn a_team_does_not_exist_for_strangers_and_former_members() {
    let service = Service::with_mail().await;
    let (ada, bob, eve) = (
        service.person("ada").await,
        service.person("bob").await,
        service.person("eve").await,
    );
    let team = team_of(&ada).await;
    let invited = invite(&ada, &team, "bob", &EVERY_RIGHT).await;
    let grant_id = text(&invited.succeeds(201)["grantId"]);
    let guest = team_of(&bob).await;
    remove(&bob, &team, &guest).await.succeeds(200);
    assert_eq!(teams(&bob).await.len(), 1);
    let body = json!({ "resource_kind": "mailbox", "rights": ["mail:read"] });
    for person in [&bob, &eve] {
        for team in [team.as_str(), "none"] {
            let responses = [
                members(person, team).await,
                invite(person, team, "eve", &["mail:read"]).await,
                grant(person, team, &guest, &body).await,
                change(person, team, &grant_id, &["mail:read"]).await,
                revoke(person, team, &grant_id).await,
                remove(person, team, &guest).await,
            ];
            for response in responses {
                response.fails(404, NO_TEAM);
            }
        }
    }
}
