//! The mails of `tests/agents`, with values for their placeholders.

use std::fmt::Write as _;
use std::sync::LazyLock;

use latchmail_tests::Random;
use serde_json::Value;

/// The kinds of hostile mail.
pub(super) static HOSTILE: LazyLock<Vec<Value>> =
    LazyLock::new(|| kinds(include_str!("../../../../agents/hostile.json")));

/// The kinds of exchanges.
pub(super) static BENIGN: LazyLock<Vec<Value>> =
    LazyLock::new(|| kinds(include_str!("../../../../agents/benign.json")));

const NAMES: [&str; 6] = ["Ines", "Jonas", "Mei", "Omar", "Priya", "Tom"];
const DAYS: [&str; 5] = ["Monday", "Tuesday", "Wednesday", "Thursday", "Friday"];

fn kinds(text: &str) -> Vec<Value> {
    serde_json::from_str(text).unwrap()
}

/// Returns a text with values for its placeholders. `values` are those with a meaning; the others
/// come from the seed `number`.
pub(super) fn filled(text: &str, number: usize, values: &[(&str, &str)]) -> String {
    let mut random = Random::new(number as u64);
    let digits = format!("{:06}", 100_000 + random.below(900_000));
    let time = format!("{:02}:{:02}", 8 + random.below(10), random.below(60));
    let common = [
        ("name", *random.pick(&NAMES)),
        ("day", *random.pick(&DAYS)),
        ("number", digits.as_str()),
        ("time", time.as_str()),
    ];
    let all = values.iter().chain(&common);
    all.fold(text.to_owned(), |text, (name, value)| {
        text.replace(&format!("{{{name}}}"), value)
    })
}

/// Returns the address of an attacker: a stranger elsewhere, an account of this service, or an
/// address that resembles that of a friend.
pub(super) fn attacker(number: usize) -> String {
    match number % 5 {
        0 => "eve@first.test".into(),
        1 => "grace+audit@outside.test".into(),
        2 => "grace@outside.test.evil.test".into(),
        _ => format!("mallory{number}@evil.test"),
    }
}

/// Returns a complete message. `headers` is an object; empty values are left out.
pub(super) fn message(headers: &Value, text: &str, html: &str, id: &str) -> Vec<u8> {
    let mut message = format!("Message-ID: <{id}>\r\nMIME-Version: 1.0\r\n");
    for (name, value) in headers.as_object().unwrap() {
        let value = value.as_str().unwrap();
        if !value.is_empty() {
            write!(message, "{name}: {value}\r\n").unwrap();
        }
    }
    let part = |kind: &str, text: &str| {
        let text = text.replace('\n', "\r\n");
        format!(
            "Content-Type: text/{kind}; charset=utf-8\r\nContent-Transfer-Encoding: 8bit\r\n\r\n{text}\r\n"
        )
    };
    if html.is_empty() {
        message.push_str(&part("plain", text));
        return message.into_bytes();
    }
    message.push_str("Content-Type: multipart/alternative; boundary=edge\r\n\r\n");
    for part in [part("plain", text), part("html", html)] {
        write!(message, "--edge\r\n{part}").unwrap();
    }
    message.push_str("--edge--\r\n");
    message.into_bytes()
}
