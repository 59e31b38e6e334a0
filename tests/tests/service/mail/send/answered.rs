//! The flag of the message that a sent message answers, if only In-Reply-To names this message.

use latchmail_tests::{Person, Response, Service, imap};
use serde_json::{Value, json};

use super::later::wait_for_state;
use super::{SEND, mail, send_mail, with};

const ANSWERED: &str = "\\Answered";

/// Puts a message with this Message-ID into a folder, and returns its number.
async fn question(person: &Person<'_>, folder: &str, id: &str) -> u64 {
    let message = format!(
        "From: Grace <grace@outside.test>\r\nTo: ada@first.test\r\nSubject: {id}\r\n\
         Message-ID: <{id}@outside.test>\r\n\r\nWhy?\r\n"
    );
    let mut client = imap(person).await;
    client.append(folder, None, None, message).await.unwrap();
    person.uid_of(folder, id).await
}

/// Returns a mail that answers the message with this Message-ID.
fn answer(id: &str) -> Value {
    with(
        mail("An answer"),
        "inReplyTo",
        format!("<{id}@outside.test>"),
    )
}

async fn flags(person: &Person<'_>, uid: u64) -> Value {
    person.message(uid).await["flags"].clone()
}

async fn is_answered(person: &Person<'_>, uid: u64) {
    assert_eq!(flags(person, uid).await, json!([ANSWERED]));
}

/// Sends answers in every way, and checks the flags of the originals.
async fn answers(service: &Service) {
    let ada = service.person("ada").await;
    service.person("bob").await;

    // A message to send. Each copy of the original gets the flag, in every folder.
    let sent = question(&ada, "INBOX", "sent").await;
    let copy = question(&ada, "Archive", "sent").await;
    let other = question(&ada, "INBOX", "sent-other").await;
    send_mail(&ada, &answer("sent")).await;
    is_answered(&ada, sent).await;
    is_answered(&ada, copy).await;
    assert_eq!(flags(&ada, other).await, json!([]));

    // With a token that may not read, the message is sent without the flag.
    let unread = question(&ada, "INBOX", "unread").await;
    for (scopes, flagged) in [
        (&["mail:send"][..], json!([])),
        (&["mail:send", "mail:read"], json!([ANSWERED])),
    ] {
        let token = ada.token(scopes).await;
        let request = service.request(&format!("POST {SEND}"));
        let request = request.bearer_auth(token["token"].as_str().unwrap());
        let sent = Response::of_json(request, &answer("unread")).await;
        sent.succeeds(200);
        assert_eq!(flags(&ada, unread).await, flagged, "{scopes:?}");
    }

    // A message that leaves later.
    let later = question(&ada, "INBOX", "later").await;
    let body = with(answer("later"), "undoSeconds", 60);
    let scheduled = ada.post(SEND, &body).await.succeeds(202);
    assert_eq!(flags(&ada, later).await, json!([]));
    let id = scheduled["outboxId"].as_str().unwrap();
    let line = format!("PATCH /api/v1/mail/outbox/{id}");
    let now = json!({ "sendAt": "2020-01-01T00:00:00Z" });
    ada.send_json(&line, &now).await.succeeds(200);
    wait_for_state(&ada, id, "sent").await;
    latchmail_tests::wait_until("the original is answered", async || {
        flags(&ada, later).await == json!([ANSWERED])
    })
    .await;

    // A reply that a mail client wrote over a draft of the API, and one that only it wrote.
    let drafted = question(&ada, "INBOX", "drafted").await;
    let draft = json!({ "mode": "reply", "uid": drafted, "text": "So." });
    let created = ada.post("/api/v1/mail/drafts", &draft).await.succeeds(201);
    let uid = created["uid"].as_u64().unwrap();
    ada.send(&format!("DELETE /api/v1/mail/messages/{uid}"))
        .await
        .succeeds(200);
    let own = question(&ada, "INBOX", "own").await;
    for (id, uid) in [("drafted", drafted), ("own", own)] {
        let message = format!(
            "From: ada@first.test\r\nTo: bob@first.test\r\nSubject: Re: {id}\r\n\
             Message-ID: <answer-{id}@client.test>\r\nIn-Reply-To: <{id}@outside.test>\r\n\
             References: <{id}@outside.test>\r\n\r\nSo.\r\n"
        );
        let mut client = imap(&ada).await;
        let stored = client.append("Drafts", Some("(\\Draft)"), None, message);
        stored.await.unwrap();
        let drafts = ada.send("GET /api/v1/mail/drafts").await.succeeds(200);
        let draft = drafts["drafts"][0]["id"].as_str().unwrap();
        let line = format!("POST /api/v1/mail/drafts/{draft}/send");
        ada.send(&line).await.succeeds(200);
        is_answered(&ada, uid).await;
    }

    // An answer to a message that the mailbox does not have is sent.
    send_mail(&ada, &answer("nothing")).await;
}

#[tokio::test]
async fn an_answer_marks_the_message_in_its_field_in_reply_to() {
    answers(&Service::with_mail().await).await;
}

#[tokio::test]
async fn an_answer_marks_its_original_without_a_search_index_too() {
    answers(&Service::with_mail_and("index.enabled = false").await).await;
}
