//! Several changes to one message or folder between two cursors are collapsed to the fewest with
//! the same result.

use latchmail_tests::{MailboxCopy, Service, append_message, imap, store_flags};
use serde_json::json;

use super::{changes, expunge, fill, types};

#[tokio::test]
async fn a_change_and_its_reversal_are_no_change() {
    let service = Service::with_mail().await;
    let ada = service.person("ada").await;
    let mut client = imap(&ada).await;
    let [one] = fill(&ada, &mut client, ["one"]).await;
    let mut copy = MailboxCopy::of(&ada).await;
    // Between the steps another client reads the changes, so the service knows each step.
    let mut other = copy.clone();

    for command in ["+FLAGS (\\Seen)", "-FLAGS (\\Seen)"] {
        store_flags(&mut client, "INBOX", 1, command).await;
        assert_eq!(types(&changes(&mut other, &ada).await), ["flags"]);
    }
    assert_eq!(json!(changes(&mut copy, &ada).await), json!([]));

    append_message(&mut client, "Archive", "two").await;
    assert_eq!(types(&changes(&mut other, &ada).await), ["created"]);
    expunge(&mut client, "Archive", 1).await;
    assert_eq!(types(&changes(&mut other, &ada).await), ["deleted"]);
    assert_eq!(json!(changes(&mut copy, &ada).await), json!([]));

    for folder in ["Archive", "INBOX"] {
        ada.move_to(one, folder).await.succeeds(200);
        assert_eq!(types(&changes(&mut other, &ada).await), ["moved"]);
    }
    assert_eq!(json!(changes(&mut copy, &ada).await), json!([]));

    client.create("Work").await.unwrap();
    assert_eq!(types(&changes(&mut other, &ada).await), ["folderCreated"]);
    append_message(&mut client, "Work", "three").await;
    assert_eq!(types(&changes(&mut other, &ada).await), ["created"]);
    client.delete("Work").await.unwrap();
    let deleted = changes(&mut other, &ada).await;
    assert!(types(&deleted).contains(&"folderDeleted"), "{deleted:?}");
    assert_eq!(json!(changes(&mut copy, &ada).await), json!([]));

    client.create("Work").await.unwrap();
    changes(&mut copy, &ada).await;
    changes(&mut other, &ada).await;
    for (from, to) in [("Work", "Play"), ("Play", "Work")] {
        client.rename(from, to).await.unwrap();
        assert_eq!(types(&changes(&mut other, &ada).await), ["folderRenamed"]);
    }
    assert_eq!(json!(changes(&mut copy, &ada).await), json!([]));
}

#[tokio::test]
async fn several_changes_to_one_message_are_one_change() {
    let service = Service::with_mail().await;
    let ada = service.person("ada").await;
    let mut client = imap(&ada).await;
    let [one, two, three] = fill(&ada, &mut client, ["one", "two", "three"]).await;
    let mut copy = MailboxCopy::of(&ada).await;
    let mut other = copy.clone();

    // Two moves and a change of flags.
    ada.move_to(one, "Archive").await.succeeds(200);
    changes(&mut other, &ada).await;
    store_flags(&mut client, "Archive", 1, "+FLAGS (\\Seen)").await;
    changes(&mut other, &ada).await;
    ada.move_to(one, "Sent").await.succeeds(200);
    changes(&mut other, &ada).await;
    let expected = json!([
        { "type": "moved", "uid": one, "folder": "Sent", "from": "INBOX", "flags": ["\\Seen"] },
    ]);
    assert_eq!(json!(changes(&mut copy, &ada).await), expected);

    // Away and back with other flags.
    ada.move_to(two, "Archive").await.succeeds(200);
    changes(&mut other, &ada).await;
    store_flags(&mut client, "Archive", 2, "+FLAGS (\\Flagged)").await;
    ada.move_to(two, "INBOX").await.succeeds(200);
    changes(&mut other, &ada).await;
    let expected = json!([
        { "type": "flags", "uid": two, "folder": "INBOX", "flags": ["\\Flagged"] },
    ]);
    assert_eq!(json!(changes(&mut copy, &ada).await), expected);

    // A move and a deletion.
    ada.move_to(three, "Archive").await.succeeds(200);
    changes(&mut other, &ada).await;
    ada.delete(three).await.succeeds(200);
    changes(&mut other, &ada).await;
    let expected = json!([{ "type": "deleted", "uid": three, "folder": "INBOX" }]);
    assert_eq!(json!(changes(&mut copy, &ada).await), expected);

    // A new message that is flagged and moved.
    append_message(&mut client, "INBOX", "four").await;
    let four = ada.uid_of("INBOX", "four").await;
    changes(&mut other, &ada).await;
    let body = json!({ "flags": ["\\Seen"], "action": "add" });
    let path = format!("/api/v1/mail/messages/{four}/flag");
    ada.post(&path, &body).await.succeeds(200);
    ada.move_to(four, "Archive").await.succeeds(200);
    changes(&mut other, &ada).await;
    let expected = json!([
        { "type": "created", "uid": four, "folder": "Archive", "flags": ["\\Seen"] },
    ]);
    assert_eq!(json!(changes(&mut copy, &ada).await), expected);

    // Both clients have the same mailbox.
    assert_eq!(copy.content(), other.content());
}

#[tokio::test]
async fn the_same_response_can_be_applied_twice() {
    let service = Service::with_mail().await;
    let ada = service.person("ada").await;
    let mut client = imap(&ada).await;
    client.create("Work").await.unwrap();
    client.create("Notes").await.unwrap();
    let [one, two, _] = fill(&ada, &mut client, ["one", "two", "three"]).await;
    let mut copy = MailboxCopy::of(&ada).await;
    client.rename("Work", "Play").await.unwrap();
    client.create("Work").await.unwrap();
    client.delete("Notes").await.unwrap();
    client.create("Notes").await.unwrap();
    ada.move_to(one, "Notes").await.succeeds(200);
    ada.move_to(two, "Play").await.succeeds(200);
    append_message(&mut client, "Work", "four").await;
    store_flags(&mut client, "INBOX", 3, "+FLAGS (\\Seen)").await;
    let response = ada.changes(&copy.cursor, "&limit=500").await.succeeds(200);
    assert_eq!(response["more"], false);
    let expected = ada.content_equal_to_imap(&mut client).await;
    for _ in 0..3 {
        copy.apply(&response);
        assert_eq!(copy.content(), expected, "{response}");
    }
}
