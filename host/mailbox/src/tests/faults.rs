//! Tests with servers that behave incorrectly, or correctly but differently from Dovecot.

use std::sync::Arc;

use latchmail_core::message_number::{MessageNumber, Uid};
use latchmail_directory::message_index::{ListedFolder, MessageIndex};
use latchmail_directory::testing::on_sqlite;

use super::scripted_server::{
    Step, reply_and_close, reply_once_to, reply_to, scripted_server, with_scripted_server,
};
use super::{access, config, new_mail};
use crate::MessageQuery;
use crate::message::identity::Identity;
use crate::{Error, Flag, Role, StoreMode};

const GREETING: &str = "* OK [CAPABILITY IMAP4rev1 SASL-IR AUTH=PLAIN] hello\r\n";
const LOG_IN: Step = reply_to("AUTHENTICATE", "{tag} OK [CAPABILITY IMAP4rev1] in\r\n");
const EXAMINE: Step = reply_to(
    "EXAMINE",
    "* 1 EXISTS\r\n* OK [UIDVALIDITY 7] ok\r\n* OK [UIDNEXT 2] ok\r\n{tag} OK [READ-ONLY] open\r\n",
);

/// Lists INBOX with a scripted server. Returns the number of messages.
async fn list_inbox(greeting: &'static str, steps: Vec<Step>) -> Result<u32, Error> {
    with_scripted_server(greeting, steps, async |mail, message_index| {
        // INBOX is already indexed, so only the listing is requested.
        let listed = [ListedFolder {
            path: "INBOX",
            uid_validity: 0,
            uid_next: 0,
            object_id: None,
        }];
        message_index.update_folders("ada", &listed).await.unwrap();
        let listing = mail
            .listing
            .messages(&access("ada", "first"), MessageQuery::page("INBOX", 0, 10))
            .await;
        listing.map(|found| found.map_or(0, |listing| listing.total))
    })
    .await
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_that_is_slow_or_rejects_the_connection_is_unavailable() {
    let cases: [(&str, Vec<Step>); 6] = [
        ("", vec![]),
        ("* BYE full\r\n", vec![]),
        ("220 mail.example.org ESMTP\r\n", vec![]),
        (GREETING, vec![]),
        (
            GREETING,
            vec![reply_to("AUTHENTICATE", "{tag} NO [UNAVAILABLE] later\r\n")],
        ),
        (
            GREETING,
            vec![reply_and_close("AUTHENTICATE", "* BYE restarting\r\n")],
        ),
    ];
    for (greeting, steps) in cases {
        let outcome = list_inbox(greeting, steps).await;
        assert!(
            matches!(outcome, Err(Error::Unavailable(_))),
            "{greeting:?}: {outcome:?}"
        );
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_connection_that_closes_during_a_reply_returns_no_partial_result() {
    let cases: [Vec<Step>; 3] = [
        vec![
            LOG_IN,
            EXAMINE,
            reply_and_close(
                "FETCH",
                "* 1 FETCH (UID 1 FLAGS () BODY[TEXT]<0> {10}\r\nhal",
            ),
        ],
        vec![
            LOG_IN,
            EXAMINE,
            reply_and_close(
                "FETCH",
                "* 1 FETCH (UID 1 BODY[TEXT]<0> {1}\r\nx)\r\n* BYE shutting down\r\n",
            ),
        ],
        vec![LOG_IN, EXAMINE],
    ];
    for steps in cases {
        let outcome = list_inbox(GREETING, steps).await;
        assert!(matches!(outcome, Err(Error::Unavailable(_))), "{outcome:?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn an_invalid_reply_is_an_error() {
    let cases: [Vec<Step>; 5] = [
        vec![LOG_IN, reply_to("EXAMINE", "\0\0\0garbage\r\n")],
        vec![LOG_IN, reply_to("EXAMINE", "X99 OK what was not asked\r\n")],
        vec![LOG_IN, EXAMINE, reply_to("FETCH", "* 1 FETCH (UID x\r\n")],
        vec![
            LOG_IN,
            EXAMINE,
            reply_to("FETCH", "* 1 FETCH (UID 1 BODY[TEXT]<0> {4000000000}\r\n"),
        ],
        vec![LOG_IN, EXAMINE, reply_to("FETCH", "{tag} BAD what?\r\n")],
    ];
    for steps in cases {
        let outcome = list_inbox(GREETING, steps).await;
        assert!(matches!(outcome, Err(Error::Internal(_))), "{outcome:?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_no_that_does_not_concern_the_folder_is_an_error() {
    const STEPS: &[Step] = &[
        LOG_IN,
        reply_to("EXAMINE", "{tag} NO [SERVERBUG] the disk is on fire\r\n"),
        reply_to("LIST", "* LIST () \"/\" INBOX\r\n{tag} OK listed\r\n"),
    ];
    assert!(matches!(
        list_inbox(GREETING, STEPS.to_vec()).await,
        Err(Error::Internal(_))
    ));
}

/// Dovecot does not support OBJECTID (RFC 8474), so this test uses a scripted server.
#[tokio::test(flavor = "multi_thread")]
async fn folders_keep_the_mail_servers_ids_when_they_are_renamed() {
    const BEFORE: &str = "* LIST () \".\" INBOX\r\n* STATUS INBOX (MESSAGES 0 UNSEEN 0 UIDNEXT 1 UIDVALIDITY 7 MAILBOXID (F-inbox))\r\n\
        * LIST () \".\" A\r\n* STATUS A (MAILBOXID (F-a) MESSAGES 3 UNSEEN 0 UIDNEXT 4 UIDVALIDITY 7)\r\n\
        * LIST () \".\" B\r\n* STATUS B (MESSAGES 3 UNSEEN 0 UIDNEXT 4 MAILBOXID (F-b) UIDVALIDITY 7)\r\n{tag} OK listed\r\n";
    // The two folders have swapped their names. Only the ids show this.
    const AFTER: &str = "* LIST () \".\" INBOX\r\n* STATUS INBOX (MESSAGES 0 UNSEEN 0 UIDNEXT 1 UIDVALIDITY 7 MAILBOXID (F-inbox))\r\n\
        * LIST () \".\" A\r\n* STATUS A (MESSAGES 3 UNSEEN 0 UIDNEXT 4 UIDVALIDITY 8 MAILBOXID (F-b))\r\n\
        * LIST () \".\" B\r\n* STATUS B (MESSAGES 3 UNSEEN 0 UIDNEXT 4 UIDVALIDITY 8 MAILBOXID (F-a))\r\n{tag} OK listed\r\n";
    // The list does not depend on the existence of an inbox.
    const OPENED: &str =
        "* 0 EXISTS\r\n* OK [UIDVALIDITY 7] valid\r\n{tag} OK [READ-ONLY] opened\r\n";
    const NOT_OPENED: &str = "{tag} NO [NONEXISTENT] no inbox\r\n";
    let start = async |examined, listed| {
        let steps = vec![
            reply_to(
                "CAPABILITY",
                "* CAPABILITY IMAP4rev1 LIST-EXTENDED LIST-STATUS SPECIAL-USE OBJECTID\r\n{tag} OK told\r\n",
            ),
            reply_to("LOGIN", "{tag} OK in\r\n"),
            reply_to("EXAMINE", examined),
            reply_to(
                "LIST \"\" \"*\" RETURN (SPECIAL-USE STATUS (MESSAGES UNSEEN UIDNEXT UIDVALIDITY MAILBOXID))",
                listed,
            ),
        ];
        scripted_server("* OK hello\r\n", steps).await
    };
    let ports = [start(OPENED, BEFORE).await, start(NOT_OPENED, AFTER).await];
    on_sqlite(async move |fresh| {
        fresh.directory.with("ada", "ada@example.org", &[]).await;
        for (port, expected) in ports.into_iter().zip([
            [("INBOX", "F-inbox"), ("A", "F-a"), ("B", "F-b")],
            [("INBOX", "F-inbox"), ("A", "F-b"), ("B", "F-a")],
        ]) {
            let mail = new_mail(&config(port), &fresh.directory);
            let folders = mail.listing.folders(&access("ada", "first")).await.unwrap();
            let shown: Vec<_> = folders
                .iter()
                .map(|(folder, id)| (folder.path.as_str(), &**id))
                .collect();
            assert_eq!(shown, expected);
        }
    })
    .await
    .unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_with_only_imap4rev1_is_supported() {
    const STEPS: &[Step] = &[
        reply_to("CAPABILITY", "* CAPABILITY IMAP4rev1\r\n{tag} OK told\r\n"),
        reply_to("LOGIN", "{tag} OK in\r\n"),
        reply_to(
            "LIST",
            "* LIST (\\Sent) \".\" Sent\r\n* LIST () \".\" Inbox\r\n* LIST (\\Noselect) \".\" Nothing\r\n{tag} OK listed\r\n",
        ),
        reply_to(
            "STATUS \"Sent\"",
            "* STATUS Sent (MESSAGES 3 UNSEEN 0)\r\n{tag} OK\r\n",
        ),
        reply_to(
            "STATUS \"INBOX\"",
            "* STATUS inbox (UNSEEN 1 MESSAGES 2)\r\n{tag} OK\r\n",
        ),
    ];
    let port = scripted_server("* OK hello\r\n", STEPS.to_vec()).await;
    on_sqlite(async move |fresh| {
        fresh.directory.with("ada", "ada@example.org", &[]).await;
        let mail = new_mail(&config(port), &fresh.directory);
        let folders = mail.listing.folders(&access("ada", "first")).await.unwrap();
        let shown: Vec<_> = folders
            .iter()
            .map(|(f, _)| (f.path.as_str(), f.role, f.messages, f.unseen))
            .collect();
        assert_eq!(
            shown,
            [
                ("INBOX", Some(Role::Inbox), 2, 1),
                ("Sent", Some(Role::Sent), 3, 0)
            ]
        );
    })
    .await
    .unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_message_that_disappears_while_it_is_flagged_is_not_reported_as_flagged() {
    let steps = vec![
        LOG_IN,
        reply_to(
            "SELECT",
            "* 2 EXISTS\r\n* OK [UIDVALIDITY 7] ok\r\n* OK [UIDNEXT 3] ok\r\n{tag} OK [READ-WRITE] open\r\n",
        ),
        reply_to("UID STORE", "{tag} OK stored\r\n"),
        // Like Dovecot: the search result comes before the report of removed messages.
        reply_once_to(
            "UID SEARCH",
            "* SEARCH 1 2\r\n* 1 EXPUNGE\r\n{tag} OK done\r\n",
        ),
        reply_to("UID SEARCH", "* SEARCH 2\r\n{tag} OK done\r\n"),
        EXAMINE,
        reply_to("CLOSE", "{tag} OK closed\r\n"),
        reply_to("LIST", "* LIST () \"/\" INBOX\r\n{tag} OK listed\r\n"),
        reply_to(
            "STATUS",
            "* STATUS INBOX (MESSAGES 1 UNSEEN 0 UIDNEXT 3 UIDVALIDITY 7)\r\n{tag} OK told\r\n",
        ),
    ];
    let flagged = with_scripted_server(GREETING, steps, async |mail, message_index| {
        index_inbox(&message_index, 2).await;
        let flags = vec![Flag::named("\\Seen").unwrap()];
        let access = access("ada", "first");
        mail.changing
            .flag(
                &access,
                &[1, 2].map(MessageNumber),
                (flags, StoreMode::Add),
                None,
            )
            .await
    })
    .await;
    assert_eq!(flagged.unwrap(), [MessageNumber(2)]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_flag_is_set_again_if_the_connection_closed_before_the_reply() {
    let steps = vec![
        LOG_IN,
        reply_to(
            "SELECT",
            "* 1 EXISTS\r\n* OK [UIDVALIDITY 7] ok\r\n* OK [UIDNEXT 2] ok\r\n{tag} OK [READ-WRITE] open\r\n",
        ),
        reply_once_to("UID STORE", "{tag} OK stored\r\n"),
        reply_and_close("UID STORE", ""),
        reply_to("UID SEARCH", "* SEARCH 1\r\n{tag} OK done\r\n"),
    ];
    let flagged = with_scripted_server(GREETING, steps, async |mail, message_index| {
        let mail = Arc::new(mail);
        index_inbox(&message_index, 1).await;
        let flags = vec![Flag::named("\\Seen").unwrap()];
        let access = access("ada", "first");
        let first = mail
            .changing
            .flag(
                &access,
                &[MessageNumber(1)],
                (flags.clone(), StoreMode::Add),
                None,
            )
            .await;
        assert_eq!(first.unwrap(), [MessageNumber(1)]);
        mail.changing
            .flag(&access, &[MessageNumber(1)], (flags, StoreMode::Add), None)
            .await
    })
    .await;
    assert_eq!(flagged.unwrap(), [MessageNumber(1)]);
}

/// Stores INBOX in the index with this number of messages, numbered from 1.
pub(super) async fn index_inbox(message_index: &MessageIndex, messages: u32) {
    let inbox = ListedFolder {
        path: "INBOX",
        uid_validity: 7,
        uid_next: messages + 1,
        object_id: None,
    };
    message_index.update_folders("ada", &[inbox]).await.unwrap();
    let messages: Vec<_> = (1..=messages)
        .map(|uid| (Uid(uid), Identity::default()))
        .collect();
    message_index
        .assign_numbers("ada", "INBOX", 7, &messages, &[])
        .await
        .unwrap();
}
