//! Snoozed messages, as this service and another client see them.

use std::time::Duration;

use futures_util::TryStreamExt as _;
use latchmail_tests::{Imap, Person, Service, Setup, append_message, imap};
use serde_json::{Value, json};
use tokio::time::sleep;

use crate::accounts::sharing::rules::Grant;
use crate::accounts::sharing::shared_mailbox::SharedMailbox;

const HOUR: Duration = Duration::from_hours(1);

/// Returns the body of a request, with a time that is `delay` from now.
fn until(service: &Service, delay: Duration) -> Value {
    json!({ "until": service.clock.now().plus(delay).to_string() })
}

fn line(method: &str, uid: u64) -> String {
    format!("{method} /api/v1/mail/messages/{uid}/snooze")
}

async fn snooze(person: &Person<'_>, uid: u64, delay: Duration) {
    let body = until(person.service, delay);
    let snoozed = person.send_json(&line("POST", uid), &body).await;
    snoozed.succeeds(200);
}

/// Returns the folder and the sorted flags of a message.
async fn state(person: &Person<'_>, uid: u64) -> (String, Vec<String>) {
    let line = format!("GET /api/v1/mail/messages?uids={uid}");
    let found = person.send(&line).await.succeeds(200);
    let message = &found["messages"][0];
    let flags = message["flags"].as_array().unwrap().iter();
    let mut flags: Vec<String> = flags
        .map(|flag| flag.as_str().unwrap().to_owned())
        .collect();
    flags.sort();
    (message["folder"].as_str().unwrap().to_owned(), flags)
}

/// Returns the flags of the messages in a folder, as the other client sees them.
async fn flags_in(client: &mut Imap, folder: &str) -> Vec<String> {
    if client.select(folder).await.unwrap().exists == 0 {
        return Vec::new();
    }
    let fetched = client.fetch("1:*", "FLAGS").await.unwrap();
    let fetched: Vec<_> = fetched.try_collect().await.unwrap();
    let flags = fetched.iter().map(|message| {
        let flags = message.flags().map(|flag| format!("{flag:?}"));
        flags.collect::<Vec<_>>().join(" ")
    });
    flags.collect()
}

#[tokio::test]
async fn a_snoozed_message_comes_back_unread_to_its_folder() {
    // With PostgreSQL, the clock of the database decides.
    let service = Setup::default().on_sqlite().with_mail().start().await;
    let ada = service.person("ada").await;
    let mut client = imap(&ada).await;
    client.create("Letters").await.unwrap();
    for subject in ["back", "moved", "ended", "foreign"] {
        append_message(&mut client, "Letters", subject).await;
    }
    let mut uids = Vec::new();
    for subject in ["back", "moved", "ended", "foreign"] {
        uids.push(ada.uid_of("Letters", subject).await);
    }
    let [back, moved, ended, foreign] = uids[..] else {
        panic!("four messages")
    };
    let flag = json!({ "uids": uids, "action": "add", "flags": ["\\Seen", "\\Flagged"] });
    let flagged = ada.post("/api/v1/mail/messages/bulk/flag", &flag).await;
    flagged.succeeds(200);

    // The message waits, and another time replaces its time.
    let none = json!({ "until": null });
    let get = line("GET", back);
    assert_eq!(ada.send(&get).await.succeeds(200), none);
    snooze(&ada, back, HOUR).await;
    let first = ada.send(&get).await.succeeds(200);
    snooze(&ada, back, HOUR * 24 * 365).await;
    let second = ada.send(&get).await.succeeds(200);
    assert!(first["until"].as_str() < second["until"].as_str());
    let flags = ["$Snoozed", "\\Flagged", "\\Seen"].map(String::from);
    assert_eq!(state(&ada, back).await, ("Snoozed".into(), flags.to_vec()));
    let seen = flags_in(&mut client, "Snoozed").await;
    assert!(seen.len() == 1 && seen[0].contains("$Snoozed"), "{seen:?}");

    // Messages that another client moves out of the folder or puts there are not changed.
    snooze(&ada, moved, Duration::from_secs(2)).await;
    client.select("Snoozed").await.unwrap();
    client.uid_mv("2", "Archive").await.unwrap();
    client.select("Letters").await.unwrap();
    let found = client.uid_search("SUBJECT foreign").await.unwrap();
    let found = found.into_iter().next().unwrap().to_string();
    client.uid_mv(found, "Snoozed").await.unwrap();
    assert_eq!(ada.send(&line("GET", foreign)).await.succeeds(200), none);
    let refused = ada.send(&line("DELETE", foreign)).await;
    refused.fails(409, "The message is not snoozed");

    // The end of a snooze does not change flags.
    snooze(&ada, ended, HOUR).await;
    ada.send(&line("DELETE", ended)).await.succeeds(200);
    let flags = ["\\Flagged", "\\Seen"].map(String::from).to_vec();
    assert_eq!(state(&ada, ended).await, ("Letters".into(), flags.clone()));
    let refused = ada.send(&line("DELETE", ended)).await;
    refused.fails(409, "The message is not snoozed");

    // At its time, the message comes back to the renamed folder, without the flag `\\Seen`.
    client.select("INBOX").await.unwrap();
    client.rename("Letters", "Post").await.unwrap();
    snooze(&ada, back, Duration::from_secs(3)).await;
    let unread = ("Post".to_owned(), vec!["\\Flagged".to_owned()]);
    service.clock.advance(Duration::from_secs(4));
    while state(&ada, back).await != unread {
        sleep(Duration::from_millis(100)).await;
    }
    assert_eq!(ada.send(&get).await.succeeds(200), none);
    let (folder, kept) = state(&ada, moved).await;
    assert!(
        folder == "Archive" && kept.contains(&"\\Seen".into()),
        "{folder}, {kept:?}"
    );
    let (folder, kept) = state(&ada, foreign).await;
    assert_eq!((&*folder, kept), ("Snoozed", flags));

    // Requests that are refused change nothing.
    let invalid = "Invalid snooze data";
    let range = "until must be in the future and at most a year ahead";
    for (body, text) in [
        (json!({}), invalid),
        (json!({ "until": 1_900_000_000 }), invalid),
        (json!({ "until": "2026-12-01 08:00:00" }), invalid),
        (json!({ "until": "2020-01-01T00:00:00Z" }), range),
        (until(&service, HOUR * 24 * 367), range),
    ] {
        let refused = ada.send_json(&line("POST", back), &body).await;
        refused.fails(400, text);
    }
    let bob = service.person("bob").await;
    for method in ["POST", "GET", "DELETE"] {
        let line = line(method, back);
        let refused = match method {
            "POST" => bob.send_json(&line, &until(&service, HOUR)).await,
            _ => bob.send(&line).await,
        };
        refused.fails(404, "Message not found");
    }
    assert_eq!(state(&ada, back).await, unread);
}

#[tokio::test]
async fn a_member_needs_rights_on_both_folders_to_snooze() {
    let service = Service::with_mail().await;
    let mut shared = SharedMailbox::new(&service).await;
    let alpha = shared.append("Alpha", "one").await;
    let beta = shared.append("Beta", "two").await;
    let rights = &["mail:read", "mail:write"];
    let grant = Grant::on("folder", &shared.folder("Alpha").await, rights);
    shared.invite("bob", &grant).await.succeeds(201);
    let bob = shared.bob.clone();
    let body = until(&service, HOUR);
    let post = line("POST", alpha);
    // The folder does not exist, and the member must not create folders.
    for (uid, status) in [(alpha, 403), (beta, 404)] {
        let post = line("POST", uid);
        let refused = shared.send_json(&bob, &post, &body).await;
        assert_eq!(refused.status, status);
    }
    assert_eq!(
        state(&shared.ada, alpha).await,
        ("Alpha".into(), Vec::new())
    );
    let get = shared.send(&bob, &line("GET", alpha)).await.succeeds(200);
    assert_eq!(get, json!({ "until": null }));
    snooze(&shared.ada, beta, HOUR).await;
    let snoozed = Grant::on("folder", &shared.folder("Snoozed").await, rights);
    shared.grant(&snoozed).await;
    let done = shared.send_json(&bob, &post, &body).await;
    done.succeeds(200);
    assert_eq!(state(&shared.ada, alpha).await.0, "Snoozed");
    // The message came from a folder that the member cannot see.
    let refused = shared.send(&bob, &line("DELETE", beta)).await;
    assert_eq!(refused.status, 403);
    let done = shared.send(&bob, &line("DELETE", alpha)).await;
    done.succeeds(200);
    assert_eq!(state(&shared.ada, alpha).await.0, "Alpha");
}
