//! Tests the form of the header field. `tests/tests/dkim.rs` tests that other implementations verify it.

use std::sync::LazyLock;

use super::*;
use crate::KeyPair;

static PAIR: LazyLock<KeyPair> = LazyLock::new(|| KeyPair::generate_here().unwrap());

fn signed(message: &str) -> String {
    let signer = Signer::from_pkcs8("ada.example", "s1", PAIR.private_key()).unwrap();
    let field = signer.sign(
        message.as_bytes(),
        Timestamp::from_millis(1_700_000_000_999),
    );
    field.unwrap()
}

/// Returns a tag's value without folding white space.
fn tag(field: &str, name: &str) -> String {
    let value = field.split_once(':').unwrap().1;
    let value = value.split(';').find_map(|tag| {
        let (found, value) = tag.split_once('=')?;
        (found.trim() == name).then_some(value)
    });
    value.unwrap_or_default().split_ascii_whitespace().collect()
}

#[test]
fn a_signature_says_who_signed_what_and_when_and_no_length() {
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
fn every_field_is_signed_once_more_than_it_is_there() {
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
fn no_line_of_the_field_is_long() {
    let many = "To: b@b.example\r\n".repeat(50);
    let field = signed(&format!("From: a@ada.example\r\n{many}\r\n"));
    assert!(field.lines().all(|line| line.len() <= 78), "{field}");
    let folded = field.trim_end().split("\r\n").skip(1);
    assert!(folded.into_iter().all(|line| line.starts_with('\t')));
}

#[test]
fn a_key_that_is_too_short_or_none_at_all_is_refused_without_being_quoted() {
    for key in [&b"secret"[..], &[]] {
        let refused = Signer::from_pkcs8("ada.example", "s", key).unwrap_err();
        let sentence = refused.to_string();
        assert!(sentence.contains("ada.example") && !sentence.contains("secret"));
    }
}
