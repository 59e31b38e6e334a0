//! Hosts are killed while they delete accounts.

use std::time::Duration;

use latchmail_tests::process::kill;
use latchmail_tests::{Random, SeveralHosts, append_message, imap, wait_until};
use tokio::time::sleep;

const ACCOUNTS: usize = 12;
const MESSAGES: usize = 40;
const KILLS: usize = 12;
const LEFT: &str = "SELECT address FROM accounts WHERE address LIKE 'gone%'";
const DELETED: &str = "SELECT address || ' ' || COUNT(*) FROM security_events \
    WHERE kind = 'account_deleted' GROUP BY address ORDER BY address";

#[tokio::test(flavor = "multi_thread")]
#[ignore = "it takes long; ./just test-all runs it"]
async fn each_account_is_deleted_once_if_hosts_are_killed() {
    let mut all = SeveralHosts::start().await;
    let mut addresses = Vec::new();
    for number in 0..ACCOUNTS {
        let person = all.service.person(&format!("gone{number:02}")).await;
        let mut client = imap(&person).await;
        client.create("Letters").await.unwrap();
        for folder in ["INBOX", "Letters"] {
            for message in 0..MESSAGES {
                append_message(&mut client, folder, &format!("message {message}")).await;
            }
        }
        addresses.push(person.address.clone());
    }
    for address in &addresses {
        let verb = format!("account close {address} --now");
        let closed = all.service.operator(&verb, "").await;
        assert_eq!(closed.status, 0, "{closed:?}");
    }
    // A host stores the jobs at its start.
    let mut random = Random::new(std::process::id().into());
    for number in 0..KILLS {
        let host = &mut all.hosts[number % 2];
        kill(host.process.pid());
        host.process.start().await;
        let pause = u64::try_from(random.below(1500)).unwrap();
        sleep(Duration::from_millis(pause)).await;
    }
    wait_until("all accounts are deleted", async || {
        all.postgres.rows(LEFT).await.is_empty()
    })
    .await;
    let expected = addresses.iter().map(|address| format!("{address} 1"));
    assert_eq!(
        all.postgres.rows(DELETED).await,
        expected.collect::<Vec<_>>()
    );
}
