//! Replies and forwards that the service composes. The rules of recipients, subjects and quotations
//! have tests in `host/compose`.

use latchmail_tests::{Person, Response, Service, add_alias, imap};
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;

use super::wait_for_mail;

/// A message from Bob with plain text, HTML, an inline picture and a file.
const ORIGINAL: &str = "From: Bob <bob@first.test>\r\nTo: Shop <shop@second.test>, cy@first.test\r\n\
    Subject: =?utf-8?Q?AW=3A_Pl=C3=A4ne?=\r\nDate: Thu, 19 Nov 2026 11:00:00 +0100\r\n\
    Message-ID: <original@first.test>\r\nReferences: <first@first.test>\r\nMIME-Version: 1.0\r\n\
    Content-Type: multipart/mixed; boundary=a\r\n\r\n\
    --a\r\nContent-Type: multipart/related; boundary=r\r\n\r\n\
    --r\r\nContent-Type: multipart/alternative; boundary=t\r\n\r\n\
    --t\r\nContent-Type: text/plain; charset=iso-8859-1; format=flowed\r\n\r\nGr\\xFC\\xDFe \r\naus Wien\r\n\
    --t\r\nContent-Type: text/html; charset=utf-8\r\n\r\n\
    <p onclick=\"x()\">Hello <img src=\"cid:logo@first.test\"></p><script>x()</script>\r\n\
    --t--\r\n\
    --r\r\nContent-Type: image/png\r\nContent-ID: <logo@first.test>\r\n\
    Content-Transfer-Encoding: base64\r\n\r\niVBORw0KGgo=\r\n--r--\r\n\
    --a\r\nContent-Type: application/pdf\r\nContent-Disposition: attachment; filename=plan.pdf\r\n\
    Content-Transfer-Encoding: base64\r\n\r\nJVBERg==\r\n--a--\r\n";

/// Returns the original with the bytes of its character set.
fn original() -> Vec<u8> {
    let mut bytes = Vec::new();
    for (index, part) in ORIGINAL.split("\\x").enumerate() {
        let part = part.as_bytes();
        if index == 0 {
            bytes.extend_from_slice(part);
        } else {
            let digits = std::str::from_utf8(&part[..2]).unwrap();
            bytes.push(u8::from_str_radix(digits, 16).unwrap());
            bytes.extend_from_slice(&part[2..]);
        }
    }
    bytes
}

async fn act(person: &Person<'_>, uid: u64, action: &str, body: &Value) -> Response {
    let path = format!("/api/v1/mail/messages/{uid}/{action}");
    person.post(&path, body).await
}

async fn act_with(service: &Service, token: &Value, uid: u64, action: &str) -> Response {
    let line = format!("POST /api/v1/mail/messages/{uid}/{action}");
    let request = service.request(&line);
    let token = token["token"].as_str().unwrap();
    Response::of_json(
        request.bearer_auth(token),
        &json!({ "to": "bob@first.test" }),
    )
    .await
}

/// Returns the mail server's response to a command in the inbox.
async fn imap_response(person: &Person<'_>, command: &str) -> String {
    let made = person.app_password("commands").await;
    let password = made["password"].as_str().unwrap();
    let mut stream = TcpStream::connect(person.service.mail().imap)
        .await
        .unwrap();
    let address = &person.address;
    let commands = format!(
        "a LOGIN {address} \"{password}\"\r\nb SELECT INBOX\r\nc {command}\r\nd LOGOUT\r\n"
    );
    stream.write_all(commands.as_bytes()).await.unwrap();
    let mut response = String::new();
    stream.read_to_string(&mut response).await.unwrap();
    assert!(response.contains("\r\nc OK"), "{response}");
    response
}

/// Returns the flags of a message, sorted.
async fn flags(person: &Person<'_>, uid: u64) -> Vec<String> {
    let message = person.message(uid).await;
    let flags = message["flags"].as_array().unwrap().iter();
    let mut flags: Vec<String> = flags
        .map(|flag| flag.as_str().unwrap().to_owned())
        .collect();
    flags.sort();
    flags
}

fn addresses(list: &Value) -> Vec<&str> {
    let list = list.as_array().unwrap().iter();
    list.map(|one| one["address"].as_str().unwrap()).collect()
}

#[tokio::test]
async fn replies_and_forwards_arrive_in_the_thread_with_the_pictures() {
    let service = Service::with_mail().await;
    let (ada, bob) = (service.person("ada").await, service.person("bob").await);
    let cy = service.person("cy").await;
    add_alias(&ada, "shop@second.test", true).await;
    // Also in Bob's mailbox, so that the mail server forms Bob's thread.
    for person in [&ada, &bob] {
        let mut client = imap(person).await;
        let appended = client.append("INBOX", None, None, original());
        appended.await.unwrap();
    }
    let uid = ada.uids("INBOX").await[0];

    let body = json!({ "html": "<p>Yes</p>", "subject": "Something else", "locale": "de" });
    let sent = act(&ada, uid, "reply", &body).await.succeeds(200);
    assert_eq!(sent["savedTo"], "Sent");
    let received = wait_for_mail(&bob, &sent).await;
    assert_eq!(addresses(&received["from"]), ["shop@second.test"]);
    assert_eq!(addresses(&received["to"]), ["bob@first.test"]);
    assert_eq!(received["inReplyTo"], "<original@first.test>");
    let references = json!(["<first@first.test>", "<original@first.test>"]);
    assert_eq!(received["references"], references);
    assert_eq!(received["newText"], "Yes");
    let line = "Am Do., 19. Nov. 2026 um 11:00 Uhr schrieb Bob <bob@first.test>:";
    let text = received["text"].as_str().unwrap().replace("\r\n", "\n");
    assert_eq!(
        text.trim_end(),
        format!("Yes\n\n{line}\n> Gr\u{fc}\u{df}e aus Wien")
    );
    let html = received["html"].as_str().unwrap();
    assert!(
        html.starts_with("<p>Yes</p><p id=\"reply-intro\">Am Do."),
        "{html}"
    );
    let quoted = "<p>Hello <img src=\"cid:logo@first.test\"></p></blockquote>";
    assert!(html.contains(quoted) && !html.contains("x()"), "{html}");
    let files = received["attachments"].as_array().unwrap();
    assert_eq!(files.len(), 1);
    assert_eq!(files[0]["contentId"], "logo@first.test");
    assert_eq!(files[0]["disposition"], "inline");
    assert_eq!(flags(&ada, uid).await, ["\\Answered"]);

    let body = json!({ "text": "See below", "to": "bob@first.test" });
    let sent = act(&ada, uid, "forward", &body).await.succeeds(200);
    let received = wait_for_mail(&bob, &sent).await;
    assert_eq!(received["subject"], "Fwd: Pl\u{e4}ne");
    assert_eq!(received["inReplyTo"], Value::Null);
    assert_eq!(received["references"], references);
    let files = received["attachments"].as_array().unwrap();
    let names: Vec<_> = files.iter().map(|file| &file["contentType"]).collect();
    assert_eq!(names, ["image/png", "application/pdf"]);
    assert_eq!(files[1]["filename"], "plan.pdf");
    assert_eq!(flags(&ada, uid).await, ["$Forwarded", "\\Answered"]);

    let body = json!({ "to": "bob@first.test", "asAttachment": true, "subject": "The message" });
    let sent = act(&ada, uid, "forward", &body).await.succeeds(200);
    let received = wait_for_mail(&bob, &sent).await;
    assert_eq!(received["attachments"][0]["contentType"], "message/rfc822");

    // All messages are one thread, and the pictures are part of the HTML.
    let threads = imap_response(&bob, "THREAD REFERENCES UTF-8 ALL").await;
    let thread = threads
        .lines()
        .find(|line| line.starts_with("* THREAD"))
        .unwrap();
    assert_eq!(thread, "* THREAD (1 (2)(3)(4))");
    let structure = imap_response(&bob, "FETCH 2:3 BODYSTRUCTURE").await;
    let is_related = |line: &&str| {
        line.contains("BODYSTRUCTURE")
            && line.contains("\"<logo@first.test>\"")
            && line.contains("\"RELATED\"")
    };
    let related = structure
        .to_uppercase()
        .replace("LOGO@FIRST.TEST", "logo@first.test");
    assert_eq!(related.lines().filter(is_related).count(), 2, "{structure}");

    let body = json!({ "text": "All" });
    let sent = act(&ada, uid, "reply-all", &body).await.succeeds(200);
    let received = wait_for_mail(&cy, &sent).await;
    assert_eq!(received["subject"], "Re: Pl\u{e4}ne");
    assert_eq!(
        addresses(&received["to"]),
        ["bob@first.test", "cy@first.test"]
    );
    // A reply to an own message goes to the recipients of that message.
    let own = ada.uids("Sent").await[0];
    let sent = act(&ada, own, "reply", &body).await.succeeds(200);
    let received = wait_for_mail(&cy, &sent).await;
    assert_eq!(
        addresses(&received["to"]),
        ["bob@first.test", "cy@first.test"]
    );
    assert_eq!(addresses(&received["from"]), ["shop@second.test"]);
    let dan = service.person("dan").await;
    access(&service, &ada, &dan, uid).await;
}

/// The credentials and the values that are refused, and a repeated request.
async fn access(service: &Service, ada: &Person<'_>, dan: &Person<'_>, uid: u64) {
    let both = ada.token(&["mail:send", "mail:read"]).await;
    let (send, read) = (
        ada.token(&["mail:send"]).await,
        ada.token(&["mail:read"]).await,
    );
    for action in ["reply", "reply-all", "forward"] {
        act_with(service, &both, uid, action).await.succeeds(200);
        let missing = "This credential is missing the \"mail:read\" scope";
        act_with(service, &send, uid, action)
            .await
            .fails(403, missing);
        let missing = "This credential is missing the \"mail:send\" scope";
        act_with(service, &read, uid, action)
            .await
            .fails(403, missing);
        let body = json!({ "to": "bob@first.test" });
        let foreign = act(dan, uid, action, &body).await;
        foreign.fails(404, "Message not found");
        for (body, text) in [
            (json!([]), "The body must be an object"),
            (
                json!({ "to": "nobody" }),
                "to must contain only mail addresses",
            ),
            (
                json!({ "to": "a@b.example", "locale": 7 }),
                "locale must be a string",
            ),
            (
                json!({ "to": "a@b.example", "subject": "a\nb" }),
                "subject must not have line breaks",
            ),
        ] {
            act(ada, uid, action, &body).await.fails(400, text);
        }
        let path = format!("/api/v1/mail/messages/0/{action}");
        ada.post(&path, &json!({}))
            .await
            .fails(400, "Invalid message UID");
    }
    let forward = act(ada, uid, "forward", &json!({})).await;
    forward.fails(400, "to must name at least one recipient");
    let foreign = json!({ "from": "bob@first.test" });
    let refused = act(ada, uid, "reply", &foreign).await;
    refused.fails(
        403,
        "You can only send from your own address or active aliases",
    );

    let mut ids = Vec::new();
    for text in ["Once", "Once", "Twice"] {
        let line = format!("POST /api/v1/mail/messages/{uid}/reply");
        let request = service.request(&line).bearer_auth(&ada.access);
        let request = request.header("idempotency-key", "one");
        let response = Response::of_json(request, &json!({ "text": text })).await;
        if text == "Twice" {
            assert_eq!(response.status, 409);
        } else {
            ids.push(response.succeeds(200)["messageId"].clone());
        }
    }
    assert_eq!(ids[0], ids[1]);
}
