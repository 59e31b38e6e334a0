//! Tests of the message of a draft: what was written is read again.

use bytes::Bytes;
use latchmail_core::clock::Timestamp;
use latchmail_core::message_number::MessageNumber;
use latchmail_imap::Fetched;
use latchmail_mime::Address;
use proptest::prelude::*;

use super::content::Identity;
use super::id::DraftId;
use super::stored::{StoredDraft, draft};
use super::{DraftContent, original};
use crate::message::parts::MessageParts;
use crate::outbox::attached_file::AttachedFile;
use crate::outbox::{HeaderField, OriginalMessage, Relation};

fn file() -> AttachedFile {
    AttachedFile {
        filename: "a.txt".into(),
        content_type: "text/plain".into(),
        content_id: None,
        inline: false,
        content: Bytes::from_static(b"file"),
    }
}

fn identity() -> Identity {
    let message_id = "<1@x.example>".to_owned();
    Identity {
        id: DraftId::of_message_id(&message_id),
        message_id,
        original: None,
    }
}

fn written(content: &DraftContent, files: &[AttachedFile]) -> Bytes {
    content.check().unwrap();
    let date = Timestamp::from_millis(0);
    content.write(files, &identity(), date).unwrap()
}

fn stored(content: &DraftContent, files: &[AttachedFile]) -> StoredDraft {
    let message = Fetched {
        whole: written(content, files),
        ..Fetched::default()
    };
    let parts = MessageParts::of_complete(message);
    let id = DraftId::of_header(&parts.message.whole).unwrap();
    draft(id, String::new(), MessageNumber(1), &parts)
}

fn unfinished(text: &str) -> Address {
    Address {
        name: String::new(),
        address: text.into(),
    }
}

/// Returns the text that a client of the API sees.
fn shown(address: &Address) -> String {
    match address.name.as_str() {
        "" => address.address.clone(),
        name => format!("{name} <{}>", address.address),
    }
}

#[test]
fn texts_are_read_as_they_were_written() {
    let long = "x".repeat(3000);
    let japanese = "\u{65e5}".repeat(500);
    for text in [
        "a",
        "a\n",
        "a\n\n",
        "\na",
        " a ",
        "a\n.\nb",
        "\u{e4}",
        "\u{e4}\n",
        "a\tb\n",
        "From a\n-- \nAda\n",
        "=20",
        "\u{1f600}",
        &long,
        &japanese,
        "a\u{1}b",
        "a\u{1}b\n",
    ] {
        let shown = text.replace('\u{1}', "\u{fffd}");
        for (has_text, has_html, files) in [
            (true, false, &[][..]),
            (false, true, &[]),
            (true, true, &[]),
            (true, true, &[file()]),
            (true, false, &[file()]),
        ] {
            let content = DraftContent {
                text: has_text.then(|| text.to_owned()),
                html: has_html.then(|| text.to_owned()),
                ..DraftContent::default()
            };
            let stored = stored(&content, files);
            let expected = |has: bool| has.then_some(shown.as_str());
            assert_eq!(stored.text.as_deref(), expected(has_text), "{text:?}");
            assert_eq!(stored.html.as_deref(), expected(has_html), "{text:?}");
            assert_eq!(stored.attachments.len(), files.len());
        }
    }
    let empty = stored(&DraftContent::default(), &[]);
    assert_eq!((empty.text, empty.html), (None, None));
}

#[test]
fn unfinished_addresses_are_read_as_they_were_written() {
    for text in [
        "gra",
        "a@",
        "@b",
        "Bo <bo",
        "Bo <bo@>",
        "a@b@c",
        "\"x",
        "a b c",
        "Gr\u{e4}ce",
        "x;y",
        "<>",
        "a:b",
        "(c)",
        "=?utf-8?q?x?=",
        "Bo <bo@x.example> <",
        "undisclosed-recipients:;",
    ] {
        let content = DraftContent {
            from: Some(unfinished(text)),
            to: vec![
                unfinished("bo@x.example"),
                unfinished(text),
                unfinished("x"),
            ],
            bcc: vec![unfinished(text)],
            ..DraftContent::default()
        };
        let stored = stored(&content, &[]);
        let all = |list: &[Address]| list.iter().map(shown).collect::<Vec<_>>();
        assert_eq!(all(&stored.from), [text]);
        assert_eq!(all(&stored.to), ["bo@x.example", text, "x"]);
        assert_eq!(all(&stored.bcc), [text]);
    }
}

#[test]
fn header_fields_are_read_as_they_were_written() {
    let content = DraftContent {
        from: Some(Address {
            name: "Last, First \"x\"".into(),
            address: "ada@x.example".into(),
        }),
        subject: "=?utf-8?q?x?= \u{e4}".into(),
        in_reply_to: Some("not an id".into()),
        references: vec!["<1@x>".into(), "y".into()],
        headers: vec![HeaderField {
            name: "X-Kind".into(),
            value: "\u{e4} b".into(),
        }],
        original: Some(OriginalMessage {
            number: MessageNumber(7),
            relation: Relation::Forward,
        }),
        ..DraftContent::default()
    };
    let stored = stored(&content, &[]);
    assert_eq!(
        stored.id,
        DraftId::of_message_id("<1@x.example>").to_string()
    );
    assert_eq!(stored.from, [content.from.clone().unwrap()]);
    assert_eq!(stored.subject, content.subject);
    assert_eq!(stored.in_reply_to, content.in_reply_to);
    assert_eq!(stored.references, content.references);
    let headers = stored.headers.iter();
    let headers: Vec<_> = headers.map(|one| (&*one.name, &*one.value)).collect();
    assert_eq!(headers, [("X-Kind", "\u{e4} b")]);
    let message = written(&content, &[]);
    assert_eq!(original::of_header(&message), content.original);
}

#[test]
fn values_that_no_message_can_contain_are_refused() {
    let with = |change: fn(&mut DraftContent)| {
        let mut content = DraftContent::default();
        change(&mut content);
        content.check()
    };
    assert!(with(|_| ()).is_ok());
    assert!(with(|content| content.subject = "a\r\nBcc: x".into()).is_err());
    assert!(with(|content| content.to = vec![unfinished("a\nb")]).is_err());
    assert!(with(|content| content.references = vec!["a\nb".into()]).is_err());
    assert!(with(|content| content.to = vec![unfinished("a"); 501]).is_err());
    assert!(with(|content| content.subject = "x".repeat(50_000)).is_err());
    for name in ["Bcc", "X-Latchmail-Draft-Id", "X-Mozilla-Status", "X-A:b"] {
        let content = DraftContent {
            headers: vec![HeaderField {
                name: name.into(),
                value: "x".into(),
            }],
            ..DraftContent::default()
        };
        assert!(content.check().is_err(), "{name}");
    }
}

/// The fields of a draft with a sender and a recipient.
const NAMES: [&str; 8] = [
    "Date",
    "From",
    "To",
    "Message-ID",
    "MIME-Version",
    "Content-Type",
    "Content-Transfer-Encoding",
    "X-Latchmail-Draft-Id",
];

proptest! {
    #[test]
    fn no_address_adds_a_header_field(text in "\\PC{0,60}", name in "\\PC{0,20}") {
        let address = Address { name, address: text };
        let content = DraftContent {
            from: Some(address.clone()),
            to: vec![address],
            ..DraftContent::default()
        };
        if content.check().is_ok() {
            let message = written(&content, &[]);
            let (head, _) = latchmail_mime::split(&message);
            let fields = latchmail_mime::Fields::of(head, None).fields;
            prop_assert!(fields.iter().all(|field| NAMES.contains(&&*field.name)), "{fields:?}");
        }
    }
}
