//! Imports, with a mail server whose responses can get lost.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use bytes::Bytes;
use latchmail_core::clock::{Clock, Timestamp};
use memchr::memmem;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};

use super::{TestMailbox, config, new_mail, short_message, with_mailbox};
use crate::importing::{Import, Importer};
use crate::message::identity::header_identity;
use crate::{Flag, Mail, MailSettings, SpamVerdict, TrustedResults, Verdict};

/// Starts a proxy for a mail server. While `is_armed` is set, the proxy closes a connection instead
/// of returning the response to APPEND. Returns its port.
async fn proxy(port: u16, is_armed: Arc<AtomicBool>) -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    tokio::spawn(async move {
        while let Ok((client, _)) = listener.accept().await {
            let is_armed = Arc::clone(&is_armed);
            tokio::spawn(async move {
                let server = TcpStream::connect(("127.0.0.1", port)).await.unwrap();
                let (mut from_client, mut to_client) = client.into_split();
                let (mut from_server, mut to_server) = server.into_split();
                tokio::spawn(async move {
                    let _ = tokio::io::copy(&mut from_client, &mut to_server).await;
                });
                let mut buffer = vec![0; 64 * 1024];
                while let Ok(length @ 1..) = from_server.read(&mut buffer).await {
                    let response = &buffer[..length];
                    let is_append = memmem::find(response, b"[APPENDUID").is_some();
                    if is_append && is_armed.load(Ordering::Relaxed) {
                        return;
                    }
                    to_client.write_all(response).await.unwrap();
                }
            });
        }
    });
    address.port()
}

fn import(subject: &str) -> Import {
    Import {
        folder: "INBOX".into(),
        message: Bytes::from(short_message(subject, "Text.")),
        flags: Flag::named("\\Seen").into_iter().collect(),
        received_at: Some(Timestamp::from_millis(1_700_000_000_000)),
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn an_import_whose_response_is_lost_is_stored_once() {
    with_mailbox(async |test: TestMailbox| {
        let is_armed = Arc::new(AtomicBool::new(true));
        let port = proxy(test.dovecot.port(), Arc::clone(&is_armed)).await;
        let mail = Arc::new(new_mail(&config(port), &test.fresh.directory));
        let directory = test.fresh.directory.clone();
        let clock = Clock::system();
        let importer = Arc::new(Importer::new(directory, mail, clock, "host"));
        for key in [None, Some("key")] {
            let stored = importer.import(&test.access, import("one"), key).await;
            let stored = stored.unwrap().unwrap();
            assert!(!stored.replayed);
            let message = test.detail(stored.number).await;
            assert_eq!(message.summary.subject, "one");
            assert_eq!(message.summary.flags, ["\\Seen"]);
            assert_eq!(message.authentication.verdict, Verdict::None);
            assert_eq!(message.spam.verdict, SpamVerdict::None);
        }
        let repeated = importer.import(&test.access, import("one"), Some("key"));
        assert!(repeated.await.unwrap().unwrap().replayed);
        assert_eq!(test.listing("INBOX", 0, 10).await.total, 2);
    })
    .await;
}

/// The service trusts a header without a proof, so a message that is being imported must not have
/// the results that its header claims.
#[tokio::test(flavor = "multi_thread")]
async fn a_message_is_not_trusted_before_its_import_has_ended() {
    with_mailbox(async |test: TestMailbox| {
        let settings = MailSettings {
            trusted_results: TrustedResults {
                authserv_id: "mx.test".into(),
                key: None,
                spam_header: "X-Spam".into(),
            },
            ..MailSettings::default()
        };
        let config = config(test.dovecot.port());
        let mail = Mail::new(&config, test.fresh.directory.clone(), settings);
        let mail = Arc::new(mail.unwrap());
        let claim = |subject: &str| {
            let claim = "Authentication-Results: mx.test; dmarc=pass header.from=example.net\r\n\
                X-Spam: no\r\n";
            let message = [claim.as_bytes(), &short_message(subject, "Text.")].concat();
            Bytes::from(message)
        };
        let verdicts = async |number| {
            let detail = mail.reading.message(&test.access, number).await;
            let detail = detail.unwrap().unwrap();
            let batch = mail
                .reading
                .messages(&test.access, &[number])
                .await
                .unwrap();
            assert_eq!(batch[0].authentication, detail.authentication);
            (detail.authentication.verdict, detail.spam.verdict)
        };
        let trusted = (Verdict::Pass, SpamVerdict::Ham);
        let none = (Verdict::None, SpamVerdict::None);
        let mut client = test.dovecot.client("ada");
        // The moment after APPEND. Another request has numbered the message and cached its
        // location.
        client.append("INBOX", "()", &claim("imported"));
        client.append("INBOX", "()", &claim("delivered"));
        let numbers = test.contents("INBOX").await;
        let (imported, delivered) = (numbers[0].1, numbers[1].1);
        assert_eq!(verdicts(imported).await, trusted);
        let message = claim("imported");
        let (header, _) = latchmail_mime::split(&message);
        let imports = &test.fresh.directory.imports;
        let header = header_identity(header);
        imports
            .begin_mark(&test.access.account, header)
            .await
            .unwrap();
        assert_eq!(verdicts(imported).await, none);
        assert_eq!(verdicts(delivered).await, trusted);
        // An import that ended.
        let service = Importer::new(
            test.fresh.directory.clone(),
            Arc::clone(&mail),
            Clock::system(),
            "host",
        );
        let message = Import {
            message: claim("another"),
            ..import("")
        };
        let stored = Arc::new(service).import(&test.access, message, None).await;
        assert_eq!(verdicts(stored.unwrap().unwrap().number).await, none);
    })
    .await;
}
