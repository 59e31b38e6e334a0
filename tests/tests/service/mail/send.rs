//! Sending.
//!
//! The tests read arrived messages over IMAP, and through the API.

mod addresses;
mod answered;
mod attachments;
mod delivery;
mod delivery_states;
mod fields;
mod hostile;
pub(crate) mod later;
mod memory;
mod outage;
mod refusals;
mod replies;
mod sources;

use std::collections::BTreeSet;
use std::time::Duration;

use latchmail_tests::{
    Imap, Person, Response, Service, StoredMessage, TEST_TIMEOUT, contains_file, stored_messages,
};
use serde_json::{Value, json};
use tokio::time::{sleep, timeout};

pub(crate) const SEND: &str = "/api/v1/mail/send";
pub(crate) const POLL: Duration = Duration::from_millis(20);

/// Returns a small mail from Ada to Bob.
pub(crate) fn mail(subject: &str) -> Value {
    json!({
        "from": "ada@first.test",
        "to": "bob@first.test",
        "subject": subject,
        "text": format!("This is {subject}."),
    })
}

/// Returns the mail with another value in one field.
pub(crate) fn with(mut mail: Value, field: &str, value: impl Into<Value>) -> Value {
    mail[field] = value.into();
    mail
}

/// Returns the mail without a field.
fn without(mut mail: Value, field: &str) -> Value {
    mail.as_object_mut().unwrap().remove(field);
    mail
}

/// Sends a mail, which must succeed.
pub(crate) async fn send_mail(person: &Person<'_>, mail: &Value) -> Value {
    person.post(SEND, mail).await.succeeds(200)
}

/// Waits for a sent mail, and returns it as the recipient's API does.
pub(crate) async fn wait_for_mail(person: &Person<'_>, sent: &Value) -> Value {
    let comes = async {
        loop {
            for uid in person.uids("INBOX").await.into_iter().take(5) {
                let message = person.message(uid).await;
                if message["messageId"] == sent["messageId"] {
                    return message;
                }
            }
            sleep(POLL).await;
        }
    };
    let received = timeout(TEST_TIMEOUT, comes).await;
    received.unwrap_or_else(|_| panic!("{sent} never came to {}", person.address))
}

/// Waits for a sent mail in a folder, and returns it as it is stored.
async fn found(client: &mut Imap, folder: &str, sent: &Value) -> StoredMessage {
    let id = sent["messageId"].as_str().unwrap();
    let mut messages = stored_messages(client, folder).await;
    messages.retain(|message| message.header("message-id").as_deref() == Some(id));
    assert_eq!(messages.len(), 1, "{id} in {folder}");
    messages.remove(0)
}

/// Sends one more mail, waits until all mail has been delivered, and returns the sorted subjects of
/// all others that the recipient has.
pub(crate) async fn received_subjects(from: &Person<'_>, to: &Person<'_>) -> Vec<String> {
    let last = with(mail("the last one"), "to", to.address.as_str());
    let last = with(last, "from", from.address.as_str());
    wait_for_mail(to, &send_mail(from, &last).await).await;
    // An accepted mail stays in Postfix's queue until it is delivered.
    let queue = &from.service.mail().queue;
    let empty = async {
        while ["maildrop", "incoming", "active", "deferred"]
            .iter()
            .any(|name| contains_file(&queue.join(name)))
        {
            sleep(POLL).await;
        }
    };
    let emptied = timeout(TEST_TIMEOUT, empty).await;
    emptied.expect("all mail is delivered");
    let messages = to.messages("INBOX").await;
    let subjects = messages
        .iter()
        .map(|m| m["subject"].as_str().unwrap().to_owned());
    let mut others: Vec<String> = subjects.filter(|s| s != "the last one").collect();
    others.sort();
    others
}

/// Returns the message without the fields that mail servers added before it.
fn without_trace_fields(message: &[u8]) -> &[u8] {
    const TRACES: [&str; 4] = [
        "return-path:",
        "delivered-to:",
        "authentication-results:",
        "received:",
    ];
    let mut rest = message;
    let mut of_a_trace = false;
    while let Some(end) = rest.iter().position(|byte| *byte == b'\n') {
        let (line, after) = rest.split_at(end + 1);
        let lower = String::from_utf8_lossy(line).to_lowercase();
        let folded = lower.starts_with([' ', '\t']);
        of_a_trace = TRACES.iter().any(|trace| lower.starts_with(trace)) || (of_a_trace && folded);
        if !of_a_trace {
            break;
        }
        rest = after;
    }
    rest
}

/// Asserts that any mail server can transfer a message: lines of at most 998 bytes that end in CR
/// LF, no NUL, a header in ASCII.
#[track_caller]
fn assert_well_formed(message: &StoredMessage) {
    let text = without_trace_fields(&message.bytes);
    for line in text.split_inclusive(|byte| *byte == b'\n') {
        let shown = String::from_utf8_lossy(line);
        let line = line.strip_suffix(b"\r\n");
        let line = line.unwrap_or_else(|| panic!("no CR LF: {shown:?}"));
        assert!(line.len() <= 998, "{} bytes: {shown:?}", line.len());
        assert!(!line.iter().any(|byte| b"\r\0".contains(byte)), "{shown:?}");
    }
    let end = text.windows(4).position(|four| four == b"\r\n\r\n");
    assert!(text[..end.expect("a header")].is_ascii());
}

/// Returns the recipients of mail to other servers, when there are `count` of them.
async fn mail_to_other_servers(service: &Service, count: usize) -> BTreeSet<String> {
    let leave = async {
        loop {
            let mails = sink_messages(service);
            let lines = mails.iter().flat_map(|mail| mail.lines());
            let recipients: BTreeSet<String> = lines
                .filter_map(|line| line.strip_prefix("X-Rcpt-Args: <")?.split_once('>'))
                .map(|(address, _)| address.to_owned())
                .collect();
            if recipients.len() >= count {
                return recipients;
            }
            sleep(POLL).await;
        }
    };
    let left = timeout(TEST_TIMEOUT, leave).await;
    left.expect("the mail is sent")
}

/// Returns the mail to other servers, one text per transaction.
pub(crate) fn sink_messages(service: &Service) -> Vec<String> {
    let files = std::fs::read_dir(&service.mail().sink).unwrap();
    let mails = files.map(|file| std::fs::read(file.unwrap().path()).unwrap());
    mails
        .map(|mail| String::from_utf8_lossy(&mail).into_owned())
        .collect()
}

/// Asserts a refusal with a reason.
#[track_caller]
pub(crate) fn refused(response: &Response, status: u16, of: impl std::fmt::Debug) {
    let text = response.json["error"].as_str().unwrap_or_default();
    assert!(
        response.status == status && !text.is_empty(),
        "{of:?}: {} {}",
        response.status,
        response.json
    );
}

/// Asserts a 400 whose text contains the field's name as a word.
#[track_caller]
fn names(response: &Response, field: &str, given: &Value) {
    let text = response.json["error"].as_str().unwrap_or_default();
    let mut words = text.split(|c: char| !c.is_ascii_alphanumeric());
    assert!(
        response.status == 400 && words.any(|word| word == field),
        "{field}: {given}: {} {}",
        response.status,
        response.json
    );
}
