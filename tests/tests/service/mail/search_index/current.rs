//! Results are current: what was delivered, and what other clients and this API changed before the
//! search.

use std::collections::BTreeSet;

use futures_util::TryStreamExt as _;
use latchmail_tests::{
    Imap, Person, Service, expunge_all, imap, store_flags, stored_messages, subjects_of, wait_until,
};
use serde_json::{Value, json};

use super::{TEXT, append, assert_found};

async fn result(person: &Person<'_>, query: &str, rest: &str) -> Value {
    person.search(query, rest).await.succeeds(200)
}

/// Returns the flags of the only result.
async fn flags(person: &Person<'_>, query: &str) -> BTreeSet<String> {
    let found = result(person, query, "&folder=*").await;
    assert_eq!(
        (&found["total"], &found["index"]),
        (&json!(1), &json!("ready"))
    );
    let flags = found["messages"][0]["flags"].as_array().unwrap().iter();
    flags
        .map(|flag| flag.as_str().unwrap().to_owned())
        .collect()
}

/// Returns the only result's folder.
async fn folder(person: &Person<'_>, query: &str) -> String {
    let found = result(person, query, "&folder=*").await;
    assert_eq!(
        (&found["total"], &found["index"]),
        (&json!(1), &json!("ready"))
    );
    found["messages"][0]["folder"].as_str().unwrap().to_owned()
}

async fn append_text(client: &mut Imap, folder: &str, subject: &str) {
    append(
        client,
        folder,
        subject,
        TEXT,
        &format!("This is {subject}."),
    )
    .await;
}

#[tokio::test]
async fn the_mail_server_searches_until_the_index_is_complete() {
    let service = Service::with_mail().await;
    let ada = service.person("ada").await;
    let mut client = imap(&ada).await;
    for number in 0..40 {
        let subject = format!("message {number}");
        append_text(&mut client, "INBOX", &subject).await;
    }
    append_text(&mut client, "Archive", "message in the archive").await;
    let expected: Vec<String> = (20..40).rev().map(|n| format!("message {n}")).collect();
    let found = result(&ada, "message", "&limit=20").await;
    assert_eq!(found["index"], "building");
    assert_eq!(
        (subjects_of(&found), &found["total"]),
        (expected.clone(), &json!(40))
    );
    for found in found["messages"].as_array().unwrap() {
        assert_eq!(found["folder"], "INBOX");
        assert_eq!(found.get("snippet"), None);
    }
    ada.wait_for_index().await;
    let found = result(&ada, "message", "&limit=20").await;
    assert_eq!(found["index"], "ready");
    assert_eq!(
        (subjects_of(&found), &found["total"]),
        (expected, &json!(40))
    );
    // A result is the entry of the listing with the folder and a snippet.
    let listed = ada.messages("INBOX").await;
    let mut first = found["messages"][0].clone();
    let more = first.as_object_mut().unwrap();
    assert_eq!(more.remove("folder"), Some(json!("INBOX")));
    assert!(more.remove("snippet").is_some());
    assert_eq!(first, listed[0]);
    let fields: Vec<_> = found.as_object().unwrap().keys().collect();
    assert_eq!(fields, ["index", "limit", "messages", "page", "total"]);
    let all = result(&ada, "message", "&folder=*").await;
    assert_eq!(all["total"], 41);
}

#[tokio::test]
async fn a_delivered_or_appended_message_is_found_by_the_next_search() {
    let service = Service::with_mail().await;
    let ada = service.person("ada").await;
    let mut client = imap(&ada).await;
    append_text(&mut client, "INBOX", "first").await;
    ada.wait_for_index().await;
    for number in 0..5 {
        let word = format!("needle{number}");
        append_text(&mut client, "INBOX", &word).await;
        assert_found(&ada, &word, &[&word]).await;
        let word = format!("archived{number}");
        append_text(&mut client, "Archive", &word).await;
        assert_eq!(ada.found(&word, "&folder=*").await, [&*word]);
    }
    let message =
        "From: a@outside.test\nTo: ada@first.test\nSubject: delivered\n\nHaystack needle\n";
    service.deliver(&ada.address, message).await;
    wait_until("the message arrives", async || {
        let stored = stored_messages(&mut client, "INBOX").await;
        stored
            .iter()
            .any(|message| message.subject() == "delivered")
    })
    .await;
    assert_found(&ada, "haystack", &["delivered"]).await;
    // More messages than a search adds by itself.
    for number in 0..250 {
        append_text(&mut client, "Archive", &format!("many {number}")).await;
    }
    assert_eq!(result(&ada, "many", "&folder=Archive").await["total"], 250);
    ada.wait_for_index().await;
    assert_eq!(result(&ada, "many", "&folder=Archive").await["total"], 250);
}

#[tokio::test]
async fn flags_of_other_clients_are_right_in_the_next_search() {
    let service = Service::with_mail().await;
    let ada = service.person("ada").await;
    let mut client = imap(&ada).await;
    for subject in ["one", "two", "three"] {
        append_text(&mut client, "INBOX", subject).await;
    }
    ada.wait_for_index().await;
    for command in [
        "+FLAGS (\\Seen)",
        "+FLAGS (\\Flagged $Work)",
        "-FLAGS (\\Seen)",
        "FLAGS (Other)",
        "+FLAGS (\\Deleted \\Answered)",
        "FLAGS ()",
    ] {
        store_flags(&mut client, "INBOX", 2, command).await;
        let shown = flags(&ada, "two").await;
        let stored = stored_messages(&mut client, "INBOX").await;
        assert_eq!(shown, stored[1].flags, "{command}");
        let unread = if shown.contains("\\Seen") {
            &["one", "three"][..]
        } else {
            &["one", "three", "two"]
        };
        assert_found(&ada, "is:unread", unread).await;
        let with_label = shown.contains("$Work");
        assert_eq!(
            ada.found("label:$work", "").await.len(),
            usize::from(with_label)
        );
    }
    // Flags in another folder than that of the search do not matter, and are right in the next
    // search of all folders.
    append_text(&mut client, "Archive", "old").await;
    assert_found(&ada, "one", &["one"]).await;
    store_flags(&mut client, "Archive", 1, "+FLAGS (\\Flagged)").await;
    assert_found(&ada, "one", &["one"]).await;
    assert_eq!(flags(&ada, "old").await, ["\\Flagged".to_owned()].into());
}

#[tokio::test]
async fn moves_and_deletions_of_other_clients_are_right_in_the_next_search() {
    let service = Service::with_mail().await;
    let ada = service.person("ada").await;
    let mut client = imap(&ada).await;
    client.create("Work").await.unwrap();
    for subject in ["one", "two", "three", "four"] {
        append_text(&mut client, "INBOX", subject).await;
    }
    ada.wait_for_index().await;
    let uid = ada.uid_of("INBOX", "two").await;
    client.select("INBOX").await.unwrap();
    client.uid_mv("2", "Work").await.unwrap();
    assert_eq!(folder(&ada, "two").await, "Work");
    assert_found(&ada, "two", &[]).await;
    let found = result(&ada, "two", "&folder=Work").await;
    assert_eq!(found["messages"][0]["uid"], uid);
    assert_eq!(found["messages"][0]["seq"], 1);
    // The positions of the others have changed.
    let found = result(&ada, "this", "").await;
    let positions = found["messages"].as_array().unwrap().iter();
    let positions: Vec<_> = positions.map(|m| m["seq"].as_u64().unwrap()).collect();
    assert_eq!(positions, [3, 2, 1]);
    store_flags(&mut client, "INBOX", 3, "+FLAGS (\\Deleted)").await;
    let expunged = client.expunge().await.unwrap();
    expunged.try_collect::<Vec<_>>().await.unwrap();
    assert_found(&ada, "this", &["four", "one"]).await;
    expunge_all(&ada).await;
    assert_found(&ada, "this", &[]).await;
    assert_eq!(ada.found("this", "&folder=*").await, ["two"]);
    // A copy is another message.
    client.select("Work").await.unwrap();
    client.copy("1", "Archive").await.unwrap();
    assert_eq!(ada.found("two", "&folder=*").await, ["two", "two"]);
    assert_eq!(ada.found("two", "&folder=Archive").await, ["two"]);
    // A message in Junk or Trash leaves the search of all folders.
    client.uid_mv("1", "Trash").await.unwrap();
    assert_eq!(folder(&ada, "two").await, "Archive");
    assert_eq!(ada.found("two", "&folder=Trash").await, ["two"]);
}

#[tokio::test]
async fn changes_through_the_api_are_right_in_the_next_search() {
    let service = Service::with_mail().await;
    let ada = service.person("ada").await;
    let mut client = imap(&ada).await;
    for subject in ["one", "two", "three"] {
        append_text(&mut client, "INBOX", subject).await;
    }
    ada.wait_for_index().await;
    let uids = [
        ada.uid_of("INBOX", "one").await,
        ada.uid_of("INBOX", "two").await,
        ada.uid_of("INBOX", "three").await,
    ];
    let body = json!({ "flags": ["\\Seen"], "action": "add" });
    let path = format!("/api/v1/mail/messages/{}/flag", uids[0]);
    ada.post(&path, &body).await.succeeds(200);
    assert_found(&ada, "is:unread", &["three", "two"]).await;
    assert_eq!(flags(&ada, "one").await, ["\\Seen".to_owned()].into());
    ada.move_to(uids[1], "Archive").await.succeeds(200);
    assert_eq!(folder(&ada, "two").await, "Archive");
    ada.delete(uids[2]).await.succeeds(200);
    assert!(ada.found("three", "&folder=*").await.is_empty());
    let mail = json!({
        "from": ada.address, "to": "bob@outside.test", "subject": "outgoing", "text": "A new letter.",
    });
    ada.post("/api/v1/mail/send", &mail).await.succeeds(200);
    assert_eq!(folder(&ada, "outgoing").await, "Sent");
}

#[tokio::test]
async fn a_renamed_or_deleted_folder_is_right_in_the_next_search() {
    let service = Service::with_mail().await;
    let ada = service.person("ada").await;
    let mut client = imap(&ada).await;
    for path in ["Work", "Work/Plans", "Old"] {
        client.create(path).await.unwrap();
        append_text(&mut client, path, &format!("note in {path}")).await;
    }
    ada.wait_for_index().await;
    let folders = async || {
        let found = result(&ada, "note", "&folder=*").await;
        assert_eq!(found["index"], "ready");
        let messages = found["messages"].as_array().unwrap().iter();
        let folder = |message: &Value| message["folder"].as_str().unwrap().to_owned();
        let folders: BTreeSet<String> = messages.map(folder).collect();
        assert_eq!(found["total"], folders.len());
        folders.into_iter().collect::<Vec<_>>()
    };
    assert_eq!(folders().await, ["Old", "Work", "Work/Plans"]);
    client.rename("Work", "Play").await.unwrap();
    assert_eq!(folders().await, ["Old", "Play", "Play/Plans"]);
    ada.search("note", "&folder=Work")
        .await
        .fails(404, "Folder not found");
    assert_eq!(
        ada.found("note in:Play/Plans", "&folder=*").await,
        ["note in Work/Plans"]
    );
    assert!(ada.found("note in:Work", "&folder=*").await.is_empty());
    // Two folders change their names.
    for (from, to) in [("Play/Plans", "Swap"), ("Old", "Plans"), ("Swap", "Old")] {
        client.rename(from, to).await.unwrap();
    }
    assert_eq!(
        ada.found("note", "&folder=Old").await,
        ["note in Work/Plans"]
    );
    assert_eq!(ada.found("note", "&folder=Plans").await, ["note in Old"]);
    // A new folder has the name of a deleted one.
    client.delete("Old").await.unwrap();
    client.create("Old").await.unwrap();
    assert_eq!(folders().await, ["Plans", "Play"]);
    append_text(&mut client, "Old", "note again").await;
    assert_eq!(ada.found("note", "&folder=Old").await, ["note again"]);
    assert_eq!(folders().await, ["Old", "Plans", "Play"]);
}

#[tokio::test]
async fn after_a_restart_the_next_search_knows_what_other_clients_did_meanwhile() {
    let mut service = Service::with_mail().await;
    let (access, mut client) = {
        let ada = service.person("ada").await;
        let mut client = imap(&ada).await;
        for subject in ["one", "two", "three"] {
            append_text(&mut client, "INBOX", subject).await;
        }
        ada.wait_for_index().await;
        (ada.access, client)
    };
    service.stop().await;
    append_text(&mut client, "INBOX", "four").await;
    store_flags(&mut client, "INBOX", 1, "+FLAGS (\\Flagged)").await;
    client.uid_mv("2", "Archive").await.unwrap();
    service.restart().await;
    let ada = Person {
        service: &service,
        address: String::new(),
        access,
        refresh: String::new(),
    };
    // The index on the disk is complete, so the first search uses it.
    assert_found(&ada, "this", &["four", "one", "three"]).await;
    assert_eq!(folder(&ada, "two").await, "Archive");
    assert_eq!(flags(&ada, "one").await, ["\\Flagged".to_owned()].into());
}

#[tokio::test]
async fn while_the_mail_server_is_down_a_search_returns_503() {
    let mut service = Service::with_own_mail().await;
    let access = {
        let ada = service.person("ada").await;
        append_text(&mut imap(&ada).await, "INBOX", "one").await;
        ada.wait_for_index().await;
        ada.access
    };
    let search = async |service: &Service, folder: &str| {
        let line = format!("GET /api/v1/mail/search?q=one{folder}");
        service.with_bearer(&line, &access).await
    };
    service.stack().stop_imap().await.unwrap();
    for folder in ["", "&folder=*"] {
        let response = search(&service, folder).await;
        response.fails(
            503,
            "Mail server is unavailable, please try again in a moment",
        );
    }
    service.stack().start_imap().await.unwrap();
    for folder in ["", "&folder=*"] {
        assert_eq!(search(&service, folder).await.succeeds(200)["total"], 1);
    }
}
