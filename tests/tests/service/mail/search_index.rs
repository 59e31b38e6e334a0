//! The search index: what a search finds, in which order, and what other clients did before it.
//!
//! `search.rs` has the tests of the route, and `sharing` those of members of a
//! shared mailbox.

mod credentials;
mod current;
mod files;
mod folders;
mod operators;
mod snippets;
mod words;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use latchmail_tests::{Imap, Person, imap};

/// Puts a message with this subject, these other fields and this body into a folder. Lines end with
/// a line feed.
async fn append(client: &mut Imap, folder: &str, subject: &str, fields: &str, body: &str) {
    let message = message(subject, fields, body);
    client.append(folder, None, None, message).await.unwrap();
}

/// Returns a message. The subject can be in any script.
fn message(subject: &str, fields: &str, body: &str) -> String {
    let subject = encoded_word(subject);
    format!("Subject: {subject}\n{fields}\n{body}\n").replace('\n', "\r\n")
}

/// Encodes a text for a header field (RFC 2047) if it is not ASCII.
fn encoded_word(text: &str) -> String {
    if text.is_ascii() {
        text.to_owned()
    } else {
        format!("=?utf-8?B?{}?=", STANDARD.encode(text))
    }
}

/// The fields of a text in UTF-8.
const TEXT: &str =
    "MIME-Version: 1.0\nContent-Type: text/plain; charset=utf-8\nContent-Transfer-Encoding: 8bit\n";

/// The fields of HTML in UTF-8.
const HTML: &str =
    "MIME-Version: 1.0\nContent-Type: text/html; charset=utf-8\nContent-Transfer-Encoding: 8bit\n";

/// Puts one message with each of these texts into the inbox of a person, and waits until the index
/// contains them. The subjects of the messages are `0`, `1`, ….
async fn indexed_texts(person: &Person<'_>, fields: &str, texts: &[&str]) -> Imap {
    let mut client = imap(person).await;
    for (number, text) in texts.iter().enumerate() {
        append(&mut client, "INBOX", &number.to_string(), fields, text).await;
    }
    person.wait_for_index().await;
    client
}

/// Asserts that a search in the inbox finds exactly the messages with these subjects.
async fn assert_found(person: &Person<'_>, query: &str, expected: &[&str]) {
    let mut found = person.found(query, "").await;
    found.sort();
    let mut expected = expected.to_vec();
    expected.sort_unstable();
    assert_eq!(found, expected, "{query}");
}
