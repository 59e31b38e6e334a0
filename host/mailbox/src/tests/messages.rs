//! Tests of single messages and attachments.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use futures_util::{StreamExt as _, TryStreamExt as _};
use latchmail_core::message_number::MessageNumber;
use tokio::sync::Semaphore;

use super::{TestMailbox, new_mail, with_mailbox};
use crate::MessageQuery;
use crate::bounds::{DOWNLOADS_PER_ACCOUNT, LARGE_MESSAGE_MIB, MESSAGE_MEMORY_MIB};
use crate::{Access, Attachment, AttachmentContent, Error, Mail};

const MESSAGE: &[u8] = b"From: =?utf-8?Q?B=C3=B6?= <bo@example.net>\r\n\
To: ada@example.org, Team: x@example.org, y@example.org;\r\n\
Cc: cc@example.org\r\n\
Reply-To: replies@example.net\r\n\
Subject: =?utf-8?B?R3LDvMOfZQ==?=\r\n\
Date: Fri, 20 Nov 2026 09:00:00 +0100\r\n\
Message-ID: <letter@example.net>\r\n\
In-Reply-To: <before@example.org>\r\n\
References: <first@example.org> <before@example.org>\r\n\
MIME-Version: 1.0\r\n\
Content-Type: multipart/mixed; boundary=outer\r\n\
\r\n\
preamble\r\n\
--outer\r\n\
Content-Type: multipart/alternative; boundary=\"inner one\"\r\n\
\r\n\
--inner one\r\n\
Content-Type: text/plain; charset=iso-8859-1\r\n\
Content-Transfer-Encoding: quoted-printable\r\n\
\r\n\
Sch=F6ne Gr=FC=DFe\r\n\
--inner one\r\n\
Content-Type: text/html; charset=utf-8\r\n\
\r\n\
<p>Sch\xc3\xb6ne Gr\xc3\xbc\xc3\x9fe</p>\r\n\
--inner one--\r\n\
--outer\r\n\
Content-Type: application/pdf; name=\"a/b.pdf\"\r\n\
Content-Disposition: attachment; filename=\"a/b.pdf\"\r\n\
Content-Transfer-Encoding: base64\r\n\
\r\n\
AAEC\r\n\
/w==\r\n\
--outer\r\n\
Content-Type: message/rfc822\r\n\
\r\n\
Subject: inside\r\n\
\r\n\
inner text\r\n\
--outer\r\n\
Content-Type: text/plain\r\n\
\r\n\
a footer\r\n\
--outer--\r\n\
epilogue\r\n";

/// Downloads an attachment. Returns `None` if the message has no such attachment.
async fn download(
    mail: &Arc<Mail>,
    access: &Access,
    uid: MessageNumber,
    index: u32,
) -> Option<(Attachment, Vec<u8>)> {
    let found = mail.reading.attachment(access, uid, index).await;
    let AttachmentContent {
        attachment,
        content,
    } = found.unwrap().unwrap()?;
    let chunks: Vec<Bytes> = content.open().try_collect().await.unwrap();
    Some((attachment, chunks.concat()))
}

/// Returns whether the message can be read and exists.
async fn has_message(mail: &Mail, access: &Access, number: MessageNumber) -> bool {
    let found = mail.reading.message(access, number).await;
    found.unwrap().is_some()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_message_has_its_text_html_and_attachments() {
    with_mailbox(async |test| {
        let mut client = test.dovecot.client("ada");
        client.append("INBOX", "()", &super::short_message("before", "x"));
        client.append("INBOX", "(\\Flagged)", MESSAGE);
        let listing = test.listing("INBOX", 0, 10).await;
        let uid = listing.messages[0].number;
        let detail = test.detail(uid).await;
        assert_eq!(detail.summary, listing.messages[0]);
        assert_eq!(detail.summary.seq, 2);
        assert_eq!(detail.summary.size, MESSAGE.len() as u64);
        assert_eq!(detail.summary.subject, "Grüße");
        assert_eq!(detail.summary.preview, "Schöne Grüße");
        assert_eq!(detail.summary.flags, ["\\Flagged"]);
        assert_eq!(detail.summary.from[0].name, "Bö");
        let to: Vec<_> = detail
            .summary
            .to
            .iter()
            .map(|a| a.address.as_str())
            .collect();
        assert_eq!(to, ["ada@example.org", "x@example.org", "y@example.org"]);
        assert_eq!(detail.cc[0].address, "cc@example.org");
        assert_eq!(detail.reply_to[0].address, "replies@example.net");
        assert_eq!(detail.message_id, "<letter@example.net>");
        assert_eq!(detail.in_reply_to.as_deref(), Some("<before@example.org>"));
        assert_eq!(
            detail.references,
            ["<first@example.org>", "<before@example.org>"]
        );
        assert_eq!(detail.text.as_deref(), Some("Schöne Grüße"));
        assert_eq!(detail.html.as_deref(), Some("<p>Schöne Grüße</p>"));
        assert_eq!(detail.new_text.as_deref(), Some("Schöne Grüße"));
        assert!(!detail.truncated);
        let attachment = |index, filename: &str, content_type: &str, size| Attachment {
            index,
            filename: filename.into(),
            content_type: content_type.into(),
            size,
            content_id: None,
            is_inline: false,
        };
        assert_eq!(
            detail.attachments,
            [
                attachment(0, "a_b.pdf", "application/pdf", 4),
                attachment(1, "attachment-2.eml", "message/rfc822", 29),
                attachment(2, "attachment-3.txt", "text/plain", 8),
            ]
        );
        let contents: [&[u8]; 3] = [
            b"\x00\x01\x02\xff",
            b"Subject: inside\r\n\r\ninner text",
            b"a footer",
        ];
        for (attachment, bytes) in detail.attachments.iter().zip(contents) {
            let read = download(&test.mail, &test.access, uid, attachment.index).await;
            assert_eq!(read, Some((attachment.clone(), bytes.to_vec())));
        }
        assert_eq!(download(&test.mail, &test.access, uid, 3).await, None);
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_unknown_number_returns_none() {
    with_mailbox(async |test| {
        let mut client = test.dovecot.client("ada");
        client.append("INBOX", "()", &super::short_message("a", "x"));
        let uid = test.listing("INBOX", 0, 1).await.messages[0].number;
        let found = test.mail.reading.message(&test.access, uid).await.unwrap();
        assert!(found.is_some());
        for unknown in [0, uid.0 + 1, u32::MAX.into(), u64::MAX].map(MessageNumber) {
            assert_eq!(
                test.mail
                    .reading
                    .message(&test.access, unknown)
                    .await
                    .unwrap(),
                None
            );
            let attachment = test.mail.reading.attachment(&test.access, unknown, 0).await;
            assert!(attachment.unwrap().is_none());
        }
        // Numbers are separate for each mailbox: the number of one account means nothing in
        // another.
        test.fresh
            .directory
            .with("bob", "bob@example.org", &[])
            .await;
        let bob = super::access("bob", "bobs");
        assert_eq!(test.mail.reading.message(&bob, uid).await.unwrap(), None);
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_large_message_is_not_truncated() {
    with_mailbox(async |test| {
        let number = append_large(&test, 500_000).await;
        let summary = &test.listing("INBOX", 0, 1).await.messages[0];
        let detail = test.detail(number).await;
        assert_eq!(&detail.summary, summary);
        assert_eq!(
            (detail.attachments[0].size, detail.truncated),
            (9_000_000, false)
        );
    })
    .await;
}

/// Appends a message with an attachment of `lines` lines, each of 16 bytes and a line break.
/// Returns its number.
async fn append_large(test: &TestMailbox, lines: usize) -> MessageNumber {
    append_large_to(test, "INBOX", lines).await
}

async fn append_large_to(test: &TestMailbox, folder: &str, lines: usize) -> MessageNumber {
    let mut large = b"Subject: large\r\nContent-Type: multipart/mixed; boundary=b\r\n\r\n--b\r\n\r\ntext\r\n--b\r\nContent-Type: image/png\r\n\r\n".to_vec();
    large.extend(std::iter::repeat_n(b"0123456789abcdef\r\n", lines).flatten());
    large.extend_from_slice(b"\r\n--b--\r\n");
    test.dovecot.client("ada").append(folder, "()", &large);
    let listing = test
        .mail
        .listing
        .messages(&test.access, MessageQuery::page(folder, 0, 1))
        .await;
    listing.unwrap().unwrap().messages[0].number
}

#[tokio::test(flavor = "multi_thread")]
async fn a_message_larger_than_the_first_read_is_read_completely() {
    with_mailbox(async |test| {
        // Just below the size of the first read, at it, and above it.
        for lines in [58_000, 58_240, 58_260, 166_667] {
            let uid = append_large(&test, lines).await;
            let size = lines as u64 * 18;
            let detail = test.detail(uid).await;
            assert_eq!(
                (detail.attachments[0].size, detail.truncated),
                (size, false)
            );
            assert_eq!(detail.text.as_deref(), Some("text"));
            // The second reading uses the cached structure.
            assert_eq!(test.detail(uid).await, detail);
            let (_, content) = download(&test.mail, &test.access, uid, 0).await.unwrap();
            assert_eq!(content.len() as u64, size);
            assert!(
                content
                    .chunks(18)
                    .all(|line| line == b"0123456789abcdef\r\n")
            );
        }
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_attachment_of_a_message_is_not_read_from_a_new_folder_with_the_same_name() {
    with_mailbox(async |test| {
        let mut client = test.dovecot.client("ada");
        client.ok("CREATE Films");
        let before = append_large_to(&test, "Films", 60_000).await;
        let (mail, access) = (&test.mail, &test.access);
        assert!(download(mail, access, before, 0).await.is_some());
        for command in ["RENAME Films Old", "CREATE Films"] {
            client.ok(command);
        }
        // The same UID with another UIDVALIDITY.
        let after = append_large_to(&test, "Films", 60_000).await;
        assert_ne!(before, after);
        // The first message is found in its renamed folder. After its deletion, no other message is
        // returned for its number.
        assert!(download(mail, access, before, 0).await.is_some());
        client.ok("DELETE Old");
        let deleted = mail.reading.attachment(access, before, 0).await.unwrap();
        assert!(deleted.is_none());
        let (_, bytes) = download(mail, access, after, 0).await.unwrap();
        assert_eq!(bytes.len(), 60_000 * 18);
        client.ok("DELETE Films");
        assert!(
            mail.reading
                .attachment(access, after, 0)
                .await
                .unwrap()
                .is_none()
        );
    })
    .await;
}

/// Reduces the memory for messages to `mib` MiB, and returns its permits.
fn limit_memory(mail: &Mail, mib: usize) -> Arc<Semaphore> {
    let permits = &mail.context.message_memory.permits;
    permits.forget_permits(MESSAGE_MEMORY_MIB - mib);
    Arc::clone(permits)
}

#[tokio::test(flavor = "multi_thread")]
async fn memory_for_large_messages_is_released_and_waited_for() {
    with_mailbox(async |test| {
        let uid = append_large(&test, 166_667).await;
        let mut config = test.dovecot.config();
        config.timeout = Duration::from_secs(5);
        let mail = new_mail(&config, &test.fresh.directory);
        let mail = Arc::new(mail);
        // The memory is sufficient for one message of 3 MB at a time.
        let all = LARGE_MESSAGE_MIB as usize + 1;
        let memory = limit_memory(&mail, all);
        for _ in 0..5 {
            assert!(has_message(&mail, &test.access, uid).await);
            assert_eq!(memory.available_permits(), all);
        }
        let readers: Vec<_> = (0..6)
            .map(|n| {
                let (mail, access) = (Arc::clone(&mail), test.access.clone());
                tokio::spawn(async move {
                    match n % 2 {
                        0 => mail
                            .reading
                            .message(&access, uid)
                            .await
                            .map(|found| found.is_some()),
                        _ => Ok(download(&mail, &access, uid, 0).await.is_some()),
                    }
                })
            })
            .collect();
        for reader in readers {
            assert!(reader.await.unwrap().unwrap());
        }
        assert_eq!(memory.available_permits(), all);
        // Without free memory, a small message can be read and a large message waits.
        let permits = Arc::clone(&memory)
            .acquire_many_owned(LARGE_MESSAGE_MIB + 1)
            .await
            .unwrap();
        test.dovecot
            .client("ada")
            .append("INBOX", "()", &super::short_message("small", "x"));
        let small = mail
            .listing
            .messages(&test.access, MessageQuery::page("INBOX", 0, 1))
            .await
            .unwrap()
            .unwrap()
            .messages[0]
            .number;
        assert!(has_message(&mail, &test.access, small).await);
        let result = mail.reading.message(&test.access, uid).await;
        assert!(matches!(result, Err(Error::Unavailable(_))), "{result:?}");
        drop(permits);
        assert!(has_message(&mail, &test.access, uid).await);
        // A cancelled call returns its memory.
        for millis in [0, 1, 2, 4, 8, 16] {
            let call = mail.reading.message(&test.access, uid);
            let _ = tokio::time::timeout(Duration::from_millis(millis), call).await;
        }
        assert!(has_message(&mail, &test.access, uid).await);
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn downloads_of_slow_clients_do_not_use_up_the_memory() {
    const LINES: usize = 60_000;
    with_mailbox(async |test| {
        let uid = append_large(&test, LINES).await;
        let mail = new_mail(&test.dovecot.config(), &test.fresh.directory);
        let mail = Arc::new(mail);
        limit_memory(&mail, DOWNLOADS_PER_ACCOUNT);
        let mut downloads = Vec::new();
        for number in 0..DOWNLOADS_PER_ACCOUNT {
            let found = mail.reading.attachment(&test.access, uid, 0).await.unwrap();
            let mut stream = found.unwrap().unwrap().content.open();
            // Half of the clients do not even read the first bytes.
            let first = match number % 2 {
                0 => stream.next().await.unwrap().unwrap(),
                _ => Bytes::new(),
            };
            downloads.push((first, stream));
        }
        // The clients read no further bytes for now.
        assert!(has_message(&mail, &test.access, uid).await);
        for (first, stream) in downloads {
            let rest: Vec<Bytes> = stream.try_collect().await.unwrap();
            let content = [&first[..], &rest.concat()].concat();
            assert_eq!(content, b"0123456789abcdef\r\n".repeat(LINES));
        }
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_message_read_again_has_the_changes_of_another_client() {
    with_mailbox(async |test| {
        let uids = test.append("INBOX", &["a", "b"]).await;
        let mut client = test.dovecot.client("ada");
        client.ok("SELECT INBOX");
        for flag in ["\\Seen", "\\Flagged"] {
            test.mail
                .reading
                .message(&test.access, uids[1])
                .await
                .unwrap();
            client.ok(&format!("STORE 2 +FLAGS ({flag})"));
            let message = test
                .mail
                .reading
                .message(&test.access, uids[1])
                .await
                .unwrap();
            let flags = message.unwrap().summary.flags;
            assert!(flags.iter().any(|f| f == flag), "{flags:?}");
        }
        client.ok("STORE 1 +FLAGS (\\Deleted)");
        client.ok("EXPUNGE");
        let message = test
            .mail
            .reading
            .message(&test.access, uids[1])
            .await
            .unwrap();
        assert_eq!(message.unwrap().summary.seq, 1);
        let deleted = test
            .mail
            .reading
            .message(&test.access, uids[0])
            .await
            .unwrap();
        assert!(deleted.is_none());
    })
    .await;
}

/// Returns the version of a message's state, without reading the message.
async fn state(test: &TestMailbox, number: MessageNumber) -> Option<String> {
    let version = test.mail.reading.version(&test.access, number).await;
    version.unwrap().map(|version| version.state)
}

#[tokio::test(flavor = "multi_thread")]
async fn a_version_is_that_of_the_message_also_if_only_the_flags_are_read() {
    with_mailbox(async |test| {
        let numbers = test.append("INBOX", &["a", "b"]).await;
        let mut client = test.dovecot.client("ada");
        client.ok("SELECT INBOX");
        // The first call reads the thread of the message, and the others find it in the cache.
        for flag in ["\\Seen", "\\Flagged", "x"] {
            client.ok(&format!("STORE 1 +FLAGS ({flag})"));
            let current = test.detail(numbers[0]).await.version;
            assert_eq!(state(&test, numbers[0]).await.as_deref(), Some(&*current));
        }
        client.ok("STORE 1 +FLAGS (\\Deleted)");
        client.ok("EXPUNGE");
        assert_eq!(state(&test, numbers[0]).await, None);
    })
    .await;
}
