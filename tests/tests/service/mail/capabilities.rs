//! A mail server that lacks IMAP extensions. The setting `imap_capability` of Dovecot sets the
//! offered extensions.

use latchmail_tests::{Log, Service};

const MESSAGE: &str = "From: a@outside.test\nTo: x@first.test\nSubject: one\n\nbody\n";

#[tokio::test]
async fn a_required_extension_that_is_missing_is_logged_once() {
    let log = Log::capture();
    let mut service = Service::with_own_mail().await;
    let local = service.state.join("mail/dovecot/local.conf");
    let settings = std::fs::read_to_string(&local).unwrap();
    let few = "imap_capability = IMAP4rev1 SASL-IR LITERAL+ UNSELECT";
    std::fs::write(&local, format!("{settings}\n{few}\n")).unwrap();
    service.stack().restart_imap().await.unwrap();
    assert_eq!(log.lines_with("does not offer"), [""; 0], "before a login");
    let (ada, bob) = (service.person("ada").await, service.person("bob").await);
    ada.receive(MESSAGE).await;
    assert_eq!(ada.total("INBOX").await, 1);
    assert_eq!(bob.total("INBOX").await, 0);
    let warnings = log.lines_with("does not offer");
    let about = |what: &str| warnings.iter().filter(|line| line.contains(what)).count();
    assert_eq!(about("MOVE (RFC 6851): messages cannot be moved"), 1);
    assert_eq!(about("UIDPLUS (RFC 4315)"), 1);
    assert_eq!(warnings.len(), 2, "{warnings:?}");
    let messages = ada.messages("INBOX").await;
    let number = messages[0]["uid"].as_u64().unwrap();
    let delete = format!("DELETE /api/v1/mail/messages/{number}");
    ada.send(&delete)
        .await
        .fails(500, "The operation could not be completed");
}
