//! The change log: a client that obtains a cursor, lists the mailbox and applies the changes has
//! the mailbox.
//!
//! `sharing` has the tests of members of a shared mailbox.

mod collapsed;
mod cursors;
mod folders;
mod kinds;
mod random;

use latchmail_tests::{Imap, MailboxCopy, Person, append_message};
use serde_json::Value;

/// Applies all changes to the copy, asserts that the copy equals the mailbox, and returns the
/// changes.
async fn changes(copy: &mut MailboxCopy, person: &Person<'_>) -> Vec<Value> {
    let changes = copy.update(person, || 500).await;
    assert_eq!(copy.content(), person.content().await, "{changes:?}");
    changes
}

/// Returns the types of changes.
fn types(changes: &[Value]) -> Vec<&str> {
    let types = changes
        .iter()
        .map(|change| change["type"].as_str().unwrap());
    types.collect()
}

/// Puts messages into the inbox, and returns their numbers.
async fn fill<const N: usize>(
    person: &Person<'_>,
    client: &mut Imap,
    subjects: [&str; N],
) -> [u64; N] {
    let mut uids = [0; N];
    for (uid, subject) in uids.iter_mut().zip(subjects) {
        append_message(client, "INBOX", subject).await;
        *uid = person.uid_of("INBOX", subject).await;
    }
    uids
}

/// Deletes a message as another IMAP client does.
async fn expunge(client: &mut Imap, folder: &str, imap_uid: u32) {
    use futures_util::TryStreamExt as _;

    latchmail_tests::store_flags(client, folder, imap_uid, "+FLAGS (\\Deleted)").await;
    let expunged = client.uid_expunge(imap_uid.to_string()).await.unwrap();
    expunged.try_collect::<Vec<_>>().await.unwrap();
}
