//! Tests the size of responses for hostile messages. A sandbox can return 8 MiB of JSON, and no
//! message may come close to that limit.

use std::sync::Arc;

use bytes::Bytes;
use latchmail_core::clock::Timestamp;
use latchmail_core::message_number::MessageNumber;
use latchmail_imap::Fetched;
use latchmail_mime::Header;
use latchmail_mime::preview::Preview;
use serde_json::{Value, json};

use crate::bounds;
use crate::message::summary::summary;
use crate::message::types::{Address, Detail, Summary};
use crate::reading::message;

/// Maximum size of a module's response, in bytes.
const MAX_RESPONSE: usize = 8 * 1024 * 1024;

/// Entries of an address list that are longer in the response than in the message.
const ENTRIES: [&str; 7] = [
    "a,",
    "\"\\\"\\\"\\\"\\\"\\\"\\\"\\\"\\\"\" <b>,",
    "\"\\\\\\\\\\\\\\\\\"@c,",
    "\u{1} <\u{1}>,",
    "=?utf-8?Q?=01=22=5C?= <d>,",
    "(\\\"\\\"),",
    "é <e@f>,",
];

fn addresses(addresses: &[Address]) -> Value {
    addresses
        .iter()
        .map(|a| json!({ "name": a.name, "address": a.address }))
        .collect()
}

fn summary_json(summary: &Summary) -> Value {
    json!({
        "uid": u64::MAX, "seq": u32::MAX, "from": addresses(&summary.from), "to": addresses(&summary.to),
        "subject": summary.subject, "date": summary.date, "flags": summary.flags, "size": summary.size,
        "preview": summary.preview, "threadId": summary.thread_id,
    })
}

fn detail_json(detail: &Detail) -> Value {
    let attachments: Value = detail
        .attachments
        .iter()
        .map(|a| json!({ "index": a.index, "filename": a.filename, "contentType": a.content_type, "size": a.size }))
        .collect();
    json!({
        "headline": summary_json(&detail.summary), "cc": addresses(&detail.cc), "replyTo": addresses(&detail.reply_to),
        "messageId": detail.message_id, "inReplyTo": detail.in_reply_to, "references": detail.references,
        "text": detail.text, "html": detail.html, "newText": detail.new_text, "attachments": attachments, "truncated": true,
    })
}

fn header(entry: &str) -> String {
    let list = entry.repeat(45 * 1024 / entry.len());
    format!(
        "From: {list}\r\nTo: {list}\r\nCc: {list}\r\nSubject: {}\r\n",
        "\"\\\u{1}".repeat(1000)
    )
}

fn flags() -> Vec<String> {
    (0..100).map(|n| format!("keyword-{n:040}")).collect()
}

#[test]
fn a_hundred_hostile_messages_fit_into_a_response() {
    for entry in ENTRIES {
        let message = Fetched {
            flags: flags(),
            header: Bytes::from(header(entry)),
            text: Bytes::from("\"\\\u{1}".repeat(5000)),
            size: u32::MAX,
            internal_date: Some(Timestamp::from_millis(0)),
            ..Fetched::default()
        };
        let read = Header::of(&message.header, bounds::LISTED_FIELD);
        let preview = Preview::of_body(&message.header, &message.text, false).text;
        let json = summary_json(&summary(MessageNumber(u64::MAX), &message, &read, preview));
        let size = json.to_string().len() * 100;
        assert!(size < MAX_RESPONSE, "{entry:?}: {size}");
    }
}

#[tokio::test]
async fn one_hostile_message_fits_into_a_response() {
    for (entry, fill) in ENTRIES.iter().flat_map(|entry| {
        [
            (entry, "\u{1}"),
            (entry, "\"\\"),
            (entry, "\u{7f}\u{c}\u{1b}"),
        ]
    }) {
        let list = entry.repeat(45 * 1024 / entry.len());
        let ids = "<\"\"@\"\">".repeat(30 * 1024 / 7);
        let body = fill.repeat(2 * 1024 * 1024 / fill.len());
        let mut whole_message = format!(
            "{}Reply-To: {list}\r\nReferences: {ids}\r\nMessage-ID: <{}@1>\r\nContent-Type: multipart/mixed; boundary=b\r\n\r\n\
             --b\r\nContent-Type: text/plain; charset=utf-8\r\n\r\n{body}\r\n--b\r\nContent-Type: text/html; charset=utf-8\r\n\r\n{body}\r\n",
            header(entry),
            "\"".repeat(10_000),
        );
        let part = format!(
            "--b\r\nContent-Type: a/{}\r\nContent-Disposition: attachment; filename=\"{}\"\r\n\r\n",
            "b".repeat(250),
            "\\\"".repeat(300)
        );
        whole_message.push_str(&part.repeat(latchmail_mime::bounds::PARTS));
        let message = Fetched {
            flags: flags(),
            whole: Bytes::from(whole_message),
            size: u32::MAX,
            ..Fetched::default()
        };
        let (detail, _) = message::parse_complete(MessageNumber(u64::MAX), message, Arc::default())
            .await
            .unwrap();
        assert!(detail.truncated && detail.attachments.len() > 900);
        assert!(
            detail
                .text
                .as_ref()
                .is_some_and(|text| text.len() > latchmail_mime::bounds::BODY - 4)
        );
        let size = detail_json(&detail).to_string().len();
        assert!(size < MAX_RESPONSE, "{entry:?} {fill:?}: {size}");
    }
}
