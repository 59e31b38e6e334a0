//! Compares replies and forwards with expectations that were written by hand. `tests/threads` has
//! the messages, and `README.md` in that folder describes the format.
#![allow(missing_docs, clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use std::fmt::Write as _;
use std::path::Path;

use latchmail_compose::{
    Account, Address, Composed, File, Locale, Mode, Original, OwnAddress, Source, compose,
};

/// The account of all cases: Ada with active aliases and an alias from which she may not send.
fn account() -> Account {
    let own = |address: &str, may_send| OwnAddress {
        address: address.to_owned(),
        may_send,
    };
    Account {
        address: "ada@example.org".into(),
        addresses: vec![
            own("ada@example.org", true),
            own("shop@example.org", true),
            own("old@example.org", false),
            own("ada@bücher.example", true),
        ],
    }
}

/// A message with the expected replies and forwards.
#[derive(Debug)]
struct Case {
    title: String,
    message: Vec<u8>,
    expected: Vec<Expected>,
}

/// The expected values of a message in a mode. A value that a case does not have is the usual
/// value.
#[derive(Debug)]
struct Expected {
    mode: String,
    values: Vec<(String, String)>,
}

/// Replaces `\xNN` with a byte.
fn unescaped(line: &str) -> Vec<u8> {
    let mut parts = line.split("\\x");
    let mut bytes = parts.next().unwrap_or_default().as_bytes().to_vec();
    for part in parts {
        bytes.push(u8::from_str_radix(&part[..2], 16).expect("two hexadecimal digits"));
        bytes.extend_from_slice(&part.as_bytes()[2..]);
    }
    bytes
}

fn cases(text: &str) -> Vec<Case> {
    let mut cases: Vec<Case> = Vec::new();
    for line in text.lines() {
        if let Some(title) = line.strip_prefix("=== ") {
            cases.push(Case {
                title: title.to_owned(),
                message: Vec::new(),
                expected: Vec::new(),
            });
            continue;
        }
        let Some(case) = cases.last_mut() else {
            // Comments precede the first case.
            continue;
        };
        if let Some(mode) = line.strip_prefix("--- ") {
            case.expected.push(Expected {
                mode: mode.to_owned(),
                values: Vec::new(),
            });
        } else if let Some(expected) = case.expected.last_mut() {
            if let Some(more) = line.strip_prefix('|') {
                let (_, value) = expected.values.last_mut().expect("a field precedes");
                let more = more.strip_prefix(' ').unwrap_or(more);
                value.push_str(std::str::from_utf8(&unescaped(more)).unwrap());
                value.push('\n');
            } else if !line.is_empty() {
                let (name, value) = line.split_once(':').expect("a field and its value");
                expected
                    .values
                    .push((name.to_owned(), value.trim().to_owned()));
            }
        } else {
            case.message.extend(unescaped(line));
            case.message.extend_from_slice(b"\r\n");
        }
    }
    cases
}

fn list(addresses: &[Address]) -> String {
    let written = addresses.iter().map(|one| match one.name.as_str() {
        "" => one.address.clone(),
        name => format!("{name} <{}>", one.address),
    });
    written.collect::<Vec<_>>().join(", ")
}

/// Returns files in a short form: the index or `message`, the Content-ID, and `inline`.
fn files(files: &[File]) -> String {
    let written = files.iter().map(|file| {
        let mut written = match file.source {
            Source::Attachment(index) => index.to_string(),
            Source::Message => "message".to_owned(),
        };
        if let Some(id) = &file.content_id {
            let _ = write!(written, " <{id}>");
        }
        if file.inline {
            written.push_str(" inline");
        }
        written
    });
    written.collect::<Vec<_>>().join(", ")
}

/// Returns the value of a field. The second value is the usual value of the field, if a case need
/// not name it.
fn value(composed: &Composed, name: &str) -> String {
    match name {
        "from" => composed.from.clone(),
        "to" => list(&composed.to),
        "cc" => list(&composed.cc),
        "subject" => composed.subject.clone(),
        "in-reply-to" => composed.in_reply_to.clone().unwrap_or_default(),
        "references" => composed.references.join(" "),
        "files" => files(&composed.files),
        "text" => composed.text.clone().unwrap_or_default(),
        "html" => composed.html.clone().unwrap_or_default(),
        other => panic!("there is no field {other}"),
    }
}

/// Returns the differences between the composed message and its expected values.
fn differences(case: &Case, expected: &Expected) -> Vec<String> {
    let (mode, locale) = expected
        .mode
        .split_once(' ')
        .unwrap_or((&expected.mode, ""));
    let kind = match mode {
        "reply" => Mode::Reply,
        "reply-all" => Mode::ReplyAll,
        "forward" => Mode::Forward,
        "forward-as-attachment" => Mode::ForwardAsAttachment,
        other => panic!("{}: there is no mode {other}", case.title),
    };
    let original = Original::parse(&case.message);
    let composed = compose(&original, &account(), kind, Locale::of(locale));
    let is_reply = mode.starts_with("reply");
    let usual = [
        ("from", "ada@example.org"),
        ("to", if is_reply { "Bo <bo@b.example>" } else { "" }),
        ("cc", ""),
        ("subject", if is_reply { "Re: Plan" } else { "Fwd: Plan" }),
        ("in-reply-to", if is_reply { "<m@b.example>" } else { "" }),
        ("references", "<m@b.example>"),
        (
            "files",
            if mode == "forward-as-attachment" {
                "message"
            } else {
                ""
            },
        ),
    ];
    let mut values: Vec<(&str, String)> = Vec::new();
    for (name, usual) in usual {
        let is_given = expected.values.iter().any(|(given, _)| given == name);
        if !is_given {
            values.push((name, usual.to_owned()));
        }
    }
    for (name, value) in &expected.values {
        values.push((name, value.clone()));
    }
    let differing = values.into_iter().filter_map(|(name, expected)| {
        let actual = value(&composed, name);
        // The HTML of a case is on several lines.
        let is_html = name == "html";
        let without_breaks = |text: &str| text.replace(['\r', '\n'], "");
        let is_equal = if is_html {
            without_breaks(&actual) == without_breaks(&expected)
        } else {
            actual == expected
        };
        (!is_equal).then(|| {
            format!(
                "{} ({mode}): {name}\n  expected: {expected:?}\n  actual:   {actual:?}",
                case.title
            )
        })
    });
    differing.collect()
}

#[test]
fn replies_and_forwards_are_as_expected() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/threads");
    let mut all = Vec::new();
    let mut count = 0;
    for entry in folder.read_dir().unwrap() {
        let path = entry.unwrap().path();
        if path.extension().is_none_or(|extension| extension != "txt") {
            continue;
        }
        for case in cases(&std::fs::read_to_string(&path).unwrap()) {
            assert!(
                !case.expected.is_empty(),
                "{} has no expectation",
                case.title
            );
            count += 1;
            for expected in &case.expected {
                all.extend(differences(&case, expected));
            }
        }
    }
    assert!(
        all.is_empty(),
        "{} differences\n{}",
        all.len(),
        all.join("\n")
    );
    assert!(count >= 200, "{count} cases");
}
