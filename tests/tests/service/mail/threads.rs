//! Threads: how messages are grouped, lists of threads, and `newText`.

use std::collections::BTreeSet;

use latchmail_tests::{Imap, Person, Service, imap, store_flags};
use serde_json::{Value, json};

/// A message of a thread.
#[derive(Clone, Copy)]
struct Letter<'a> {
    folder: &'a str,
    /// The Message-ID without brackets and domain.
    id: &'a str,
    /// The ids in References, oldest first.
    references: &'a [&'a str],
    subject: &'a str,
    from: &'a str,
    /// The hour of 20 November 2026 at which the message was written and arrived.
    hour: u32,
}

const LETTER: Letter<'_> = Letter {
    folder: "INBOX",
    id: "",
    references: &[],
    subject: "",
    from: "Grace Hopper <grace@outside.test>",
    hour: 0,
};

/// Puts a message into its folder.
async fn append(client: &mut Imap, letter: Letter<'_>) {
    let Letter {
        folder,
        id,
        references,
        subject,
        from,
        hour,
    } = letter;
    let ids: Vec<_> = references
        .iter()
        .map(|id| format!("<{id}@outside.test>"))
        .collect();
    let mut fields = String::new();
    if let Some(parent) = ids.last() {
        fields = format!(
            "In-Reply-To: {parent}\r\nReferences: {}\r\n",
            ids.join("\r\n ")
        );
    }
    let message = format!(
        "From: {from}\r\nTo: ada@first.test\r\nSubject: {subject}\r\nDate: Fri, 20 Nov 2026 {hour:02}:00:00 +0000\r\n\
         Message-ID: <{id}@outside.test>\r\n{fields}\r\nThis is {id}.\r\n"
    );
    let arrived = format!("\"20-Nov-2025 {hour:02}:00:00 +0000\"");
    let appended = client.append(folder, None, Some(&arrived), message);
    appended.await.unwrap();
}

async fn threads(person: &Person<'_>, folder: &str) -> Value {
    let line = format!("GET /api/v1/mail/threads?folder={folder}");
    person.send(&line).await.succeeds(200)
}

async fn messages(person: &Person<'_>, id: &str) -> Vec<Value> {
    let line = format!("GET /api/v1/mail/threads/{id}");
    let thread = person.send(&line).await.succeeds(200);
    let fields: Vec<_> = thread.as_object().unwrap().keys().collect();
    assert_eq!(fields, ["id", "messages", "total"]);
    let messages = thread["messages"].as_array().unwrap().clone();
    assert_eq!(thread["total"], messages.len());
    messages
}

fn text(value: &Value) -> String {
    value.as_str().unwrap().to_owned()
}

/// Returns the previews of messages without the beginning, which are the ids of their letters.
fn ids(messages: &[Value]) -> Vec<String> {
    let preview = |message: &Value| text(&message["preview"]);
    messages
        .iter()
        .map(|message| {
            let id = preview(message);
            let id = id.trim_start_matches("This is ").trim_end_matches('.');
            id.to_owned()
        })
        .collect()
}

/// Returns the threads of all folders as sets of letters.
async fn groups(person: &Person<'_>) -> BTreeSet<Vec<String>> {
    let listed = threads(person, "*").await;
    let mut groups = BTreeSet::new();
    for thread in listed["threads"].as_array().unwrap() {
        let messages = messages(person, thread["id"].as_str().unwrap()).await;
        assert_eq!(thread["count"], messages.len());
        let mut ids = ids(&messages);
        ids.sort();
        groups.insert(ids);
    }
    groups
}

fn expected(groups: &[&[&str]]) -> BTreeSet<Vec<String>> {
    let owned = |group: &&[&str]| group.iter().map(ToString::to_string).collect();
    groups.iter().map(owned).collect()
}

#[tokio::test]
async fn all_routes_return_the_same_thread_id() {
    let service = Service::with_mail().await;
    let ada = service.person("ada").await;
    let mut client = imap(&ada).await;
    for (folder, id, references, subject, hour) in [
        ("INBOX", "a", &[][..], "Plan", 1),
        ("Sent", "b", &["a"], "Re: Plan", 2),
        ("INBOX", "c", &["a", "b"], "Re: Plan", 3),
        ("INBOX", "x", &[], "Other", 4),
        // This message has the subject of another thread and a reply prefix.
        ("Archive", "y", &["missing"], "Re: Plan", 5),
    ] {
        let letter = Letter {
            folder,
            id,
            references,
            subject,
            hour,
            ..LETTER
        };
        append(&mut client, letter).await;
    }
    ada.wait_for_index().await;
    let found = ada.search("this", "&folder=*").await.succeeds(200);
    let found = found["messages"].as_array().unwrap();
    assert_eq!(found.len(), 5);
    let mut seen = BTreeSet::new();
    for message in found {
        let id = text(&message["threadId"]);
        assert!(!id.is_empty());
        let path = message["folder"].as_str().unwrap();
        let listed = ada.all_messages(path).await;
        let listed = listed.iter().find(|m| m["uid"] == message["uid"]).unwrap();
        assert_eq!(listed["threadId"], id, "{path}");
        let uid = message["uid"].as_u64().unwrap();
        assert_eq!(ada.message(uid).await["threadId"], id, "{path}");
        let members = messages(&ada, &id).await;
        let member = members.iter().find(|m| m["uid"] == uid).unwrap();
        assert_eq!(member["threadId"], id, "{path}");
        assert_eq!(member["folder"], path);
        seen.insert(id);
    }
    let listed = threads(&ada, "*").await;
    let listed = listed["threads"].as_array().unwrap();
    let listed: BTreeSet<String> = listed.iter().map(|thread| text(&thread["id"])).collect();
    assert_eq!(listed, seen);
    assert_eq!(seen.len(), 2);
}

#[tokio::test]
async fn pages_of_a_thread_count_from_the_newest_message() {
    let service = Service::with_mail().await;
    let ada = service.person("ada").await;
    let mut client = imap(&ada).await;
    for (hour, id) in ["a", "b", "c", "d", "e"].into_iter().enumerate() {
        let letter = Letter {
            id,
            references: &["root"],
            subject: "Plan",
            hour: u32::try_from(hour).unwrap(),
            folder: if id == "b" { "Archive" } else { "INBOX" },
            ..LETTER
        };
        append(&mut client, letter).await;
    }
    ada.wait_for_index().await;
    let id = text(&threads(&ada, "*").await["threads"][0]["id"]);
    let get = async |query: &str| {
        let line = format!("GET /api/v1/mail/threads/{id}{query}");
        ada.send(&line).await
    };
    for (query, expected) in [
        ("?page=1&limit=2", &["d", "e"][..]),
        ("?limit=2", &["d", "e"]),
        ("?page=3&limit=2", &["a"]),
        ("?page=4&limit=2", &[]),
        ("?page=1", &["a", "b", "c", "d", "e"]),
    ] {
        let page = get(query).await.succeeds(200);
        assert_eq!(
            (&page["id"], &page["total"]),
            (&json!(id), &json!(5)),
            "{query}"
        );
        assert!(page["page"].is_u64() && page["limit"].is_u64(), "{query}");
        assert_eq!(
            ids(page["messages"].as_array().unwrap()),
            expected,
            "{query}"
        );
    }
    for query in ["?page=0", "?limit=101", "?limit=x", "?page=", "?page=-1"] {
        let refused = get(query).await;
        refused.fails(400, "Invalid paging parameters");
    }
}

#[tokio::test]
async fn replies_are_grouped_in_any_order_of_arrival() {
    let service = Service::with_mail().await;
    let letters = [
        ("a", &[][..], "Plan", 1),
        ("b", &["a"], "Re: Plan", 2),
        ("c", &["a", "b"], "AW: Plan", 3),
        ("d", &["a"], "Re: Plan (was: Idea)", 4),
        // The parent does not exist.
        ("e", &["gone"], "Lunch", 5),
        ("f", &["gone"], "Lunch too", 6),
        ("g", &[], "Alone", 7),
    ];
    let expected = expected(&[&["a", "b", "c", "d"], &["e", "f"], &["g"]]);
    for (name, order) in [
        ("ada", [0, 1, 2, 3, 4, 5, 6]),
        ("bob", [6, 5, 4, 3, 2, 1, 0]),
        ("cem", [2, 5, 3, 0, 6, 1, 4]),
    ] {
        let person = service.person(name).await;
        let mut client = imap(&person).await;
        for (step, number) in order.into_iter().enumerate() {
            let (id, references, subject, hour) = letters[number];
            let letter = Letter {
                id,
                references,
                subject,
                hour,
                ..LETTER
            };
            append(&mut client, letter).await;
            if step == 3 {
                // The other letters are added to the index one by one.
                person.wait_for_index().await;
            }
            if step > 3 {
                threads(&person, "*").await;
            }
        }
        assert_eq!(groups(&person).await, expected, "{name}");
    }
}

#[tokio::test]
async fn threads_are_merged_by_subject_only_with_a_reply_prefix() {
    let service = Service::with_mail().await;
    let ada = service.person("ada").await;
    let mut client = imap(&ada).await;
    for (id, subject, hour) in [
        ("a", "Plan", 1),
        ("b", "Re: Plan", 2),
        ("c", "Status", 3),
        ("d", "Status", 4),
        ("e", "Invoice 17", 5),
        ("f", "Invoice 18", 6),
        ("g", "AW: Fwd: Trip", 7),
        ("h", "Trip", 8),
        ("i", "", 9),
        ("j", "Re:", 10),
    ] {
        let letter = Letter {
            id,
            subject,
            hour,
            ..LETTER
        };
        append(&mut client, letter).await;
    }
    ada.wait_for_index().await;
    let merged = expected(&[
        &["a", "b"],
        &["c"],
        &["d"],
        &["e"],
        &["f"],
        &["g", "h"],
        &["i"],
        &["j"],
    ]);
    assert_eq!(groups(&ada).await, merged);
}

#[tokio::test]
async fn an_id_stays_valid_after_threads_are_merged() {
    let service = Service::with_mail().await;
    let ada = service.person("ada").await;
    let mut client = imap(&ada).await;
    for (id, subject, hour) in [("a", "First", 1), ("b", "Second", 2)] {
        let letter = Letter {
            id,
            subject,
            hour,
            ..LETTER
        };
        append(&mut client, letter).await;
    }
    ada.wait_for_index().await;
    let before = threads(&ada, "*").await;
    let before: Vec<String> = before["threads"]
        .as_array()
        .unwrap()
        .iter()
        .map(|thread| text(&thread["id"]))
        .collect();
    assert_eq!(before.len(), 2);
    let link = Letter {
        id: "c",
        references: &["a", "b"],
        subject: "Re: Second",
        hour: 3,
        ..LETTER
    };
    append(&mut client, link).await;
    let after = threads(&ada, "*").await;
    assert_eq!(after["total"], 1);
    let id = text(&after["threads"][0]["id"]);
    assert!(before.contains(&id));
    for old in before {
        let request = format!("GET /api/v1/mail/threads/{old}");
        assert_eq!(ada.send(&request).await.succeeds(200)["id"], id);
        assert_eq!(ids(&messages(&ada, &old).await), ["a", "b", "c"]);
    }
}

#[tokio::test]
async fn an_id_stays_the_same_while_messages_of_the_thread_come_and_go() {
    let service = Service::with_mail().await;
    let ada = service.person("ada").await;
    let mut client = imap(&ada).await;
    let reply = Letter {
        id: "b",
        references: &["a"],
        subject: "Re: Plan",
        hour: 2,
        ..LETTER
    };
    append(&mut client, reply).await;
    ada.wait_for_index().await;
    let only_thread = async || {
        let listed = threads(&ada, "*").await;
        assert_eq!(listed["total"], 1);
        text(&listed["threads"][0]["id"])
    };
    let id = only_thread().await;
    let first = Letter {
        id: "a",
        subject: "Plan",
        hour: 1,
        ..LETTER
    };
    append(&mut client, first).await;
    assert_eq!(only_thread().await, id);
    let third = Letter {
        id: "c",
        references: &["a", "b"],
        hour: 3,
        ..reply
    };
    append(&mut client, third).await;
    assert_eq!(only_thread().await, id);
    assert_eq!(ids(&messages(&ada, &id).await), ["a", "b", "c"]);
    let uid = ada.uid_of("INBOX", "Plan").await;
    ada.delete(uid).await.succeeds(200);
    assert_eq!(only_thread().await, id);
    assert_eq!(ids(&messages(&ada, &id).await), ["b", "c"]);
}

#[tokio::test]
async fn a_list_has_the_threads_of_a_folder_with_counts_of_all_folders() {
    let service = Service::with_mail().await;
    let ada = service.person("ada").await;
    let mut client = imap(&ada).await;
    let own = "Ada Lovelace <ada@first.test>";
    let grace = LETTER.from;
    for (folder, id, references, subject, from, hour) in [
        ("INBOX", "a", &[][..], "Plan", grace, 1),
        ("Sent", "b", &["a"], "Re: Plan", own, 2),
        (
            "INBOX",
            "c",
            &["a", "b"],
            "Re: Plan",
            "G. Hopper <GRACE@outside.test>",
            6,
        ),
        ("INBOX", "x", &[], "Other", "Linus <linus@kernel.test>", 4),
        ("Archive", "z", &[], "Old", grace, 5),
    ] {
        let letter = Letter {
            folder,
            id,
            references,
            subject,
            from,
            hour,
        };
        append(&mut client, letter).await;
    }
    store_flags(&mut client, "INBOX", 1, "+FLAGS (\\Seen)").await;
    store_flags(&mut client, "Sent", 1, "+FLAGS (\\Seen)").await;
    ada.wait_for_index().await;

    let inbox = threads(&ada, "INBOX").await;
    let fields: Vec<_> = inbox.as_object().unwrap().keys().collect();
    assert_eq!(fields, ["limit", "page", "threads", "total"]);
    assert_eq!(
        (&inbox["total"], &inbox["page"], &inbox["limit"]),
        (&json!(2), &json!(1), &json!(50))
    );
    let plan = &inbox["threads"][0];
    let fields: Vec<_> = plan.as_object().unwrap().keys().collect();
    let expected = ["count", "id", "newest", "participants", "subject", "unread"];
    assert_eq!(fields, expected);
    assert_eq!(
        (&plan["subject"], &plan["count"], &plan["unread"]),
        (&json!("Plan"), &json!(3), &json!(1))
    );
    let participants = json!([
        { "name": "Grace Hopper", "address": "grace@outside.test" },
        { "name": "Ada Lovelace", "address": "ada@first.test" },
    ]);
    assert_eq!(plan["participants"], participants);
    assert_eq!(plan["newest"]["uid"], ada.uid_of("INBOX", "Re: Plan").await);
    assert_eq!(inbox["threads"][1]["subject"], "Other");

    // A thread is listed in each folder that has one of its messages. The newest thread is first.
    let subjects = async |folder: &str| {
        let listed = threads(&ada, folder).await;
        let listed = listed["threads"].as_array().unwrap();
        let subjects: Vec<String> = listed.iter().map(|one| text(&one["subject"])).collect();
        subjects
    };
    assert_eq!(subjects("Sent").await, ["Plan"]);
    assert_eq!(subjects("Archive").await, ["Old"]);
    assert_eq!(subjects("Trash").await, [""; 0]);
    assert_eq!(subjects("*").await, ["Plan", "Old", "Other"]);
    assert_eq!(
        ids(&messages(&ada, &text(&plan["id"])).await),
        ["a", "b", "c"]
    );

    // Changes of flags and locations are in the next list.
    store_flags(&mut client, "INBOX", 2, "+FLAGS (\\Seen)").await;
    assert_eq!(threads(&ada, "INBOX").await["threads"][0]["unread"], 0);
    client.uid_mv("2", "Archive").await.unwrap();
    assert_eq!(subjects("Archive").await, ["Plan", "Old"]);
    let pages = async |page: u32| {
        let line = format!("GET /api/v1/mail/threads?folder=*&limit=2&page={page}");
        let page = ada.send(&line).await.succeeds(200);
        assert_eq!((&page["total"], &page["limit"]), (&json!(3), &json!(2)));
        page["threads"].as_array().unwrap().len()
    };
    assert_eq!((pages(1).await, pages(2).await, pages(3).await), (2, 1, 0));
}

#[tokio::test]
async fn an_invalid_request_for_threads_is_refused() {
    let service = Service::with_mail().await;
    let (ada, bob) = (service.person("ada").await, service.person("bob").await);
    let mut client = imap(&ada).await;
    let letter = Letter {
        id: "a",
        subject: "Plan",
        ..LETTER
    };
    append(&mut client, letter).await;
    // Until the index is complete, there are no threads.
    let early = ada.send("GET /api/v1/mail/threads").await;
    assert_eq!(early.status, 503, "{}", early.json);
    assert!(early.header("retry-after").is_some());
    ada.wait_for_index().await;
    bob.wait_for_index().await;
    for folder in ["Nowhere", "INBOX%2FNowhere", "%25"] {
        let line = format!("GET /api/v1/mail/threads?folder={folder}");
        ada.send(&line).await.fails(404, "Folder not found");
    }
    for paging in ["page=0", "page=x", "limit=0", "limit=101", "limit="] {
        let line = format!("GET /api/v1/mail/threads?{paging}");
        ada.send(&line)
            .await
            .fails(400, "Invalid paging parameters");
    }
    let id = text(&threads(&ada, "INBOX").await["threads"][0]["id"]);
    for unknown in ["0", "0123456789abcdef", "x", "%2F", "-1"] {
        let line = format!("GET /api/v1/mail/threads/{unknown}");
        ada.send(&line).await.fails(404, "Thread not found");
    }
    let line = format!("GET /api/v1/mail/threads/{id}");
    bob.send(&line).await.fails(404, "Thread not found");
    ada.delete(ada.uids("INBOX").await[0]).await.succeeds(200);
    ada.send(&line).await.fails(404, "Thread not found");
}

#[tokio::test]
async fn the_new_text_of_a_reply_is_without_quotes() {
    let service = Service::with_mail().await;
    let ada = service.person("ada").await;
    let mut client = imap(&ada).await;
    let from = "From: Grace <grace@outside.test>\nTo: ada@first.test\n";
    for (subject, content) in [
        (
            "plain",
            "\nThursday is fine.\n\nOn Thu, 19 Nov 2026 at 10:00, Ada <ada@first.test> wrote:\n> Shall we meet?\n> Ada\n",
        ),
        (
            "html",
            "MIME-Version: 1.0\nContent-Type: text/html; charset=utf-8\n\n<div>Freitag passt.</div><div class=\"gmail_quote\">\
             <div>Am Do., 19. Nov. 2026 um 10:00 Uhr schrieb Ada &lt;ada@first.test&gt;:</div><blockquote>Wann?</blockquote></div>\n",
        ),
        ("new", "\nNo quote here.\nTwo lines.\n"),
        (
            "file",
            "MIME-Version: 1.0\nContent-Type: application/octet-stream; name=x.bin\nContent-Disposition: attachment; filename=x.bin\n\nx\n",
        ),
    ] {
        let message = format!("{from}Subject: {subject}\n{content}").replace('\n', "\r\n");
        client.append("INBOX", None, None, message).await.unwrap();
    }
    for (subject, expected) in [
        ("plain", json!("Thursday is fine.")),
        ("html", json!("Freitag passt.")),
        ("new", json!("No quote here.\nTwo lines.")),
        ("file", Value::Null),
    ] {
        let uid = ada.uid_of("INBOX", subject).await;
        let detail = ada.message(uid).await;
        assert!(
            detail.as_object().unwrap().contains_key("newText"),
            "{subject}"
        );
        let new_text = match &detail["newText"] {
            Value::String(text) => json!(text.replace("\r\n", "\n").trim_end()),
            other => other.clone(),
        };
        assert_eq!(new_text, expected, "{subject}");
    }
}
