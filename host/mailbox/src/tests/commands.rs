//! Tests of the commands that the mail server receives: client input never becomes protocol text.

use std::sync::Arc;

use latchmail_core::message_number::{MessageNumber, Uid};
use latchmail_directory::message_index;
use latchmail_directory::testing::on_sqlite;
use latchmail_imap::SearchKey;

use super::recording_server::{Recorded, recording_server};
use super::{access, config, new_mail};
use crate::message::identity;
use crate::{Error, Flag, Mail, StoreMode};

/// Runs `body` with a recording server and a mailbox with one message, number 1.
async fn with_recording_server<F>(
    close_at: &'static str,
    literal_plus: bool,
    body: impl FnOnce(Arc<Mail>, Recorded) -> F + Send + 'static,
) where
    F: Future<Output = ()> + Send + 'static,
{
    on_sqlite(async move |fresh| {
        fresh.directory.with("ada", "ada@example.org", &[]).await;
        let (port, recorded) = recording_server(close_at, literal_plus).await;
        let message_index = &fresh.directory.message_index;
        let message = [(Uid(1), identity::Identity::default())];
        let inbox = message_index::ListedFolder {
            path: "INBOX",
            uid_validity: 7,
            uid_next: 2,
            object_id: None,
        };
        message_index.update_folders("ada", &[inbox]).await.unwrap();
        message_index
            .assign_numbers("ada", "INBOX", 7, &message, &[])
            .await
            .unwrap();
        let mail = new_mail(&config(port), &fresh.directory);
        body(Arc::new(mail), recorded).await;
    })
    .await
    .unwrap();
}

const HOSTILE: [&str; 12] = [
    "a\r\nA1 LOGOUT",
    "a\nb",
    "a\0b",
    "\" LOGOUT \"",
    "\\",
    "{3}",
    "{3+}",
    "* %",
    "&",
    "(ALL)",
    "Entwürfe 日本",
    "\u{7f}\u{80}",
];

#[tokio::test(flavor = "multi_thread")]
async fn a_folder_name_is_always_sent_as_one_string() {
    with_recording_server("", true, async |mail, recorded| {
        let access = access("ada", "first");
        for (folder, name) in HOSTILE.into_iter().zip([
            None,
            None,
            None,
            Some(r#""\" LOGOUT \"""#),
            Some(r#""\\""#),
            Some(r#""{3}""#),
            Some(r#""{3+}""#),
            Some(r#""* %""#),
            Some(r#""&-""#),
            Some(r#""(ALL)""#),
            Some(r#""Entw&APw-rfe &ZeVnLA-""#),
            Some(r#""&AH8AgA-""#),
        ]) {
            recorded.take();
            let moved = mail
                .changing
                .move_to(&access, &[MessageNumber(1)], folder, None)
                .await
                .unwrap();
            match name {
                None => {
                    assert_eq!(moved, None, "{folder:?}");
                    assert_eq!(recorded.take(), [r#"SELECT "INBOX""#]);
                }
                Some(name) => {
                    let commands = recorded.take();
                    assert_eq!(commands.last().unwrap(), &format!("UID MOVE 1 {name}"));
                    assert_eq!(commands.len(), 2, "{commands:?}");
                    assert_eq!(moved, Some(vec![MessageNumber(1)]));
                    // Restore the index to the server's state.
                    let message_index = mail.context.message_index();
                    message_index
                        .moved("ada", "INBOX", 7, &[(MessageNumber(1), Uid(1))])
                        .await
                        .unwrap();
                }
            }
        }
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_search_term_is_always_sent_as_one_string() {
    for literal_plus in [true, false] {
        with_recording_server("", literal_plus, async |mail, recorded| {
        let access = access("ada", "first");
        let long = "x".repeat(5000);
        for (term, string, charset) in [
            ("a\r\nA1 LOGOUT", "{a\r\nA1 LOGOUT}", ""),
            ("a\0b", "{a\0b}", ""),
            ("\" LOGOUT \"", r#""\" LOGOUT \"""#, ""),
            ("\\", r#""\\""#, ""),
            ("{3+}", r#""{3+}""#, ""),
            (") (ALL", r#"") (ALL""#, ""),
            ("Grüße", "{Grüße}", "CHARSET UTF-8 "),
            (long.as_str(), &format!("{{{long}}}"), ""),
        ] {
            recorded.take();
            let keys = [SearchKey::Text(term.to_owned())];
            mail.listing.search(&access, "INBOX", &keys, 0, 10).await.unwrap();
            let expected = format!(
                "UID SEARCH {charset}OR SUBJECT {string} OR FROM {string} OR TO {string} OR CC {string} BODY {string}"
            );
            assert_eq!(recorded.take()[0], expected);
        }
    })
    .await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn each_change_sends_one_command_for_all_messages_of_a_folder() {
    with_recording_server("", true, async |mail, recorded| {
        let access = access("ada", "first");
        let flags = ["\\SEEN", "$a{b"].map(Flag::named);
        assert_eq!(flags[1], None);
        let flags = ["\\SEEN", "$Label"].map(|name| Flag::named(name).unwrap());
        mail.changing
            .flag(
                &access,
                &[1, 1, 99].map(MessageNumber),
                (flags.to_vec(), StoreMode::Remove),
                None,
            )
            .await
            .unwrap();
        let select = r#"SELECT "INBOX""#;
        let store = r"UID STORE 1 -FLAGS.SILENT (\Seen $Label)";
        assert_eq!(recorded.take(), [select, store, "UID SEARCH UID 1"]);
        mail.changing
            .delete(&access, &[MessageNumber(1)], None)
            .await
            .unwrap();
        let mark = r"UID STORE 1 +FLAGS.SILENT (\Deleted)";
        assert_eq!(
            recorded.take(),
            [select, mark, "UID SEARCH UID 1", "UID EXPUNGE 1"]
        );
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn flagging_does_not_open_a_folder_that_is_open_for_writing() {
    with_recording_server("", true, async |mail, recorded| {
        let access = access("ada", "first");
        let flag = async || {
            let seen = vec![Flag::named("\\Seen").unwrap()];
            let flagged = mail
                .changing
                .flag(&access, &[MessageNumber(1)], (seen, StoreMode::Add), None)
                .await;
            assert_eq!(flagged.unwrap(), [MessageNumber(1)]);
            recorded.take()
        };
        let store = [r"UID STORE 1 +FLAGS.SILENT (\Seen)", "UID SEARCH UID 1"];
        let with_select = [r#"SELECT "INBOX""#, store[0], store[1]];
        assert_eq!(flag().await, with_select);
        assert_eq!(flag().await, store);
        // The folder is opened again after the connection opened it for reading, and on a new
        // connection.
        mail.reading.message(&access, MessageNumber(1)).await.ok();
        recorded.take();
        assert_eq!(flag().await, with_select);
        recorded.close_connections().await;
        assert_eq!(flag().await, with_select);
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_connection_lost_before_a_change_is_unavailable_and_one_lost_during_it_is_unknown() {
    let outcome = async |close_at| {
        let (sender, mut outcomes) = tokio::sync::mpsc::channel(1);
        with_recording_server(close_at, true, async move |mail, _| {
            let access = access("ada", "first");
            let moved = mail
                .changing
                .move_to(&access, &[MessageNumber(1)], "Sent", None)
                .await;
            sender.send(moved).await.unwrap();
        })
        .await;
        outcomes.recv().await.unwrap()
    };
    for before in ["AUTHENTICATE", "SELECT"] {
        let unavailable = outcome(before).await;
        assert!(
            matches!(unavailable, Err(Error::Unavailable(_))),
            "{unavailable:?}"
        );
    }
    let lost = outcome("UID MOVE").await;
    assert!(matches!(lost, Err(Error::Unknown(_))), "{lost:?}");
}
