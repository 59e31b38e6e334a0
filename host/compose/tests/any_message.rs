//! Properties of replies to any message.
#![allow(missing_docs, clippy::unwrap_used)]

use std::time::{Duration, Instant};

use latchmail_compose::{
    Account, Composed, Locale, MAX_QUOTATION, Mode, Original, OwnAddress, compose,
};
use proptest::prelude::*;

const MODES: [Mode; 4] = [
    Mode::Reply,
    Mode::ReplyAll,
    Mode::Forward,
    Mode::ForwardAsAttachment,
];

fn account() -> Account {
    let mut account = Account::of("ada@a.example");
    account.addresses.push(OwnAddress {
        address: "shop@a.example".into(),
        may_send: false,
    });
    account
}

/// Pieces of messages. A random sequence of them has most structures.
fn message() -> impl Strategy<Value = Vec<u8>> {
    let piece = prop::sample::select(vec![
        "From: ",
        "To: ",
        "Cc: ",
        "Reply-To: ",
        "Subject: ",
        "References: ",
        "Message-ID: ",
        "In-Reply-To: ",
        "Date: ",
        "List-Post: ",
        "Mail-Followup-To: ",
        "Delivered-To: ",
        "Content-Type: text/plain; format=flowed; delsp=yes",
        "Content-Type: text/html",
        "Content-Type: multipart/mixed; boundary=b",
        "Content-ID: <i>",
        "\r\n",
        "\r\n\r\n",
        "\r\n ",
        "--b\r\n",
        "--b--\r\n",
        "Bo <bo@b.example>",
        "ada@a.example",
        "shop@a.example",
        ", ",
        "<1@x>",
        "<2@x> ",
        "Re: ",
        "[list] ",
        "AW: ",
        "Plan",
        "-- \r\n",
        "> ",
        ">> ",
        "<p>",
        "<b title='\"'>",
        "<script>",
        "</div>",
        "<img src=\"cid:i\">",
        "Fri, 20 Nov 2026 09:00:00 +0100",
        "\u{fc}",
        "=?utf-8?Q?=0A?=",
        "<mailto:list@x.example>",
        "undisclosed-recipients:;",
        "\0",
        "\t",
    ]);
    prop::collection::vec(piece, 0..60).prop_map(|pieces| pieces.concat().into_bytes())
}

fn check(composed: &Composed, mode: Mode) {
    let is_reply = matches!(mode, Mode::Reply | Mode::ReplyAll);
    assert!(composed.from == "ada@a.example");
    assert!(
        composed
            .subject
            .starts_with(if is_reply { "Re:" } else { "Fwd:" })
    );
    assert!(!composed.subject.contains(char::is_control));
    let all: Vec<_> = composed.to.iter().chain(&composed.cc).collect();
    for (index, one) in all.iter().enumerate() {
        assert!(one.address.contains('@') && !one.name.contains(char::is_control));
        let is_same =
            |other: &&&latchmail_compose::Address| other.address.eq_ignore_ascii_case(&one.address);
        assert_eq!(all[index..].iter().filter(is_same).count(), 1, "{all:?}");
    }
    // An own address is a recipient only if there is no other.
    let own = all
        .iter()
        .filter(|one| one.address.ends_with("@a.example"))
        .count();
    assert!(own == 0 || own == all.len(), "{all:?}");
    assert!(is_reply || all.is_empty());
    for id in composed.references.iter().chain(&composed.in_reply_to) {
        let inner = id
            .strip_prefix('<')
            .and_then(|id| id.strip_suffix('>'))
            .unwrap();
        assert!(
            inner
                .bytes()
                .all(|b| b.is_ascii_graphic() && b != b'<' && b != b'>')
        );
    }
    let html = composed.html.as_deref().unwrap_or_default();
    assert!(!html.contains("<script"));
    for file in &composed.files {
        let id = file.content_id.as_deref();
        assert!(id.is_none_or(|id| id.bytes().all(|b| b.is_ascii_graphic())));
    }
    if let (Some(text), true) = (&composed.text, is_reply) {
        let quoted = text.lines().filter(|line| line.starts_with('>')).count();
        assert!(quoted >= text.lines().count().saturating_sub(1), "{text}");
    }
}

proptest! {
    #[test]
    fn any_message_has_a_valid_reply_and_forward(message in message()) {
        let original = Original::parse(&message);
        for mode in MODES {
            check(&compose(&original, &account(), mode, Locale::French), mode);
        }
    }

    #[test]
    fn any_bytes_have_a_reply(message in prop::collection::vec(any::<u8>(), 0..500)) {
        let original = Original::parse(&message);
        for mode in MODES {
            check(&compose(&original, &account(), mode, Locale::English), mode);
        }
    }
}

#[test]
fn the_quotation_of_a_large_message_is_bounded() {
    let begun = Instant::now();
    for body in [
        "\r\n".repeat(600_000),
        ">".repeat(1_100_000),
        "a \r\n".repeat(10_000),
        "-- \r\n> \r\n".repeat(5_000),
    ] {
        for kind in ["text/plain; format=flowed", "text/html"] {
            let message = format!("From: bo@b.example\r\nContent-Type: {kind}\r\n\r\n{body}");
            let original = Original::parse(message.as_bytes());
            for mode in [Mode::Reply, Mode::Forward] {
                let composed = compose(&original, &account(), mode, Locale::English);
                for text in [composed.text, composed.html].into_iter().flatten() {
                    assert!(text.len() <= MAX_QUOTATION + 1000);
                }
            }
        }
    }
    assert!(
        begun.elapsed() < Duration::from_mins(1),
        "{:?}",
        begun.elapsed()
    );
}
