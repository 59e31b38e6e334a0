//! Listings by cursor and with filters, while another client changes the folder.

use std::collections::BTreeSet;

use latchmail_tests::{Imap, Person, Service, append_message, imap};
use serde_json::Value;

/// The page of the inbox with these parameters.
async fn page(person: &Person<'_>, parameters: &str) -> Value {
    let line = format!("GET /api/v1/mail/folders/INBOX/messages?{parameters}");
    person.send(&line).await.succeeds(200)
}

fn subjects(page: &Value) -> Vec<String> {
    let messages = page["messages"].as_array().unwrap().iter();
    messages
        .map(|message| message["subject"].as_str().unwrap().to_owned())
        .collect()
}

async fn run(client: &mut Imap, command: &str) {
    client.run_command_and_check_ok(command).await.unwrap();
}

/// Lists a folder with `old` messages by cursor. Between the pages, another client appends `new`
/// messages in total, and removes every third of the old messages, beginning at both ends. Checks
/// that each message that stays is listed exactly once, and no new message.
async fn list_during_changes(old: usize, new: usize, limit: usize, filter: &str) {
    let service = Service::with_mail().await;
    let ada = service.person("ada").await;
    let mut client = imap(&ada).await;
    for number in 0..old {
        append_message(&mut client, "INBOX", &format!("old {number}")).await;
    }
    client.select("INBOX").await.unwrap();
    run(&mut client, "STORE 1:* +FLAGS.SILENT (\\Flagged)").await;
    let stays: BTreeSet<String> = (0..old)
        .filter(|number| number % 3 != 0)
        .map(|number| format!("old {number}"))
        .collect();
    // The UIDs of a new folder begin with 1, in the order of arrival.
    let removed: Vec<usize> = (0..old).filter(|number| number % 3 == 0).collect();
    let pages = old.div_ceil(limit);
    let (mut listed, mut seen) = (Vec::new(), BTreeSet::new());
    let mut cursor = String::new();
    for step in 0.. {
        let parameters = format!("limit={limit}{filter}{cursor}");
        let page = page(&ada, &parameters).await;
        let found = subjects(&page);
        assert!(found.len() <= limit);
        for subject in &found {
            assert!(seen.insert(subject.clone()), "{subject} is listed twice");
        }
        listed.extend(found);
        let Some(next) = page["nextCursor"].as_str() else {
            break;
        };
        cursor = format!("&cursor={next}");
        assert!(step <= 2 * pages, "the listing does not end");
        let part = |total: usize| total * step / pages..(total * (step + 1) / pages).min(total);
        for number in part(new) {
            append_message(&mut client, "INBOX", &format!("new {number}")).await;
        }
        for index in part(removed.len()) {
            // Alternates between the oldest and the newest message that is still to be removed.
            let index = match index % 2 {
                0 => index / 2,
                _ => removed.len() - 1 - index / 2,
            };
            let uid = removed[index] + 1;
            run(
                &mut client,
                &format!("UID STORE {uid} +FLAGS.SILENT (\\Deleted)"),
            )
            .await;
            run(&mut client, &format!("UID EXPUNGE {uid}")).await;
        }
    }
    let missing: Vec<_> = stays
        .iter()
        .filter(|subject| !seen.contains(*subject))
        .collect();
    assert!(missing.is_empty(), "not listed: {missing:?}");
    assert!(listed.iter().all(|subject| subject.starts_with("old ")));
    let numbers: Vec<usize> = listed
        .iter()
        .map(|subject| subject[4..].parse().unwrap())
        .collect();
    assert!(
        numbers.is_sorted_by(|a, b| a > b),
        "the newest message is first"
    );
}

#[tokio::test]
async fn each_message_is_listed_once_by_cursor_during_changes() {
    list_during_changes(40, 40, 4, "").await;
}

#[tokio::test]
async fn filters_count_their_messages_and_have_their_own_cursors() {
    let service = Service::with_mail().await;
    let ada = service.person("ada").await;
    let mut client = imap(&ada).await;
    for number in 1..=6 {
        append_message(&mut client, "INBOX", &format!("m{number}")).await;
    }
    client.select("INBOX").await.unwrap();
    run(&mut client, "STORE 1:3 +FLAGS (\\Seen)").await;
    run(&mut client, "STORE 2,5 +FLAGS (\\Flagged)").await;
    let unread = page(&ada, "unread=true&limit=2").await;
    assert_eq!(subjects(&unread), ["m6", "m5"]);
    assert_eq!(
        (&unread["total"], &unread["messages"][0]["seq"]),
        (&3.into(), &6.into())
    );
    let next = unread["nextCursor"].as_str().unwrap();
    run(&mut client, "STORE 6 +FLAGS (\\Seen)").await;
    append_message(&mut client, "INBOX", "m7").await;
    let rest = page(&ada, &format!("unread=true&limit=2&cursor={next}")).await;
    assert_eq!(subjects(&rest), ["m4"]);
    assert_eq!(
        (&rest["total"], &rest["nextCursor"]),
        (&3.into(), &Value::Null)
    );
    let flagged = page(&ada, "flagged=true&page=2&limit=1").await;
    assert_eq!(subjects(&flagged), ["m2"]);
    assert_eq!(
        (&flagged["total"], &flagged["nextCursor"]),
        (&2.into(), &Value::Null)
    );
    assert_eq!(
        subjects(&page(&ada, "flagged=true&unread=true").await),
        ["m5"]
    );
    // A page without the new parameters has a cursor too.
    let first = page(&ada, "limit=6").await;
    let all = first["nextCursor"].as_str().unwrap();
    assert_eq!(
        subjects(&page(&ada, &format!("cursor={all}")).await),
        ["m1"]
    );

    let refused = async |folder: &str, parameters: &str, text: &str| {
        let line = format!("GET /api/v1/mail/folders/{folder}/messages?{parameters}");
        ada.send(&line).await.fails_mentioning(400, text);
    };
    refused("INBOX", &format!("cursor={next}"), "Invalid cursor").await;
    refused(
        "INBOX",
        &format!("flagged=true&cursor={next}"),
        "Invalid cursor",
    )
    .await;
    refused("Sent", &format!("cursor={all}"), "Invalid cursor").await;
    refused("INBOX", "cursor=", "Invalid cursor").await;
    refused("INBOX", "cursor=%00", "").await;
    refused(
        "INBOX",
        &format!("cursor={all}&page=1"),
        "Invalid paging parameters",
    )
    .await;
    refused("INBOX", "unread=false", "unread and flagged must be true").await;
    refused("INBOX", "flagged=", "unread and flagged must be true").await;
    // The cursor of another mailbox, and of a folder that was created again.
    let bob = service.person("bob").await;
    let line = format!("GET /api/v1/mail/folders/INBOX/messages?cursor={all}");
    bob.send(&line)
        .await
        .fails_mentioning(400, "Invalid cursor");
    run(&mut client, "CREATE Work").await;
    for subject in ["w1", "w2"] {
        append_message(&mut client, "Work", subject).await;
    }
    let line = "GET /api/v1/mail/folders/Work/messages?limit=1";
    let work = ada.send(line).await.succeeds(200);
    let cursor = work["nextCursor"].as_str().unwrap();
    run(&mut client, "DELETE Work").await;
    // Dovecot derives the UIDVALIDITY from the time in seconds.
    tokio::time::sleep(std::time::Duration::from_millis(1100)).await;
    run(&mut client, "CREATE Work").await;
    append_message(&mut client, "Work", "w3").await;
    refused("Work", &format!("cursor={cursor}"), "Invalid cursor").await;
}

mod long {
    use super::*;

    #[tokio::test]
    #[ignore = "it takes long; ./just test-all runs it"]
    async fn each_of_1000_messages_is_listed_once_by_cursor_during_1000_arrivals() {
        list_during_changes(1000, 1000, 10, "").await;
    }

    #[tokio::test]
    #[ignore = "it takes long; ./just test-all runs it"]
    async fn each_of_1000_flagged_messages_is_listed_once_by_cursor_during_changes() {
        list_during_changes(1000, 1000, 10, "&flagged=true").await;
    }
}
