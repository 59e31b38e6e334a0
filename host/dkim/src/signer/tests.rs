//! Tests the format of the header field. `tests/tests/service/directory/dkim.rs` tests that other
//! implementations verify the signature.

use std::sync::LazyLock;

use super::*;
use crate::KeyPair;

static PAIR: LazyLock<KeyPair> = LazyLock::new(|| KeyPair::generate_blocking().unwrap());

fn signed(message: &str) -> String {
    let signer = Signer::from_pkcs8("ada.example", "s1", PAIR.private_key()).unwrap();
    let field = signer.sign(
        message.as_bytes(),
        Timestamp::from_millis(1_700_000_000_999),
    );
    field.unwrap()
}

/// Returns the value of a tag without white space.
fn tag(field: &str, name: &str) -> String {
    let value = field.split_once(':').unwrap().1;
    let value = value.split(';').find_map(|tag| {
        let (found, value) = tag.split_once('=')?;
        (found.trim() == name).then_some(value)
    });
    value.unwrap_or_default().split_ascii_whitespace().collect()
}

#[test]
fn a_signature_names_domain_selector_and_time_and_no_length() {
    let field = signed("From: a@ada.example\r\nTo: b@b.example\r\nX: y\r\n\r\nHello\r\n");
    assert!(field.starts_with("DKIM-Signature: v=1;") && field.ends_with("\r\n"));
    let expected = [
        ("a", "rsa-sha256"),
        ("c", "relaxed/relaxed"),
        ("d", "ada.example"),
        ("s", "s1"),
        ("t", "1700000000"),
        ("l", ""),
        ("x", ""),
    ];
    for (name, value) in expected {
        assert_eq!(tag(&field, name), value, "{name}");
    }
    assert_eq!(STANDARD.decode(tag(&field, "b")).unwrap().len(), 256);
    let hash = STANDARD.encode(ring::digest::digest(&SHA256, b"Hello\r\n"));
    assert_eq!(tag(&field, "bh"), hash);
}

#[test]
fn every_field_is_listed_one_time_more_than_the_message_contains_it() {
    let field = signed(
        "From: a@ada.example\r\nsubject : one\r\nSUBJECT: two\r\n three\r\nReceived: x\r\n\r\n",
    );
    let names = tag(&field, "h");
    let count = |name: &str| names.split(':').filter(|found| *found == name).count();
    assert_eq!(
        (
            count("From"),
            count("Subject"),
            count("To"),
            count("Received")
        ),
        (2, 3, 1, 0),
        "{names}"
    );
}

#[test]
fn every_line_of_the_field_is_short() {
    let many = "To: b@b.example\r\n".repeat(50);
    let field = signed(&format!("From: a@ada.example\r\n{many}\r\n"));
    assert!(field.lines().all(|line| line.len() <= 78), "{field}");
    let folded = field.trim_end().split("\r\n").skip(1);
    assert!(folded.into_iter().all(|line| line.starts_with('\t')));
}

#[test]
fn an_invalid_key_is_rejected_and_not_shown() {
    for key in [&b"secret"[..], &[]] {
        let error = Signer::from_pkcs8("ada.example", "s", key).unwrap_err();
        let message = error.to_string();
        assert!(message.contains("ada.example") && !message.contains("secret"));
    }
}
