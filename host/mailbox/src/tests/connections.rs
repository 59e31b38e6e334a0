//! Tests of connections: reuse, limits, separation by credential, and replacement after a restart
//! of the server.

use std::collections::HashSet;
use std::os::unix::fs::PermissionsExt as _;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use latchmail_core::caller::Proof;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpListener;

use super::{access, new_mail, short_message, with_mailbox};
use crate::Error;
use crate::MessageQuery;

#[tokio::test(flavor = "multi_thread")]
async fn a_connection_is_reused_only_for_its_credential() {
    with_mailbox(async |test| {
        let before = test.dovecot.log_ins();
        for _ in 0..5 {
            test.mail.listing.folders(&test.access).await.unwrap();
        }
        assert_eq!(test.dovecot.log_ins() - before, 1);
        let second = access("ada", "second");
        for _ in 0..5 {
            test.mail.listing.folders(&second).await.unwrap();
            test.mail.listing.folders(&test.access).await.unwrap();
        }
        assert_eq!(test.dovecot.log_ins() - before, 2);
        // Revoking a credential closes its connection and no other.
        test.mail.connections.end_sessions(&["second".into()]).await;
        test.mail.listing.folders(&test.access).await.unwrap();
        assert_eq!(test.dovecot.log_ins() - before, 2);
        let mut wrong = second;
        wrong.credential.proof = Proof::AppPassword("wrong".into());
        assert!(matches!(
            test.mail.listing.folders(&wrong).await,
            Err(Error::CredentialRefused)
        ));
    })
    .await;
}

/// A change that started in a web session must report its outcome even if the user signs out.
#[tokio::test(flavor = "multi_thread")]
async fn a_command_in_progress_completes_after_its_credential_was_revoked() {
    with_mailbox(async |test| {
        let (doveadm, requests) = doveadm().await;
        let key = std::env::temp_dir().join(format!("lm-key-{:016x}", getrandom::u64().unwrap()));
        std::fs::write(&key, "key").unwrap();
        std::fs::set_permissions(&key, std::fs::Permissions::from_mode(0o600)).unwrap();
        let config = latchmail_core::config::Imap {
            doveadm,
            doveadm_key_file: key.clone(),
            ..test.dovecot.config()
        };
        let mail = new_mail(&config, &test.fresh.directory);
        std::fs::remove_file(key).unwrap();
        let mut lease = mail.connections.lease(&test.access, None).await.unwrap();
        lease.session().await.unwrap();
        let id = &test.access.credential.id;
        mail.connections
            .end_sessions(&[id.clone(), "other".into()])
            .await;
        let first = requests.lock().unwrap().clone();
        assert!(first.contains("*/other") && !first.contains(id), "{first}");
        let session = lease.session().await.unwrap();
        session.select("INBOX").await.unwrap();
        drop(lease);
        assert_eq!(
            mail.connections.count_of("ada"),
            0,
            "the connection is not pooled again"
        );
        let deadline = tokio::time::Instant::now() + Duration::from_secs(20);
        while !requests.lock().unwrap().contains(&format!("*/{id}")) {
            assert!(tokio::time::Instant::now() < deadline);
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    })
    .await;
}

/// Starts a doveadm that records requests and ends no sessions. Returns its address and the record.
async fn doveadm() -> (String, Arc<Mutex<String>>) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap().to_string();
    let requests = Arc::new(Mutex::new(String::new()));
    let recording = Arc::clone(&requests);
    tokio::spawn(async move {
        while let Ok((mut stream, _)) = listener.accept().await {
            let mut request = [0; 4096];
            let length = stream.read(&mut request).await.unwrap();
            let text = String::from_utf8_lossy(&request[..length]);
            recording.lock().unwrap().push_str(&text);
            let response = "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n[]";
            stream.write_all(response.as_bytes()).await.unwrap();
        }
    });
    (address, requests)
}

#[tokio::test(flavor = "multi_thread")]
async fn a_wrong_credential_is_rejected() {
    with_mailbox(async |test| {
        for password in ["wrong", "", "a\r\nb", "a\0b", "\u{e9}"] {
            let mut wrong = access("ada", "wrong");
            wrong.credential.proof = Proof::AppPassword(password.into());
            let result = test
                .mail
                .listing
                .messages(&wrong, MessageQuery::page("INBOX", 0, 1))
                .await;
            assert!(
                matches!(result, Err(Error::CredentialRefused)),
                "{password:?}: {result:?}"
            );
        }
        assert!(!format!("{:?} {:?}", test.mail, test.access).contains("secret"));
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn connections_are_replaced_after_the_server_restarts() {
    with_mailbox(async |mut test| {
        test.dovecot
            .client("ada")
            .append("INBOX", "()", &short_message("a", "x"));
        let before = test.listing("INBOX", 0, 10).await;
        test.mail.connections.ping().await.unwrap();
        test.dovecot.stop();
        let down = test
            .mail
            .listing
            .messages(&test.access, MessageQuery::page("INBOX", 0, 10))
            .await;
        assert!(matches!(down, Err(Error::Unavailable(_))), "{down:?}");
        assert!(matches!(
            test.mail.connections.ping().await,
            Err(Error::Unavailable(_))
        ));
        test.dovecot.restart();
        test.dovecot
            .client("ada")
            .append("INBOX", "()", &short_message("b", "x"));
        let after = test.listing("INBOX", 0, 10).await;
        assert_eq!((after.total, &after.messages[1]), (2, &before.messages[0]));
        // A connection that the server closed while it was idle is replaced without an error.
        test.dovecot.stop();
        test.dovecot.restart();
        let again = test.listing("INBOX", 0, 10).await;
        assert_eq!(again, after);
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn concurrent_requests_stay_within_the_connection_limit_and_in_their_own_mailbox() {
    with_mailbox(async |test| {
        test.fresh
            .directory
            .with("bob", "bob@example.org", &[])
            .await;
        for account in ["ada", "bob"] {
            test.dovecot
                .client(account)
                .append("INBOX", "()", &short_message(account, "x"));
        }
        let config = latchmail_core::config::Imap {
            connections_per_account: 2,
            ..test.dovecot.config()
        };
        let mail = Arc::new(new_mail(&config, &test.fresh.directory));
        let tasks: Vec<_> = (0..120)
            .map(|n| {
                let account = ["ada", "bob"][n % 2];
                let access = access(account, &format!("{account}-{}", n % 10));
                let mail = Arc::clone(&mail);
                tokio::spawn(async move {
                    let listing = mail
                        .listing
                        .messages(&access, MessageQuery::page("INBOX", 0, 10))
                        .await
                        .unwrap()
                        .unwrap();
                    (account, listing.messages[0].subject.clone())
                })
            })
            .collect();
        let mut subjects = HashSet::new();
        for task in tasks {
            subjects.insert(task.await.unwrap());
        }
        assert_eq!(
            subjects,
            HashSet::from([("ada", "ada".into()), ("bob", "bob".into())])
        );
        assert!(mail.connections.count_of("ada") <= 2);
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_cancelled_call_does_not_return_a_connection_with_an_unfinished_command() {
    with_mailbox(async |test| {
        let mut client = test.dovecot.client("ada");
        for n in 0..50 {
            client.append(
                "INBOX",
                "()",
                &short_message(&format!("m{n}"), &"x ".repeat(1500)),
            );
        }
        let all = test.listing("INBOX", 0, 50).await;
        for micros in (0..4000).step_by(100) {
            let call = test
                .mail
                .listing
                .messages(&test.access, MessageQuery::page("INBOX", 0, 50));
            let _ = tokio::time::timeout(Duration::from_micros(micros), call).await;
            let page = test.listing("INBOX", 7, 1).await;
            assert_eq!(page.messages[..], all.messages[7..8]);
        }
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_idle_connection_is_closed_after_the_timeout() {
    with_mailbox(async |test| {
        let config = latchmail_core::config::Imap {
            idle_timeout: Duration::from_millis(200),
            ..test.dovecot.config()
        };
        let mail = new_mail(&config, &test.fresh.directory);
        mail.listing.folders(&test.access).await.unwrap();
        assert_eq!(mail.connections.count_of("ada"), 1);
        let deadline = tokio::time::Instant::now() + Duration::from_secs(10);
        while mail.connections.count_of("ada") > 0 {
            assert!(tokio::time::Instant::now() < deadline);
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn idle_connections_of_all_accounts_are_limited() {
    with_mailbox(async |test| {
        let directory = &test.fresh.directory;
        directory.with("bob", "bob@example.org", &[]).await;
        let config = latchmail_core::config::Imap {
            idle_connections: 1,
            ..test.dovecot.config()
        };
        let mail = new_mail(&config, directory);
        mail.listing.folders(&test.access).await.unwrap();
        assert_eq!(mail.connections.count_of("ada"), 1);
        mail.listing.folders(&access("bob", "bob-1")).await.unwrap();
        let left = ["ada", "bob"].map(|account| mail.connections.count_of(account));
        assert_eq!(left, [0, 1]);
    })
    .await;
}

/// A reconciliation holds its lock while it waits for a connection.
#[tokio::test(flavor = "multi_thread")]
async fn a_deletion_that_waits_for_a_reconciliation_uses_no_connection() {
    with_mailbox(async |test| {
        let config = latchmail_core::config::Imap {
            connections_per_account: 1,
            timeout: Duration::from_secs(2),
            ..test.dovecot.config()
        };
        let mail = Arc::new(new_mail(&config, &test.fresh.directory));
        test.append("INBOX", &["a"]).await;
        let listing = mail
            .listing
            .messages(&test.access, MessageQuery::page("INBOX", 0, 1))
            .await;
        let number = listing.unwrap().unwrap().messages[0].number;
        let lock = mail.folders.locks.acquire("ada").await;
        let (deleting, access) = (Arc::clone(&mail.changing), test.access.clone());
        let deletion = tokio::spawn(async move { deleting.delete(&access, &[number]).await });
        for _ in 0..30 {
            mail.folders.states(&test.access).await.unwrap();
        }
        drop(lock);
        assert_eq!(deletion.await.unwrap().unwrap(), [number]);
    })
    .await;
}
