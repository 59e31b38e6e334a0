//! Tests of folder lists.

use super::with_mailbox;
use crate::MessageQuery;
use crate::Role;

#[tokio::test(flavor = "multi_thread")]
async fn folders_are_listed_with_counts_and_roles() {
    with_mailbox(async |test| {
        let mut client = test.dovecot.client("ada");
        client.append("INBOX", "(\\Seen)", &super::short_message("a", "a"));
        client.append("INBOX", "()", &super::short_message("b", "b"));
        client.ok("CREATE Zebra");
        client.ok("CREATE Archiv/2026");
        let folders = test.mail.listing.folders(&test.access).await.unwrap();
        let shown: Vec<_> = folders
            .iter()
            .map(|(f, _)| {
                (
                    f.path.as_str(),
                    f.name.as_str(),
                    f.messages,
                    f.unseen,
                    f.role,
                )
            })
            .collect();
        // `Archiv` itself cannot be opened.
        assert_eq!(
            shown,
            [
                ("INBOX", "INBOX", 2, 1, Some(Role::Inbox)),
                ("Sent", "Sent", 0, 0, Some(Role::Sent)),
                ("Drafts", "Drafts", 0, 0, Some(Role::Drafts)),
                ("Archive", "Archive", 0, 0, Some(Role::Archive)),
                ("Trash", "Trash", 0, 0, Some(Role::Trash)),
                ("Archiv/2026", "2026", 0, 0, None),
                ("Zebra", "Zebra", 0, 0, None),
            ]
        );
        assert!(folders.iter().all(|(f, _)| f.delimiter == "/"));
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn every_listed_folder_can_be_opened_with_any_name() {
    with_mailbox(async |test| {
        let mut client = test.dovecot.client("ada");
        for name in [
            r#""R&-D""#,
            r#""100%""#,
            r#""all*""#,
            r#""say \"hi\" \"\" \"\" and \\more""#,
            r#""back\\slash""#,
            r#""{5}""#,
            r#""Entw&APw-rfe/&ZeVnLIqe-/&2D3cCw-""#,
            r#""a b""#,
            r#""'; DROP TABLE folders; --""#,
        ] {
            client.ok(&format!("CREATE {name}"));
            client.append(name, "()", &super::short_message("there", "there"));
        }
        let folders = test.mail.listing.folders(&test.access).await.unwrap();
        let mut paths: Vec<_> = folders
            .iter()
            .filter(|(f, _)| f.role.is_none())
            .map(|(f, _)| f.path.as_str())
            .collect();
        paths.sort_unstable();
        assert_eq!(
            paths,
            [
                "'; DROP TABLE folders; --",
                "100%",
                "Entwürfe/日本語/🐋",
                "R&D",
                "a b",
                "all*",
                "back\\slash",
                "say \"hi\" \"\" \"\" and \\more",
                "{5}",
            ]
        );
        for (folder, _) in folders.iter().filter(|(f, _)| f.role.is_none()) {
            let listing = test
                .mail
                .listing
                .messages(&test.access, MessageQuery::page(&folder.path, 0, 10))
                .await
                .unwrap()
                .unwrap();
            assert_eq!((listing.total, folder.messages), (1, 1), "{}", folder.path);
            let uid = listing.messages[0].number;
            let detail = test.detail(uid).await;
            assert_eq!(detail.summary, listing.messages[0]);
        }
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_folder_that_does_not_exist_returns_none() {
    with_mailbox(async |test| {
        test.dovecot.client("ada").ok("CREATE Parent/Child");
        for path in [
            "Nope",
            "",
            "Parent",
            "Sent/",
            "/Sent",
            "../Sent",
            "a//b",
            "sent",
            "%",
            "*",
            "&",
            "Sent\r\nX LOGOUT",
            "a\0b",
            "\u{7f}",
            &"x".repeat(5000),
            "INBOX/",
            "Parent/Child/Grandchild",
        ] {
            let listing = test
                .mail
                .listing
                .messages(&test.access, MessageQuery::page(path, 0, 10))
                .await
                .unwrap();
            assert_eq!(listing, None, "{path:?}");
        }
        for path in ["INBOX", "inbox", "Inbox"] {
            assert!(
                test.mail
                    .listing
                    .messages(&test.access, MessageQuery::page(path, 0, 10))
                    .await
                    .unwrap()
                    .is_some()
            );
        }
    })
    .await;
}
