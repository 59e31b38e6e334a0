//! Specification, section 4.8: shared mailboxes: their members, grants and standing key.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use futures_util::future::join;
use latchmail::directory::Directory;
use latchmail_core::keyring::Keyring;
use latchmail_core::sealing::Purpose;
use latchmail_tests::{Answer, DOMAIN, PASSWORD, Person, Service, imap, log_in};
use secrecy::{ExposeSecret as _, SecretString};
use serde_json::{Value, json};

const TEAMS: &str = "/api/v1/teams";
const NO_TEAM: &str = "Team not found";
const NOT_MANAGING: &str = "You may not manage the members of this mailbox";
const NOT_HELD: &str = "You can only grant rights that you hold";
const WRONG: &str = "Your password is not right";
const NO_USER: &str = "There is no such user";
const NO_MEMBER: &str = "There is no such member";
const NO_GRANT: &str = "There is no such grant";
const NO_FOLDER: &str = "Folder not found";
const NO_ALIAS: &str = "There is no such alias";
const OWNERS: &str = "The mailbox's owner can be neither removed nor granted anything";
const MEMBER: &str = "They are a member already";
const FULL: &str = "The plan's guests are all in use";
const LABEL: &str = "Shared mailbox";

const EVERY_RIGHT: [&str; 6] = [
    "mail:read",
    "mail:write",
    "mail:send",
    "aliases:read",
    "aliases:write",
    "members:manage",
];

fn text(value: &Value) -> String {
    value.as_str().unwrap().to_owned()
}

async fn teams(person: &Person<'_>) -> Vec<Value> {
    let listed = person.ask(&format!("GET {TEAMS}")).await.succeeds(200);
    listed["teams"].as_array().unwrap().clone()
}

/// The id of a person's own team.
async fn team_of(person: &Person<'_>) -> String {
    text(&teams(person).await[0]["id"])
}

async fn members(person: &Person<'_>, team: &str) -> Answer {
    person.ask(&format!("GET {TEAMS}/{team}/members")).await
}

/// The entry of a member in the list, as `person` sees it.
async fn member(person: &Person<'_>, team: &str, username: &str) -> Value {
    let listed = members(person, team).await.succeeds(200);
    let found = listed["members"].as_array().unwrap().iter();
    let mut found = found.filter(|member| member["username"] == username);
    found.next().unwrap().clone()
}

/// An invitation to a whole mailbox.
fn invitation(username: &str, rights: &[&str]) -> Value {
    json!({ "username": username, "password": PASSWORD, "resource_kind": "mailbox", "rights": rights })
}

async fn ask_to_invite(person: &Person<'_>, team: &str, body: &Value) -> Answer {
    person
        .post(&format!("{TEAMS}/{team}/invitations"), body)
        .await
}

async fn invite(person: &Person<'_>, team: &str, username: &str, rights: &[&str]) -> Answer {
    ask_to_invite(person, team, &invitation(username, rights)).await
}

async fn grant(person: &Person<'_>, team: &str, member: &str, body: &Value) -> Answer {
    let path = format!("{TEAMS}/{team}/members/{member}/grants");
    person.post(&path, body).await
}

async fn change(person: &Person<'_>, team: &str, grant: &str, rights: &[&str]) -> Answer {
    let line = format!("PATCH {TEAMS}/{team}/grants/{grant}");
    person.send(&line, &json!({ "rights": rights })).await
}

async fn revoke(person: &Person<'_>, team: &str, grant: &str) -> Answer {
    let line = format!("DELETE {TEAMS}/{team}/grants/{grant}");
    person.ask(&line).await
}

async fn remove(person: &Person<'_>, team: &str, member: &str) -> Answer {
    let line = format!("DELETE {TEAMS}/{team}/members/{member}");
    person.ask(&line).await
}

/// The standing keys among the credentials of an account.
async fn keys(person: &Person<'_>) -> Vec<Value> {
    let lists = person
        .ask("GET /api/v1/profile/sessions")
        .await
        .succeeds(200);
    let all = lists["credentials"].as_array().unwrap().iter();
    all.filter(|one| one["label"] == LABEL).cloned().collect()
}

// Teams

#[tokio::test]
async fn the_own_mailbox_is_a_team_with_every_right() {
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
async fn shared_mailboxes_follow_by_address_with_what_may_be_done_in_them() {
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
    ask_to_invite(&cyd, &team, &alias).await.succeeds(201);
    let team = team_of(&ada).await;
    invite(&ada, &team, "bob", &["members:manage", "mail:read"])
        .await
        .succeeds(201);
    let listed = teams(&bob).await;
    let told: Vec<_> = listed
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
    assert_eq!(told[0].0, &json!(bob.address));
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
    assert_eq!(told[1..], expected);
}

// Invitations

#[tokio::test]
async fn an_invitation_makes_a_member_at_once_and_mints_the_standing_key() {
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
    let invited = ask_to_invite(&ada, &team, &body).await.succeeds(201);
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
async fn a_username_is_a_local_part_on_the_first_domain_or_a_whole_address() {
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
        let there = member(&ada, &team, listed).await;
        assert_eq!(there["role"], "guest");
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
        refused.fails_about(400, "username must be 3 to 32 characters");
    }
}

#[tokio::test]
async fn the_password_is_the_askers_own_and_is_asked_before_anything_is_told() {
    let service = Service::with_mail().await;
    let (ada, bob) = (service.person("ada").await, service.person("bob").await);
    let team = team_of(&ada).await;
    for username in ["bob", "nobody"] {
        for password in ["Wrong-Horse-7", "x"] {
            let mut body = invitation(username, &["mail:read"]);
            body["password"] = json!(password);
            ask_to_invite(&ada, &team, &body).await.fails(403, WRONG);
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
async fn an_invalid_field_is_named() {
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
        let refused = ask_to_invite(&ada, &team, &with(&changes)).await;
        refused.fails_about(400, mention);
    }
    for field in ["username", "password", "resource_kind", "rights"] {
        let mut body = invitation("bob", &["mail:read"]);
        body.as_object_mut().unwrap().remove(field);
        let refused = ask_to_invite(&ada, &team, &body).await;
        refused.fails(400, &format!("{field} is required"));
    }
    let path = format!("{TEAMS}/{team}/invitations");
    let refused = ada.post_raw(&path, "{").await;
    refused.fails(400, "Invalid JSON body");
    let alone = members(&ada, &team).await.succeeds(200);
    assert_eq!(alone["limits"]["guests"], 0);
}

#[tokio::test]
async fn a_member_is_invited_once_and_a_plan_has_so_many() {
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
    owner.fails_about(400, "username must not be the owner's");
    let itself = invite(&bob, &team, "bob", &read).await;
    itself.fails_about(400, "username must not be your own");
    // A manager's invitation counts towards the owner's plan.
    invite(&bob, &team, "cyd", &read).await.succeeds(201);
    invite(&ada, &team, "dan", &read).await.fails(409, FULL);
    invite(&ada, &team, "bob", &read).await.fails(409, MEMBER);
    let cyd = text(&member(&ada, &team, "cyd").await["userId"]);
    remove(&ada, &team, &cyd).await.succeeds(200);
    invite(&ada, &team, "dan", &read).await.succeeds(201);
}

#[tokio::test]
async fn of_two_invitations_for_the_last_place_one_succeeds() {
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
async fn no_key_is_minted_while_there_is_no_mail_server() {
    let mut service = Service::with_own_mail().await;
    let (team, access) = {
        let (ada, _) = (service.person("ada").await, service.person("bob").await);
        (team_of(&ada).await, ada.access)
    };
    service.stack().stop_imap().await.unwrap();
    let asked = async |line: &str| {
        let request = service.request(line).bearer_auth(&access);
        Answer::of(request.json(&invitation("bob", &["mail:read"]))).await
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

// Grants

/// Makes a folder and an alias for `ada`, and returns the folder's id.
async fn furnished(ada: &Person<'_>) -> String {
    imap(ada).await.create("Work").await.unwrap();
    let shop = json!({ "domain": DOMAIN, "name": "shop" });
    ada.post("/api/v1/aliases", &shop).await.succeeds(201);
    ada.folder_id("Work").await
}

#[tokio::test]
async fn a_grant_is_on_the_mailbox_a_folder_an_alias_or_a_set_of_aliases() {
    let service = Service::with_mail().await;
    let (ada, bob) = (service.person("ada").await, service.person("bob").await);
    let work = furnished(&ada).await;
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
    let nobody = grant(&ada, &team, "none", &body).await;
    nobody.fails(404, NO_MEMBER);
    let owner = grant(&ada, &team, &team, &body).await;
    owner.fails(403, OWNERS);
}

#[tokio::test]
async fn nothing_is_granted_on_a_folder_that_was_just_deleted() {
    let service = Service::with_mail().await;
    let (ada, bob) = (service.person("ada").await, service.person("bob").await);
    let work = furnished(&ada).await;
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
async fn a_grant_is_narrowed_and_taken_back() {
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
async fn a_manager_hands_on_what_it_holds_and_no_more() {
    let service = Service::with_mail().await;
    let (ada, bob, cyd) = (
        service.person("ada").await,
        service.person("bob").await,
        service.person("cyd").await,
    );
    service.person("dan").await;
    let work = furnished(&ada).await;
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
        let answer = grant(&bob, &team, &guest, &body).await;
        assert_eq!(answer.status, status, "{kind} {id}: {}", answer.json);
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

// What members see and may do

#[tokio::test]
async fn a_guest_who_manages_nothing_sees_the_owner_and_itself_and_changes_nothing() {
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
        let answers = [
            grant(&bob, &team, member, &body).await,
            remove(&bob, &team, member).await,
        ];
        for answer in answers {
            answer.fails(403, NOT_MANAGING);
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
async fn to_a_stranger_and_a_former_guest_there_is_no_team() {
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
            let answers = [
                members(person, team).await,
                invite(person, team, "eve", &["mail:read"]).await,
                grant(person, team, &guest, &body).await,
                change(person, team, &grant_id, &["mail:read"]).await,
                revoke(person, team, &grant_id).await,
                remove(person, team, &guest).await,
            ];
            for answer in answers {
                answer.fails(404, NO_TEAM);
            }
        }
    }
}

// The standing key

#[tokio::test]
async fn the_last_guest_takes_the_key_along_and_the_next_has_a_new_one() {
    let service = Service::with_mail().await;
    let (ada, bob) = (service.person("ada").await, service.person("bob").await);
    let team = team_of(&ada).await;
    invite(&ada, &team, "bob", &["mail:read"])
        .await
        .succeeds(201);
    let first = keys(&ada).await;
    remove(&bob, &team, &team_of(&bob).await)
        .await
        .succeeds(200);
    assert!(keys(&ada).await.is_empty());
    let alone = members(&ada, &team).await.succeeds(200);
    assert_eq!(alone["shared"], false);
    invite(&ada, &team, "bob", &["mail:read"])
        .await
        .succeeds(201);
    let second = keys(&ada).await;
    assert_eq!(second.len(), 1);
    assert_ne!(first[0]["id"], second[0]["id"]);
}

#[tokio::test]
async fn a_revoked_key_shuts_guests_out_until_the_owner_invites_again() {
    let service = Service::with_mail().await;
    let (ada, bob) = (service.person("ada").await, service.person("bob").await);
    service.person("cyd").await;
    service.person("dan").await;
    let team = team_of(&ada).await;
    invite(&ada, &team, "bob", &["members:manage", "mail:read"])
        .await
        .succeeds(201);
    for (route, guest) in [("app-passwords", "cyd"), ("profile/sessions", "dan")] {
        let key = text(&keys(&ada).await[0]["id"]);
        let line = format!("DELETE /api/v1/{route}/{key}");
        assert_eq!(bob.ask(&line).await.status, 404);
        ada.ask(&line).await.succeeds(200);
        let listed = members(&ada, &team).await.succeeds(200);
        assert_eq!(listed["shared"], false);
        assert!(listed["limits"]["guests"].as_u64().unwrap() > 0);
        assert_eq!(teams(&bob).await.len(), 1);
        members(&bob, &team).await.fails(404, NO_TEAM);
        // A manager's invitation does not create a new key.
        let refused = invite(&bob, &team, guest, &["mail:read"]).await;
        refused.fails(404, NO_TEAM);
        invite(&ada, &team, guest, &["mail:read"])
            .await
            .succeeds(201);
        members(&bob, &team).await.succeeds(200);
    }
}

#[tokio::test]
async fn a_team_outlives_its_owners_password_and_not_its_owners_account() {
    let service = Service::with_mail().await;
    let (ada, bob) = (service.person("ada").await, service.person("bob").await);
    let team = team_of(&ada).await;
    invite(&ada, &team, "bob", &["mail:read"])
        .await
        .succeeds(201);
    let key = keys(&ada).await;
    let change = json!({ "current_password": PASSWORD, "new_password": "Other-Horse-8" });
    let changed = ada.post("/api/v1/profile/password", &change).await;
    changed.succeeds(200);
    assert_eq!(keys(&ada).await, key);
    members(&bob, &team).await.succeeds(200);
    // An invitation needs the new password.
    service.person("cyd").await;
    invite(&ada, &team, "cyd", &["mail:read"])
        .await
        .fails(403, WRONG);

    service
        .execute("UPDATE accounts SET active = FALSE WHERE address = 'ada@first.test'")
        .await;
    assert_eq!(teams(&bob).await.len(), 1);
    members(&bob, &team).await.fails(404, NO_TEAM);
    // The member can still leave.
    remove(&bob, &team, &team_of(&bob).await)
        .await
        .succeeds(200);
}

/// The standing key of the only shared mailbox, opened with the service's key.
async fn key(service: &Service) -> SecretString {
    let directory = Directory::beside(service.database()).await.unwrap();
    let [(mailbox, sealed)] = &directory.team_keys().await.unwrap()[..] else {
        panic!("one key");
    };
    let keys = Keyring::load(&service.state.join("latchmail.key")).unwrap();
    keys.open(Purpose::TeamKey, mailbox, sealed).unwrap()
}

#[tokio::test]
async fn the_key_opens_the_mailbox_until_the_last_guest_is_gone() {
    let service = Service::with_mail().await;
    let (ada, bob) = (service.person("ada").await, service.person("bob").await);
    let team = team_of(&ada).await;
    invite(&ada, &team, "bob", &["mail:read"])
        .await
        .succeeds(201);
    let key = key(&service).await;
    let opens = async || log_in(&service, &ada.address, key.expose_secret()).await;
    let mut client = opens().await.unwrap();
    client.select("INBOX").await.unwrap();
    remove(&ada, &team, &team_of(&bob).await)
        .await
        .succeeds(200);
    assert!(opens().await.is_err());
    // The IMAP session with it has ended too.
    assert!(client.noop().await.is_err());
}

#[tokio::test]
async fn the_key_is_kept_when_the_services_own_is_replaced() {
    let mut service = Service::with_mail().await;
    {
        let (ada, _) = (service.person("ada").await, service.person("bob").await);
        let team = team_of(&ada).await;
        invite(&ada, &team, "bob", &["mail:read"])
            .await
            .succeeds(201);
    }
    let before = key(&service).await;
    let file = service.state.join("latchmail.key");
    let old = std::fs::read_to_string(&file).unwrap();
    let new = STANDARD.encode([7; 32]);
    for keys in [format!("{new}\n{old}"), new] {
        service.stop().await;
        std::fs::write(&file, keys).unwrap();
        service.restart().await;
        let after = key(&service).await;
        assert_eq!(after.expose_secret(), before.expose_secret());
    }
    log_in(&service, "ada@first.test", before.expose_secret())
        .await
        .unwrap();
}
