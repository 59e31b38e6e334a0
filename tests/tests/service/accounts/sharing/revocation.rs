//! Events that end a member's access. Each event applies from the next request on.

use latchmail_tests::{PASSWORD, Service};
use serde_json::json;

use super::rules::Grant;
use super::shared_mailbox::SharedMailbox;

const FOLDERS: &str = "GET /api/v1/mail/folders";
const GONE: &str = "Mailbox not found";

fn reading() -> Grant {
    Grant::on("mailbox", "", &["mail:read", "mail:write"])
}

#[tokio::test]
async fn reduced_and_revoked_grants_apply_to_the_next_request() {
    let service = Service::with_mail().await;
    let mut shared = SharedMailbox::new(&service).await;
    let uid = shared.append("Alpha", "one").await;
    let invited = shared.invite("bob", &reading()).await.succeeds(201);
    let grant = invited["grantId"].as_str().unwrap().to_owned();
    let message = format!("GET /api/v1/mail/messages/{uid}");
    let listing = "GET /api/v1/mail/folders/Alpha/messages";
    let flag = json!({ "flags": ["\\Seen"], "action": "add" });
    let flagging = format!("POST /api/v1/mail/messages/{uid}/flag");
    // These requests make the service cache the listing and the message, and open a connection.
    for line in [&*message, listing, FOLDERS] {
        shared.send(&shared.bob, line).await.succeeds(200);
    }
    shared
        .send_json(&shared.bob, &flagging, &flag)
        .await
        .succeeds(200);

    shared.change(&grant, &["mail:read"]).await;
    shared.send(&shared.bob, &message).await.succeeds(200);
    let refused = shared.send_json(&shared.bob, &flagging, &flag).await;
    refused.fails(
        403,
        "Your rights in this mailbox do not include \"mail:write\" here",
    );
    shared.change(&grant, &["mail:write"]).await;
    for line in [&*message, listing, FOLDERS] {
        let refused = shared.send(&shared.bob, line).await;
        refused.fails(
            403,
            "Your rights in this mailbox do not include \"mail:read\" here",
        );
    }
    shared.revoke(&grant).await;
    for line in [&*message, listing, FOLDERS] {
        shared.send(&shared.bob, line).await.fails(404, GONE);
    }
    let teams = shared.bob.send("GET /api/v1/teams").await.succeeds(200);
    assert_eq!(teams["teams"].as_array().unwrap().len(), 1);
}

#[tokio::test]
async fn without_the_standing_key_no_member_has_access() {
    let service = Service::with_mail().await;
    let shared = SharedMailbox::new(&service).await;
    shared.invite("bob", &reading()).await.succeeds(201);
    shared.send(&shared.bob, FOLDERS).await.succeeds(200);
    let listed = shared
        .ada
        .send("GET /api/v1/profile/sessions")
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
    shared.ada.send(&line).await.succeeds(200);
    shared.send(&shared.bob, FOLDERS).await.fails(404, GONE);
    assert_eq!(shared.members().await["shared"], false);

    service.person("carol").await;
    shared.invite("carol", &reading()).await.succeeds(201);
    assert_eq!(shared.members().await["shared"], true);
    shared.send(&shared.bob, FOLDERS).await.succeeds(200);
}

#[tokio::test]
async fn a_new_password_of_the_owner_keeps_members_and_disabling_the_owner_does_not() {
    let service = Service::with_mail().await;
    let shared = SharedMailbox::new(&service).await;
    shared.invite("bob", &reading()).await.succeeds(201);
    let body = json!({ "current_password": PASSWORD, "new_password": "Another-Horse-8" });
    let changed = shared.ada.post("/api/v1/profile/password", &body).await;
    changed.succeeds(200);
    shared.send(&shared.bob, FOLDERS).await.succeeds(200);

    let disabled = service.operator("account disable ada@first.test", "");
    disabled.await.succeeds();
    shared.send(&shared.bob, FOLDERS).await.fails(404, GONE);
}

#[tokio::test]
async fn a_member_who_leaves_becomes_a_stranger() {
    let service = Service::with_mail().await;
    let shared = SharedMailbox::new(&service).await;
    shared.invite("bob", &reading()).await.succeeds(201);
    let bob = shared.member(&shared.bob).await;
    let line = format!("DELETE /api/v1/teams/{}/members/{bob}", shared.mailbox);
    shared.bob.send(&line).await.succeeds(200);
    shared.send(&shared.bob, FOLDERS).await.fails(404, GONE);
    let members = shared.members().await;
    assert_eq!(members["members"].as_array().unwrap().len(), 1);
    assert_eq!(members["shared"], false);
}
