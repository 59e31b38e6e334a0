//! Tests of sending, with servers that record commands and servers that fail in the middle.

mod relay;

use std::sync::Arc;
use std::time::Duration;

use latchmail_core::caller::MailCredential;
use latchmail_core::clock::Timestamp;
use latchmail_core::config;
use latchmail_core::keyring::testing::keyring;
use latchmail_directory::sendings::Key;
use latchmail_directory::testing::{Fresh, on_sqlite};
use secrecy::SecretString;

use super::*;
use crate::Address;
use crate::tests::recorder::{Told, recorder};
use relay::{BARRED, HELD, LATE, Relay, relay};

/// The service's timeout in these tests.
const PATIENCE: Duration = Duration::from_millis(500);

/// An account that may send, and its mail servers.
struct World {
    outbox: Arc<Outbox>,
    fresh: Fresh,
    access: Access,
    relay: Relay,
    mailbox: Told,
    imap: u16,
}

impl World {
    async fn send(&self, draft: Draft, key: Option<&str>) -> Result<Sent, Error> {
        self.outbox.send(&self.access, draft, None, key).await
    }

    /// Restarts the service.
    fn restart(&mut self) {
        self.outbox = outbox(&self.fresh, self.imap, self.relay.port);
    }
}

fn outbox(fresh: &Fresh, imap: u16, smtp: u16) -> Arc<Outbox> {
    let imap = config::Imap {
        address: format!("127.0.0.1:{imap}"),
        ..config::Imap::default()
    };
    let smtp = config::Smtp {
        address: format!("127.0.0.1:{smtp}"),
        timeout: PATIENCE,
        ..config::Smtp::default()
    };
    let directory = fresh.directory.clone();
    let mail = Arc::new(Mail::new(&imap, directory.db().clone()).unwrap());
    let keys = Arc::new(keyring(&[1]));
    let signing =
        latchmail_dkim::Keys::new(&config::Dkim::default(), directory.clone(), keys).unwrap();
    Arc::new(Outbox::new(&smtp, directory, mail, Arc::new(signing), Clock::system()).unwrap())
}

/// Runs `body` with a submission service that replies with `answer` to commands that begin with `at`.
async fn with_a_relay<F>(
    at: &'static str,
    answer: &'static str,
    body: impl FnOnce(World) -> F + Send + 'static,
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
        let (imap, mailbox) = recorder("", true).await;
        let relay = relay(at, answer).await;
        body(World {
            outbox: outbox(&fresh, imap, relay.port),
            access: Access {
                account: "ada".into(),
                credential: MailCredential::app_password("first".into(), "ada@example.org".into(), SecretString::from("secret")),
                guest: None,
            },
            fresh,
            relay,
            mailbox,
            imap,
        })
        .await;
    })
    .await
    .unwrap();
}

fn person(address: &str) -> Address {
    Address {
        name: String::new(),
        address: address.into(),
    }
}

fn draft() -> Draft {
    Draft {
        from: "Ada@Example.ORG".into(),
        to: vec![person("bo@example.net")],
        bcc: vec![person("secret@example.com")],
        subject: "s".into(),
        text: Some(".\r\n..\r\nend\r\n".into()),
        ..Draft::default()
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn the_same_bytes_go_out_and_into_sent_and_nothing_else_does() {
    with_a_relay("", "", async |world| {
        let sent = world.send(draft(), None).await.unwrap();
        assert_eq!(
            (sent.saved_to.as_deref(), sent.replayed),
            (Some("Sent"), false)
        );
        let told = world.relay.take();
        let [ehlo, auth, again, mail, to, bcc, data, message] = &told[..] else {
            panic!("{told:?}");
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
        let filed = world.mailbox.take();
        assert_eq!(filed, [format!("APPEND \"Sent\" (\\Seen) {{{message}}}")]);
        // The next message uses the same connection.
        world.send(draft(), None).await.unwrap();
        assert!(world.relay.take()[0].starts_with("MAIL "));
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_address_beyond_ascii_is_said_to_be_so() {
    with_a_relay("", "", async |world| {
        let draft = Draft {
            to: vec![person("jörg@bücher.example")],
            ..draft()
        };
        world.send(draft, None).await.unwrap();
        let told = world.relay.take();
        let mail = "MAIL FROM:<Ada@example.org> SMTPUTF8 BODY=8BITMIME";
        assert_eq!(told[3..5], [mail, "RCPT TO:<jörg@xn--bcher-kva.example>"]);
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn sender_and_recipients_go_at_once_where_the_server_lets_them_and_one_by_one_elsewhere() {
    with_a_relay("MAIL", HELD, async |world| {
        world.send(draft(), None).await.unwrap();
    })
    .await;
    let offers_little = "250-here\r\n250 AUTH PLAIN\r\n";
    with_a_relay("EHLO", offers_little, async |world| {
        world.send(draft(), None).await.unwrap();
        assert_eq!(world.relay.take().len(), 8);
        let mut to_many = draft();
        to_many.to.push(person("more@example.net"));
        world.send(to_many, None).await.unwrap();
        assert_eq!(world.relay.take().len(), 6);
    })
    .await;
    with_a_relay("RCPT", HELD, async |world| {
        world.send(draft(), None).await.unwrap_err();
    })
    .await;
}

/// Returns a draft with one recipient.
fn to_one() -> Draft {
    Draft {
        bcc: Vec::new(),
        ..draft()
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn to_one_recipient_all_goes_at_once_but_the_message() {
    with_a_relay("RCPT", HELD, async |world| {
        world.send(to_one(), None).await.unwrap();
        let told = world.relay.take();
        let rcpt = "RCPT TO:<bo@example.net>";
        assert_eq!(told[4..6], [rcpt, "DATA"]);
        assert!(told[6].ends_with("\r\n\r\n.\r\n..\r\nend\r\n"));
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_that_waits_for_a_message_to_nobody_gets_none_and_takes_the_next() {
    // This relay accepts DATA after a rejected recipient, as some servers do (RFC 2920, section 3.1).
    with_a_relay("RCPT TO:<nobody@", "550 5.1.1 no\r\n", async |world| {
        let to_nobody = Draft {
            to: vec![person("nobody@example.net")],
            ..to_one()
        };
        let refused = world.send(to_nobody, Some("k")).await;
        let Err(Error::Rejected(sentence)) = refused else {
            panic!("{refused:?}");
        };
        assert_eq!(sentence, "nobody@example.net: 5.1.1 no");
        assert_eq!(world.relay.take()[5..], ["DATA", "", "RSET"]);
        world.send(to_one(), Some("k")).await.unwrap();
        assert!(world.relay.take()[0].starts_with("MAIL "));
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_not_accepted_for_one_recipient_is_not_sent_either() {
    for (at, answer) in [
        ("MAIL", "451 later\r\n"),
        ("RCPT", "450 later\r\n"),
        ("DATA", "421 closing\r\n"),
        (".", "452 full\r\n"),
        ("RCPT", ""),
        ("DATA", ""),
    ] {
        with_a_relay(at, answer, async move |world| {
            let away = world.send(to_one(), Some("k")).await;
            assert!(
                matches!(away, Err(Error::Unavailable(_))),
                "{at} {answer}: {away:?}"
            );
            assert!(world.mailbox.take().is_empty());
        })
        .await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn of_several_refusals_the_first_is_told_and_the_next_message_is_answered_as_its_own() {
    with_a_relay("MAIL", "553 5.7.1 not yours\r\n", async |world| {
        for _ in 0..2 {
            let refused = world.send(draft(), None).await;
            let Err(Error::Rejected(sentence)) = refused else {
                panic!("{refused:?}");
            };
            assert_eq!(sentence, "Ada@example.org: 5.7.1 not yours");
        }
        let told = world.relay.take();
        assert_eq!(
            told.iter().filter(|line| line.starts_with("EHLO")).count(),
            2
        );
        assert!(!told.contains(&"DATA".to_owned()));
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_that_refuses_and_hangs_up_is_heard() {
    with_a_relay("MAIL", BARRED, async |world| {
        for _ in 0..2 {
            let refused = world.send(draft(), None).await;
            let Err(Error::Rejected(sentence)) = refused else {
                panic!("{refused:?}");
            };
            assert_eq!(sentence, "Ada@example.org: 5.7.1 barred");
        }
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_that_answers_late_is_not_asked_again_on_that_connection() {
    with_a_relay("MAIL", LATE, async |world| {
        for _ in 0..2 {
            let away = world.send(draft(), None).await;
            assert!(matches!(away, Err(Error::Unavailable(_))), "{away:?}");
        }
        let told = world.relay.take();
        assert!(!told.contains(&"RSET".to_owned()), "{told:?}");
        assert_eq!(
            told.iter().filter(|line| line.starts_with("AUTH")).count(),
            2
        );
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn where_one_recipient_is_refused_nobody_gets_it_and_the_next_message_goes() {
    let refusal = "550 5.1.1 no\r\n";
    with_a_relay("RCPT TO:<nobody@", refusal, async |world| {
        let mut to_nobody = draft();
        to_nobody.to.push(person("nobody@example.net"));
        let refused = world.send(to_nobody, Some("k")).await;
        let Err(Error::Rejected(sentence)) = refused else {
            panic!("{refused:?}");
        };
        assert_eq!(sentence, "nobody@example.net: 5.1.1 no");
        let told = world.relay.take();
        assert_eq!(told.last().unwrap(), "RSET");
        assert!(!told.contains(&"DATA".to_owned()));
        assert!(world.mailbox.take().is_empty());
        // The key can be used again, and the connection works.
        world.send(draft(), Some("k")).await.unwrap();
        assert!(world.relay.take()[0].starts_with("MAIL "));
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_not_accepted_is_not_sent_and_says_whether_it_is_worth_another_try() {
    for (at, answer) in [
        ("MAIL", "451 later\r\n"),
        ("RCPT", "450 later\r\n"),
        ("DATA", "421 closing\r\n"),
        (".", "452 full\r\n"),
        ("AUTH", "454 cannot tell\r\n"),
        ("EHLO", ""),
        ("RCPT", ""),
    ] {
        with_a_relay(at, answer, async move |world| {
            let away = world.send(draft(), Some("k")).await;
            assert!(
                matches!(away, Err(Error::Unavailable(_))),
                "{at} {answer}: {away:?}"
            );
            let count = "SELECT COUNT(*) FROM sendings";
            assert_eq!(world.fresh.number(count).await, 0);
        })
        .await;
    }
    for (at, answer) in [("MAIL", "553 not yours\r\n"), (".", "554 spam\r\n")] {
        with_a_relay(at, answer, async move |world| {
            let refused = world.send(draft(), None).await;
            assert!(
                matches!(refused, Err(Error::Rejected(_))),
                "{at}: {refused:?}"
            );
        })
        .await;
    }
    with_a_relay("AUTH", "535 no\r\n", async |world| {
        let refused = world.send(draft(), None).await;
        assert!(
            matches!(refused, Err(Error::CredentialRefused)),
            "{refused:?}"
        );
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_that_goes_with_the_whole_message_leaves_its_end_unknown_and_it_is_not_sent_again()
{
    with_a_relay(".", "", async |mut world| {
        let unknown = world.send(draft(), Some("k")).await;
        assert!(matches!(unknown, Err(Error::Unknown(_))), "{unknown:?}");
        world.relay.take();
        for _ in 0..2 {
            let again = world.send(draft(), Some("k")).await;
            assert!(matches!(again, Err(Error::Unknown(_))), "{again:?}");
            world.restart();
        }
        assert!(world.relay.take().is_empty());
        assert!(world.mailbox.take().is_empty());
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_connection_that_died_while_it_was_idle_is_replaced_unseen() {
    with_a_relay("QUIT", "", async |world| {
        world.send(draft(), None).await.unwrap();
        world.relay.hang_up();
        world.send(draft(), None).await.unwrap();
        let told = world.relay.take();
        assert_eq!(told.iter().filter(|line| *line == "DATA").count(), 2);
        // A closed IMAP connection is replaced too, and no copy is stored twice.
        world.mailbox.take();
        world.mailbox.hang_up().await;
        let sent = world.send(draft(), None).await.unwrap();
        assert_eq!(sent.saved_to.as_deref(), Some("Sent"));
        assert_eq!(world.mailbox.take().len(), 1);
        // A connection with a revoked credential is not used again.
        world.relay.take();
        world.outbox.mail.end(&["first".into()]).await;
        world.send(draft(), None).await.unwrap();
        assert!(world.relay.take()[0].starts_with("EHLO "));
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_was_begun_by_a_process_that_is_gone_is_told_as_that_and_never_sent_twice() {
    with_a_relay("", "", async |mut world| {
        let directory = world.fresh.directory.clone();
        let checked = draft().checked().unwrap();
        let now = Clock::system().now();
        let access = world.access.clone();
        let key = |key: &str| -> Key { once::key(&access, key) };
        let begin = async |name: &str, at| {
            let (key, print) = (key(name), checked.fingerprint());
            let begun = directory.begin_sending(&key, &print, "other", "<1@x>", at);
            assert!(begun.await.unwrap().is_none());
        };
        // While the other process may still be sending, the key is in progress. After the longest send, the outcome is unknown.
        begin("new", now).await;
        let under_way = world.send(draft(), Some("new")).await;
        assert!(
            matches!(under_way, Err(Error::Conflict(_))),
            "{under_way:?}"
        );
        begin("old", Timestamp::from_millis(now.millis() - 200_000)).await;
        let unknown = world.send(draft(), Some("old")).await;
        assert!(matches!(unknown, Err(Error::Unknown(_))), "{unknown:?}");
        // When the only process of a database restarts, the outcome is unknown immediately.
        Directory::open(&world.fresh.config, &[]).await.unwrap();
        world.restart();
        let unknown = world.send(draft(), Some("new")).await;
        assert!(matches!(unknown, Err(Error::Unknown(_))), "{unknown:?}");
        assert!(world.relay.take().is_empty());
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_key_sends_once_however_often_and_at_once_it_comes() {
    with_a_relay("", "", async |world| {
        let at_once = (0..8).map(|_| world.send(draft(), Some("k")));
        let answers = futures_util::future::join_all(at_once).await;
        let mut ids = Vec::new();
        for answer in answers {
            match answer {
                Ok(sent) => ids.push(sent.message_id),
                Err(error) => assert!(matches!(error, Error::Conflict(_)), "{error:?}"),
            }
        }
        ids.dedup();
        assert_eq!(ids.len(), 1);
        let again = world.send(draft(), Some("k")).await.unwrap();
        assert_eq!(
            (again.replayed, again.saved_to.as_deref()),
            (true, Some("Sent"))
        );
        assert_eq!(again.message_id, ids[0]);
        let other = Draft {
            subject: "t".into(),
            ..draft()
        };
        let conflict = world.send(other, Some("k")).await;
        assert!(matches!(conflict, Err(Error::Conflict(_))), "{conflict:?}");
        let sent = world.relay.take();
        assert_eq!(sent.iter().filter(|line| *line == "DATA").count(), 1);
    })
    .await;
}
