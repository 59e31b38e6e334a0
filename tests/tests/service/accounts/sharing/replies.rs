//! A member replies to messages of folders that the member is allowed to read, in the name of the
//! owner.

use latchmail_tests::Service;
use serde_json::json;

use super::rules::Grant;
use super::shared_mailbox::SharedMailbox;

#[tokio::test]
async fn a_member_answers_only_messages_of_folders_with_a_grant() {
    let service = Service::with_mail().await;
    let mut shared = SharedMailbox::new(&service).await;
    let readable = shared.append("Alpha", "readable").await;
    let hidden = shared.append("Beta", "hidden").await;
    let alpha = shared.folder("Alpha").await;
    let grant = Grant::on("folder", &alpha, &["mail:read"]);
    shared.invite("bob", &grant).await.succeeds(201);
    let bob = shared.bob.clone();
    let act = async |uid: u64, action: &str| {
        let line = format!("POST /api/v1/mail/messages/{uid}/{action}");
        let body = json!({ "to": "bob@first.test", "text": "Hello" });
        shared.send_json(&bob, &line, &body).await
    };
    for action in ["reply", "reply-all", "forward"] {
        let denied = act(readable, action).await;
        let text = "You can only send from your own address or active aliases";
        denied.fails(403, text);
    }
    let sending = Grant::on("mailbox", "", &["mail:send"]);
    shared.grant(&sending).await;
    for action in ["reply", "reply-all", "forward"] {
        act(readable, action).await.succeeds(200);
        act(hidden, action).await.fails(404, "Message not found");
    }
    // The right to read suffices for the flag of the original.
    let message = shared.ada.message(readable).await;
    let flags = message["flags"].as_array().unwrap();
    assert!(flags.contains(&json!("\\Answered")) && flags.contains(&json!("$Forwarded")));
    let message = shared.ada.message(hidden).await;
    assert_eq!(message["flags"], json!([]));
}
