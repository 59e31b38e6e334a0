//! Only a member with rights on the whole mailbox changes folders, and reads the quota and the
//! rules. A member with a grant on one folder learns nothing about other folders.

use latchmail_tests::Service;
use serde_json::json;

use super::rules::Grant;
use super::shared_mailbox::SharedMailbox;

const CREATE: &str = "POST /api/v1/mail/folders";
const QUOTA: &str = "GET /api/v1/mail/quota";
const RULES: &str = "GET /api/v1/mail/rules";

#[tokio::test]
async fn a_grant_on_the_mailbox_is_needed_to_change_folders() {
    let service = Service::with_mail().await;
    let mut shared = SharedMailbox::new(&service).await;
    let uid = shared.append("Alpha", "inside").await;
    let alpha = shared.folder("Alpha").await;
    let both = &["mail:read", "mail:write"];
    let grant = Grant::on("folder", &alpha, both);
    shared.invite("bob", &grant).await.succeeds(201);
    let bob = shared.bob.clone();
    let path = |path: &str| json!({ "path": path });
    let write = "Your rights in this mailbox do not include \"mail:write\" here";
    let read = "Your rights in this mailbox do not include \"mail:read\" here";
    let created = shared.send_json(&bob, CREATE, &path("Beta")).await;
    created.fails(403, write);
    let rename = |folder: &str| format!("PATCH /api/v1/mail/folders/{folder}");
    let delete = |folder: &str| format!("DELETE /api/v1/mail/folders/{folder}?messages=delete");
    let renamed = shared.send_json(&bob, &rename("Alpha"), &path("x")).await;
    renamed.fails(403, read);
    shared.send(&bob, &delete("Alpha")).await.fails(403, read);
    for hidden in ["Beta", "Nowhere"] {
        let renamed = shared.send_json(&bob, &rename(hidden), &path("x")).await;
        renamed.fails(404, "Folder not found");
        let deleted = shared.send(&bob, &delete(hidden)).await;
        deleted.fails(404, "Folder not found");
    }
    shared.send(&bob, QUOTA).await.fails(403, read);
    shared.send(&bob, RULES).await.fails(403, read);

    let mailbox = shared
        .grant(&Grant::on("mailbox", "", &["mail:write"]))
        .await;
    let created = shared.send_json(&bob, CREATE, &path("Gamma/Delta")).await;
    created.succeeds(201);
    let renamed = shared.send_json(&bob, &rename("Beta"), &path("x")).await;
    renamed.fails(403, read);
    shared.change(&mailbox, both).await;
    let renamed = shared
        .send_json(&bob, &rename("Alpha"), &path("Gamma/Alpha"))
        .await;
    assert_eq!(renamed.succeeds(200)["id"], alpha);
    shared.send(&bob, QUOTA).await.succeeds(200);
    shared.send(&bob, RULES).await.succeeds(200);
    let rules = json!({ "rules": [] });
    let refused = shared.send_json(&bob, "PUT /api/v1/mail/rules", &rules);
    let text = "Only the owner of a mailbox can change its vacation response and its rules";
    refused.await.fails(403, text);
    shared.send(&bob, &delete("Beta")).await.succeeds(200);

    // The grant on the folder follows the folder.
    shared.revoke(&mailbox).await;
    let line = format!("GET /api/v1/mail/messages/{uid}");
    shared.send(&bob, &line).await.succeeds(200);
    let line = "GET /api/v1/mail/folders/Gamma%2FAlpha/messages";
    shared.send(&bob, line).await.succeeds(200);
    let stranger = service.person("cyd").await;
    let refused = shared.send_json(&stranger, CREATE, &path("Mine")).await;
    refused.fails(404, "Mailbox not found");
}
