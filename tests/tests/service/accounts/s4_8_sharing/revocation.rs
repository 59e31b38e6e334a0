//! What ends a member's access and what does not. Each event applies to the next request.

use latchmail_tests::{PASSWORD, Service};
use serde_json::json;

use super::rules::Grant;
use super::shared_mailbox::World;

const FOLDERS: &str = "GET /api/v1/mail/folders";
const GONE: &str = "Mailbox not found";

fn reading() -> Grant {
    Grant::on("mailbox", "", &["mail:read", "mail:write"])
}

#[tokio::test]
async fn reduced_and_revoked_grants_apply_to_the_next_request() {
    let service = Service::with_mail().await;
    let mut world = World::new(&service).await;
    let uid = world.put("Alpha", "one").await;
    let invited = world.invite("bob", &reading()).await.succeeds(201);
    let grant = invited["grantId"].as_str().unwrap().to_owned();
    let message = format!("GET /api/v1/mail/messages/{uid}");
    let listing = "GET /api/v1/mail/folders/Alpha/messages";
    let flag = json!({ "flags": ["\\Seen"], "action": "add" });
    let flagging = format!("POST /api/v1/mail/messages/{uid}/flag");
    // Once before, so that the service has cached the listing and the message and opened a connection.
    for line in [&*message, listing, FOLDERS] {
        world.ask(&world.bob, line).await.succeeds(200);
    }
    world.send(&world.bob, &flagging, &flag).await.succeeds(200);

    world.change(&grant, &["mail:read"]).await;
    world.ask(&world.bob, &message).await.succeeds(200);
    let refused = world.send(&world.bob, &flagging, &flag).await;
    refused.fails(
        403,
        "Your rights in this mailbox do not include \"mail:write\" here",
    );
    world.change(&grant, &["mail:write"]).await;
    for line in [&*message, listing, FOLDERS] {
        let refused = world.ask(&world.bob, line).await;
        refused.fails(
            403,
            "Your rights in this mailbox do not include \"mail:read\" here",
        );
    }
    world.revoke(&grant).await;
    for line in [&*message, listing, FOLDERS] {
        world.ask(&world.bob, line).await.fails(404, GONE);
    }
    let teams = world.bob.ask("GET /api/v1/teams").await.succeeds(200);
    assert_eq!(teams["teams"].as_array().unwrap().len(), 1);
}

#[tokio::test]
async fn without_the_standing_key_no_member_has_access() {
    let service = Service::with_mail().await;
    let world = World::new(&service).await;
    world.invite("bob", &reading()).await.succeeds(201);
    world.ask(&world.bob, FOLDERS).await.succeeds(200);
    let listed = world
        .ada
        .ask("GET /api/v1/profile/sessions")
        .await
        .succeeds(200);
    let credentials = listed["credentials"].as_array().unwrap();
    let key = credentials
        .iter()
        .find(|one| one["label"] == "Shared mailbox");
    let key = key.expect("it is listed");
    assert_eq!(key["type"], "app_password");
    let line = format!(
        "DELETE /api/v1/profile/sessions/{}",
        key["id"].as_str().unwrap()
    );
    world.ada.ask(&line).await.succeeds(200);
    world.ask(&world.bob, FOLDERS).await.fails(404, GONE);
    assert_eq!(world.members().await["shared"], false);

    service.person("carol").await;
    world.invite("carol", &reading()).await.succeeds(201);
    assert_eq!(world.members().await["shared"], true);
    world.ask(&world.bob, FOLDERS).await.succeeds(200);
}

#[tokio::test]
async fn a_new_password_of_the_owner_keeps_members_and_disabling_the_owner_does_not() {
    let service = Service::with_mail().await;
    let world = World::new(&service).await;
    world.invite("bob", &reading()).await.succeeds(201);
    let body = json!({ "current_password": PASSWORD, "new_password": "Another-Horse-8" });
    let changed = world.ada.post("/api/v1/profile/password", &body).await;
    changed.succeeds(200);
    world.ask(&world.bob, FOLDERS).await.succeeds(200);

    let disabled = service.operator("account disable ada@first.test", "");
    disabled.await.done();
    world.ask(&world.bob, FOLDERS).await.fails(404, GONE);
}

#[tokio::test]
async fn a_member_who_leaves_becomes_a_stranger() {
    let service = Service::with_mail().await;
    let world = World::new(&service).await;
    world.invite("bob", &reading()).await.succeeds(201);
    let bob = world.member(&world.bob).await;
    let line = format!("DELETE /api/v1/teams/{}/members/{bob}", world.mailbox);
    world.bob.ask(&line).await.succeeds(200);
    world.ask(&world.bob, FOLDERS).await.fails(404, GONE);
    let members = world.members().await;
    assert_eq!(members["members"].as_array().unwrap().len(), 1);
    assert_eq!(members["shared"], false);
}
