//! A module files each arriving message once, although hosts are killed while it files them.

use std::collections::BTreeSet;
use std::ops::Range;

use futures_util::{StreamExt as _, stream};
use latchmail_tests::process::kill;
use latchmail_tests::{Person, Random, Service, Setup, imap, subjects, wait_until};
use serde_json::{Value, json};
use tokio::time::sleep;

use super::{READ_AND_WRITE, actor, calls, deliver, section, switch};

/// The settings with which the module moves every message of the inbox to the folder `Work`. It
/// records each call, which needs about 1 KiB.
pub(crate) const FILE_ALL: &str =
    "modules.actor.config.event = 'move Work'\nmodules.actor.store = 65536\n";

/// The owner who has not enabled the module gets one message for this number of messages of the
/// other owner.
const DISABLED: usize = 10;
/// Concurrent deliveries.
const SENDERS: usize = 4;
/// The module files this number of messages within the time that tests wait for a condition.
const STEP: usize = 50;

/// Creates two owners with a folder `Work`.
pub(crate) async fn owners(service: &Service) -> [Person<'_>; 2] {
    let owners = [service.person("ada").await, service.person("bob").await];
    for owner in &owners {
        let work = json!({ "path": "Work" });
        owner
            .post("/api/v1/mail/folders", &work)
            .await
            .succeeds(201);
    }
    owners
}

/// Delivers the messages with these numbers to the first owner, and some of them to the second one.
pub(crate) async fn deliver_some([enabled, disabled]: &[Person<'_>; 2], numbers: Range<usize>) {
    let deliveries = stream::iter(numbers).for_each_concurrent(SENDERS, async |number| {
        let subject = format!("message {number}");
        deliver(enabled, &subject).await;
        if number.is_multiple_of(DISABLED) {
            deliver(disabled, &subject).await;
        }
    });
    deliveries.await;
}

/// Waits until the messages with the numbers below `count` are filed. Checks that each is filed
/// once, and that no message of the second owner is filed.
pub(crate) async fn check_filed([enabled, disabled]: &[Person<'_>; 2], count: usize) {
    // The access tokens can have expired. An API token does not expire while the messages are
    // filed.
    let session = enabled.sign_in_again().await;
    let token = session.token(&["mail:read"]).await;
    let reader = Person {
        access: token["token"].as_str().unwrap().to_owned(),
        ..session
    };
    let mut wanted = 0;
    while wanted < count {
        wanted = count.min(wanted + STEP);
        wait_until(&format!("{wanted} messages are filed"), async || {
            usize::try_from(reader.total("Work").await).unwrap() >= wanted
        })
        .await;
    }
    let enabled = enabled.sign_in_again().await;
    let all = (0..count).map(|number| format!("message {number}"));
    let mut client = imap(&enabled).await;
    assert_same(subjects(&mut client, "Work").await, all.collect());
    assert!(subjects(&mut client, "INBOX").await.is_empty());
    let calls = all_calls(&enabled).await;
    let ids: BTreeSet<_> = calls.iter().map(|call| call["id"].as_str()).collect();
    // An event that is repeated after a kill has the same id.
    assert_eq!(ids.len(), count);

    let disabled = disabled.sign_in_again().await;
    let some = (0..count).step_by(DISABLED);
    let some = some.map(|number| format!("message {number}"));
    let mut client = imap(&disabled).await;
    wait_until("the other messages have arrived", async || {
        usize::try_from(disabled.total("INBOX").await).unwrap() >= some.len()
    })
    .await;
    assert_same(subjects(&mut client, "INBOX").await, some.collect());
    assert!(subjects(&mut client, "Work").await.is_empty());
    assert!(all_calls(&disabled).await.is_empty());
}

/// Asserts that the subjects are the same in any order.
#[track_caller]
fn assert_same(mut found: Vec<String>, mut expected: Vec<String>) {
    found.sort_unstable();
    expected.sort_unstable();
    assert_eq!(found, expected);
}

/// Returns all calls that the module has recorded for a person.
async fn all_calls(person: &Person<'_>) -> Vec<Value> {
    let mut calls = calls(person).await;
    while let Some(last) = calls.last() {
        let after = last["key"].as_str().unwrap().replace('/', "%2F");
        let line = format!("GET /actor/calls?after={after}");
        let page = person.send(&line).await.succeeds(200);
        let page = page["calls"].as_array().unwrap();
        if page.is_empty() {
            break;
        }
        calls.extend_from_slice(page);
    }
    calls
}

/// Delivers messages, and kills the host this number of times, each time after at most `pause`
/// milliseconds.
async fn file_with_kills(setup: Setup, count: usize, kills: usize, pause: usize) {
    let settings = section("actor", READ_AND_WRITE) + FILE_ALL;
    // While the host is down, Dovecot would send notices less and less often.
    let setup = setup.without_notices().with(&settings);
    let mut service = setup.start().await;
    service.install(&[actor("none").component()]).await;
    let mut process = service.restart_in_process().await;
    let owners = owners(&service).await;
    switch(&owners[0], true).await;
    let mut random = Random::new(std::process::id().into());
    for number in 0..kills {
        let numbers = count * number / kills..count * (number + 1) / kills;
        let killing = async {
            sleep(random.millis(pause)).await;
            kill(process.pid());
            process.start().await;
        };
        tokio::join!(deliver_some(&owners, numbers), killing);
    }
    check_filed(&owners, count).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn each_arriving_message_is_filed_once_if_the_host_is_killed() {
    file_with_kills(Setup::default().with_mail(), 200, 3, 1_000).await;
}

mod long {
    use super::*;

    #[tokio::test(flavor = "multi_thread")]
    #[ignore = "it takes long; ./just test-all runs it"]
    async fn ten_thousand_arriving_messages_are_filed_once_each_through_twenty_kills() {
        file_with_kills(Setup::default().with_own_mail(), 10_000, 20, 5_000).await;
    }
}
