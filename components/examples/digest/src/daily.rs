//! The daily digest: a timer mails the new messages to the owner of the mailbox.
//!
//! A call that a failure of the host interrupts is repeated. So the module stores which messages
//! the digest covers before it sends the mail, and the mail has an idempotency key.

use latchmail_sdk::Outcome;
use latchmail_sdk::capability::{
    Address, Caller, Draft, Error, Header, Mailbox, Outbox, SendError, SendOptions, Store,
};
use latchmail_sdk::stored;
use serde::{Deserialize, Serialize};

use crate::digest::{Digest, DigestMessage, digest};
use crate::mark;

/// The key of the progress in the store.
const KEY: &str = "daily";

/// The progress of the daily digests.
#[derive(Default, Serialize, Deserialize)]
struct Progress {
    /// The number of the newest message of all sent digests.
    sent: u64,
    /// The number of the newest message of a digest that is being sent.
    sending: Option<u64>,
}

/// Mails the messages that arrived after the last digest and after the mark. Sends nothing if there
/// are none.
pub(crate) fn send_digest(host: &(impl Caller + Mailbox + Outbox + Store)) -> Outcome {
    match send_new(host) {
        Ok(()) => Outcome::Done,
        Err(error) => error.into(),
    }
}

fn send_new(host: &(impl Caller + Mailbox + Outbox + Store)) -> Result<(), Error> {
    let progress: Progress = stored::read(host, KEY)?.unwrap_or_default();
    let since = progress.sent.max(mark::read(host)?);
    let digest = digest(host, since, progress.sending.unwrap_or(u64::MAX))?;
    let sent = digest.upto.max(progress.sending.unwrap_or_default());
    if !digest.messages.is_empty() {
        let sending = Progress {
            sending: Some(sent),
            ..progress
        };
        stored::write(host, KEY, &sending)?;
        send(host, &digest, format!("daily-digest-{sent}"))?;
    }
    let sending = None;
    stored::write(host, KEY, &Progress { sent, sending })
}

fn send(host: &(impl Caller + Outbox), digest: &Digest, key: String) -> Result<(), Error> {
    let owner = Address {
        name: String::new(),
        address: host.current().address,
    };
    let draft = Draft {
        from: Some(owner.clone()),
        to: vec![owner],
        cc: Vec::new(),
        bcc: Vec::new(),
        reply_to: Vec::new(),
        subject: format!("New messages: {}", digest.messages.len() + digest.more),
        text: Some(text(digest)),
        html: None,
        in_reply_to: None,
        references: Vec::new(),
        // No program answers such a message (RFC 3834).
        headers: vec![Header {
            name: "Auto-Submitted".into(),
            value: "auto-generated".into(),
        }],
        files: Vec::new(),
        original: None,
    };
    let options = SendOptions {
        key: Some(key),
        send_at: None,
        undo_seconds: None,
    };
    match host.send(draft, &options) {
        // An interrupted call has sent a digest with this key, or may have sent it. If messages
        // were read since then, the text is another one, which is a conflict.
        Ok(_) | Err(SendError::Failed(Error::Conflict(_) | Error::OutcomeUnknown)) => Ok(()),
        Err(SendError::Failed(error)) => Err(error),
        // The draft has no files.
        Err(SendError::FileNotFound(_)) => Err(Error::Internal),
    }
}

/// Returns the text of the mail.
fn text(digest: &Digest) -> String {
    let mut entries: Vec<String> = digest.messages.iter().map(entry).collect();
    if digest.more > 0 {
        entries.push(format!("Messages that are not listed: {}", digest.more));
    }
    entries.join("\n\n")
}

fn entry(message: &DigestMessage) -> String {
    let DigestMessage {
        folder,
        from,
        subject,
        date,
        preview,
        ..
    } = message;
    format!("{from}: {subject}\n{date}, in {folder}\n{preview}")
}

#[cfg(test)]
mod tests {
    use latchmail_sdk::capability::{FlagAction, Scope};
    use latchmail_sdk::codes;
    use latchmail_sdk::testing::{FakeHost, Letter, use_handler};

    use super::*;

    /// Returns a host whose caller is the handler.
    fn host() -> FakeHost {
        let host = FakeHost::new();
        use_handler(&host, &[Scope::MailRead, Scope::MailSend]);
        host
    }

    fn run(host: &FakeHost) -> Outcome {
        crate::handlers().handle_timer(host, "daily")
    }

    fn deliver(host: &FakeHost, subject: &str) -> u64 {
        let letter = Letter::from("Grace <grace@example.org>").subject(subject);
        host.deliver(letter.text("Are you\ncoming?"))
    }

    /// Returns the texts of the sent digests.
    fn texts(host: &FakeHost) -> Vec<String> {
        let sent = host.sent();
        let texts = sent.iter().map(|sent| sent.draft.text.clone());
        texts.map(Option::unwrap_or_default).collect()
    }

    fn mark_read(host: &FakeHost, uid: u64) {
        host.sign_in("ada@example.test");
        host.set_flags(&[uid], &["\\Seen".into()], FlagAction::Add, None)
            .unwrap();
        use_handler(host, &[Scope::MailRead, Scope::MailSend]);
    }

    #[test]
    fn a_digest_lists_the_new_messages_and_goes_to_the_owner() {
        let host = host();
        deliver(&host, "Lunch");
        assert_eq!(run(&host), Outcome::Done);
        let sent = host.sent();
        let draft = &sent[0].draft;
        assert_eq!(draft.to[0].address, "ada@example.test");
        assert_eq!(draft.subject, "New messages: 1");
        assert_eq!(draft.headers[0].name, "Auto-Submitted");
        let text = "Grace: Lunch\n2026-11-20T08:00:00.000Z, in INBOX\nAre you coming?";
        assert_eq!(texts(&host), [text]);
    }

    #[test]
    fn a_message_is_in_one_digest_and_no_digest_is_empty() {
        let host = host();
        assert_eq!(run(&host), Outcome::Done);
        assert!(host.sent().is_empty());
        for subject in ["first", "second"] {
            deliver(&host, subject);
            assert_eq!(run(&host), Outcome::Done);
            assert_eq!(run(&host), Outcome::Done);
        }
        let texts = texts(&host);
        assert_eq!(texts.len(), 2);
        assert!(texts[0].contains("first") && !texts[1].contains("first"));
    }

    #[test]
    fn a_digest_contains_only_messages_after_the_mark() {
        let host = host();
        stored::write(&host, "mark", &serde_json::json!({ "upto": 1 })).unwrap();
        deliver(&host, "old");
        assert_eq!(run(&host), Outcome::Done);
        assert!(host.sent().is_empty());
    }

    #[test]
    fn a_digest_that_was_not_sent_is_tried_again_with_the_same_messages() {
        let host = host();
        deliver(&host, "first");
        host.fail_sending(Error::Unavailable);
        assert_eq!(run(&host), Outcome::Retry(60));
        deliver(&host, "second");
        assert_eq!(run(&host), Outcome::Retry(60));
        let progress: Progress = stored::read(&host, KEY).unwrap().unwrap();
        assert_eq!((progress.sent, progress.sending), (0, Some(1)));
        host.fail_sending(Error::conflict(codes::IDEMPOTENCY_KEY_REUSED, "Sent"));
        assert_eq!(run(&host), Outcome::Done);
        let progress: Progress = stored::read(&host, KEY).unwrap().unwrap();
        assert_eq!((progress.sent, progress.sending), (1, None));
    }

    #[test]
    fn an_interrupted_call_sends_no_second_digest() {
        let host = host();
        let first = deliver(&host, "first");
        deliver(&host, "second");
        assert_eq!(run(&host), Outcome::Done);
        // The state before the end of the call.
        let interrupted = Progress {
            sent: 0,
            sending: Some(2),
        };
        stored::write(&host, KEY, &interrupted).unwrap();
        mark_read(&host, first);
        deliver(&host, "third");
        assert_eq!(run(&host), Outcome::Done);
        assert_eq!(host.sent().len(), 1);
        assert_eq!(run(&host), Outcome::Done);
        let texts = texts(&host);
        assert_eq!(texts.len(), 2);
        assert!(texts[1].contains("third") && !texts[1].contains("second"));
    }

    #[test]
    fn a_missing_scope_pauses_the_module() {
        let host = host();
        deliver(&host, "Lunch");
        use_handler(&host, &[Scope::MailRead]);
        assert!(matches!(run(&host), Outcome::Failed(text) if text.contains("mail:send")));
    }
}
