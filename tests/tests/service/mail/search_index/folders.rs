//! Searches of all folders, pages and the order of results.

use latchmail_tests::{Imap, Person, Service, imap, subjects_of};
use serde_json::{Value, json};

use super::{TEXT, message};

/// Puts a message into a folder. It arrived on this day of November 2025.
async fn append_on(client: &mut Imap, folder: &str, subject: &str, day: u32, body: &str) {
    let arrived = format!("\"{day:02}-Nov-2025 08:00:00 +0000\"");
    let message = message(subject, TEXT, body);
    let appended = client.append(folder, None, Some(&arrived), message);
    appended.await.unwrap();
}

/// Fills several folders with a message for each of these days, and waits for the index.
async fn fill(ada: &Person<'_>) -> Imap {
    let mut client = imap(ada).await;
    for folder in ["Work", "Work/Plans"] {
        client.create(folder).await.unwrap();
    }
    for (folder, subject, day) in [
        ("INBOX", "inbox old", 1),
        ("Work", "work new", 9),
        ("Work", "work old", 2),
        ("Work/Plans", "plans", 5),
        ("INBOX", "inbox new", 8),
        ("Junk", "junk", 7),
        ("Trash", "trash", 6),
        ("Sent", "sent", 4),
        ("Archive", "archive", 3),
    ] {
        append_on(&mut client, folder, subject, day, "needle").await;
    }
    ada.wait_for_index().await;
    client
}

#[tokio::test]
async fn a_search_of_all_folders_is_sorted_by_arrival_and_excludes_junk_and_trash() {
    let service = Service::with_mail().await;
    let ada = service.person("ada").await;
    fill(&ada).await;
    let all = [
        "work new",
        "inbox new",
        "plans",
        "sent",
        "archive",
        "work old",
        "inbox old",
    ];
    assert_eq!(ada.found("needle", "&folder=*").await, all);
    assert_eq!(ada.found("needle", "&folder=%2A").await, all);
    for (query, expected) in [
        ("needle in:Junk", &["junk"][..]),
        ("needle in:trash", &["trash"]),
        (
            "needle in:Junk OR in:Work",
            &["work new", "junk", "work old"],
        ),
        ("needle in:\"Work/Plans\"", &["plans"]),
        ("in:work/plans", &["plans"]),
        ("needle in:Nowhere", &[]),
        // A negated name does not include the folder.
        (
            "needle -in:Junk",
            &[
                "work new",
                "inbox new",
                "plans",
                "sent",
                "archive",
                "work old",
                "inbox old",
            ],
        ),
        ("needle -in:INBOX -in:Work", &["plans", "sent", "archive"]),
    ] {
        assert_eq!(ada.found(query, "&folder=*").await, expected, "{query}");
    }
    // One folder is searched as requested, also Junk.
    assert_eq!(ada.found("needle", "&folder=Junk").await, ["junk"]);
    assert_eq!(ada.found("needle in:Trash", "&folder=Junk").await, [""; 0]);
}

#[tokio::test]
async fn each_result_has_its_folder_and_its_position_there() {
    let service = Service::with_mail().await;
    let ada = service.person("ada").await;
    fill(&ada).await;
    let found = ada.search("needle", "&folder=*").await.succeeds(200);
    for message in found["messages"].as_array().unwrap() {
        let path = message["folder"].as_str().unwrap();
        let listed = ada.all_messages(path).await;
        let entry = listed.iter().find(|m| m["uid"] == message["uid"]).unwrap();
        for (field, value) in entry.as_object().unwrap() {
            assert_eq!(message[field], *value, "{path} {field}");
        }
    }
    let positions: Vec<(&str, u64)> = found["messages"]
        .as_array()
        .unwrap()
        .iter()
        .map(|m| (m["folder"].as_str().unwrap(), m["seq"].as_u64().unwrap()))
        .collect();
    let expected = [
        ("Work", 1),
        ("INBOX", 2),
        ("Work/Plans", 1),
        ("Sent", 1),
        ("Archive", 1),
        ("Work", 2),
        ("INBOX", 1),
    ];
    assert_eq!(positions, expected);
    // In one folder, the order is that of the folder.
    assert_eq!(
        ada.found("needle", "&folder=Work").await,
        ["work old", "work new"]
    );
}

#[tokio::test]
async fn messages_with_the_same_arrival_are_sorted_by_number() {
    let service = Service::with_mail().await;
    let ada = service.person("ada").await;
    let mut client = imap(&ada).await;
    for number in 0..12 {
        let folder = ["INBOX", "Archive", "Sent"][number % 3];
        append_on(&mut client, folder, &format!("n{number}"), 3, "needle").await;
        // The list of the folder assigns the number.
        ada.messages(folder).await;
    }
    ada.wait_for_index().await;
    let found = ada.search("needle", "&folder=*").await.succeeds(200);
    let uid = |message: &Value| message["uid"].as_u64().unwrap();
    let uids: Vec<u64> = found["messages"]
        .as_array()
        .unwrap()
        .iter()
        .map(uid)
        .collect();
    let mut sorted = uids.clone();
    sorted.sort_unstable_by(|a, b| b.cmp(a));
    assert_eq!(uids, sorted);
    assert_eq!(uids.len(), 12);
}

#[tokio::test]
async fn pages_have_the_exact_total_and_every_result_once() {
    let service = Service::with_mail().await;
    let ada = service.person("ada").await;
    let mut client = imap(&ada).await;
    for number in 0..53_u32 {
        let folder = ["INBOX", "Archive", "Sent", "Junk"][number as usize % 4];
        let word = if number.is_multiple_of(5) {
            "other"
        } else {
            "wanted"
        };
        let day = 1 + number % 28;
        append_on(&mut client, folder, &format!("n{number}"), day, word).await;
    }
    ada.wait_for_index().await;
    for (query, rest, expected) in [
        ("wanted", "&folder=*", 31),
        ("wanted", "&folder=*&sort=relevance", 31),
        ("wanted in:Junk OR -in:Junk", "&folder=*", 42),
        ("wanted", "&folder=Archive", 10),
        ("-other", "&folder=INBOX", 11),
    ] {
        let mut whole = Vec::new();
        for page in 1..=expected / 7 + 2 {
            let rest = format!("{rest}&limit=7&page={page}");
            let response = ada.search(query, &rest).await.succeeds(200);
            assert_eq!(response["total"], expected, "{query} {rest}");
            assert_eq!(
                (&response["page"], &response["limit"], &response["index"]),
                (&json!(page), &json!(7), &json!("ready"))
            );
            whole.extend(subjects_of(&response));
        }
        assert_eq!(whole, ada.found(query, rest).await, "{query} {rest}");
        whole.sort();
        whole.dedup();
        assert_eq!(whole.len(), expected, "{query} {rest}");
    }
    let far = ada
        .search("wanted", "&folder=*&limit=100&page=4000000000")
        .await;
    let far = far.succeeds(200);
    assert_eq!((&far["total"], &far["messages"]), (&json!(31), &json!([])));
}

#[tokio::test]
async fn the_best_match_is_first_with_the_order_by_relevance() {
    let service = Service::with_mail().await;
    let ada = service.person("ada").await;
    let mut client = imap(&ada).await;
    let filler = "Many other words follow here. ".repeat(40);
    let once = format!("{filler} zebra {filler}");
    for (folder, subject, day, body) in [
        ("INBOX", "zebra zebra", 1, "zebra zebra zebra"),
        ("Archive", "long", 3, &*once),
        ("INBOX", "none", 4, &*filler),
    ] {
        append_on(&mut client, folder, subject, day, body).await;
    }
    ada.wait_for_index().await;
    for (rest, expected) in [
        ("&folder=*&sort=relevance", ["zebra zebra", "long"]),
        ("&folder=*&sort=newest", ["long", "zebra zebra"]),
        ("&folder=*", ["long", "zebra zebra"]),
    ] {
        assert_eq!(ada.found("zebra", rest).await, expected, "{rest}");
    }
    // Equal matches are newest first.
    for day in [10, 12, 11] {
        append_on(
            &mut client,
            "Archive",
            "same",
            day,
            &format!("giraffe {day}"),
        )
        .await;
    }
    let found = ada.search("giraffe", "&folder=*&sort=relevance").await;
    let found = found.succeeds(200);
    let positions: Vec<&Value> = found["messages"]
        .as_array()
        .unwrap()
        .iter()
        .map(|message| &message["seq"])
        .collect();
    assert_eq!(positions, [3, 4, 2]);
    assert_eq!(
        ada.found("-filler zebra OR giraffe", "&folder=*&sort=relevance")
            .await
            .len(),
        5
    );
}

#[tokio::test]
async fn without_an_index_all_folders_are_searched_in_the_same_order() {
    let service = Service::with_mail_and("index.enabled = false").await;
    let ada = service.person("ada").await;
    let mut client = imap(&ada).await;
    client.create("Work").await.unwrap();
    for (folder, subject, day) in [
        ("INBOX", "one", 1),
        ("Work", "five", 5),
        ("Archive", "three", 3),
        ("Work", "two", 2),
        ("Junk", "four", 4),
    ] {
        append_on(&mut client, folder, subject, day, "needle").await;
    }
    let search = async |query: &str, rest: &str| {
        let response = ada.search(query, rest).await.succeeds(200);
        assert_eq!(response["index"], "off", "{query}");
        (subjects_of(&response), response["total"].as_u64().unwrap())
    };
    let found = |subjects: &[&str], total: u64| {
        let subjects = subjects.iter().map(ToString::to_string);
        (subjects.collect::<Vec<_>>(), total)
    };
    for (query, rest, expected) in [
        (
            "needle",
            "&folder=*",
            found(&["five", "three", "two", "one"], 4),
        ),
        ("needle", "&folder=*&limit=2", found(&["five", "three"], 4)),
        (
            "needle",
            "&folder=*&limit=2&page=2",
            found(&["two", "one"], 4),
        ),
        ("needle in:Junk", "&folder=*", found(&["four"], 1)),
        ("needle -subject:two", "&folder=Work", found(&["five"], 1)),
        (
            "subject:one OR subject:three",
            "&folder=*",
            found(&["three", "one"], 2),
        ),
        ("needle in:Work two", "&folder=*", found(&["two"], 1)),
    ] {
        assert_eq!(search(query, rest).await, expected, "{query} {rest}");
    }
    let response = ada.search("needle", "&folder=*").await.succeeds(200);
    for message in response["messages"].as_array().unwrap() {
        assert_eq!(message.get("snippet"), None);
        let listed = ada.all_messages(message["folder"].as_str().unwrap()).await;
        let entry = listed.iter().find(|m| m["uid"] == message["uid"]).unwrap();
        assert_eq!(entry["seq"], message["seq"]);
    }
    ada.search("before:soon", "&folder=*")
        .await
        .fails_mentioning(400, "Invalid search query at character 0: ");
    let response = ada.send("GET /api/v1/mail/threads?folder=*").await;
    assert_eq!(response.status, 503);
    assert!(response.header("retry-after").is_some());
}
