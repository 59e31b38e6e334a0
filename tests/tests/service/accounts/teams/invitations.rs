//! Invitations: user names, passwords, invalid fields, and the number of members that a plan
//! allows.

use futures_util::future::join;
use latchmail_tests::{Response, Service};
use serde_json::{Value, json};

use super::{
    EVERY_RIGHT, TEAMS, WRONG, invitation, invite, keys, member, members, remove, send_invitation,
    team_of, teams, text,
};

const NO_USER: &str = "There is no such user";
const MEMBER: &str = "The account is already a member";
const FULL: &str = "The plan's limit of guests is reached";

#[tokio::test]
async fn an_invitation_creates_a_member_and_the_standing_key_immediately() {
    let service = Service::with_mail().await;
    let (ada, bob) = (service.person("ada").await, service.person("bob").await);
    let team = team_of(&ada).await;
    let before = members(&ada, &team).await.succeeds(200);
    assert_eq!(before["members"].as_array().unwrap().len(), 1);
    assert_eq!(before["limits"], json!({ "maxGuests": 5, "guests": 0 }));
    assert_eq!(before["shared"], false);
    assert!(keys(&ada).await.is_empty());

    let mut body = invitation("bob", &["mail:write", "mail:read", "mail:write"]);
    body["resource_label"] = json!("All of it");
    let invited = send_invitation(&ada, &team, &body).await.succeeds(201);
    let rights = json!(["mail:read", "mail:write"]);
    let expected = json!({
        "membershipId": invited["membershipId"], "grantId": invited["grantId"], "username": "bob", "rights": rights, "shared": true,
    });
    assert_eq!(invited, expected);

    let after = members(&ada, &team).await.succeeds(200);
    let members = after["members"].as_array().unwrap();
    let owner = json!({
        "userId": team, "username": "ada", "address": ada.address, "role": "owner", "rights": EVERY_RIGHT, "grants": [],
        "joinedAt": members[0]["joinedAt"],
    });
    assert_eq!(members[0], owner);
    let guest = json!({
        "userId": team_of(&bob).await, "username": "bob", "address": bob.address, "role": "guest", "rights": rights,
        "grants": [{
            "grantId": invited["grantId"], "resource_kind": "mailbox", "resource_id": null, "resource_label": "All of it", "rights": rights,
        }],
        "joinedAt": members[1]["joinedAt"],
    });
    assert_eq!(members[1], guest);
    for member in members {
        let joined = text(&member["joinedAt"]);
        assert!(joined.ends_with('Z') && joined.len() == 24, "{joined}");
    }
    assert_eq!(after["limits"], json!({ "maxGuests": 5, "guests": 1 }));
    assert_eq!(after["shared"], true);

    let [key] = &keys(&ada).await[..] else {
        panic!("one key");
    };
    assert_eq!(key["type"], "app_password");
    assert_eq!(key["expiresAt"], Value::Null);
    assert_eq!(teams(&bob).await[1]["id"], *team);

    // The second member uses the same key.
    service.person("cyd").await;
    invite(&ada, &team, "cyd", &["mail:read"])
        .await
        .succeeds(201);
    assert_eq!(keys(&ada).await, std::slice::from_ref(key));
}

#[tokio::test]
async fn a_username_is_a_local_part_on_the_first_domain_or_a_complete_address() {
    let service = Service::with_mail().await;
    let ada = service.person("ada").await;
    let team = team_of(&ada).await;
    service.person("bob").await;
    service.create_account("cyd@second.test").await;
    service.create_account("dan@second.test").await;
    for (typed, listed) in [
        ("BOB", "bob"),
        ("Cyd@Second.Test", "cyd@second.test"),
        ("dan@second.test", "dan@second.test"),
    ] {
        let invited = invite(&ada, &team, typed, &["mail:read"]).await;
        assert_eq!(invited.succeeds(201)["username"], listed);
        let found = member(&ada, &team, listed).await;
        assert_eq!(found["role"], "guest");
    }
    let thirty_two = "x".repeat(32);
    for unknown in [
        "cyd",
        "nobody",
        "eve@nowhere.test",
        "two words",
        "a@b@c@first.test",
        &thirty_two,
    ] {
        let refused = invite(&ada, &team, unknown, &["mail:read"]).await;
        refused.fails(404, NO_USER);
    }
    let thirty_three = "x".repeat(33);
    for bounds in ["", "ab", "ab@first.test", &thirty_three] {
        let refused = invite(&ada, &team, bounds, &["mail:read"]).await;
        refused.fails_mentioning(400, "username must be 3 to 32 characters");
    }
}

#[tokio::test]
async fn an_invitation_requires_the_callers_password_before_it_reveals_anything() {
    let service = Service::with_mail().await;
    let (ada, bob) = (service.person("ada").await, service.person("bob").await);
    let team = team_of(&ada).await;
    for username in ["bob", "nobody"] {
        for password in ["Wrong-Horse-7", "x"] {
            let mut body = invitation(username, &["mail:read"]);
            body["password"] = json!(password);
            send_invitation(&ada, &team, &body).await.fails(403, WRONG);
        }
    }
    assert!(keys(&ada).await.is_empty());
    assert_eq!(teams(&bob).await.len(), 1);
    let recorded = service.dump().await;
    let failed = recorded
        .iter()
        .filter(|row| row.contains("invitation_failed"));
    assert_eq!(failed.count(), 4);
    assert!(!recorded.iter().any(|row| row.contains("Wrong-Horse-7")));
}

#[tokio::test]
async fn an_invalid_field_is_named_in_the_error() {
    let service = Service::with_mail().await;
    let ada = service.person("ada").await;
    service.person("bob").await;
    let team = team_of(&ada).await;
    let with = |changes: &Value| {
        let mut body = invitation("bob", &["mail:read"]);
        for (field, value) in changes.as_object().unwrap() {
            body[field] = value.clone();
        }
        body
    };
    for (changes, mention) in [
        (json!({ "username": null }), "username must be a string"),
        (json!({ "password": "" }), "password must not be empty"),
        (json!({ "password": 7 }), "password must be a string"),
        (json!({ "rights": [] }), "rights must not be empty"),
        (json!({ "rights": "mail:read" }), "rights must be an array"),
        (json!({ "rights": ["mail:burn"] }), "rights[0]"),
        (json!({ "resource_kind": "house" }), "resource_kind"),
        (json!({ "resource_id": "x" }), "resource_id must be null"),
        (
            json!({ "resource_kind": "folder" }),
            "resource_id is required",
        ),
        (
            json!({ "resource_kind": "alias" }),
            "resource_id is required",
        ),
        (
            json!({ "resource_kind": "alias_set", "resource_id": "some", "rights": ["mail:send"] }),
            "resource_id must be all, own or domain:<domain>",
        ),
        (
            json!({ "resource_kind": "alias_set", "resource_id": "domain:none.example", "rights": ["mail:send"] }),
            "resource_id must name a domain",
        ),
        (
            json!({ "resource_kind": "folder", "resource_id": "f1", "rights": ["mail:send"] }),
            "rights on a folder must be among mail:read, mail:write",
        ),
        (
            json!({ "resource_kind": "alias_set", "resource_id": "all", "rights": ["mail:read"] }),
            "rights on a set of aliases must be among",
        ),
        (
            json!({ "resource_label": "x".repeat(201) }),
            "resource_label",
        ),
        (json!({ "resource_label": "two\nlines" }), "resource_label"),
        (
            json!({ "username": "ada" }),
            "username must not be your own",
        ),
    ] {
        let refused = send_invitation(&ada, &team, &with(&changes)).await;
        refused.fails_mentioning(400, mention);
    }
    for field in ["username", "password", "resource_kind", "rights"] {
        let mut body = invitation("bob", &["mail:read"]);
        body.as_object_mut().unwrap().remove(field);
        let refused = send_invitation(&ada, &team, &body).await;
        refused.fails(400, &format!("{field} is required"));
    }
    let path = format!("{TEAMS}/{team}/invitations");
    let refused = ada.post_raw(&path, "{").await;
    refused.fails(400, "Invalid JSON body");
    let alone = members(&ada, &team).await.succeeds(200);
    assert_eq!(alone["limits"]["guests"], 0);
}

#[tokio::test]
async fn a_member_is_invited_once_and_the_plan_limits_the_members() {
    let service = Service::with_mail_and("plans.default.guests = 2").await;
    let ada = service.person("ada").await;
    let bob = service.person("bob").await;
    for name in ["cyd", "dan"] {
        service.person(name).await;
    }
    let team = team_of(&ada).await;
    let read = ["mail:read"];
    invite(&ada, &team, "bob", &["members:manage", "mail:read"])
        .await
        .succeeds(201);
    invite(&ada, &team, "bob", &read).await.fails(409, MEMBER);
    let owner = invite(&bob, &team, "ada", &read).await;
    owner.fails_mentioning(400, "username must not be the owner's");
    let itself = invite(&bob, &team, "bob", &read).await;
    itself.fails_mentioning(400, "username must not be your own");
    // A manager's invitation counts towards the owner's plan.
    invite(&bob, &team, "cyd", &read).await.succeeds(201);
    invite(&ada, &team, "dan", &read).await.fails(409, FULL);
    invite(&ada, &team, "bob", &read).await.fails(409, MEMBER);
    let cyd = text(&member(&ada, &team, "cyd").await["userId"]);
    remove(&ada, &team, &cyd).await.succeeds(200);
    invite(&ada, &team, "dan", &read).await.succeeds(201);
}

#[tokio::test]
async fn of_two_concurrent_invitations_at_the_limit_one_succeeds() {
    let service = Service::with_mail_and("plans.default.guests = 1").await;
    let ada = service.person("ada").await;
    for name in ["bob", "cyd"] {
        service.person(name).await;
    }
    let team = team_of(&ada).await;
    let (one, other) = join(
        invite(&ada, &team, "bob", &["mail:read"]),
        invite(&ada, &team, "cyd", &["mail:read"]),
    )
    .await;
    let mut statuses = [one.status, other.status];
    statuses.sort_unstable();
    assert_eq!(statuses, [201, 409], "{} {}", one.json, other.json);
    let held = members(&ada, &team).await.succeeds(200);
    assert_eq!(held["limits"], json!({ "maxGuests": 1, "guests": 1 }));
    assert_eq!(keys(&ada).await.len(), 1);
}

#[tokio::test]
async fn no_key_is_created_while_the_mail_server_is_down() {
    let mut service = Service::with_own_mail().await;
    let (team, access) = {
        let (ada, _) = (service.person("ada").await, service.person("bob").await);
        (team_of(&ada).await, ada.access)
    };
    service.stack().stop_imap().await.unwrap();
    let asked = async |line: &str| {
        let request = service.request(line).bearer_auth(&access);
        Response::of(request.json(&invitation("bob", &["mail:read"]))).await
    };
    let refused = asked(&format!("POST {TEAMS}/{team}/invitations")).await;
    assert_eq!(refused.status, 503, "{}", refused.json);
    assert!(refused.header("retry-after").is_some());
    let alone = service
        .with_bearer(&format!("GET {TEAMS}/{team}/members"), &access)
        .await
        .succeeds(200);
    assert_eq!(alone["limits"]["guests"], 0);
    assert_eq!(alone["shared"], false);
}
