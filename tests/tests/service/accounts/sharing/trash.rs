//! Members who copy messages and use Trash need rights on both folders.

use latchmail_tests::{Response, Service, subjects};
use serde_json::{Value, json};

use super::rules::Grant;
use super::shared_mailbox::SharedMailbox;

const READ_WRITE: &[&str] = &["mail:read", "mail:write"];

async fn change(shared: &SharedMailbox<'_>, uid: u64, action: &str, body: &Value) -> Response {
    let line = format!("POST /api/v1/mail/messages/{uid}/{action}");
    shared.send_json(&shared.bob, &line, body).await
}

#[tokio::test]
async fn a_member_needs_rights_on_both_folders_to_copy_trash_and_restore() {
    let service = Service::with_mail().await;
    let mut shared = SharedMailbox::new(&service).await;
    let alpha = shared.append("Alpha", "in-alpha").await;
    let beta = shared.append("Beta", "in-beta").await;
    let grant = Grant::on("folder", &shared.folder("Alpha").await, READ_WRITE);
    shared.invite("bob", &grant).await.succeeds(201);
    let none = json!({});
    let to = |folder: &str| json!({ "destination": folder });

    // Without a grant on Trash, and without a grant on the other folder.
    assert_eq!(change(&shared, alpha, "trash", &none).await.status, 403);
    assert_eq!(change(&shared, alpha, "restore", &none).await.status, 403);
    assert_eq!(
        change(&shared, alpha, "copy", &to("Beta")).await.status,
        404
    );
    assert_eq!(
        change(&shared, beta, "copy", &to("Alpha")).await.status,
        404
    );
    assert_eq!(subjects(&mut shared.client, "Beta").await, ["in-beta"]);
    let copied = change(&shared, alpha, "copy", &to("Alpha")).await;
    let copy = copied.succeeds(201)["uid"].as_u64().unwrap();
    assert_eq!(subjects(&mut shared.client, "Alpha").await.len(), 2);

    // A folder that the member can only read.
    let beta_id = shared.folder("Beta").await;
    shared
        .grant(&Grant::on("folder", &beta_id, &["mail:read"]))
        .await;
    assert_eq!(
        change(&shared, alpha, "copy", &to("Beta")).await.status,
        403
    );
    let copied = change(&shared, beta, "copy", &to("Alpha")).await;
    copied.succeeds(201);
    let line = format!("PUT /api/v1/mail/messages/{beta}/flags");
    let flags = json!({ "flags": [] });
    let refused = shared.send_json(&shared.bob, &line, &flags).await;
    assert_eq!(refused.status, 403);
    let line = format!("GET /api/v1/mail/messages/{beta}");
    let read = shared.send(&shared.bob, &line).await;
    let tag = read.header("etag").unwrap();
    // The owner's ETag is the same.
    assert_eq!(shared.ada.send(&line).await.header("etag"), Some(tag));

    // With a grant on Trash, messages that came from a folder of the member can be restored.
    shared.ada.move_to(beta, "Trash").await.succeeds(200);
    let trash = shared.folder("Trash").await;
    shared.grant(&Grant::on("folder", &trash, READ_WRITE)).await;
    change(&shared, copy, "trash", &none).await.succeeds(200);
    assert_eq!(change(&shared, beta, "restore", &none).await.status, 403);
    change(&shared, copy, "restore", &none).await.succeeds(200);
    assert_eq!(subjects(&mut shared.client, "Trash").await, ["in-beta"]);
    assert_eq!(subjects(&mut shared.client, "Alpha").await.len(), 3);
}
