//! Tests of sending, with servers that record commands and servers that fail during a transaction.

mod deliveries;
mod smtp_server;

use std::sync::Arc;
use std::time::Duration;

use latchmail_core::caller::MailCredential;
use latchmail_core::clock::{Clock, Timestamp};
use latchmail_core::config;
use latchmail_core::keyring::testing::keyring;
use latchmail_directory::Directory;
use latchmail_directory::hosts::Announcement;
use latchmail_directory::sendings::Key;
use latchmail_directory::testing::{Fresh, on_sqlite};
use secrecy::SecretString;

use super::fuzzing::sender;
use super::{Draft, Error, Outbox, Recipient, SendOptions, Sent};
use crate::idempotency::stored_key;
use crate::tests::recording_server::{Recorded, recording_server};
use crate::{Access, Mail, MailSettings};
use smtp_server::{LATE, REJECT_AND_CLOSE, SmtpServer, WAIT_FOR_NEXT, smtp_server};

/// The service's timeout in these tests.
const TIMEOUT: Duration = Duration::from_millis(500);

/// The account's address.
const FROM: &str = "Ada@Example.ORG";

/// The id of the service's host.
const HOST: &str = "this";

/// An account that may send, and its mail servers.
struct TestOutbox {
    outbox: Arc<Outbox>,
    fresh: Fresh,
    access: Access,
    smtp: SmtpServer,
    imap: Recorded,
    imap_port: u16,
}

impl TestOutbox {
    async fn send(&self, draft: Draft, key: Option<&str>) -> Result<Sent, Error> {
        let access = self.access.clone();
        let from = self.outbox.check_sender(access, FROM).await?;
        self.outbox
            .send(Draft { from, ..draft }, SendOptions::now(key))
            .await
    }

    /// Restarts the service.
    fn restart(&mut self) {
        self.outbox = outbox(&self.fresh, self.imap_port, self.smtp.port);
    }
}

fn outbox(fresh: &Fresh, imap_port: u16, smtp_port: u16) -> Arc<Outbox> {
    let imap = config::Imap {
        address: format!("127.0.0.1:{imap_port}"),
        ..config::Imap::default()
    };
    let smtp = config::Smtp {
        address: format!("127.0.0.1:{smtp_port}"),
        timeout: TIMEOUT,
        ..config::Smtp::default()
    };
    let directory = fresh.directory.clone();
    let mail = Arc::new(Mail::new(&imap, directory.clone(), MailSettings::default()).unwrap());
    let keys = Arc::new(keyring(&[1]));
    let signing = latchmail_dkim::Keys::new(
        &config::Dkim::default(),
        directory.clone(),
        Arc::clone(&keys),
    )
    .unwrap();
    Arc::new(
        Outbox::new(
            &smtp,
            directory,
            mail,
            Arc::new(signing),
            Clock::system(),
            HOST,
            keys,
            Some(Arc::from(&b"key"[..])),
        )
        .unwrap(),
    )
}

/// Runs `body` with a submission service that sends `reply` to commands that begin with `at`.
async fn with_smtp_server<F>(
    at: &'static str,
    reply: &'static str,
    body: impl FnOnce(TestOutbox) -> F + Send + 'static,
) where
    F: Future<Output = ()> + Send + 'static,
{
    on_sqlite(async move |fresh| {
        let fresh: Fresh = fresh;
        fresh.directory.with("ada", "ada@example.org", &[]).await;
        fresh
            .execute(
                "INSERT INTO addresses (address, kind, account_id) VALUES ('ada@example.org', 'account', 'ada') \
                 ON CONFLICT (address) DO NOTHING",
            )
            .await;
        let (imap_port, imap) = recording_server("", true).await;
        let smtp = smtp_server(at, reply).await;
        body(TestOutbox {
            outbox: outbox(&fresh, imap_port, smtp.port),
            access: Access {
                account: "ada".into(),
                credential: MailCredential::app_password("first".into(), "ada@example.org".into(), SecretString::from("secret")),
                member: None,
                grant: None,
                is_person: true,
            },
            fresh,
            smtp,
            imap,
            imap_port,
        })
        .await;
    })
    .await
    .unwrap();
}

fn recipient(address: &str) -> Recipient {
    Recipient::new(String::new(), address).unwrap()
}

fn draft() -> Draft {
    Draft {
        from: sender(),
        from_name: String::new(),
        to: vec![recipient("bo@example.net")],
        cc: Vec::new(),
        bcc: vec![recipient("secret@example.com")],
        reply_to: Vec::new(),
        subject: "s".into(),
        text: Some(".\r\n..\r\nend\r\n".into()),
        html: None,
        in_reply_to: None,
        references: Vec::new(),
        headers: Vec::new(),
        files: Vec::new(),
        original: None,
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn the_sent_bytes_and_the_stored_copy_are_identical() {
    with_smtp_server("", "", async |test| {
        let sent = test.send(draft(), None).await.unwrap();
        assert_eq!(
            (sent.saved_to.as_deref(), sent.replayed),
            (Some("Sent"), false)
        );
        let commands = test.smtp.take();
        let [ehlo, auth, again, mail, to, bcc, data, message] = &commands[..] else {
            panic!("{commands:?}");
        };
        assert!(ehlo.starts_with("EHLO ") && auth.starts_with("AUTH PLAIN ") && again == ehlo);
        let envelope = [mail, to, bcc, data].map(String::as_str);
        let expected = [
            "MAIL FROM:<Ada@example.org>",
            "RCPT TO:<bo@example.net>",
            "RCPT TO:<secret@example.com>",
            "DATA",
        ];
        assert_eq!(envelope, expected);
        assert!(message.contains(&format!("\r\nMessage-ID: {}\r\n", sent.message_id)));
        assert!(message.ends_with("\r\n\r\n.\r\n..\r\nend\r\n") && !message.contains("secret"));
        let stored = test.imap.take();
        assert_eq!(stored, [format!("APPEND \"Sent\" (\\Seen) {{{message}}}")]);
        // The next message uses the same connection.
        test.send(draft(), None).await.unwrap();
        assert!(test.smtp.take()[0].starts_with("MAIL "));
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_non_ascii_address_is_sent_with_smtputf8() {
    with_smtp_server("", "", async |test| {
        let draft = Draft {
            to: vec![recipient("jörg@bücher.example")],
            ..draft()
        };
        test.send(draft, None).await.unwrap();
        let commands = test.smtp.take();
        let mail = "MAIL FROM:<Ada@example.org> SMTPUTF8 BODY=8BITMIME";
        assert_eq!(
            commands[3..5],
            [mail, "RCPT TO:<jörg@xn--bcher-kva.example>"]
        );
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn addresses_with_quotes_and_long_local_parts_are_sent() {
    with_smtp_server("", "", async |test| {
        let long = format!("reply+{}@firm.example", "x".repeat(100));
        let recipients = [
            "\"System Operator\"@firm.example",
            "a..b@firm.example",
            &long,
        ];
        let draft = Draft {
            to: recipients.map(recipient).to_vec(),
            bcc: Vec::new(),
            ..draft()
        };
        test.send(draft, None).await.unwrap();
        let expected = [
            "RCPT TO:<\"System Operator\"@firm.example>",
            "RCPT TO:<\"a..b\"@firm.example>",
            &format!("RCPT TO:<{long}>"),
        ];
        assert_eq!(test.smtp.take()[4..7], expected);
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_envelope_is_pipelined_only_if_the_server_supports_pipelining() {
    with_smtp_server("MAIL", WAIT_FOR_NEXT, async |test| {
        test.send(draft(), None).await.unwrap();
    })
    .await;
    let without_pipelining = "250-here\r\n250 AUTH PLAIN\r\n";
    with_smtp_server("EHLO", without_pipelining, async |test| {
        test.send(draft(), None).await.unwrap();
        assert_eq!(test.smtp.take().len(), 8);
        let mut to_many = draft();
        to_many.to.push(recipient("more@example.net"));
        test.send(to_many, None).await.unwrap();
        assert_eq!(test.smtp.take().len(), 6);
    })
    .await;
    with_smtp_server("RCPT", WAIT_FOR_NEXT, async |test| {
        test.send(draft(), None).await.unwrap_err();
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_invalid_address_and_an_address_of_another_account_are_denied_as_senders() {
    with_smtp_server("", "", async |test| {
        for from in ["ada", "a\r\nb@example.org", "bo@example.org"] {
            let result = test.outbox.check_sender(test.access.clone(), from).await;
            assert!(matches!(result, Err(Error::Denied(_))), "{from:?}");
        }
    })
    .await;
}

/// Returns the text of a rejection.
fn rejection(result: Result<Sent, Error>) -> String {
    match result {
        Err(Error::Rejected(text)) => text,
        other => panic!("{other:?}"),
    }
}

/// Returns a draft with one recipient.
fn draft_to_one() -> Draft {
    Draft {
        bcc: Vec::new(),
        ..draft()
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn with_one_recipient_the_envelope_and_data_are_pipelined() {
    with_smtp_server("RCPT", WAIT_FOR_NEXT, async |test| {
        test.send(draft_to_one(), None).await.unwrap();
        let commands = test.smtp.take();
        let rcpt = "RCPT TO:<bo@example.net>";
        assert_eq!(commands[4..6], [rcpt, "DATA"]);
        assert!(commands[6].ends_with("\r\n\r\n.\r\n..\r\nend\r\n"));
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_that_accepts_data_without_recipients_gets_an_empty_message() {
    // This server accepts DATA after a rejected recipient, as some servers do (RFC 2920, section
    // 3.1).
    with_smtp_server("RCPT TO:<nobody@", "550 5.1.1 no\r\n", async |test| {
        let draft_to_unknown = Draft {
            to: vec![recipient("nobody@example.net")],
            ..draft_to_one()
        };
        let text = rejection(test.send(draft_to_unknown, Some("k")).await);
        assert_eq!(text, "nobody@example.net: 5.1.1 no");
        assert_eq!(test.smtp.take()[5..], ["DATA", "", "RSET"]);
        test.send(draft_to_one(), Some("k")).await.unwrap();
        assert!(test.smtp.take()[0].starts_with("MAIL "));
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_temporary_rejection_with_one_recipient_sends_nothing() {
    for (at, reply) in [
        ("MAIL", "451 later\r\n"),
        ("RCPT", "450 later\r\n"),
        ("DATA", "421 closing\r\n"),
        (".", "452 full\r\n"),
        ("RCPT", ""),
        ("DATA", ""),
    ] {
        with_smtp_server(at, reply, async move |test| {
            let result = test.send(draft_to_one(), Some("k")).await;
            assert!(
                matches!(result, Err(Error::Unavailable(_))),
                "{at} {reply}: {result:?}"
            );
            assert!(test.imap.take().is_empty());
        })
        .await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn the_first_of_several_rejections_is_reported_and_the_connection_stays_usable() {
    with_smtp_server("MAIL", "553 5.7.1 not yours\r\n", async |test| {
        for _ in 0..2 {
            let text = rejection(test.send(draft(), None).await);
            assert_eq!(text, "Ada@example.org: 5.7.1 not yours");
        }
        let commands = test.smtp.take();
        assert_eq!(
            commands
                .iter()
                .filter(|line| line.starts_with("EHLO"))
                .count(),
            2
        );
        assert!(!commands.contains(&"DATA".to_owned()));
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_rejection_before_the_server_closes_the_connection_is_reported() {
    with_smtp_server("MAIL", REJECT_AND_CLOSE, async |test| {
        for _ in 0..2 {
            let text = rejection(test.send(draft(), None).await);
            assert_eq!(text, "Ada@example.org: 5.7.1 barred");
        }
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_connection_is_not_used_again_after_a_timeout() {
    with_smtp_server("MAIL", LATE, async |test| {
        for _ in 0..2 {
            let result = test.send(draft(), None).await;
            assert!(matches!(result, Err(Error::Unavailable(_))), "{result:?}");
        }
        let commands = test.smtp.take();
        assert!(!commands.contains(&"RSET".to_owned()), "{commands:?}");
        assert_eq!(
            commands
                .iter()
                .filter(|line| line.starts_with("AUTH"))
                .count(),
            2
        );
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn no_recipient_gets_the_message_if_one_is_rejected_and_the_next_message_is_sent() {
    let reply = "550 5.1.1 no\r\n";
    with_smtp_server("RCPT TO:<nobody@", reply, async |test| {
        let mut draft_to_unknown = draft();
        draft_to_unknown.to.push(recipient("nobody@example.net"));
        let text = rejection(test.send(draft_to_unknown, Some("k")).await);
        assert_eq!(text, "nobody@example.net: 5.1.1 no");
        let commands = test.smtp.take();
        assert_eq!(commands.last().unwrap(), "RSET");
        assert!(!commands.contains(&"DATA".to_owned()));
        assert!(test.imap.take().is_empty());
        // The key can be used again, and the connection works.
        test.send(draft(), Some("k")).await.unwrap();
        assert!(test.smtp.take()[0].starts_with("MAIL "));
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn temporary_and_permanent_rejections_are_distinguished_and_send_nothing() {
    for (at, reply) in [
        ("MAIL", "451 later\r\n"),
        ("RCPT", "450 later\r\n"),
        ("DATA", "421 closing\r\n"),
        (".", "452 full\r\n"),
        ("AUTH", "454 cannot tell\r\n"),
        ("EHLO", ""),
        ("RCPT", ""),
    ] {
        with_smtp_server(at, reply, async move |test| {
            let result = test.send(draft(), Some("k")).await;
            assert!(
                matches!(result, Err(Error::Unavailable(_))),
                "{at} {reply}: {result:?}"
            );
            let count = "SELECT COUNT(*) FROM sendings";
            assert_eq!(test.fresh.number(count).await, 0);
        })
        .await;
    }
    for (at, reply) in [("MAIL", "553 not yours\r\n"), (".", "554 spam\r\n")] {
        with_smtp_server(at, reply, async move |test| {
            let result = test.send(draft(), None).await;
            assert!(
                matches!(result, Err(Error::Rejected(_))),
                "{at}: {result:?}"
            );
        })
        .await;
    }
    with_smtp_server("AUTH", "535 no\r\n", async |test| {
        let result = test.send(draft(), None).await;
        assert!(
            matches!(result, Err(Error::CredentialRefused)),
            "{result:?}"
        );
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_connection_lost_after_the_message_is_unknown_and_the_message_is_not_sent_again() {
    with_smtp_server(".", "", async |mut test| {
        let unknown = test.send(draft(), Some("k")).await;
        assert!(matches!(unknown, Err(Error::Unknown(_))), "{unknown:?}");
        test.smtp.take();
        for _ in 0..2 {
            let again = test.send(draft(), Some("k")).await;
            assert!(matches!(again, Err(Error::Unknown(_))), "{again:?}");
            test.restart();
        }
        assert!(test.smtp.take().is_empty());
        assert!(test.imap.take().is_empty());
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_connection_that_was_closed_while_idle_is_replaced_without_an_error() {
    with_smtp_server("QUIT", "", async |test| {
        test.send(draft(), None).await.unwrap();
        test.smtp.close_connections();
        test.send(draft(), None).await.unwrap();
        let commands = test.smtp.take();
        assert_eq!(commands.iter().filter(|line| *line == "DATA").count(), 2);
        // A closed IMAP connection is replaced too, and no copy is stored twice.
        test.imap.take();
        test.imap.close_connections().await;
        let sent = test.send(draft(), None).await.unwrap();
        assert_eq!(sent.saved_to.as_deref(), Some("Sent"));
        assert_eq!(test.imap.take().len(), 1);
        // A connection with a revoked credential is not used again.
        test.smtp.take();
        test.outbox
            .mail
            .connections
            .end_sessions(&["first".into()])
            .await;
        test.send(draft(), None).await.unwrap();
        assert!(test.smtp.take()[0].starts_with("EHLO "));
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_send_started_by_another_process_is_never_repeated() {
    with_smtp_server("", "", async |mut test| {
        let directory = test.fresh.directory.clone();
        let from = test.outbox.check_sender(test.access.clone(), FROM).await;
        let from = from.unwrap();
        let fingerprint = Draft { from, ..draft() }.fingerprint();
        let now = Clock::system().now();
        let other = Announcement {
            id: "other".into(),
            name: "other".into(),
            version: "1.0.0".into(),
            base_url: "https://example.org".into(),
            key_id: "key".into(),
            key_ids: vec!["key".into()],
            problem: None,
        };
        let access = test.access.clone();
        let key = |key: &str| -> Key { stored_key(&access, key) };
        let begin = async |name: &str, at| {
            let key = key(name);
            let begun = directory
                .sendings
                .begin(&key, &fingerprint, "other", "<1@x>", at);
            assert!(begun.await.unwrap().is_none());
        };
        // While the other host may still be sending, the key is in progress. If the host has
        // stopped, or after the longest send, the outcome is unknown.
        directory.hosts.announce(&other).await.unwrap();
        begin("new", now).await;
        let in_progress = test.send(draft(), Some("new")).await;
        assert!(
            matches!(in_progress, Err(Error::Conflict(_))),
            "{in_progress:?}"
        );
        begin("old", Timestamp::from_millis(now.millis() - 200_000)).await;
        let unknown = test.send(draft(), Some("old")).await;
        assert!(matches!(unknown, Err(Error::Unknown(_))), "{unknown:?}");
        test.fresh
            .execute("UPDATE hosts SET seen_at = seen_at - 16000")
            .await;
        let unknown = test.send(draft(), Some("new")).await;
        assert!(matches!(unknown, Err(Error::Unknown(_))), "{unknown:?}");
        // When the only process of a database restarts, the outcome is unknown immediately.
        directory.hosts.announce(&other).await.unwrap();
        Directory::open(&test.fresh.config, &[]).await.unwrap();
        test.restart();
        let unknown = test.send(draft(), Some("new")).await;
        assert!(matches!(unknown, Err(Error::Unknown(_))), "{unknown:?}");
        assert!(test.smtp.take().is_empty());
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_key_sends_one_message_even_with_concurrent_and_repeated_requests() {
    with_smtp_server("", "", async |test| {
        let requests = (0..8).map(|_| test.send(draft(), Some("k")));
        let results = futures_util::future::join_all(requests).await;
        let mut ids = Vec::new();
        for result in results {
            match result {
                Ok(sent) => ids.push(sent.message_id),
                Err(error) => assert!(matches!(error, Error::Conflict(_)), "{error:?}"),
            }
        }
        ids.dedup();
        assert_eq!(ids.len(), 1);
        let again = test.send(draft(), Some("k")).await.unwrap();
        assert_eq!(
            (again.replayed, again.saved_to.as_deref()),
            (true, Some("Sent"))
        );
        assert_eq!(again.message_id, ids[0]);
        let other = Draft {
            subject: "t".into(),
            ..draft()
        };
        let conflict = test.send(other, Some("k")).await;
        assert!(matches!(conflict, Err(Error::Conflict(_))), "{conflict:?}");
        let sent = test.smtp.take();
        assert_eq!(sent.iter().filter(|line| *line == "DATA").count(), 1);
    })
    .await;
}
