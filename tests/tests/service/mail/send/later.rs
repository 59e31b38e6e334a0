//! Messages that leave later.

use std::collections::BTreeMap;
use std::time::Duration;

use chrono::{SecondsFormat, Utc};
use latchmail_tests::process::kill;
use latchmail_tests::{
    Person, Random, Response, Service, add_alias, contains_file, imap, subjects, wait_until,
};
use serde_json::{Value, json};
use tokio::time::sleep;

use super::{SEND, found, mail, wait_for_mail, with};

const OUTBOX: &str = "/api/v1/mail/outbox";

/// Returns the time after some seconds in the format of RFC 3339.
pub(crate) fn after(seconds: i64) -> String {
    let at = Utc::now() + chrono::Duration::seconds(seconds);
    at.to_rfc3339_opts(SecondsFormat::Millis, true)
}

async fn schedule(person: &Person<'_>, subject: &str, field: &str, value: Value) -> String {
    let body = with(mail(subject), field, value);
    let scheduled = person.post(SEND, &body).await.succeeds(202);
    assert!(scheduled["sendAt"].is_string(), "{scheduled}");
    scheduled["outboxId"].as_str().unwrap().to_owned()
}

async fn entry(person: &Person<'_>, id: &str) -> Value {
    person
        .send(&format!("GET {OUTBOX}/{id}"))
        .await
        .succeeds(200)
}

pub(crate) async fn wait_for_state(person: &Person<'_>, id: &str, state: &str) -> Value {
    let mut last = Value::Null;
    wait_until(&format!("{id} is {state}"), async || {
        let now = entry(person, id).await;
        if now != last {
            println!("{now}");
            last = now;
        }
        last["state"] == state
    })
    .await;
    last
}

async fn patch(person: &Person<'_>, id: &str, body: &Value) -> Response {
    let line = format!("PATCH {OUTBOX}/{id}");
    person.send_json(&line, body).await
}

async fn cancel(person: &Person<'_>, id: &str) -> Response {
    person.send(&format!("DELETE {OUTBOX}/{id}")).await
}

#[tokio::test]
async fn a_message_leaves_later_or_is_cancelled() {
    let service = Service::with_mail().await;
    let (ada, bob) = (service.person("ada").await, service.person("bob").await);
    // The token is revoked before the message leaves.
    let token = ada.token(&["mail:send"]).await;
    let body = with(mail("first"), "undoSeconds", 120);
    let request = service.request(&format!("POST {SEND}"));
    let request = request
        .bearer_auth(token["token"].as_str().unwrap())
        .header("idempotency-key", "a-key");
    let first = Response::of_json(request, &body).await.succeeds(202);
    let id = first["outboxId"].as_str().unwrap();
    let line = format!("DELETE /api/v1/tokens/{}", token["id"].as_str().unwrap());
    ada.send(&line).await.succeeds(200);
    let request = service.request(&format!("POST {SEND}"));
    let request = request
        .bearer_auth(&ada.access)
        .header("idempotency-key", "a-key");
    let again = Response::of_json(request, &body).await;
    assert_eq!(again.header("idempotent-replayed"), Some("true"));
    assert_eq!(again.succeeds(202), first);
    let scheduled = entry(&ada, id).await;
    assert_eq!(scheduled["sendAt"], first["sendAt"]);
    assert_eq!(scheduled["subject"], "first");
    assert_eq!(
        scheduled["to"],
        json!([{ "name": "", "address": "bob@first.test" }])
    );

    // Other messages wait, and two of them are changed.
    let waits = schedule(&ada, "waits", "sendAt", json!(after(3600))).await;
    let moved = schedule(&ada, "moved", "sendAt", json!(after(7200))).await;
    let list = ada.send(&format!("GET {OUTBOX}")).await.succeeds(200);
    let subjects_of = |list: &Value| {
        let entries = list["entries"].as_array().unwrap().iter();
        entries
            .map(|one| one["subject"].clone())
            .collect::<Vec<_>>()
    };
    assert_eq!(subjects_of(&list), ["first", "waits", "moved"]);
    cancel(&ada, &waits).await.succeeds(200);
    cancel(&ada, &waits).await.succeeds(200);
    let text = "The message is not scheduled any longer";
    let time = json!({ "sendAt": after(60) });
    patch(&ada, &waits, &time).await.fails(409, text);
    let now = json!({ "sendAt": "2020-01-01T00:00:00+01:00" });
    for id in [&*moved, id] {
        patch(&ada, id, &now).await.succeeds(200);
    }

    for (id, subject) in [(&*moved, "moved"), (id, "first")] {
        let sent = wait_for_state(&ada, id, "sent").await;
        wait_for_mail(&bob, &sent).await;
        let delivered = found(&mut imap(&bob).await, "INBOX", &sent).await;
        assert_eq!(delivered.header("x-latchmail-submission"), None);
        assert_eq!(delivered.header("subject").as_deref(), Some(subject));
        let copy = found(&mut imap(&ada).await, "Sent", &sent).await;
        assert_eq!(copy.header("date"), delivered.header("date"));
        cancel(&ada, id).await.fails(409, "Already sent");
        patch(&ada, id, &time).await.fails(409, "Already sent");
    }
    refusals(&service, &ada, &bob, id).await;
    the_right_to_send_is_checked_again(&ada).await;
}

async fn refusals(service: &Service, ada: &Person<'_>, bob: &Person<'_>, id: &str) {
    for (field, value, text) in [
        (
            "sendAt",
            json!("tomorrow"),
            "sendAt must be a time in the format of RFC 3339",
        ),
        (
            "sendAt",
            json!(after(367 * 86_400)),
            "sendAt must be at most a year ahead",
        ),
        ("undoSeconds", json!(121), "undoSeconds must be 0 to 120"),
    ] {
        let body = with(mail("refused"), field, value);
        ada.post(SEND, &body).await.fails(400, text);
    }
    let missing = "Outbox entry not found";
    let time = json!({ "sendAt": after(60) });
    bob.send(&format!("GET {OUTBOX}/{id}"))
        .await
        .fails(404, missing);
    cancel(bob, id).await.fails(404, missing);
    patch(bob, id, &time).await.fails(404, missing);
    assert_eq!(
        bob.send(&format!("GET {OUTBOX}")).await.succeeds(200),
        json!({ "entries": [] })
    );
    for (scope, line, status) in [
        ("mail:send", format!("GET {OUTBOX}"), 403),
        ("mail:read", format!("GET {OUTBOX}"), 200),
        ("mail:read", format!("DELETE {OUTBOX}/{id}"), 403),
    ] {
        let token = ada.token(&[scope]).await;
        let token = token["token"].as_str().unwrap();
        let response = service.with_bearer(&line, token).await;
        assert_eq!(response.status, status, "{scope} {line}");
    }
}

async fn the_right_to_send_is_checked_again(ada: &Person<'_>) {
    add_alias(ada, "shop@first.test", true).await;
    let body = with(mail("from an alias"), "from", "shop@first.test");
    let body = with(body, "sendAt", after(3600));
    let scheduled = ada.post(SEND, &body).await.succeeds(202);
    let id = scheduled["outboxId"].as_str().unwrap();
    let aliases = ada.send("GET /api/v1/aliases").await.succeeds(200);
    let alias = aliases["aliases"][0]["id"].clone();
    let deleted = ada.send(&format!("DELETE /api/v1/aliases/{alias}")).await;
    deleted.succeeds(200);
    let now = json!({ "sendAt": "2020-01-01T00:00:00Z" });
    patch(ada, id, &now).await.succeeds(200);
    let failed = wait_for_state(ada, id, "failed").await;
    let text = "You can only send from your own address or active aliases";
    assert_eq!(failed["error"], text);
}

/// Schedules messages, and cancels some of them while hosts send messages and are killed. Checks
/// that each message was sent once or cancelled, as the API says.
pub(crate) async fn schedule_many(
    person: &Person<'_>,
    to: &Person<'_>,
    count: usize,
    spread: i64,
) -> Vec<String> {
    let mut ids = Vec::with_capacity(count);
    for number in 0..count {
        let seconds = 2 + i64::try_from(number).unwrap() * spread / i64::try_from(count).unwrap();
        let body = with(mail(&format!("later {number}")), "sendAt", after(seconds));
        let body = with(body, "from", person.address.as_str());
        let body = with(body, "to", to.address.as_str());
        let request = person.service.request(&format!("POST {SEND}"));
        let request = request
            .bearer_auth(&person.access)
            .header("idempotency-key", format!("later-{number}"));
        let scheduled = Response::of_json(request, &body).await.succeeds(202);
        ids.push(scheduled["outboxId"].as_str().unwrap().to_owned());
    }
    ids
}

/// Cancels a message at its time. Repeats the request while the host is down.
pub(crate) async fn cancel_racing(person: &Person<'_>, id: &str) -> bool {
    loop {
        let request = person.service.request(&format!("DELETE {OUTBOX}/{id}"));
        let response = Response::try_of(request.bearer_auth(&person.access)).await;
        match response.map(|response| response.status) {
            Ok(200) => return true,
            Ok(409) => return false,
            _ => sleep(Duration::from_millis(100)).await,
        }
    }
}

/// Checks the outcome of all messages.
pub(crate) async fn check_outcomes(
    service: &Service,
    ada: &Person<'_>,
    bob: &Person<'_>,
    cancelled: &[(usize, bool)],
    count: usize,
) {
    let mut states = BTreeMap::new();
    wait_until("all messages have an outcome", async || {
        let list = ada.send(&format!("GET {OUTBOX}")).await.succeeds(200);
        let entries = list["entries"].as_array().unwrap().iter();
        states = entries
            .map(|one| {
                let subject = one["subject"].as_str().unwrap().to_owned();
                (subject, one["state"].as_str().unwrap().to_owned())
            })
            .collect();
        let waits = |state: &String| state == "scheduled" || state == "sending";
        !states.values().any(waits)
    })
    .await;
    assert_eq!(states.len(), count);
    let queue = &service.mail().queue;
    wait_until("all mail is delivered", async || {
        !["maildrop", "incoming", "active", "deferred"]
            .iter()
            .any(|name| contains_file(&queue.join(name)))
    })
    .await;
    let mut arrived: BTreeMap<String, usize> = BTreeMap::new();
    for subject in subjects(&mut imap(bob).await, "INBOX").await {
        *arrived.entry(subject).or_default() += 1;
    }
    for (subject, state) in &states {
        let times = arrived.get(subject).copied().unwrap_or(0);
        match state.as_str() {
            "sent" => assert_eq!(times, 1, "{subject} was sent"),
            "cancelled" => assert_eq!(times, 0, "{subject} was cancelled"),
            state => panic!("{subject} is {state}, and arrived {times} times"),
        }
    }
    for (number, was_cancelled) in cancelled {
        let state = &states[&format!("later {number}")];
        assert_eq!(
            state == "cancelled",
            *was_cancelled,
            "later {number}: {state}"
        );
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn messages_are_sent_once_if_the_host_is_killed() {
    const MESSAGES: usize = 24;
    let mut service = Service::with_mail().await;
    let mut process = service.restart_in_process().await;
    let (mut ada, bob) = (service.person("ada").await, service.person("bob").await);
    let token = ada.token(&["mail:send", "mail:read"]).await;
    token["token"].as_str().unwrap().clone_into(&mut ada.access);
    let ids = schedule_many(&ada, &bob, MESSAGES, 4).await;
    let kills = async {
        let mut random = Random::new(std::process::id().into());
        for _ in 0..4 {
            let pause = u64::try_from(random.below(700)).unwrap();
            sleep(Duration::from_millis(300 + pause)).await;
            kill(process.pid());
            process.start().await;
        }
    };
    let cancels = async {
        let mut cancelled = Vec::new();
        for number in (0..MESSAGES).step_by(4) {
            sleep(Duration::from_millis(400)).await;
            cancelled.push((number, cancel_racing(&ada, &ids[number]).await));
        }
        cancelled
    };
    let ((), cancelled) = tokio::join!(kills, cancels);
    check_outcomes(&service, &ada, &bob, &cancelled, MESSAGES).await;
}
