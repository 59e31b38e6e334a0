//! Search, changes and threads of a member: granted folders only, also in totals.

use std::collections::BTreeSet;

use latchmail_tests::{Person, Response, Service, percent_encoded, store_flags};
use serde_json::{Value, json};

use super::rules::Grant;
use super::shared_mailbox::SharedMailbox;

const READ: &[&str] = &["mail:read"];

/// Returns the response to a person's search in Ada's mailbox.
async fn search(shared: &SharedMailbox<'_>, person: &Person<'_>, query: &str) -> Response {
    let line = format!("GET /api/v1/mail/search?q={}", percent_encoded(query));
    shared.send(person, &format!("{line}&folder=*")).await
}

/// Returns the folders and the total of a search.
async fn found(shared: &SharedMailbox<'_>, person: &Person<'_>, query: &str) -> (Vec<String>, u64) {
    let response = search(shared, person, query).await.succeeds(200);
    let messages = response["messages"].as_array().unwrap().iter();
    let mut folders: Vec<String> = messages
        .map(|message| message["folder"].as_str().unwrap().to_owned())
        .collect();
    folders.sort();
    (folders, response["total"].as_u64().unwrap())
}

/// Returns the changes that a person sees since a cursor, and stores the next cursor.
async fn changes(
    shared: &SharedMailbox<'_>,
    person: &Person<'_>,
    cursor: &mut String,
) -> Vec<Value> {
    let since = match cursor.as_str() {
        "" => String::new(),
        cursor => format!("since={}&", percent_encoded(cursor)),
    };
    let line = format!("GET /api/v1/mail/changes?{since}limit=500");
    let page = shared.send(person, &line).await.succeeds(200);
    assert_eq!(page["more"], false);
    page["cursor"].as_str().unwrap().clone_into(cursor);
    page["changes"].as_array().unwrap().clone()
}

#[tokio::test]
async fn a_member_finds_messages_of_granted_folders_only() {
    let service = Service::with_mail().await;
    let mut shared = SharedMailbox::new(&service).await;
    for folder in ["INBOX", "Alpha", "Alpha", "Beta", "Junk"] {
        shared.append(folder, "needle").await;
    }
    let alpha = shared.folder("Alpha").await;
    shared
        .invite("bob", &Grant::on("folder", &alpha, READ))
        .await
        .succeeds(201);
    let bob = shared.bob.clone();
    let all = |folders: &[&str]| {
        let owned: Vec<String> = folders.iter().map(ToString::to_string).collect();
        (owned, folders.len() as u64)
    };
    for is_ready in [false, true] {
        for query in [
            "needle",
            "-nothing",
            "is:unread",
            "needle OR in:Beta",
            "needle in:Alpha",
        ] {
            let expected = all(&["Alpha", "Alpha"]);
            assert_eq!(found(&shared, &bob, query).await, expected, "{query}");
        }
        // A folder outside the grants is like a folder that does not exist.
        for query in ["needle in:Beta", "in:Junk", "needle in:Nowhere"] {
            assert_eq!(found(&shared, &bob, query).await, all(&[]), "{query}");
        }
        let expected = all(&["Alpha", "Alpha", "Beta", "INBOX"]);
        assert_eq!(found(&shared, &shared.ada, "needle").await, expected);
        for folder in ["Beta", "INBOX", "Nowhere"] {
            let line = format!("GET /api/v1/mail/search?q=needle&folder={folder}");
            let refused = shared.send(&bob, &line).await;
            refused.fails(404, "Folder not found");
        }
        if !is_ready {
            shared.ada.wait_for_index().await;
        }
    }
    let response = search(&shared, &bob, "needle").await.succeeds(200);
    assert_eq!(response["index"], "ready");

    // The next search has a new grant and no revoked one, and follows messages that are moved.
    let beta = shared.folder("Beta").await;
    let grant = shared.grant(&Grant::on("folder", &beta, READ)).await;
    let expected = all(&["Alpha", "Alpha", "Beta"]);
    assert_eq!(found(&shared, &bob, "needle").await, expected);
    shared.revoke(&grant).await;
    assert_eq!(found(&shared, &bob, "needle").await.1, 2);
    shared.client.select("Alpha").await.unwrap();
    shared.client.uid_mv("1", "Beta").await.unwrap();
    assert_eq!(found(&shared, &bob, "needle").await, all(&["Alpha"]));
    shared.client.examine("INBOX").await.unwrap();
    shared.client.rename("Alpha", "Omega").await.unwrap();
    assert_eq!(found(&shared, &bob, "needle").await, all(&["Omega"]));
}

#[tokio::test]
async fn a_member_sees_changes_of_granted_folders_only() {
    let service = Service::with_mail().await;
    let mut shared = SharedMailbox::new(&service).await;
    let inside = shared.append("Alpha", "inside").await;
    let outside = shared.append("Beta", "outside").await;
    let alpha = shared.folder("Alpha").await;
    shared
        .invite("bob", &Grant::on("folder", &alpha, READ))
        .await
        .succeeds(201);
    let bob = shared.bob.clone();
    let mut cursor = String::new();
    assert!(changes(&shared, &bob, &mut cursor).await.is_empty());
    let (mut of_ada, owner) = (String::new(), shared.ada.clone());
    changes(&shared, &owner, &mut of_ada).await;

    // Nothing outside the grants is visible.
    store_flags(&mut shared.client, "Beta", 1, "+FLAGS (\\Seen)").await;
    shared.append("INBOX", "private").await;
    shared.client.create("Gamma").await.unwrap();
    shared.client.rename("Gamma", "Delta").await.unwrap();
    shared.client.delete("Delta").await.unwrap();
    assert_eq!(json!(changes(&shared, &bob, &mut cursor).await), json!([]));
    assert_eq!(changes(&shared, &owner, &mut of_ada).await.len(), 2);

    // A message that enters or leaves a granted folder is created or deleted.
    shared.client.select("Beta").await.unwrap();
    shared.client.uid_mv("1", "Alpha").await.unwrap();
    let expected = json!([
        { "type": "created", "uid": outside, "folder": "Alpha", "flags": ["\\Seen"] },
    ]);
    assert_eq!(json!(changes(&shared, &bob, &mut cursor).await), expected);
    shared.client.select("Alpha").await.unwrap();
    shared.client.uid_mv("1", "INBOX").await.unwrap();
    let expected = json!([{ "type": "deleted", "uid": inside, "folder": "Alpha" }]);
    assert_eq!(json!(changes(&shared, &bob, &mut cursor).await), expected);

    shared.client.examine("INBOX").await.unwrap();
    shared.client.rename("Alpha", "Omega").await.unwrap();
    let expected = json!([
        { "type": "folderRenamed", "folder": "Omega", "from": "Alpha", "id": alpha },
    ]);
    assert_eq!(json!(changes(&shared, &bob, &mut cursor).await), expected);
    // A new folder with the old name is not shared.
    shared.client.create("Alpha").await.unwrap();
    shared.append("Alpha", "not shared").await;
    assert_eq!(json!(changes(&shared, &bob, &mut cursor).await), json!([]));

    // A cursor of the owner is not valid for the member, and the member cannot name other folders.
    let since = percent_encoded(&of_ada);
    let line = format!("GET /api/v1/mail/changes?since={since}");
    shared.send(&bob, &line).await.fails(410, "Cursor expired");
    for folder in ["Beta", "INBOX", "Alpha", "Nowhere"] {
        let line = format!("GET /api/v1/mail/changes?folder={folder}");
        let refused = shared.send(&bob, &line).await;
        refused.fails(404, "Folder not found");
    }
    shared
        .send(&bob, "GET /api/v1/mail/changes?folder=Omega")
        .await
        .succeeds(200);
}

#[tokio::test]
async fn a_member_sees_the_messages_of_a_thread_in_granted_folders_only() {
    let service = Service::with_mail().await;
    let mut shared = SharedMailbox::new(&service).await;
    for (folder, number, references) in [
        ("Beta", 1, ""),
        ("Alpha", 2, "References: <1@outside.test>\r\n"),
        (
            "Alpha",
            3,
            "References: <1@outside.test> <2@outside.test>\r\n",
        ),
        (
            "INBOX",
            4,
            "References: <1@outside.test> <3@outside.test>\r\n",
        ),
        ("Beta", 9, ""),
    ] {
        let subject = ["Secret", "Re: Secret"][usize::from(!references.is_empty())];
        let message = format!(
            "From: Person {number} <p{number}@outside.test>\r\nSubject: {subject} {}\r\nDate: Fri, 20 Nov 2026 0{number}:00:00 +0000\r\n\
             Message-ID: <{number}@outside.test>\r\n{references}\r\nThis is {number}.\r\n",
            if number == 9 { "of others" } else { "plan" }
        );
        let appended = shared.client.append(folder, None, None, message);
        appended.await.unwrap();
    }
    let alpha = shared.folder("Alpha").await;
    shared
        .invite("bob", &Grant::on("folder", &alpha, READ))
        .await
        .succeeds(201);
    shared.ada.wait_for_index().await;
    let bob = shared.bob.clone();
    let listed = async |person: &Person<'_>, folder: &str| {
        let line = format!("GET /api/v1/mail/threads?folder={folder}");
        shared.send(person, &line).await.succeeds(200)
    };
    for folder in ["*", "Alpha"] {
        let threads = listed(&bob, folder).await;
        assert_eq!(threads["total"], 1, "{threads}");
        let thread = &threads["threads"][0];
        assert_eq!(
            (&thread["count"], &thread["unread"], &thread["subject"]),
            (&json!(2), &json!(2), &json!("Re: Secret plan"))
        );
        let participants = thread["participants"].as_array().unwrap().iter();
        let participants: BTreeSet<_> = participants.map(|p| p["address"].as_str()).collect();
        let expected = [Some("p2@outside.test"), Some("p3@outside.test")];
        assert_eq!(participants, expected.into());
        assert_eq!(thread["newest"]["folder"], "Alpha");
        assert!(!threads.to_string().contains("p1@"), "{threads}");
    }
    let of_ada = listed(&shared.ada, "*").await;
    assert_eq!(of_ada["total"], 2);
    for thread in of_ada["threads"].as_array().unwrap() {
        let id = thread["id"].as_str().unwrap();
        let line = format!("GET /api/v1/mail/threads/{id}");
        let response = shared.send(&bob, &line).await;
        if thread["count"] == 4 {
            let messages = response.succeeds(200);
            let messages = messages["messages"].as_array().unwrap();
            let folders: Vec<_> = messages.iter().map(|message| &message["folder"]).collect();
            assert_eq!(folders, ["Alpha", "Alpha"]);
        } else {
            response.fails(404, "Thread not found");
        }
    }
    for folder in ["Beta", "INBOX", "Nowhere"] {
        let line = format!("GET /api/v1/mail/threads?folder={folder}");
        let refused = shared.send(&bob, &line).await;
        refused.fails(404, "Folder not found");
    }
}

#[tokio::test]
async fn a_member_without_mail_rights_cannot_search_or_follow_changes() {
    let service = Service::with_mail().await;
    let shared = SharedMailbox::new(&service).await;
    shared
        .invite("bob", &Grant::on("alias_set", "all", &["aliases:read"]))
        .await
        .succeeds(201);
    for line in [
        "GET /api/v1/mail/search?q=x&folder=*",
        "GET /api/v1/mail/changes",
        "GET /api/v1/mail/threads?folder=*",
        "GET /api/v1/mail/threads/0123456789abcdef",
    ] {
        let refused = shared.send(&shared.bob, line).await;
        assert!(
            [403, 404].contains(&refused.status),
            "{line}: {} {}",
            refused.status,
            refused.json
        );
        // Without the parameter `mailbox`, the member uses its own mailbox.
        let own = shared.bob.send(line).await;
        assert_ne!(own.status, 403, "{line}");
    }
}
