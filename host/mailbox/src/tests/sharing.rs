//! Tests of connections: reuse, limits, separation by credential, and replacement after a restart of the server.

use std::collections::HashSet;
use std::os::unix::fs::PermissionsExt as _;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use latchmail_core::caller::Proof;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpListener;

use super::{access, in_a_world, note};
use crate::{Error, Mail};

#[tokio::test(flavor = "multi_thread")]
async fn a_connection_is_kept_for_its_credential_and_for_no_other() {
    in_a_world(async |world| {
        let before = world.dovecot.log_ins();
        for _ in 0..5 {
            world.mail.folders(&world.access).await.unwrap();
        }
        assert_eq!(world.dovecot.log_ins() - before, 1);
        let second = access("ada", "second");
        for _ in 0..5 {
            world.mail.folders(&second).await.unwrap();
            world.mail.folders(&world.access).await.unwrap();
        }
        assert_eq!(world.dovecot.log_ins() - before, 2);
        // Revoking a credential closes its connection and no other.
        world.mail.end(&["second".into()]).await;
        world.mail.folders(&world.access).await.unwrap();
        assert_eq!(world.dovecot.log_ins() - before, 2);
        let mut wrong = second;
        wrong.credential.proof = Proof::AppPassword("wrong".into());
        assert!(matches!(
            world.mail.folders(&wrong).await,
            Err(Error::CredentialRefused)
        ));
    })
    .await;
}

/// A change that started with a web session must report its outcome even if the session is signed out.
#[tokio::test(flavor = "multi_thread")]
async fn what_the_service_has_under_way_has_time_to_end() {
    in_a_world(async |world| {
        let (doveadm, asked) = doveadm().await;
        let key = std::env::temp_dir().join(format!("lm-key-{:016x}", getrandom::u64().unwrap()));
        std::fs::write(&key, "key").unwrap();
        std::fs::set_permissions(&key, std::fs::Permissions::from_mode(0o600)).unwrap();
        let config = latchmail_core::config::Imap {
            doveadm,
            doveadm_key_file: key.clone(),
            ..world.dovecot.config()
        };
        let mail = Mail::new(&config, world.fresh.directory.db().clone()).unwrap();
        std::fs::remove_file(key).unwrap();
        let mut lease = mail.pool.lease(&world.access, None).await.unwrap();
        lease.session().await.unwrap();
        let id = &world.access.credential.id;
        mail.end(&[id.clone(), "other".into()]).await;
        let at_once = asked.lock().unwrap().clone();
        assert!(
            at_once.contains("*/other") && !at_once.contains(id),
            "{at_once}"
        );
        let session = lease.session().await.unwrap();
        session.select("INBOX").await.unwrap();
        drop(lease);
        assert_eq!(
            mail.pool.connections("ada"),
            0,
            "the connection is not pooled again"
        );
        let patience = tokio::time::Instant::now() + Duration::from_secs(20);
        while !asked.lock().unwrap().contains(&format!("*/{id}")) {
            assert!(tokio::time::Instant::now() < patience);
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    })
    .await;
}

/// Starts a doveadm that records requests and ends no sessions. Returns its address and the record.
async fn doveadm() -> (String, Arc<Mutex<String>>) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap().to_string();
    let asked = Arc::new(Mutex::new(String::new()));
    let asking = Arc::clone(&asked);
    tokio::spawn(async move {
        while let Ok((mut stream, _)) = listener.accept().await {
            let mut request = [0; 4096];
            let length = stream.read(&mut request).await.unwrap();
            let text = String::from_utf8_lossy(&request[..length]);
            asking.lock().unwrap().push_str(&text);
            let answer = "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n[]";
            stream.write_all(answer.as_bytes()).await.unwrap();
        }
    });
    (address, asked)
}

#[tokio::test(flavor = "multi_thread")]
async fn a_wrong_credential_is_refused() {
    in_a_world(async |world| {
        for password in ["wrong", "", "a\r\nb", "a\0b", "\u{e9}"] {
            let mut wrong = access("ada", "wrong");
            wrong.credential.proof = Proof::AppPassword(password.into());
            let refused = world.mail.messages(&wrong, "INBOX", 0, 1).await;
            assert!(
                matches!(refused, Err(Error::CredentialRefused)),
                "{password:?}: {refused:?}"
            );
        }
        assert!(!format!("{:?} {:?}", world.mail, world.access).contains("secret"));
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_that_restarts_is_found_again() {
    in_a_world(async |mut world| {
        world
            .dovecot
            .client("ada")
            .append("INBOX", "()", &note("a", "x"));
        let before = world.listing("INBOX", 0, 10).await;
        world.mail.ping().await.unwrap();
        world.dovecot.stop();
        let down = world.mail.messages(&world.access, "INBOX", 0, 10).await;
        assert!(matches!(down, Err(Error::Unavailable(_))), "{down:?}");
        assert!(matches!(
            world.mail.ping().await,
            Err(Error::Unavailable(_))
        ));
        world.dovecot.start_again();
        world
            .dovecot
            .client("ada")
            .append("INBOX", "()", &note("b", "x"));
        let after = world.listing("INBOX", 0, 10).await;
        assert_eq!((after.total, &after.messages[1]), (2, &before.messages[0]));
        // A connection that the server closed while it was idle is replaced without an error.
        world.dovecot.stop();
        world.dovecot.start_again();
        let again = world.listing("INBOX", 0, 10).await;
        assert_eq!(again, after);
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn many_requests_of_many_credentials_stay_within_the_cap_and_with_their_own_mailbox() {
    in_a_world(async |world| {
        world
            .fresh
            .directory
            .with("bob", "bob@example.org", &[])
            .await;
        for account in ["ada", "bob"] {
            world
                .dovecot
                .client(account)
                .append("INBOX", "()", &note(account, "x"));
        }
        let config = latchmail_core::config::Imap {
            connections_per_account: 2,
            ..world.dovecot.config()
        };
        let mail = Arc::new(Mail::new(&config, world.fresh.directory.db().clone()).unwrap());
        let tasks: Vec<_> = (0..120)
            .map(|n| {
                let account = ["ada", "bob"][n % 2];
                let access = access(account, &format!("{account}-{}", n % 10));
                let mail = Arc::clone(&mail);
                tokio::spawn(async move {
                    let listing = mail
                        .messages(&access, "INBOX", 0, 10)
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
        assert!(mail.pool.connections("ada") <= 2);
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_abandoned_call_leaves_no_connection_in_the_middle_of_a_command() {
    in_a_world(async |world| {
        let mut client = world.dovecot.client("ada");
        for n in 0..50 {
            client.append("INBOX", "()", &note(&format!("m{n}"), &"x ".repeat(1500)));
        }
        let whole = world.listing("INBOX", 0, 50).await;
        for micros in (0..4000).step_by(100) {
            let call = world.mail.messages(&world.access, "INBOX", 0, 50);
            let _ = tokio::time::timeout(Duration::from_micros(micros), call).await;
            let one = world.listing("INBOX", 7, 1).await;
            assert_eq!(one.messages[..], whole.messages[7..8]);
        }
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_idle_connection_is_closed_in_time() {
    in_a_world(async |world| {
        let config = latchmail_core::config::Imap {
            idle_timeout: Duration::from_millis(200),
            ..world.dovecot.config()
        };
        let mail = Mail::new(&config, world.fresh.directory.db().clone()).unwrap();
        mail.folders(&world.access).await.unwrap();
        assert_eq!(mail.pool.connections("ada"), 1);
        let patience = tokio::time::Instant::now() + Duration::from_secs(10);
        while mail.pool.connections("ada") > 0 {
            assert!(tokio::time::Instant::now() < patience);
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    })
    .await;
}
