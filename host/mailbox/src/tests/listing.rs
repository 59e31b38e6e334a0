//! Tests of listings: order, pages, changes by other clients, and numbers.

use std::collections::HashSet;
use std::sync::Arc;

use super::{short_message, with_mailbox};
use crate::{Error, MessageQuery, PageStart, Summary};

fn subjects(messages: &[Summary]) -> Vec<&str> {
    messages.iter().map(|m| m.subject.as_str()).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn messages_are_listed_in_pages_newest_first() {
    with_mailbox(async |test| {
        let mut client = test.dovecot.client("ada");
        for n in 1..=5 {
            client.append(
                "INBOX",
                "()",
                &short_message(&format!("m{n}"), &format!("text {n}")),
            );
        }
        let page = async |offset, limit| test.listing("INBOX", offset, limit).await;
        let first = page(0, 2).await;
        assert_eq!(
            (subjects(&first.messages), first.total),
            (vec!["m5", "m4"], 5)
        );
        let last = page(4, 2).await;
        assert_eq!((subjects(&last.messages), last.total), (vec!["m1"], 5));
        assert_eq!(
            (last.messages[0].seq, last.messages[0].preview.as_str()),
            (1, "text 1")
        );
        for past in [5, 100, u32::MAX] {
            let none = page(past, 2).await;
            assert_eq!((none.messages.len(), none.total), (0, 5));
        }
        let all = page(0, 100).await.messages;
        assert_eq!(subjects(&all), ["m5", "m4", "m3", "m2", "m1"]);
        assert_eq!(
            all.iter().map(|m| m.seq).collect::<Vec<_>>(),
            [5, 4, 3, 2, 1]
        );
        // Numbers are unique and stable.
        assert_eq!(
            all.iter().map(|m| m.number).collect::<HashSet<_>>().len(),
            5
        );
        assert_eq!(page(0, 2).await, first);
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_empty_folder_has_no_messages() {
    with_mailbox(async |test| {
        let listing = test.listing("Drafts", 0, 50).await;
        assert_eq!((listing.messages.len(), listing.total), (0, 0));
        let known = test
            .fresh
            .number("SELECT COUNT(*) FROM folders WHERE path = 'Drafts' AND uid_next = 1")
            .await;
        assert_eq!(known, 1);
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_listing_shows_changes_by_other_clients_at_once() {
    with_mailbox(async |test| {
        let mut client = test.dovecot.client("ada");
        let list = async || test.listing("INBOX", 0, 10).await;
        for n in 1..=20 {
            client.append("INBOX", "()", &short_message(&format!("m{n}"), "x"));
            let listing = list().await;
            assert_eq!(
                (listing.total, listing.messages[0].subject.clone()),
                (n, format!("m{n}"))
            );
        }
        client.ok("SELECT INBOX");
        client.ok("STORE 20 +FLAGS (\\Flagged)");
        let before = list().await.messages;
        assert_eq!(before[0].flags, ["\\Flagged"]);
        client.ok("STORE 1:19 +FLAGS (\\Deleted)");
        client.ok("EXPUNGE");
        let after = list().await;
        assert_eq!((after.total, after.messages.len()), (1, 1));
        // The position changed and the number did not.
        assert_eq!(
            (after.messages[0].seq, after.messages[0].number),
            (1, before[0].number)
        );
        client.ok("STORE 1 +FLAGS (\\Deleted)");
        client.ok("EXPUNGE");
        assert_eq!(list().await.total, 0);
        assert_eq!(
            test.mail
                .reading
                .message(&test.access, before[0].number)
                .await
                .unwrap(),
            None
        );
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_new_folder_with_the_name_of_a_renamed_or_deleted_folder_is_another_folder() {
    with_mailbox(async |test| {
        let mut client = test.dovecot.client("ada");
        client.ok("CREATE Work");
        client.append("Work", "()", &short_message("old", "x"));
        let list = async |folder| {
            test.mail
                .listing
                .messages(&test.access, MessageQuery::page(folder, 0, 10))
                .await
                .unwrap()
        };
        let old = list("Work").await.unwrap().messages;
        client.ok("RENAME Work Done");
        assert_eq!(list("Work").await, None);
        client.ok("CREATE Work");
        assert_eq!(list("Work").await.unwrap().total, 0);
        client.append("Work", "()", &short_message("new", "x"));
        let new = list("Work").await.unwrap().messages;
        assert_eq!(subjects(&new), ["new"]);
        assert_ne!(new[0].number, old[0].number);
        client.ok("DELETE Work");
        assert_eq!(list("Work").await, None);
        // The old number refers to no message, and not to a new one.
        assert_eq!(
            test.mail
                .reading
                .message(&test.access, new[0].number)
                .await
                .unwrap(),
            None
        );
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn reading_does_not_change_flags() {
    with_mailbox(async |test| {
        let mut client = test.dovecot.client("ada");
        client.append(
            "INBOX",
            "(\\Answered $Forwarded custom)",
            &short_message("a", "x"),
        );
        let listing = test.listing("INBOX", 0, 10).await;
        let mut flags = listing.messages[0].flags.clone();
        flags.sort();
        assert_eq!(flags, ["$Forwarded", "\\Answered", "custom"]);
        let uid = listing.messages[0].number;
        test.detail(uid).await;
        test.mail
            .reading
            .attachment(&test.access, uid, 0)
            .await
            .unwrap()
            .unwrap();
        let after = test.listing("INBOX", 0, 10).await;
        assert_eq!(after, listing);
        // The message is still recent for a client that opens the folder.
        assert!(client.ok("SELECT INBOX").contains("* 1 RECENT"));
        assert!(!client.ok("FETCH 1 (FLAGS)").contains("\\Seen"));
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn two_hundred_messages_with_keywords_are_listed_in_two_pages() {
    with_mailbox(async |test| {
        let mut client = test.dovecot.client("ada");
        for n in 0..200 {
            client.append(
                "INBOX",
                &format!("(keyword{} \\Seen)", n % 7),
                &short_message(&format!("m{n}"), "x"),
            );
        }
        let mut seen = HashSet::new();
        for page in 0..2 {
            let listing = test
                .mail
                .listing
                .messages(&test.access, MessageQuery::page("INBOX", page * 100, 100))
                .await
                .unwrap()
                .unwrap();
            assert_eq!((listing.messages.len(), listing.total), (100, 200));
            for message in listing.messages {
                let n: u32 = message.subject[1..].parse().unwrap();
                assert_eq!(message.seq, n + 1);
                assert!(message.flags.contains(&format!("keyword{}", n % 7)));
                assert!(seen.insert(message.number));
            }
        }
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn concurrent_listings_return_the_same_numbers() {
    with_mailbox(async |test| {
        let mut client = test.dovecot.client("ada");
        for n in 0..60 {
            client.append("INBOX", "()", &short_message(&format!("m{n}"), "x"));
        }
        let tasks: Vec<_> = (0..16)
            .map(|n| {
                let (mail, access) = (
                    Arc::clone(&test.mail),
                    super::access("ada", &format!("c{}", n % 3)),
                );
                tokio::spawn(async move {
                    mail.listing
                        .messages(&access, MessageQuery::page("INBOX", 0, 60))
                        .await
                        .unwrap()
                        .unwrap()
                })
            })
            .collect();
        let mut listings = Vec::new();
        for task in tasks {
            listings.push(task.await.unwrap());
        }
        assert!(listings.windows(2).all(|two| two[0] == two[1]));
        // The numbers follow the order of arrival and begin with 1.
        let numbers: Vec<_> = listings[0]
            .messages
            .iter()
            .rev()
            .map(|m| m.number.0)
            .collect();
        assert_eq!(numbers, (1..=60).collect::<Vec<_>>());
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_message_whose_text_starts_late_has_a_preview() {
    with_mailbox(async |test| {
        let mut client = test.dovecot.client("ada");
        let style = ".x{color:red}\r\n".repeat(1500);
        let newsletter = format!(
            "Subject: news\r\nContent-Type: text/html; charset=utf-8\r\n\r\n<html><head><style>{style}</style></head><body><p>Gr\u{fc}\u{df}e</p><p>an alle</p>"
        );
        client.append("INBOX", "()", newsletter.as_bytes());
        client.append("INBOX", "()", &short_message("plain", &"word ".repeat(100)));
        let listing = test.listing("INBOX", 0, 10).await;
        assert_eq!(listing.messages[1].preview, "Grüße an alle");
        assert!(listing.messages[0].preview.starts_with("word word"));
        for summary in listing.messages {
            let detail = test.detail(summary.number).await;
            assert_eq!(detail.summary, summary);
        }
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_message_without_a_date_has_the_time_of_its_arrival() {
    with_mailbox(async |test| {
        let mut client = test.dovecot.client("ada");
        client.append(
            "INBOX",
            r#"() " 7-Nov-2026 10:00:00 +0100""#,
            b"Subject: x\r\n\r\ny\r\n",
        );
        client.append(
            "INBOX",
            r#"() "07-Nov-2026 10:00:00 +0100""#,
            b"Date: soon\r\n\r\n",
        );
        client.append(
            "INBOX",
            r#"() "07-Nov-2026 10:00:00 +0100""#,
            b"\r\n\xff\xfe\x00 text without a header\r\n",
        );
        let listing = test.listing("INBOX", 0, 10).await;
        assert_eq!(listing.messages.len(), 3);
        for message in listing.messages {
            assert_eq!(message.date.to_string(), "2026-11-07T09:00:00.000Z");
            assert_eq!((message.from, message.to), (vec![], vec![]));
        }
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_message_with_a_very_long_header_is_listed_correctly() {
    with_mailbox(async |test| {
        let mut client = test.dovecot.client("ada");
        let copies = "copy@example.org,\r\n ".repeat(4_000);
        for n in [1, 2] {
            // The headers of the two messages differ only after the first 64 KiB.
            let long = format!(
                "Cc: {copies}\r\nFrom: Bo <bo@example.net>\r\nTo: ada@example.org\r\nSubject: long {n}\r\n\
                 Date: Fri, 20 Nov 2026 09:00:00 +0100\r\nContent-Type: text/html\r\n\r\n<style>{}</style><p>text {n}</p>\r\n",
                ".x{color:red}\r\n".repeat(800 * (n - 1))
            );
            client.append("INBOX", "() \"20-Nov-2026 10:00:00 +0100\"", long.as_bytes());
        }
        client.append("INBOX", "()", &short_message("short", "x"));
        let list = async || test.listing("INBOX", 0, 10).await;
        let first = list().await;
        assert_eq!(subjects(&first.messages), ["short", "long 2", "long 1"]);
        assert_eq!(first.messages[1].preview, "text 2");
        assert_eq!(first.messages[2].preview, "text 1");
        for summary in &first.messages {
            let detail = test.detail(summary.number).await;
            assert_eq!(detail.summary, *summary);
        }
        assert_eq!(list().await, first);
        // The identity covers the same bytes in every folder, so the copies have the identities of
        // their originals.
        client.ok("SELECT INBOX");
        client.ok("COPY 1:2 Trash");
        let copies = test.listing("Trash", 0, 10).await;
        assert_eq!(subjects(&copies.messages), ["long 2", "long 1"]);
        let identities = test.fresh.number("SELECT COUNT(DISTINCT identity) FROM messages").await;
        assert_eq!(identities, 3);
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn replies_have_the_thread_id_of_their_root() {
    with_mailbox(async |test| {
        let mut client = test.dovecot.client("ada");
        let mut append = |fields: &str| {
            let message = format!("From: bo@example.net\r\nSubject: s\r\n{fields}\r\ntext\r\n");
            client.append("INBOX", "()", message.as_bytes());
        };
        append("Message-ID: <root@x>\r\n");
        append("Message-ID: <1@x>\r\nReferences: <root@x>\r\n <0@x>\r\nIn-Reply-To: <0@x>\r\n");
        append("Message-ID: <2@x>\r\nIn-Reply-To: <root@x>\r\n");
        // The fields are longer than the limit of a listing.
        let many = " <other@x>\r\n".repeat(1000);
        append(&format!(
            "References: <root@x>\r\n{many}Message-ID: <{}@x>\r\n",
            "3".repeat(5000)
        ));
        let long = format!("<{}@x>", "4".repeat(5000));
        append(&format!(
            "References: {long}\r\n <other@x>\r\nMessage-ID: <4@x>\r\nIn-Reply-To: {long}\r\n"
        ));
        append("");
        append("");
        let messages = test.listing("INBOX", 0, 10).await.messages;
        let ids: Vec<_> = messages
            .iter()
            .rev()
            .map(|m| m.thread_id.as_str())
            .collect();
        assert!(ids[..4].iter().all(|id| *id == ids[0]), "{ids:?}");
        assert_eq!(
            ids[4..]
                .iter()
                .chain([&ids[0]])
                .collect::<HashSet<_>>()
                .len(),
            4
        );
        assert!(ids.iter().all(|id| id.len() == 16));
        for summary in &messages {
            assert_eq!(test.detail(summary.number).await.summary, *summary);
        }
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_page_by_cursor_begins_after_the_previous_page_whatever_has_changed() {
    with_mailbox(async |test| {
        let mut client = test.dovecot.client("ada");
        for n in 1..=9 {
            client.append("INBOX", "()", &short_message(&format!("m{n}"), "x"));
        }
        client.ok("SELECT INBOX");
        let page = async |unread, cursor: Option<&str>| {
            let query = MessageQuery {
                unread,
                start: cursor.map_or(PageStart::Offset(0), PageStart::Cursor),
                ..MessageQuery::page("INBOX", 0, 3)
            };
            test.mail.listing.messages(&test.access, query).await
        };
        let first = page(false, None).await.unwrap().unwrap();
        assert_eq!(subjects(&first.messages), ["m9", "m8", "m7"]);
        let first = first.next.unwrap();
        // Without changes, with a new message, without a listed message, and without older ones.
        for (change, expected, total) in [
            ("NOOP", &["m6", "m5", "m4"][..], 9),
            ("UID EXPUNGE 9", &["m6", "m5", "m4"], 9),
            ("UID EXPUNGE 5", &["m6", "m4", "m3"], 8),
            ("UID EXPUNGE 1:4", &["m6"], 4),
            ("UID EXPUNGE 6", &[], 3),
        ] {
            if change == "UID EXPUNGE 9" {
                client.append("INBOX", "()", &short_message("m10", "x"));
            }
            if let Some(uids) = change.strip_prefix("UID EXPUNGE ") {
                client.ok(&format!("UID STORE {uids} +FLAGS (\\Deleted)"));
            }
            client.ok(change);
            let next = page(false, Some(&first)).await.unwrap().unwrap();
            assert_eq!(subjects(&next.messages), expected, "{change}");
            assert_eq!(next.total, total, "{change}");
            let follows = expected
                .last()
                .is_some_and(|last| *last != "m6" && *last != "m1");
            assert_eq!(next.next.is_some(), follows, "{change}");
        }
        let unread = page(true, Some(&first)).await;
        assert!(matches!(unread, Err(Error::InvalidCursor)));
        client.ok("STORE 1:* +FLAGS (\\Seen)");
        client.ok("STORE 2 -FLAGS (\\Seen)");
        let unread = page(true, None).await.unwrap().unwrap();
        assert_eq!(
            (unread.messages.len(), unread.total, unread.next),
            (1, 1, None)
        );
    })
    .await;
}
