//! The outbox of a shared mailbox: what members and the owner see, change and cancel, and messages
//! of members whose grant ends.

use latchmail_tests::{Response, Service};
use serde_json::{Value, json};

use super::rules::Grant;
use super::shared_mailbox::{SharedMailbox, from};
use crate::mail::send::later::{after, wait_for_state};
use crate::mail::send::{SEND, received_subjects, with};

const OUTBOX: &str = "/api/v1/mail/outbox";
const NOT_FOUND: &str = "Outbox entry not found";

fn id(scheduled: &Response) -> String {
    assert_eq!(scheduled.status, 202, "{}", scheduled.json);
    scheduled.json["outboxId"].as_str().unwrap().to_owned()
}

fn subjects(list: &Value) -> Vec<&str> {
    let entries = list["entries"].as_array().unwrap().iter();
    let mut subjects: Vec<_> = entries
        .map(|one| one["subject"].as_str().unwrap())
        .collect();
    subjects.sort_unstable();
    subjects
}

#[tokio::test]
async fn a_member_sees_and_cancels_only_own_messages_and_needs_the_grant_until_they_leave() {
    let service = Service::with_mail().await;
    let shared = SharedMailbox::new(&service).await;
    let grant = Grant::on("mailbox", "", &["mail:read", "mail:send"]);
    let invited = shared.invite("bob", &grant).await.succeeds(201);
    let grant = invited["grantId"].as_str().unwrap();
    let (ada, bob) = (shared.ada.clone(), shared.bob.clone());

    let body = |subject: &str| with(from(&ada.address), "subject", subject);
    let later = |subject: &str| with(body(subject), "sendAt", after(3600));
    let post = format!("POST {SEND}");
    let by_ada = id(&ada.post(SEND, &later("by the owner")).await);
    let by_bob = id(&shared.send_json(&bob, &post, &later("by the member")).await);
    let cancelled = id(&shared.send_json(&bob, &post, &later("cancelled")).await);
    let by_owner = id(&shared
        .send_json(&bob, &post, &later("cancelled by the owner"))
        .await);
    let of_guest = id(&shared
        .send_json(&bob, &post, &later("after the grant"))
        .await);
    let in_time = id(&shared.send_json(&bob, &post, &later("in time")).await);

    // The owner sees all messages of the mailbox, and the member only the own ones.
    let list = format!("GET {OUTBOX}");
    let all = ada.send(&list).await.succeeds(200);
    let own = [
        "after the grant",
        "by the member",
        "cancelled",
        "cancelled by the owner",
        "in time",
    ];
    let mut expected = [&own[..], &["by the owner"]].concat();
    expected.sort_unstable();
    assert_eq!(subjects(&all), expected);
    let seen = shared.send(&bob, &list).await.succeeds(200);
    assert_eq!(subjects(&seen), own);
    // They are not in the member's own mailbox.
    assert_eq!(
        bob.send(&list).await.succeeds(200),
        json!({ "entries": [] })
    );

    // The member can neither read, change nor cancel the owner's message, and the owner can cancel
    // the member's message.
    let time = json!({ "sendAt": after(60) });
    for (method, body) in [("GET", None), ("DELETE", None), ("PATCH", Some(&time))] {
        let line = format!("{method} {OUTBOX}/{by_ada}");
        let refused = match body {
            None => shared.send(&bob, &line).await,
            Some(body) => shared.send_json(&bob, &line, body).await,
        };
        refused.fails(404, NOT_FOUND);
    }
    let line = format!("DELETE {OUTBOX}/{cancelled}");
    bob.send(&line).await.fails(404, NOT_FOUND);
    shared.send(&bob, &line).await.succeeds(200);
    let line = format!("DELETE {OUTBOX}/{by_owner}");
    ada.send(&line).await.succeeds(200);

    // A message leaves while the member may send, and does not leave afterwards.
    let now = json!({ "sendAt": "2020-01-01T00:00:00Z" });
    let line = format!("PATCH {OUTBOX}/{in_time}");
    shared.send_json(&bob, &line, &now).await.succeeds(200);
    wait_for_state(&ada, &in_time, "sent").await;
    shared.change(grant, &["mail:read"]).await;
    let line = format!("PATCH {OUTBOX}/{by_bob}");
    shared.send_json(&bob, &line, &now).await.succeeds(200);
    let failed = wait_for_state(&ada, &by_bob, "failed").await;
    let text = "You can only send from your own address or active aliases";
    assert_eq!(failed["error"], text);
    shared.revoke(grant).await;
    let gone = shared.send(&bob, &list).await;
    assert_eq!(gone.status, 404, "{}", gone.json);
    for (message, state) in [(&by_ada, "sent"), (&of_guest, "failed")] {
        let line = format!("PATCH {OUTBOX}/{message}");
        ada.send_json(&line, &now).await.succeeds(200);
        let ended = wait_for_state(&ada, message, state).await;
        if state == "failed" {
            assert_eq!(ended["error"], "The sender can no longer use the mailbox");
        }
    }
    let received = received_subjects(&ada, &bob).await;
    assert_eq!(received, ["by the owner", "in time"]);
}
