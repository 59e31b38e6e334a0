//! Drafts that other IMAP clients create and edit.

use latchmail_tests::{Imap, Service, imap, stored_messages};
use serde_json::json;

use super::{create, get, line, list, only_message, put};

/// Replaces a draft as mail clients do: stores the new message, then expunges the old one.
pub(super) async fn replace(client: &mut Imap, old: u32, message: &str) {
    let flags = Some("(\\Draft \\Seen)");
    client.append("Drafts", flags, None, message).await.unwrap();
    expunge(client, old).await;
}

pub(super) async fn expunge(client: &mut Imap, uid: u32) {
    latchmail_tests::store_flags(client, "Drafts", uid, "+FLAGS.SILENT (\\Deleted)").await;
    let expunged = client.uid_expunge(uid.to_string()).await.unwrap();
    let expunged = futures_util::TryStreamExt::try_collect::<Vec<_>>(expunged);
    expunged.await.unwrap();
}

fn message(message_id: &str, more: &str, text: &str) -> String {
    let id = match message_id {
        "" => String::new(),
        id => format!("Message-ID: {id}\r\n"),
    };
    format!(
        "{id}Date: Thu, 19 Nov 2026 11:00:00 +0000\r\n{more}\
         X-Mozilla-Draft-Info: internal/draft; vcard=0; receipt=0; DSN=0; uuencode=0\r\n\
         X-Identity-Key: id1\r\nFrom: Ada <ada@first.test>\r\nTo: Bob <bob@first.test>\r\n\
         Subject: Edited\r\nMIME-Version: 1.0\r\nContent-Type: text/plain; charset=utf-8\r\n\r\n\
         {text}\r\n"
    )
}

#[tokio::test]
async fn a_draft_keeps_its_id_if_a_mail_client_keeps_one_of_the_two_fields() {
    let service = Service::with_mail().await;
    let ada = service.person("ada").await;
    let mut client = imap(&ada).await;
    let created = create(&ada, &json!({ "subject": "One", "text": "first" })).await;
    let id = &created["id"];
    let stored = only_message(&mut client).await;
    let message_id = stored.header("message-id").unwrap();

    // A client that keeps the Message-ID, as Thunderbird does.
    let edited = message(&message_id, "", "second");
    replace(&mut client, stored.imap_uid, &edited).await;
    let read = get(&ada, id).await.succeeds(200);
    assert_eq!(read["draft"]["text"], "second");
    assert_eq!(read["draft"]["headers"], json!([]));
    assert_ne!(read["version"], created["version"]);
    let stale = put(&ada, id, &created["version"], &json!({ "text": "lost" })).await;
    stale.fails(412, "The message has changed");

    // A client that keeps only our header field.
    let replaced = put(&ada, id, &read["version"], &json!({ "text": "third" })).await;
    assert_eq!(replaced.succeeds(200)["id"], *id);
    let stored = only_message(&mut client).await;
    assert_eq!(stored.header("message-id").unwrap(), message_id);
    let field = format!("X-Latchmail-Draft-Id: {}\r\n", id.as_str().unwrap());
    let edited = message("<other@client.test>", &field, "fourth");
    replace(&mut client, stored.imap_uid, &edited).await;
    let read = get(&ada, id).await.succeeds(200);
    assert_eq!(read["draft"]["text"], "fourth");
    assert_eq!(list(&ada).await, std::slice::from_ref(&read));

    // While a client replaces the draft, the newest message is the draft.
    let edited = message("<other@client.test>", &field, "fifth");
    client.append("Drafts", None, None, &edited).await.unwrap();
    let newest = get(&ada, id).await.succeeds(200);
    assert_eq!(newest["draft"]["text"], "fifth");
    assert_eq!(list(&ada).await, std::slice::from_ref(&newest));
    let replaced = put(&ada, id, &newest["version"], &json!({ "text": "sixth" })).await;
    replaced.succeeds(200);
    let stored = only_message(&mut client).await;

    // A client that changes both fields makes a new draft, and never two entries.
    let edited = message("<new@client.test>", "", "seventh");
    replace(&mut client, stored.imap_uid, &edited).await;
    get(&ada, id).await.fails(404, "Draft not found");
    let drafts = list(&ada).await;
    assert_eq!(drafts.len(), 1, "{drafts:?}");
    assert_ne!(drafts[0]["id"], *id);
    assert_eq!(drafts[0]["draft"]["text"], "seventh");
    // A message that is marked as deleted is no draft.
    let stored = only_message(&mut client).await;
    let edited = message("<newer@client.test>", "", "eighth");
    client.append("Drafts", None, None, &edited).await.unwrap();
    let deleted = "+FLAGS.SILENT (\\Deleted)";
    latchmail_tests::store_flags(&mut client, "Drafts", stored.imap_uid, deleted).await;
    let drafts = list(&ada).await;
    assert_eq!(drafts.len(), 1, "{drafts:?}");
    assert_eq!(drafts[0]["draft"]["text"], "eighth");

    // A message without both fields has an id too. The API can replace the draft.
    expunge(&mut client, stored.imap_uid).await;
    let stored = only_message(&mut client).await;
    replace(&mut client, stored.imap_uid, &message("", "", "ninth")).await;
    let drafts = list(&ada).await;
    assert_eq!(drafts.len(), 1, "{drafts:?}");
    let id = &drafts[0]["id"];
    assert_eq!(get(&ada, id).await.succeeds(200), drafts[0]);
    let replaced = put(&ada, id, &drafts[0]["version"], &json!({ "text": "tenth" })).await;
    let replaced = replaced.succeeds(200);
    assert_eq!(replaced["id"], *id);
    assert_eq!(list(&ada).await, [replaced]);
    ada.send(&line("DELETE", id)).await.succeeds(200);
    assert!(stored_messages(&mut client, "Drafts").await.is_empty());

    // The folder is created if there is none.
    client.close().await.unwrap();
    client.delete("Drafts").await.unwrap();
    let created = create(&ada, &json!({ "subject": "New folder" })).await;
    assert_eq!(list(&ada).await, [created]);
    let folders = ada.send("GET /api/v1/mail/folders").await.succeeds(200);
    let folders = folders["folders"].as_array().unwrap().iter();
    let mut drafts = folders.filter(|folder| folder["specialUse"] == "\\Drafts");
    assert_eq!(drafts.next().unwrap()["path"], "Drafts");
}
