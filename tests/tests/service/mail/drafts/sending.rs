//! Sending of drafts.

use latchmail_tests::{Person, Response, Service, imap, stored_messages};
use serde_json::{Value, json};

use super::super::send::{received_subjects, wait_for_mail};
use super::{create, get, line, list, put, with_header};

async fn send(person: &Person<'_>, id: &Value, header: (&str, &str)) -> Response {
    let line = format!("{}/send", line("POST", id));
    let request = person.service.request(&line).bearer_auth(&person.access);
    Response::of(request.header(header.0, header.1)).await
}

fn finished(subject: &str) -> Value {
    json!({
        "from": "ada@first.test", "to": "Bob <bob@first.test>", "bcc": "eve@first.test",
        "subject": subject, "text": "Hello",
        "attachments": [{ "filename": "a.txt", "content": "YSxi" }],
    })
}

#[tokio::test]
#[expect(clippy::too_many_lines, reason = "one service and many steps")]
async fn a_draft_is_sent_as_it_is_in_the_mailbox_and_disappears() {
    let service = Service::with_mail().await;
    let ada = service.person("ada").await;
    let bob = service.person("bob").await;
    let eve = service.person("eve").await;
    let mut client = imap(&ada).await;
    let none = ("x-none", "1");

    let created = create(&ada, &finished("By the API")).await;
    let id = &created["id"];
    let stale = send(&ada, id, ("if-match", "\"0\"")).await;
    stale.fails(412, "The message has changed");
    let key = ("idempotency-key", "one");
    let sent = send(&ada, id, key).await.succeeds(200);
    assert_eq!(sent["savedTo"], "Sent");
    let again = send(&ada, id, key).await;
    assert_eq!(again.header("idempotent-replayed").unwrap(), "true");
    assert_eq!(again.succeeds(200), sent);
    send(&ada, id, none).await.fails(404, "Draft not found");
    get(&ada, id).await.fails(404, "Draft not found");
    assert!(stored_messages(&mut client, "Drafts").await.is_empty());
    for person in [&bob, &eve] {
        let received = wait_for_mail(person, &sent).await;
        assert_eq!(received["attachments"][0]["filename"], "a.txt");
        let line = format!("GET /api/v1/mail/messages/{}/raw", received["uid"]);
        let raw = person.send(&line).await.body;
        let raw = String::from_utf8(raw).unwrap().to_lowercase();
        assert!(
            !raw.contains("\r\nbcc:") && !raw.contains("x-latchmail-draft"),
            "{raw}"
        );
    }
    let copies = stored_messages(&mut client, "Sent").await;
    assert_eq!((copies.len(), copies[0].header("bcc")), (1, None));

    // A draft of a mail client, with private fields and an old date.
    let draft = "Message-ID: <thunderbird@client.test>\r\nDate: Mon, 1 Jan 2024 10:00:00 +0000\r\n\
        X-Mozilla-Status: 0001\r\nX-Identity-Key: id1\r\nX-Account-Key: account1\r\n\
        FCC: imap://ada@first.test/Sent\r\nX-Priority: 1\r\nFrom: Ada <ada@first.test>\r\n\
        To: bob@first.test\r\nBcc: eve@first.test\r\nSubject: By a client\r\n\
        User-Agent: Client\r\nMIME-Version: 1.0\r\n\
        Content-Type: text/plain; charset=utf-8; format=flowed\r\n\
        Content-Transfer-Encoding: 8bit\r\n\r\nGr\u{fc}\u{df}e \r\nflowed\r\n";
    client
        .append("Drafts", Some("(\\Draft)"), None, draft)
        .await
        .unwrap();
    let listed = list(&ada).await;
    assert_eq!(listed.len(), 1);
    let sent = send(&ada, &listed[0]["id"], none).await.succeeds(200);
    assert_eq!(sent["messageId"], "<thunderbird@client.test>");
    let received = wait_for_mail(&eve, &sent).await;
    let line = format!("GET /api/v1/mail/messages/{}/raw", received["uid"]);
    let raw = String::from_utf8(eve.send(&line).await.body).unwrap();
    for present in [
        "X-Priority: 1\r\n",
        "User-Agent: Client\r\n",
        "Gr\u{fc}\u{df}e \r\nflowed\r\n",
    ] {
        assert!(raw.contains(present), "{present}: {raw}");
    }
    for absent in ["X-Mozilla", "X-Identity", "X-Account", "FCC", "Bcc", "2024"] {
        assert!(!raw.contains(absent), "{absent}: {raw}");
    }
    assert!(list(&ada).await.is_empty());

    // The message that a draft answers gets its flag.
    ada.receive("From: Bob <bob@outside.test>\nSubject: Question\nMessage-ID: <q@x>\n\nWhy?\n")
        .await;
    let question = ada.uid_of("INBOX", "Question").await;
    let reply = format!(
        "Message-ID: <reply@client.test>\r\nX-Latchmail-Original: reply {question}\r\n\
         From: ada@first.test\r\nTo: bob@first.test\r\nSubject: Re: Question\r\n\r\nSo.\r\n"
    );
    client
        .append("Drafts", Some("(\\Draft)"), None, reply)
        .await
        .unwrap();
    let listed = list(&ada).await;
    let id = &listed[0]["id"];
    let replaced = put(&ada, id, &listed[0]["version"], &listed[0]["draft"]).await;
    replaced.succeeds(200);
    send(&ada, id, none).await.succeeds(200);
    let flags = ada.message(question).await["flags"].clone();
    assert!(
        flags.as_array().unwrap().contains(&json!("\\Answered")),
        "{flags}"
    );

    // Drafts that cannot be sent stay.
    for (field, value, status, error) in [
        (
            "from",
            json!(null),
            400,
            "from must be one mail address without a name",
        ),
        (
            "from",
            json!("eve@first.test"),
            403,
            "You can only send from your own address or active aliases",
        ),
        ("to", json!([]), 400, "to must name at least one recipient"),
        (
            "cc",
            json!("half@"),
            400,
            "cc must contain only mail addresses",
        ),
        (
            "replyTo",
            json!("x"),
            400,
            "replyTo must contain only mail addresses",
        ),
        (
            "inReplyTo",
            json!("x"),
            400,
            "inReplyTo must be one Message-ID in angle brackets",
        ),
        (
            "bcc",
            json!(
                (0..50)
                    .map(|n| format!("a{n}@first.test"))
                    .collect::<Vec<_>>()
            ),
            400,
            "Too many recipients (max 50 across to, cc and bcc)",
        ),
    ] {
        let mut draft = finished("Unfinished");
        draft[field] = value;
        let created = create(&ada, &draft).await;
        send(&ada, &created["id"], none).await.fails(status, error);
        assert_eq!(get(&ada, &created["id"]).await.succeeds(200), created);
        let deleted = super::line("DELETE", &created["id"]);
        ada.send(&deleted).await.succeeds(200);
    }
    let refused = send(&ada, &created["id"], ("idempotency-key", "a b")).await;
    assert_eq!(refused.status, 400);

    // Requests at the same time send one mail.
    let created = create(&ada, &finished("Race")).await;
    let id = &created["id"];
    let version = created["version"].as_str().unwrap();
    let tag = format!("\"{version}\"");
    let all = futures_util::future::join_all((0..8).map(|n| {
        let header = if n % 2 == 0 {
            ("if-match", tag.as_str())
        } else {
            none
        };
        send(&ada, id, header)
    }));
    let all = all.await;
    let succeeded = all.iter().filter(|one| one.status == 200);
    let new = succeeded.filter(|one| one.header("idempotent-replayed").is_none());
    assert_eq!(new.count(), 1);
    for one in &all {
        assert!([200, 404, 409, 412].contains(&one.status), "{}", one.json);
    }
    let subjects = received_subjects(&ada, &bob).await;
    assert_eq!(
        subjects,
        ["By a client", "By the API", "Race", "Re: Question"]
    );

    // A draft that is edited while it could be sent: only the version that was read is sent.
    let created = create(&ada, &finished("Stale")).await;
    let replaced = put(
        &ada,
        &created["id"],
        &created["version"],
        &finished("Edited"),
    )
    .await;
    let replaced = replaced.succeeds(200);
    let version = created["version"].as_str().unwrap();
    let tag = format!("\"{version}\"");
    let line = format!("{}/send", super::line("POST", &created["id"]));
    let stale = with_header(&ada, &line, ("if-match", &tag), &json!({})).await;
    assert_eq!(stale.status, 412, "{}", stale.json);
    assert_eq!(get(&ada, &created["id"]).await.succeeds(200), replaced);
}
