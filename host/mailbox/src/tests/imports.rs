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
use crate::{Flag, SpamVerdict, Verdict};

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
