//! Holds: a message that the policy of a grant does not allow waits for the owner's decision.

use std::time::Duration;

use latchmail_tests::process::kill;
use latchmail_tests::{
    Person, Response, Service, Setup, imap, stored_messages, subjects, wait_until,
};
use serde_json::{Value, json};
use tokio::time::sleep;

const HOLDS: &str = "/api/v1/profile/holds";
const SEND: &str = "POST /api/v1/mail/send";

/// Creates an API token whose messages to everybody are held.
async fn holding_grant(person: &Person<'_>) -> String {
    let token = person
        .token(&["mail:read", "mail:write", "mail:send"])
        .await;
    let policy = json!({
        "send": "list", "sendTo": [], "sendPerDay": null, "recipientsPerDay": null,
        "folders": null, "attachments": true, "hideCodes": false, "delete": "permanent",
        "onDenied": "hold", "until": null,
    });
    let id = token["id"].as_str().unwrap();
    let line = format!("PUT /api/v1/profile/grants/{id}/policy");
    let set = person.send_json(&line, &policy).await;
    assert_eq!(set.status, 200, "{set:?}");
    token["token"].as_str().unwrap().to_owned()
}

async fn by_grant(service: &Service, token: &str, line: &str, body: &Value) -> Response {
    Response::of_json(service.request(line).bearer_auth(token), body).await
}

fn mail(subject: &str) -> Value {
    json!({
        "from": "ada@first.test", "to": "bob@first.test", "bcc": "ada@first.test",
        "subject": subject, "text": format!("This is {subject}."),
        "attachments": [{ "filename": "a.txt", "contentType": "text/plain", "content": "YQ==" }],
    })
}

/// Sends a message with the grant, which is held. Returns the id of the hold.
async fn held(service: &Service, token: &str, subject: &str) -> String {
    let response = by_grant(service, token, SEND, &mail(subject)).await;
    let held = response.succeeds(202);
    assert_eq!(held["status"], "pending", "{held}");
    held["holdId"].as_str().unwrap().to_owned()
}

async fn hold(person: &Person<'_>, id: &str) -> Value {
    let listed = person.send(&format!("GET {HOLDS}")).await.succeeds(200);
    let holds = listed["holds"].as_array().unwrap();
    let found = holds.iter().find(|hold| hold["id"] == id);
    found
        .unwrap_or_else(|| panic!("no {id}: {holds:?}"))
        .clone()
}

async fn decide(person: &Person<'_>, id: &str, decision: &str, hash: &Value) -> Response {
    let path = format!("{HOLDS}/{id}/{decision}");
    person.post(&path, &json!({ "hash": hash })).await
}

#[tokio::test]
async fn a_held_message_leaves_only_after_the_owner_approves_exactly_this_message() {
    let service = Service::with_mail().await;
    let (ada, bob) = (service.person("ada").await, service.person("bob").await);
    let token = holding_grant(&ada).await;
    let (first, second) = (
        held(&service, &token, "first").await,
        held(&service, &token, "second").await,
    );
    let shown = hold(&ada, &first).await;
    assert_eq!(
        (&shown["status"], &shown["from"], &shown["subject"]),
        (&json!("pending"), &json!("ada@first.test"), &json!("first"))
    );
    let recipients = json!(["bob@first.test", "ada@first.test"]);
    assert_eq!(shown["recipients"], recipients);
    let attachment = json!([{ "filename": "a.txt", "contentType": "text/plain", "size": 1 }]);
    assert_eq!(shown["attachments"], attachment);
    assert_eq!(shown["grant"]["name"], "a token");
    let detail = ada
        .send(&format!("GET {HOLDS}/{first}"))
        .await
        .succeeds(200);
    assert_eq!(detail["text"], "This is first.", "{detail}");
    // A held message is not in the outbox.
    let outbox = ada.send("GET /api/v1/mail/outbox").await.succeeds(200);
    assert_eq!(outbox["entries"], json!([]));

    // Nobody but a session of the owner reads or decides, and only with the hash.
    let hash = &shown["hash"];
    let line = format!("GET {HOLDS}");
    service
        .with_bearer(&line, &token)
        .await
        .fails_mentioning(403, "session");
    let approve = format!("POST {HOLDS}/{first}/approve");
    let body = json!({ "hash": hash });
    let refused = by_grant(&service, &token, &approve, &body).await;
    assert_eq!(refused.status, 403);
    let stranger = decide(&bob, &first, "approve", hash).await;
    stranger.fails(404, "Hold not found");
    let other = hold(&ada, &second).await["hash"].clone();
    for wrong in [&other, &json!("0".repeat(64)), &json!("")] {
        let changed = decide(&ada, &first, "approve", wrong).await;
        changed.fails(409, "The hold has changed");
    }
    assert_eq!(ada.send(&approve).await.status, 400);
    let seen = ada.send(&format!("GET {HOLDS}/{first}/approve")).await;
    assert_eq!(seen.status, 405, "a GET decides nothing");
    sleep(Duration::from_millis(300)).await;
    assert_eq!(bob.total("INBOX").await, 0);

    decide(&ada, &second, "reject", &other).await.succeeds(200);
    decide(&ada, &first, "approve", hash).await.succeeds(200);
    for decision in ["approve", "reject"] {
        let again = decide(&ada, &first, decision, hash).await;
        again.fails(404, "Hold not found");
    }
    bob.wait_for_message("first").await;
    assert_eq!(hold(&ada, &first).await["status"], "approved");
    assert_eq!(hold(&ada, &second).await["status"], "rejected");
    let mut client = imap(&bob).await;
    assert_eq!(subjects(&mut client, "INBOX").await, ["first"]);
    let entries = ada.send("GET /api/v1/mail/outbox").await.succeeds(200);
    assert_eq!(entries["entries"][0]["outboxId"], *first);
    let grant = shown["grant"]["id"].as_str().unwrap();
    let line = format!("GET /api/v1/profile/grants/{grant}/journal");
    wait_until("the journal lists the message", async || {
        let journal = ada.send(&line).await.succeeds(200);
        let change = &journal["changes"][0];
        change["kind"] == "send" && change["details"]["messageId"] == shown["messageId"]
    })
    .await;

    // The draft of a rejected message is a draft again.
    let draft = json!({ "from": ada.address, "to": [bob.address], "subject": "draft" });
    let created = by_grant(&service, &token, "POST /api/v1/mail/drafts", &draft).await;
    let id = created.succeeds(201)["id"].as_str().unwrap().to_owned();
    let line = format!("POST /api/v1/mail/drafts/{id}/send");
    let sent = by_grant(&service, &token, &line, &json!({}))
        .await
        .succeeds(202);
    let third = sent["holdId"].as_str().unwrap();
    let drafts = async || {
        let listed = ada.send("GET /api/v1/mail/drafts").await.succeeds(200);
        listed["total"].as_u64().unwrap()
    };
    wait_until("the draft has left", async || drafts().await == 0).await;
    let hash = hold(&ada, third).await["hash"].clone();
    decide(&ada, third, "reject", &hash).await.succeeds(200);
    wait_until("the draft is back", async || drafts().await == 1).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_hold_without_a_decision_is_rejected_after_a_day() {
    // The time of the jobs depends on the clock of the test only.
    let service = Setup::default().on_sqlite().with_mail().start().await;
    let (ada, bob) = (service.person("ada").await, service.person("bob").await);
    let token = holding_grant(&ada).await;
    let id = held(&service, &token, "late").await;
    let hash = hold(&ada, &id).await["hash"].clone();
    service
        .clock
        .advance(Duration::from_hours(24) + Duration::from_secs(1));
    service.app().jobs.wake();
    // The sessions have expired.
    let (ada, bob) = (ada.sign_in_again().await, bob.sign_in_again().await);
    let late = decide(&ada, &id, "approve", &hash).await;
    late.fails(404, "Hold not found");
    assert_eq!(hold(&ada, &id).await["status"], "expired");
    let line = format!("GET {HOLDS}/{id}");
    wait_until("the message is deleted", async || {
        ada.send(&line).await.succeeds(200)["text"].is_null()
    })
    .await;
    assert_eq!(bob.total("INBOX").await, 0);
}

#[tokio::test]
async fn the_owner_gets_one_notice_that_grants_do_not_see() {
    let service = Service::with_mail().await;
    let ada = service.person("ada").await;
    let token = holding_grant(&ada).await;
    let changes = service.with_bearer("GET /api/v1/mail/changes", &token);
    let cursor = changes.await.succeeds(200)["cursor"].clone();
    for subject in ["Buy <now>", "second", "third"] {
        held(&service, &token, subject).await;
    }
    let subject = "Messages wait for your decision";
    ada.wait_for_message(subject).await;
    sleep(Duration::from_millis(500)).await;
    assert_eq!(ada.total("INBOX").await, 1, "one notice for all");
    let mut client = imap(&ada).await;
    let notice = stored_messages(&mut client, "INBOX").await.remove(0);
    let text = String::from_utf8_lossy(&notice.bytes).into_owned();
    assert!(text.contains("/account/holds"), "{text}");
    for word in ["Buy", "second", "third", "a token", "bob@"] {
        assert!(!text.contains(word), "{word} in {text}");
    }
    assert!(notice.flags.contains("$LatchmailNotice"));
    let uid = ada.uid_of("INBOX", subject).await;

    // The grant cannot change what it cannot see, and cannot make another message a notice.
    for (body, expected) in [
        (
            json!({ "flags": ["$LatchmailNotice"], "action": "remove" }),
            400,
        ),
        (json!({ "flags": ["\\Seen"], "action": "add" }), 404),
    ] {
        let line = format!("POST /api/v1/mail/messages/{uid}/flag");
        let refused = by_grant(&service, &token, &line, &body).await;
        assert_eq!(refused.status, expected, "{refused:?}");
    }
    let line = format!("DELETE /api/v1/mail/messages/{uid}");
    assert_eq!(service.with_bearer(&line, &token).await.status, 404);
    let line = format!("GET /api/v1/mail/messages/{uid}");
    assert_eq!(service.with_bearer(&line, &token).await.status, 404);
    let line = "GET /api/v1/mail/folders/INBOX/messages";
    let listed = service.with_bearer(line, &token).await.succeeds(200);
    assert_eq!(listed["messages"], json!([]));
    let since = format!(
        "GET /api/v1/mail/changes?since={}",
        cursor.as_str().unwrap()
    );
    let changes = ada.send(&since).await.succeeds(200);
    assert_eq!(changes["changes"][0]["uid"], uid);
    let changes = service.with_bearer(&since, &token).await.succeeds(200);
    assert_eq!(changes["changes"], json!([]));
    assert_eq!(ada.total("INBOX").await, 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn an_approved_message_leaves_once_if_the_host_is_killed() {
    const MESSAGES: usize = 8;
    let mut service = Service::with_mail().await;
    let mut process = service.restart_in_process().await;
    let (ada, bob) = (service.person("ada").await, service.person("bob").await);
    let token = holding_grant(&ada).await;
    let mut ids = Vec::new();
    for number in 0..MESSAGES {
        ids.push(held(&service, &token, &format!("held {number}")).await);
    }
    let approvals = async {
        for id in &ids {
            let hash = loop {
                let request = service.request(&format!("GET {HOLDS}/{id}"));
                let found = Response::try_of(request.bearer_auth(&ada.access)).await;
                match found {
                    Ok(found) if found.status == 200 => break found.json["hash"].clone(),
                    _ => sleep(Duration::from_millis(100)).await,
                }
            };
            // A repeated request finds that the message is approved already.
            loop {
                let request = service.request(&format!("POST {HOLDS}/{id}/approve"));
                let request = request
                    .bearer_auth(&ada.access)
                    .json(&json!({ "hash": hash }));
                match Response::try_of(request)
                    .await
                    .map(|response| response.status)
                {
                    Ok(200 | 404) => break,
                    _ => sleep(Duration::from_millis(100)).await,
                }
            }
        }
    };
    let kills = async {
        for pause in [150, 400, 250] {
            sleep(Duration::from_millis(pause)).await;
            kill(process.pid());
            process.start().await;
        }
    };
    tokio::join!(approvals, kills);
    let mut client = imap(&bob).await;
    wait_until("all messages have arrived", async || {
        subjects(&mut client, "INBOX").await.len() >= MESSAGES
    })
    .await;
    sleep(Duration::from_secs(1)).await;
    let mut arrived = subjects(&mut client, "INBOX").await;
    arrived.sort();
    let expected: Vec<String> = (0..MESSAGES).map(|n| format!("held {n}")).collect();
    assert_eq!(arrived, expected);
}
