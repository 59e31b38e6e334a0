//! Folders, a folder's messages, one message.

use std::collections::BTreeSet;

use futures_util::TryStreamExt as _;
use latchmail_tests::{Person, RICH_MESSAGE, Service, expunge_all, imap};
use serde_json::{Value, json};

const PLAIN: &str = "From: Grace Hopper <grace@outside.test>
To: ada@first.test, \"Lovelace, Ada\" <al@first.test>
Cc: copy@outside.test
Reply-To: Answers <answers@outside.test>
Subject: =?utf-8?Q?Gr=C3=BC=C3=9Fe?= from the <fleet>
Date: Thu, 19 Nov 2026 10:00:00 +0100
Message-ID: <one@outside.test>
In-Reply-To: <zero@first.test>
References: <minus-one@first.test> <zero@first.test>
MIME-Version: 1.0
Content-Type: text/plain; charset=utf-8
Content-Transfer-Encoding: 8bit

Hello   Ada,

a < b & c > d – über alles.
";

fn numbered(number: u32) -> String {
    format!(
        "From: sender@outside.test\nTo: ada@first.test\nSubject: Number {number}\nMessage-ID: <n{number}@outside.test>\n\nThis is number {number}.\n"
    )
}

#[tokio::test]
async fn a_new_mailbox_has_its_folders_and_those_with_a_role_come_first() {
    let service = Service::with_mail().await;
    let ada = service.person("ada").await;
    ada.receive(PLAIN).await;
    let response = ada.send("GET /api/v1/mail/folders").await.succeeds(200);
    let folders = response["folders"].as_array().unwrap();
    let ids: BTreeSet<&str> = folders.iter().map(|f| f["id"].as_str().unwrap()).collect();
    assert_eq!(ids.len(), folders.len());
    assert_eq!(
        folders[0],
        json!({
            "id": folders[0]["id"], "path": "INBOX", "name": "INBOX", "delimiter": "/",
            "messages": 1, "unseen": 1, "specialUse": "\\Inbox",
        })
    );
    let roles: Vec<&str> = folders
        .iter()
        .map(|f| f["specialUse"].as_str().unwrap())
        .collect();
    assert_eq!(
        roles,
        [
            "\\Inbox",
            "\\Sent",
            "\\Drafts",
            "\\Archive",
            "\\Junk",
            "\\Trash"
        ]
    );
}

#[tokio::test]
async fn folders_of_any_name_are_listed_and_opened_by_their_path() {
    let service = Service::with_mail().await;
    let ada = service.person("ada").await;
    let mut client = imap(&ada).await;
    // Modified UTF-7 (RFC 3501, section 5.1.3): "Projekte/Übersicht & Pläne", "100%", "a*b".
    for name in [
        "Projekte",
        "Projekte/&ANw-bersicht &- Pl&AOQ-ne",
        "100%",
        "quote \\\" here",
    ] {
        client.create(name).await.unwrap();
    }
    let response = ada.send("GET /api/v1/mail/folders").await.succeeds(200);
    let paths: Vec<&str> = response["folders"]
        .as_array()
        .unwrap()
        .iter()
        .skip(6)
        .map(|f| f["path"].as_str().unwrap())
        .collect();
    assert!(paths.contains(&"Projekte/Übersicht & Pläne"), "{paths:?}");
    assert!(paths.is_sorted(), "{paths:?}");
    let nested = &response["folders"]
        .as_array()
        .unwrap()
        .iter()
        .find(|f| f["name"] == "Übersicht & Pläne")
        .unwrap();
    assert!(nested.get("specialUse").is_none());
    for path in [
        "Projekte%2F%C3%9Cbersicht%20%26%20Pl%C3%A4ne",
        "100%25",
        "inbox",
        "Trash",
    ] {
        assert_eq!(ada.total(path).await, 0, "{path}");
    }
}

#[tokio::test]
async fn a_folder_that_does_not_exist_is_404() {
    let service = Service::with_mail().await;
    let ada = service.person("ada").await;
    let long = "x".repeat(3000);
    for folder in [
        "Nowhere",
        "INBOX%2FNowhere",
        "..%2F..%2Fetc",
        "%0d%0aA1%20LOGOUT",
        "*",
        "%25",
        "%22",
        "%5C",
        "%7B5%7D",
        "&",
        "%F0%9F%93%AC",
        &long,
    ] {
        let line = format!("GET /api/v1/mail/folders/{folder}/messages");
        ada.send(&line).await.fails(404, "Folder not found");
    }
    // The mailbox is unchanged.
    assert_eq!(ada.total("INBOX").await, 0);
}

#[tokio::test]
async fn a_message_is_listed_with_all_its_fields() {
    let service = Service::with_mail().await;
    let ada = service.person("ada").await;
    ada.receive(PLAIN).await;
    let mut listing = ada
        .send("GET /api/v1/mail/folders/INBOX/messages")
        .await
        .succeeds(200);
    assert_eq!(listing["total"], 1);
    let message = listing["messages"][0].as_object_mut().unwrap();
    assert!(message.remove("uid").unwrap().as_u64().unwrap() >= 1);
    assert!(message.remove("size").unwrap().as_u64().unwrap() > PLAIN.len() as u64);
    assert_eq!(
        message.remove("threadId").unwrap().as_str().unwrap().len(),
        16
    );
    assert_eq!(
        Value::Object(message.clone()),
        json!({
            "seq": 1,
            "from": [{ "name": "Grace Hopper", "address": "grace@outside.test" }],
            "to": [
                { "name": "", "address": "ada@first.test" },
                { "name": "Lovelace, Ada", "address": "al@first.test" },
            ],
            "subject": "Grüße from the <fleet>",
            "date": "2026-11-19T09:00:00.000Z",
            "flags": [],
            "preview": "Hello Ada, a < b & c > d – über alles.",
        })
    );
}

#[tokio::test]
async fn a_folder_is_listed_newest_first_in_pages() {
    let service = Service::with_mail().await;
    let ada = service.person("ada").await;
    for number in 1..=7 {
        ada.receive(&numbered(number)).await;
    }
    let page = |query: &'static str| {
        let ada = &ada;
        async move {
            let line = format!("GET /api/v1/mail/folders/INBOX/messages{query}");
            let listing = ada.send(&line).await.succeeds(200);
            assert_eq!(listing["total"], 7);
            let messages = listing["messages"].as_array().unwrap().clone();
            messages
                .iter()
                .map(|m| m["seq"].as_u64().unwrap())
                .collect::<Vec<_>>()
        }
    };
    assert_eq!(page("").await, [7, 6, 5, 4, 3, 2, 1]);
    assert_eq!(page("?limit=3").await, [7, 6, 5]);
    assert_eq!(page("?limit=3&page=2").await, [4, 3, 2]);
    assert_eq!(page("?limit=3&page=3").await, [1]);
    assert_eq!(page("?limit=3&page=4").await, [0_u64; 0]);
    assert_eq!(page("?limit=100&page=4000000000").await, [0_u64; 0]);
    assert_eq!(ada.messages("INBOX").await[0]["subject"], "Number 7");
}

#[tokio::test]
async fn a_page_out_of_range_is_refused() {
    let service = Service::with_mail().await;
    let ada = service.person("ada").await;
    for query in [
        "page=0",
        "page=-1",
        "page=x",
        "page=1.5",
        "page=",
        "limit=0",
        "limit=101",
        "limit=abc",
        "limit=-5",
    ] {
        let line = format!("GET /api/v1/mail/folders/INBOX/messages?{query}");
        ada.send(&line)
            .await
            .fails(400, "Invalid paging parameters");
    }
}

#[tokio::test]
async fn a_number_identifies_one_message_and_never_changes() {
    let mut service = Service::with_mail().await;
    let (access, before) = {
        let ada = service.person("ada").await;
        for number in 1..=3 {
            ada.receive(&numbered(number)).await;
        }
        (ada.access.clone(), uids(&ada).await)
    };
    assert_eq!(before.iter().collect::<BTreeSet<_>>().len(), 3);
    service.restart().await;
    let ada = Person {
        service: &service,
        address: "ada@first.test".into(),
        access,
        refresh: String::new(),
    };
    assert_eq!(uids(&ada).await, before);
    ada.receive(&numbered(4)).await;
    let after = uids(&ada).await;
    assert_eq!(after[1..], before[..]);
    assert!(after[0] > before[0]);
}

async fn uids(person: &Person<'_>) -> Vec<u64> {
    let messages = person.messages("INBOX").await;
    messages
        .iter()
        .map(|m| m["uid"].as_u64().unwrap())
        .collect()
}

#[tokio::test]
async fn concurrent_listings_return_the_same_numbers() {
    let service = Service::with_mail().await;
    let ada = service.person("ada").await;
    let mut client = imap(&ada).await;
    for number in 1..=40 {
        let message = numbered(number).replace('\n', "\r\n");
        client.append("INBOX", None, None, message).await.unwrap();
    }
    let (a, b, c, d) = tokio::join!(uids(&ada), uids(&ada), uids(&ada), uids(&ada));
    assert_eq!(a.iter().collect::<BTreeSet<_>>().len(), 40);
    assert!(a == b && b == c && c == d);
}

#[tokio::test]
async fn a_plain_message_is_read_with_its_headers_and_text() {
    let service = Service::with_mail().await;
    let ada = service.person("ada").await;
    ada.receive(PLAIN).await;
    let summary = ada.messages("INBOX").await[0].clone();
    let detail = ada.newest().await;
    for field in [
        "uid", "seq", "from", "to", "subject", "date", "flags", "size",
    ] {
        assert_eq!(detail[field], summary[field], "{field}");
    }
    assert_eq!(
        detail["cc"],
        json!([{ "name": "", "address": "copy@outside.test" }])
    );
    assert_eq!(
        detail["replyTo"],
        json!([{ "name": "Answers", "address": "answers@outside.test" }])
    );
    assert_eq!(detail["messageId"], "<one@outside.test>");
    assert_eq!(detail["inReplyTo"], "<zero@first.test>");
    assert_eq!(
        detail["references"],
        json!(["<minus-one@first.test>", "<zero@first.test>"])
    );
    let text = detail["text"].as_str().unwrap();
    assert!(text.contains("a < b & c > d – über alles."), "{text}");
    assert_eq!(detail["attachments"], json!([]));
    for absent in ["html", "preview", "truncated"] {
        assert!(detail.get(absent).is_none(), "{absent}");
    }
}

#[tokio::test]
async fn a_multipart_message_is_read_with_both_texts_and_its_attachments() {
    let service = Service::with_mail().await;
    let ada = service.person("ada").await;
    ada.receive(RICH_MESSAGE).await;
    let detail = ada.newest().await;
    assert_eq!(detail["text"].as_str().unwrap().trim(), "Café");
    assert_eq!(
        detail["html"].as_str().unwrap().trim(),
        "<p>Caf&eacute;</p>"
    );
    let attachments = detail["attachments"].as_array().unwrap();
    assert_eq!(
        attachments[0],
        json!({ "index": 0, "filename": "résumé.pdf", "contentType": "application/pdf", "size": 8, "contentId": null, "disposition": "attachment" })
    );
    assert_eq!(attachments[1]["contentType"], "message/rfc822");
    let nested = attachments[1]["filename"].as_str().unwrap();
    assert_eq!(std::path::Path::new(nested).extension().unwrap(), "eml");
    assert_eq!(attachments.len(), 2);
    assert!(detail.get("inReplyTo").is_none());
    assert_eq!(detail["references"], json!([]));
}

#[tokio::test]
async fn the_folder_of_a_message_is_only_a_hint() {
    let service = Service::with_mail().await;
    let ada = service.person("ada").await;
    ada.receive(PLAIN).await;
    let uid = ada.messages("INBOX").await[0]["uid"].clone();
    for hint in [
        "",
        "?folder=INBOX",
        "?folder=Trash",
        "?folder=Nowhere",
        "?folder=",
    ] {
        let line = format!("GET /api/v1/mail/messages/{uid}{hint}");
        assert_eq!(ada.send(&line).await.succeeds(200)["uid"], uid, "{hint}");
    }
}

#[tokio::test]
async fn an_invalid_number_is_400_and_an_unknown_one_404() {
    let service = Service::with_mail().await;
    let (ada, bob) = (service.person("ada").await, service.person("bob").await);
    for uid in [
        "0",
        "-1",
        "abc",
        "1.5",
        "1e3",
        "%20",
        "99999999999999999999999",
    ] {
        let line = format!("GET /api/v1/mail/messages/{uid}");
        ada.send(&line).await.fails(400, "Invalid message UID");
    }
    for uid in ["1", "987654321", "18446744073709551615"] {
        let line = format!("GET /api/v1/mail/messages/{uid}");
        ada.send(&line).await.fails(404, "Message not found");
    }
    // A number of another account's mailbox does not exist here.
    ada.receive(PLAIN).await;
    let uid = ada.messages("INBOX").await[0]["uid"].clone();
    let line = format!("GET /api/v1/mail/messages/{uid}");
    bob.send(&line).await.fails(404, "Message not found");
}

#[tokio::test]
async fn a_message_deleted_by_another_client_is_404_and_its_number_is_not_reused() {
    let service = Service::with_mail().await;
    let ada = service.person("ada").await;
    ada.receive(&numbered(1)).await;
    let gone = ada.messages("INBOX").await[0]["uid"].clone();
    expunge_all(&ada).await;
    let line = format!("GET /api/v1/mail/messages/{gone}");
    ada.send(&line).await.fails(404, "Message not found");
    assert_eq!(ada.total("INBOX").await, 0);
    ada.receive(&numbered(2)).await;
    assert!(ada.messages("INBOX").await[0]["uid"].as_u64() > gone.as_u64());
}

#[tokio::test]
async fn reading_does_not_mark_a_message_as_seen_and_flags_are_current() {
    let service = Service::with_mail().await;
    let ada = service.person("ada").await;
    ada.receive(RICH_MESSAGE).await;
    ada.newest().await;
    let folders = ada.send("GET /api/v1/mail/folders").await.succeeds(200);
    assert_eq!(folders["folders"][0]["unseen"], 1);

    let mut client = imap(&ada).await;
    client.select("INBOX").await.unwrap();
    let flags: Vec<_> = client
        .fetch("1", "FLAGS")
        .await
        .unwrap()
        .try_collect()
        .await
        .unwrap();
    assert!(
        flags[0]
            .flags()
            .all(|flag| flag != async_imap::types::Flag::Seen)
    );
    let store = client
        .store("1", "+FLAGS (\\Seen \\Flagged $Forwarded)")
        .await
        .unwrap();
    store.try_collect::<Vec<_>>().await.unwrap();
    let told = ada.messages("INBOX").await[0]["flags"].clone();
    let told: BTreeSet<&str> = told
        .as_array()
        .unwrap()
        .iter()
        .map(|f| f.as_str().unwrap())
        .collect();
    assert_eq!(told, BTreeSet::from(["\\Seen", "\\Flagged", "$Forwarded"]));
    let folders = ada.send("GET /api/v1/mail/folders").await.succeeds(200);
    assert_eq!(folders["folders"][0]["unseen"], 0);
}

#[tokio::test]
async fn a_message_with_few_headers_can_be_read() {
    let service = Service::with_mail().await;
    let ada = service.person("ada").await;
    ada.receive_raw(b"X-Nothing: here\r\n\r\njust \xff\xfe bytes\r\n")
        .await;
    let detail = ada.newest().await;
    assert_eq!(detail["subject"], "");
    assert!(detail["text"].as_str().unwrap().starts_with("just "));
    let date = detail["date"].as_str().unwrap();
    assert!(date.ends_with('Z') && date > "2026-11-01", "{date}");
}

#[tokio::test]
async fn a_message_with_a_long_header_has_the_same_fields_in_the_listing() {
    let service = Service::with_mail().await;
    let ada = service.person("ada").await;
    let mut client = imap(&ada).await;
    let copies = "copy@outside.test,\r\n ".repeat(4_000);
    let message = format!(
        "Cc: {copies}\r\nFrom: \"spaced local\"@outside.test\r\nTo: ada@first.test\r\nSubject: Behind the copies\r\n\
         Date: Thu, 19 Nov 2026 10:00:00 +0100\r\nContent-Type: text/plain; charset=us-ascii\r\n\r\nüber alles\r\n"
    );
    client.append("INBOX", None, None, message).await.unwrap();
    let summary = ada.messages("INBOX").await[0].clone();
    assert_eq!(summary["subject"], "Behind the copies");
    assert_eq!(
        summary["from"],
        json!([{ "name": "", "address": "\"spaced local\"@outside.test" }])
    );
    assert_eq!(summary["preview"], "über alles");
    let detail = ada.newest().await;
    for field in ["from", "to", "subject", "date"] {
        assert_eq!(detail[field], summary[field], "{field}");
    }
}

#[tokio::test]
async fn a_page_of_hostile_messages_is_listed_and_each_is_read() {
    let service = Service::with_mail().await;
    let ada = service.person("ada").await;
    let mut client = imap(&ada).await;
    let many = "a,".repeat(4_096);
    for number in 0..100 {
        let message = format!(
            "From: {many}\r\nTo: {many}\r\nSubject: {number} {}\r\n\r\n{}\r\n",
            "\"".repeat(5_000),
            "\u{1}".repeat(if number == 99 { 1024 * 1024 } else { 300 })
        );
        client.append("INBOX", None, None, message).await.unwrap();
    }
    let listing = ada
        .send("GET /api/v1/mail/folders/INBOX/messages?limit=100")
        .await
        .succeeds(200);
    assert_eq!(listing["messages"].as_array().unwrap().len(), 100);
    let detail = ada.newest().await;
    assert_eq!(detail["truncated"], true);
    assert!(
        detail["text"]
            .as_str()
            .unwrap()
            .chars()
            .all(|c| !c.is_control() || "\r\n".contains(c))
    );
}
