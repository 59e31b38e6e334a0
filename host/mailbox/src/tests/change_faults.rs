//! Changes that the mail server refuses or that another client undoes at once, and changes of a
//! member whose grants were withdrawn.

use std::sync::Arc;

use latchmail_core::caller::Origin;
use latchmail_core::message_number::MessageNumber;
use latchmail_core::permissions::{Granted, Resource, Rights};

use super::faults::index_inbox;
use super::scripted_server::{Step, reply_and_close, reply_to, with_scripted_server};
use super::{access, with_mailbox};
use crate::access::Member;
use crate::{Access, Error};

const GREETING: &str = "* OK [CAPABILITY IMAP4rev1 SASL-IR AUTH=PLAIN] hello\r\n";
const LOG_IN: Step = reply_to(
    "AUTHENTICATE",
    "{tag} OK [CAPABILITY IMAP4rev1 UIDPLUS] in\r\n",
);
const SELECT: Step = reply_to(
    "SELECT",
    "* 1 EXISTS\r\n* OK [UIDVALIDITY 7] ok\r\n* OK [UIDNEXT 2] ok\r\n{tag} OK [READ-WRITE] open\r\n",
);
const EXAMINE: Step = reply_to(
    "EXAMINE",
    "* 1 EXISTS\r\n* OK [UIDVALIDITY 7] ok\r\n* OK [UIDNEXT 3] ok\r\n{tag} OK [READ-ONLY] open\r\n",
);

/// Deletes a message that the server refuses to expunge. `undelete` is the step for the command
/// that removes the flag `\\Deleted`.
async fn delete_refused(undelete: Step) -> Error {
    let steps = vec![
        LOG_IN,
        SELECT,
        undelete,
        reply_to("UID STORE", "{tag} OK stored\r\n"),
        reply_to("UID SEARCH", "* SEARCH 1\r\n{tag} OK done\r\n"),
        reply_to("UID EXPUNGE", "{tag} NO [NOPERM] not allowed\r\n"),
    ];
    let deleted = with_scripted_server(GREETING, steps, async |mail, message_index| {
        index_inbox(&message_index, 1).await;
        let access = access("ada", "first");
        let mail = Arc::new(mail);
        let deleted = mail.changing.delete(&access, &[MessageNumber(1)], None);
        deleted.await
    });
    deleted.await.unwrap_err()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_message_that_cannot_be_expunged_is_not_left_deleted() {
    let refused = delete_refused(reply_to("-FLAGS", "{tag} OK stored\r\n")).await;
    assert!(matches!(refused, Error::Rejected(_)), "{refused:?}");
    // The service has sent this command, and its outcome counts.
    let unknown = delete_refused(reply_and_close("-FLAGS", "")).await;
    assert!(matches!(unknown, Error::Unknown(_)), "{unknown:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_copy_that_another_client_has_removed_counts_as_copied() {
    let steps = vec![
        LOG_IN,
        SELECT,
        EXAMINE,
        reply_to("UID COPY", "{tag} OK [COPYUID 7 1 2] copied\r\n"),
        reply_to("UID FETCH", "{tag} OK done\r\n"),
        reply_to("CLOSE", "{tag} OK closed\r\n"),
    ];
    let copied = with_scripted_server(GREETING, steps, async |mail, message_index| {
        index_inbox(&message_index, 1).await;
        let access = access("ada", "first");
        let mail = Arc::new(mail);
        let copied = mail.changing.copy_to(&access, &[MessageNumber(1)], "INBOX");
        copied.await
    });
    let copied = copied.await.unwrap().unwrap();
    let numbers: Vec<_> = copied.iter().map(|one| (one.original, one.copy)).collect();
    assert_eq!(numbers, [(MessageNumber(1), MessageNumber(2))]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_change_uses_the_current_grants_of_a_member() {
    with_mailbox(async |test| {
        let uids = test.append("INBOX", &["a"]).await;
        let mut client = test.dovecot.client("ada");
        client.ok("CREATE Work");
        let whole_mailbox = Granted {
            id: "withdrawn".into(),
            resource: Resource::Mailbox,
            rights: Rights::OF_FOLDER,
        };
        // The grants when the request began.
        let bob = Access {
            member: Some(Member {
                account: "bob".into(),
                grants: Arc::new(vec![whole_mailbox].into()),
                origin: Origin::default(),
                permit: None,
            }),
            ..test.access.clone()
        };
        let changing = &test.mail.changing;
        let created = changing.create_folder(&bob, "New").await;
        assert!(matches!(created, Err(Error::Denied(_))), "{created:?}");
        let renamed = changing.rename_folder(&bob, "Work", "New").await;
        assert!(matches!(renamed, Ok(None)), "{renamed:?}");
        let deleted = changing.delete_folder(&bob, "Work", None).await;
        assert!(matches!(deleted, Ok(None)), "{deleted:?}");
        let deleted = changing.delete(&bob, &uids, None).await;
        assert!(deleted.unwrap().is_empty());
        let moved = changing.move_to(&bob, &uids, "Work", None).await;
        assert_eq!(moved.unwrap(), None);
        assert_eq!(test.contents("INBOX").await.len(), 1);
        client.ok("SELECT Work");
    })
    .await;
}
