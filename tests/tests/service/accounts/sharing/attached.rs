//! A member attaches only messages of folders that the member is allowed to read.

use latchmail_tests::{Response, Service};
use serde_json::{Value, json};

use super::rules::Grant;
use super::shared_mailbox::{SharedMailbox, from};

const SEND: &str = "POST /api/v1/mail/send";

#[tokio::test]
async fn a_member_attaches_only_messages_of_folders_with_a_grant() {
    let service = Service::with_mail().await;
    let mut shared = SharedMailbox::new(&service).await;
    let readable = shared.append("Alpha", "readable").await;
    let hidden = shared.append("Beta", "hidden").await;
    let alpha = shared.folder("Alpha").await;
    let grant = Grant::on("folder", &alpha, &["mail:read"]);
    shared.invite("bob", &grant).await.succeeds(201);
    let sending = Grant::on("mailbox", "", &["mail:send"]);
    shared.grant(&sending).await;
    let bob = shared.bob.clone();
    let send = async |source: Value| {
        let mut body = from(&shared.ada.address);
        body["attachments"] = json!([source]);
        shared.send_json(&bob, SEND, &body).await
    };
    send(json!({ "uid": readable })).await.succeeds(200);
    send(json!({ "uid": readable, "index": 0 }))
        .await
        .succeeds(200);
    let response = send(json!({ "uid": hidden })).await;
    response.fails(404, "Message not found");
    let response = send(json!({ "uid": hidden, "index": 0 })).await;
    response.fails(404, "Attachment not found");
    // An upload belongs to the member, and not to the mailbox.
    let request = service.request("POST /api/v1/mail/uploads?filename=a.txt");
    let request = request.bearer_auth(&bob.access).body("a");
    let uploaded = Response::of(request).await.succeeds(201);
    let upload = json!({ "uploadId": uploaded["uploadId"] });
    send(upload.clone()).await.succeeds(200);
    let mut body = from(&shared.ada.address);
    body["attachments"] = json!([upload]);
    let response = shared.ada.send_json(SEND, &body).await;
    response.fails(404, "Upload not found");
}
