//! Messages that a mail client has marked with `\Deleted` and not expunged.

use latchmail_tests::{Agent, Service, imap, store_flags};
use serde_json::{Value, json};

const FLAGS: [&str; 1] = ["\\Deleted"];

/// Asserts that the marked message is the first in a list, and that it has its flag.
fn assert_first(list: &Value, uid: u64) {
    let messages = list["messages"].as_array().unwrap();
    assert_eq!(messages.len(), 2, "{list}");
    assert_eq!(messages[0]["uid"], uid, "{list}");
    assert_eq!(messages[0]["flags"], json!(FLAGS), "{list}");
    if let Some(total) = list.get("total") {
        assert_eq!(*total, 2, "{list}");
    }
}

#[tokio::test]
async fn a_message_marked_as_deleted_is_in_all_results_with_its_flag() {
    let service = Service::with_mail().await;
    let ada = service.person("ada").await;
    let mut client = imap(&ada).await;
    for (id, hour) in [("first", 1), ("second", 2)] {
        let message = format!(
            "From: Grace <grace@outside.test>\r\nTo: ada@first.test\r\nSubject: doomed\r\n\
             Message-ID: <{id}@outside.test>\r\nReferences: <root@outside.test>\r\n\r\nBody.\r\n"
        );
        let arrived = format!("\"20-Nov-2025 {hour:02}:00:00 +0000\"");
        let appended = client.append("INBOX", None, Some(&arrived), message);
        appended.await.unwrap();
    }
    store_flags(&mut client, "INBOX", 2, "+FLAGS (\\Deleted)").await;

    let list = ada
        .send("GET /api/v1/mail/folders/INBOX/messages")
        .await
        .succeeds(200);
    let uid = list["messages"][0]["uid"].as_u64().unwrap();
    assert_first(&list, uid);
    assert_eq!(list["messages"][0]["seq"], 2);
    let detail = ada.message(uid).await;
    assert_eq!(detail["flags"], json!(FLAGS));
    let folders = ada.send("GET /api/v1/mail/folders").await.succeeds(200);
    let folders = folders["folders"].as_array().unwrap();
    let inbox = folders.iter().find(|folder| folder["path"] == "INBOX");
    let inbox = inbox.unwrap();
    assert_eq!(inbox["messages"], 2);
    assert_eq!(inbox["unseen"], 2);

    // The first search starts the build of the index, so the mail server performs it.
    let found = ada.search("doomed", "&folder=*").await.succeeds(200);
    assert_eq!(found["index"], "building");
    assert_first(&found, uid);
    ada.wait_for_index().await;
    for (query, rest) in [("doomed", ""), ("is:unread", "&folder=*")] {
        let found = ada.search(query, rest).await.succeeds(200);
        assert_eq!(found["index"], "ready");
        assert_first(&found, uid);
    }

    let threads = ada.send("GET /api/v1/mail/threads").await.succeeds(200);
    let thread = &threads["threads"][0];
    assert_eq!(thread["count"], 2);
    assert_eq!(thread["unread"], 2);
    assert_eq!(thread["newest"]["flags"], json!(FLAGS));
    let line = format!(
        "GET /api/v1/mail/threads/{}",
        thread["id"].as_str().unwrap()
    );
    let thread = ada.send(&line).await.succeeds(200);
    assert_eq!(thread["messages"].as_array().unwrap().len(), 2, "{thread}");
    assert_eq!(thread["messages"][1]["flags"], json!(FLAGS));

    store_flags(&mut client, "INBOX", 2, "-FLAGS (\\Deleted)").await;
    let cursor = ada.changes("", "").await.succeeds(200)["cursor"].clone();
    store_flags(&mut client, "INBOX", 2, "+FLAGS (\\Deleted)").await;
    let changes = ada.changes(cursor.as_str().unwrap(), "").await;
    let changes = changes.succeeds(200)["changes"].clone();
    let change = &changes[0];
    assert_eq!(change["type"], "flags");
    assert_eq!(change["uid"], uid);
    assert_eq!(change["flags"], json!(FLAGS));

    let agent = Agent::for_person(&ada).await;
    assert_first(&agent.call("list_messages", json!({})).await, uid);
    let query = json!({ "query": "doomed" });
    assert_first(&agent.call("search_messages", query).await, uid);
    let read = agent.call("get_message", json!({ "uid": uid })).await;
    assert_eq!(read["flags"], json!(FLAGS));

    // The message can be changed until the mail client expunges it.
    let marked = json!({ "uids": [uid], "flags": ["\\Seen"], "action": "add" });
    let marked = ada.post("/api/v1/mail/messages/bulk/flag", &marked).await;
    assert_eq!(marked.succeeds(200)["count"], 1);
    let flags = ada.message(uid).await["flags"].clone();
    assert_eq!(flags, json!(["\\Deleted", "\\Seen"]));
    client.select("INBOX").await.unwrap();
    client.close().await.unwrap();
    assert_eq!(ada.uids("INBOX").await.len(), 1);
    assert_eq!(ada.found("doomed", "").await.len(), 1);
}
