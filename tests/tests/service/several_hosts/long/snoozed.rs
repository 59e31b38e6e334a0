//! Hosts are killed while they wake snoozed messages.

use std::time::Duration;

use latchmail_tests::process::kill;
use latchmail_tests::{Random, SeveralHosts, append_message, imap, subjects, wait_until};
use serde_json::json;
use tokio::time::sleep;

use crate::mail::send::later::after;

const MESSAGES: usize = 120;
const KILLS: usize = 20;
/// The time in which the messages wake, in seconds.
const SPREAD: i64 = 30;

#[tokio::test(flavor = "multi_thread")]
#[ignore = "it takes long; ./just test-all runs it"]
async fn each_snoozed_message_comes_back_once_if_hosts_are_killed() {
    let mut all = SeveralHosts::start().await;
    let ada = all.service.person("ada").await;
    let mut client = imap(&ada).await;
    let mut expected = Vec::new();
    for number in 0..MESSAGES {
        let subject = format!("snoozed {number}");
        append_message(&mut client, "INBOX", &subject).await;
        expected.push(subject);
    }
    let uids = all_uids(&ada).await;
    assert_eq!(uids.len(), MESSAGES);
    for (number, uid) in (0_i64..).zip(&uids) {
        let seconds = 3 + number * SPREAD / i64::try_from(MESSAGES).unwrap();
        let line = format!("POST /api/v1/mail/messages/{uid}/snooze");
        let body = json!({ "until": after(seconds) });
        ada.send_json(&line, &body).await.succeeds(200);
    }
    let mut random = Random::new(std::process::id().into());
    for number in 0..KILLS {
        let pause = u64::try_from(random.below(1500)).unwrap();
        sleep(Duration::from_millis(pause)).await;
        let host = &mut all.hosts[number % 2];
        kill(host.process.pid());
        host.process.start().await;
    }
    wait_until("no message is snoozed", async || {
        subjects(&mut client, "Snoozed").await.is_empty()
    })
    .await;
    let mut found = subjects(&mut client, "INBOX").await;
    found.sort();
    expected.sort();
    assert_eq!(found, expected);
    let mut current = all_uids(&ada).await;
    current.sort_unstable();
    let mut uids = uids;
    uids.sort_unstable();
    assert_eq!(current, uids, "the messages keep their numbers");
    let unread = ada.send("GET /api/v1/mail/folders/INBOX/messages?unread=true");
    assert_eq!(unread.await.succeeds(200)["total"], MESSAGES);
}

/// Returns the numbers of all messages in the inbox.
async fn all_uids(person: &latchmail_tests::Person<'_>) -> Vec<u64> {
    let mut uids = Vec::new();
    for page in 1..=MESSAGES.div_ceil(100) {
        let line = format!("GET /api/v1/mail/folders/INBOX/messages?limit=100&page={page}");
        let list = person.send(&line).await.succeeds(200);
        let messages = list["messages"].as_array().unwrap().iter();
        uids.extend(messages.map(|one| one["uid"].as_u64().unwrap()));
    }
    uids
}
