//! The daily digest.

use std::time::Duration;

use latchmail_tests::{Person, Service, Setup, wait_until};

use super::{deliver, enable, settings};

const DAY: Duration = Duration::from_hours(24);

/// Waits until the service has stored the next due time of the only enabled mailbox.
async fn wait_for_due_time(service: &Service) {
    let rows = &service.app().directory.module_handlers;
    wait_until("the next due time is stored", async || {
        let running = rows.running().await.unwrap();
        let timers = rows.timers(&running[0].account, &running[0].module).await;
        let timers = timers.unwrap();
        !timers.is_empty() && timers.iter().all(|one| one.next_at() > service.clock.now())
    })
    .await;
}

/// Moves the clock to the next due time or beyond it, and signs in again, because the session has
/// expired.
async fn next_day<'a>(person: &Person<'a>) -> Person<'a> {
    let service = person.service;
    wait_for_due_time(service).await;
    service.clock.advance(DAY);
    service.app().jobs.wake();
    person.sign_in_again().await
}

async fn receive(person: &Person<'_>, subject: &str) {
    let header = format!("From: Eve <eve@outside.test>\nSubject: {subject}");
    deliver(person, &header).await;
    person.wait_for_message(subject).await;
}

/// Waits for the digest with this number of messages, and returns its text.
async fn digest_of(person: &Person<'_>, count: usize) -> String {
    let subject = format!("New messages: {count}");
    person.wait_for_message(&subject).await;
    let uid = person.uid_of("INBOX", &subject).await;
    let digest = person.message(uid).await;
    assert_eq!(digest["autoSubmitted"], "auto-generated");
    digest["text"].as_str().unwrap().to_owned()
}

#[tokio::test(flavor = "multi_thread")]
async fn each_morning_the_new_messages_arrive_as_one_mail() {
    let grants = "'caller', 'mailbox', 'outbox', 'store'";
    let scopes = "modules.digest.scopes = ['mail:read', 'mail:send']";
    // The due times depend on the clock of the test only.
    let setup = Setup::default().on_sqlite().with_mail();
    let settings = settings("digest", grants, scopes);
    let service = setup.with(&settings).start().await;
    let ada = service.person("ada").await;
    for subject in ["One", "Two"] {
        receive(&ada, subject).await;
    }
    enable(&ada, "digest").await;

    let ada = next_day(&ada).await;
    let text = digest_of(&ada, 2).await;
    assert!(
        text.contains("Eve: One") && text.contains("Eve: Two"),
        "{text}"
    );

    receive(&ada, "Three").await;
    let ada = next_day(&ada).await;
    let text = digest_of(&ada, 1).await;
    assert!(
        text.contains("Eve: Three") && !text.contains("New messages"),
        "{text}"
    );
}
