//! Grants of members: their targets, changes of their rights, and grants that a manager makes.

use latchmail_tests::{DOMAIN, PASSWORD, Person, Service, imap};
use serde_json::{Value, json};

use super::{
    EVERY_RIGHT, NOT_MANAGING, OWNERS, change, grant, invite, member, remove, revoke, team_of,
    teams, text,
};

const NOT_HELD: &str = "You can only grant rights that you hold";
const NO_MEMBER: &str = "There is no such member";
const NO_GRANT: &str = "There is no such grant";
const NO_FOLDER: &str = "Folder not found";
const NO_ALIAS: &str = "There is no such alias";

/// Makes a folder and an alias for `ada`, and returns the folder's id.
async fn create_folder_and_alias(ada: &Person<'_>) -> String {
    imap(ada).await.create("Work").await.unwrap();
    let shop = json!({ "domain": DOMAIN, "name": "shop" });
    ada.post("/api/v1/aliases", &shop).await.succeeds(201);
    ada.folder_id("Work").await
}

#[tokio::test]
async fn a_grant_can_be_for_the_mailbox_a_folder_an_alias_or_a_set_of_aliases() {
    let service = Service::with_mail().await;
    let (ada, bob) = (service.person("ada").await, service.person("bob").await);
    let work = create_folder_and_alias(&ada).await;
    let team = team_of(&ada).await;
    invite(&ada, &team, "bob", &["mail:read"])
        .await
        .succeeds(201);
    let guest = team_of(&bob).await;
    for (kind, id, kept, rights) in [
        ("folder", json!(work), json!(work), ["mail:write"]),
        (
            "alias",
            json!("Shop@First.Test"),
            json!("shop@first.test"),
            ["mail:send"],
        ),
        ("alias_set", json!("all"), json!("all"), ["aliases:read"]),
        ("alias_set", json!("own"), json!("own"), ["aliases:write"]),
        (
            "alias_set",
            json!("domain:SECOND.test"),
            json!("domain:second.test"),
            ["mail:send"],
        ),
        ("mailbox", Value::Null, Value::Null, ["mail:read"]),
    ] {
        let body = json!({ "resource_kind": kind, "resource_id": id, "resource_label": "A label", "rights": rights });
        let granted = grant(&ada, &team, &guest, &body).await.succeeds(201);
        let expected = json!({ "grantId": granted["grantId"], "rights": rights });
        assert_eq!(granted, expected);
        let held = member(&ada, &team, "bob").await;
        let last = held["grants"].as_array().unwrap().iter();
        let last = last.filter(|one| one["grantId"] == granted["grantId"]);
        let expected = json!({
            "grantId": granted["grantId"], "resource_kind": kind, "resource_id": kept, "resource_label": "A label", "rights": rights,
        });
        assert_eq!(last.collect::<Vec<_>>(), [&expected]);
    }
    let held = member(&ada, &team, "bob").await;
    assert_eq!(held["grants"].as_array().unwrap().len(), 7);
    assert_eq!(held["rights"], json!(EVERY_RIGHT[..5]));

    imap(&bob).await.create("Work").await.unwrap();
    let bobs = bob.folder_id("Work").await;
    for (kind, id, right, text) in [
        ("folder", "none", "mail:read", NO_FOLDER),
        ("folder", &bobs, "mail:read", NO_FOLDER),
        ("alias", "none@first.test", "mail:send", NO_ALIAS),
        ("alias", "no address", "mail:send", NO_ALIAS),
        // The account's own address is not an alias.
        ("alias", "ada@first.test", "mail:send", NO_ALIAS),
    ] {
        let body = json!({ "resource_kind": kind, "resource_id": id, "rights": [right] });
        let refused = grant(&ada, &team, &guest, &body).await;
        refused.fails(404, text);
    }
    let body = json!({ "resource_kind": "mailbox", "rights": ["mail:read"] });
    let response = grant(&ada, &team, "none", &body).await;
    response.fails(404, NO_MEMBER);
    let owner = grant(&ada, &team, &team, &body).await;
    owner.fails(403, OWNERS);
}

#[tokio::test]
async fn no_grant_is_created_for_a_deleted_folder() {
    let service = Service::with_mail().await;
    let (ada, bob) = (service.person("ada").await, service.person("bob").await);
    let work = create_folder_and_alias(&ada).await;
    let team = team_of(&ada).await;
    let rights = ["members:manage", "mail:read"];
    invite(&ada, &team, "bob", &rights).await.succeeds(201);
    service.person("cyd").await;
    let guest = team_of(&bob).await;
    imap(&ada).await.delete("Work").await.unwrap();
    let mut body =
        json!({ "resource_kind": "folder", "resource_id": work, "rights": ["mail:read"] });
    for by in [&ada, &bob] {
        let refused = grant(by, &team, &guest, &body).await;
        refused.fails(404, NO_FOLDER);
    }
    body["username"] = "cyd".into();
    body["password"] = PASSWORD.into();
    let path = format!("/api/v1/teams/{team}/invitations");
    ada.post(&path, &body).await.fails(404, NO_FOLDER);
}

#[tokio::test]
async fn a_grant_can_be_reduced_and_revoked() {
    let service = Service::with_mail().await;
    let (ada, bob) = (service.person("ada").await, service.person("bob").await);
    let team = team_of(&ada).await;
    let invited = invite(&ada, &team, "bob", &["mail:read", "mail:write"]).await;
    let id = text(&invited.succeeds(201)["grantId"]);
    let changed = change(&ada, &team, &id, &["mail:read", "mail:read"]).await;
    let expected = json!({ "grantId": id, "rights": ["mail:read"] });
    assert_eq!(changed.succeeds(200), expected);
    assert_eq!(teams(&bob).await[1]["rights"], json!(["mail:read"]));
    let nothing = change(&ada, &team, &id, &[]).await;
    nothing.fails(400, "rights must not be empty");
    for (team, id) in [(&team, "none"), (&team_of(&bob).await, &id)] {
        let by = if *team == team_of(&ada).await {
            &ada
        } else {
            &bob
        };
        change(by, team, id, &["mail:read"])
            .await
            .fails(404, NO_GRANT);
        revoke(by, team, id).await.fails(404, NO_GRANT);
    }
    let revoked = revoke(&ada, &team, &id).await.succeeds(200);
    assert_eq!(revoked, json!({ "success": true }));
    revoke(&ada, &team, &id).await.fails(404, NO_GRANT);
    // A member without rights is still a member.
    assert_eq!(teams(&bob).await.len(), 1);
    let held = member(&ada, &team, "bob").await;
    assert_eq!((&held["rights"], &held["grants"]), (&json!([]), &json!([])));
}

#[tokio::test]
async fn a_manager_can_grant_only_its_own_rights() {
    let service = Service::with_mail().await;
    let (ada, bob, cyd) = (
        service.person("ada").await,
        service.person("bob").await,
        service.person("cyd").await,
    );
    service.person("dan").await;
    let work = create_folder_and_alias(&ada).await;
    let team = team_of(&ada).await;
    let bobs = invite(&ada, &team, "bob", &["members:manage", "mail:read"]).await;
    let bobs = text(&bobs.succeeds(201)["grantId"]);
    let cyds = invite(&bob, &team, "cyd", &["mail:read"]).await;
    let cyds = text(&cyds.succeeds(201)["grantId"]);
    let dan = invite(&bob, &team, "dan", &["mail:read", "mail:send"]).await;
    dan.fails(403, NOT_HELD);
    let guest = team_of(&cyd).await;
    for (kind, id, rights, status) in [
        ("folder", json!(work), ["mail:read"], 201),
        ("folder", json!(work), ["mail:write"], 403),
        // A caller that may not grant the right cannot tell whether the alias exists.
        ("alias", json!("shop@first.test"), ["mail:send"], 403),
        ("alias", json!("none@first.test"), ["mail:send"], 403),
        ("alias_set", json!("own"), ["mail:send"], 403),
        ("mailbox", Value::Null, ["members:manage"], 201),
    ] {
        let body = json!({ "resource_kind": kind, "resource_id": id, "rights": rights });
        let response = grant(&bob, &team, &guest, &body).await;
        assert_eq!(response.status, status, "{kind} {id}: {}", response.json);
    }
    let wider = change(&bob, &team, &cyds, &["mail:read", "mail:write"]).await;
    wider.fails(403, NOT_HELD);
    let wider = change(&bob, &team, &bobs, &EVERY_RIGHT).await;
    wider.fails(403, NOT_HELD);
    // The owner reduces the manager's grant, and from the next request on the manager cannot grant.
    let narrowed = change(&ada, &team, &bobs, &["mail:read"]).await;
    narrowed.succeeds(200);
    let refused = invite(&bob, &team, "dan", &["mail:read"]).await;
    refused.fails(403, NOT_MANAGING);
    let owner = remove(&cyd, &team, &team).await;
    owner.fails(403, OWNERS);
    remove(&cyd, &team, &team_of(&bob).await)
        .await
        .succeeds(200);
}
