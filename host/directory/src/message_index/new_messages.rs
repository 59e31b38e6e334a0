//! Adds messages with new message numbers to the message index.

use latchmail_core::message_number::{MessageNumber, Uid};
use sqlx::QueryBuilder;

use super::{Identity, MAX_PER_STATEMENT, number};
use crate::db::{Error, Tx, on_tx};

/// Reserves $2 message numbers. Returns the message number after the last reserved message number.
/// The first message number of a mailbox is 1, or the highest `first_number` of the restores of
/// backups.
const ALLOCATE_NUMBERS: &str = "INSERT INTO mailboxes (account_id, next_uid) \
     SELECT $1, COALESCE(MAX(first_number), 1) + CAST($2 AS BIGINT) FROM restores WHERE TRUE \
     ON CONFLICT (account_id) DO UPDATE SET next_uid = mailboxes.next_uid + CAST($2 AS BIGINT) RETURNING next_uid";
const ADD_MESSAGES: &str =
    "INSERT INTO messages (account_id, uid, folder_id, uid_validity, imap_uid, identity) ";
/// Marks each message whose message number is at least $2 and that has the identity of another
/// message. Reads at most two messages of each identity, because on SQLite all other writers wait
/// for this statement.
const MARK_COPIES: &str = "UPDATE messages SET copied = TRUE \
     WHERE account_id = $1 AND uid >= $2 AND identity IN \
     (SELECT n.identity FROM (SELECT DISTINCT identity FROM messages \
     WHERE account_id = $1 AND uid >= $2) n \
     WHERE (SELECT o.uid FROM messages o \
     WHERE o.account_id = $1 AND o.identity = n.identity LIMIT 1 OFFSET 1) IS NOT NULL)";
/// Marks the older messages whose identities are the identities of messages that `MARK_COPIES` has
/// marked. If an identity has several older messages, all of them are already marked. Therefore the
/// statement reads only one older message of each identity. Without the unary plus, SQLite would
/// use the index of the message numbers and not the index of the identities.
const MARK_ORIGINALS: &str = "UPDATE messages SET copied = TRUE \
     WHERE account_id = $1 AND NOT copied AND uid IN \
     (SELECT (SELECT o.uid FROM messages o \
     WHERE o.account_id = $1 AND o.identity = n.identity AND +o.uid < $2 LIMIT 1) \
     FROM (SELECT DISTINCT identity FROM messages \
     WHERE account_id = $1 AND uid >= $2 AND copied) n)";
/// Returns the folder and the message number of the message $4 in the folder $2, $3, and whether
/// the index contains a message with the identity $5.
const STATE: &str = "SELECT f.id, m.uid, EXISTS (SELECT 1 FROM messages o \
     WHERE o.account_id = f.account_id AND o.identity = $5) AS has_identity FROM folders f \
     LEFT JOIN messages m ON m.folder_id = f.id AND m.uid_validity = $3 AND m.imap_uid = $4 \
     WHERE f.account_id = $1 AND f.path = $2 AND f.uid_validity = $3";

/// A message that the service has stored in a folder.
#[derive(Clone, Copy, Debug)]
pub struct StoredMessage<'a> {
    /// The folder's path.
    pub path: &'a str,
    /// The UIDVALIDITY of the folder.
    pub uid_validity: u32,
    /// The IMAP UID.
    pub imap_uid: Uid,
    /// The identity.
    pub identity: Identity,
}

/// Returns the message number of a message that the service has stored. Assigns a new message
/// number, unless a concurrent request has assigned one. The transaction must hold the lock of the
/// account.
///
/// Returns `None` and changes nothing if the index does not contain the folder with this
/// UIDVALIDITY. Also returns `None` if the message has no message number and the index contains a
/// message with the same identity. The caller must reconcile the index with the mail server in both
/// cases, because another client can have moved or copied the message.
pub(crate) async fn number_stored(
    tx: &mut Tx,
    account: &str,
    message: &StoredMessage<'_>,
) -> Result<Option<MessageNumber>, Error> {
    let parameters = (
        account,
        message.path,
        i64::from(message.uid_validity),
        i64::from(message.imap_uid),
        &message.identity[..],
    );
    let state: Option<(String, Option<i64>, bool)> = tx.optional(STATE, parameters).await?;
    match state {
        Some((_, Some(uid), _)) => Ok(Some(number(uid))),
        Some((folder, None, false)) => {
            let folder = (&*folder, message.uid_validity);
            let new = [(message.imap_uid, message.identity)];
            // No other message has the identity, so no message becomes a copy.
            let uid = add(tx, account, folder, &new).await?;
            Ok(Some(number(uid)))
        }
        Some((_, None, true)) | None => Ok(None),
    }
}

/// Adds messages to the folder with this id and this UIDVALIDITY. Each message consists of its IMAP
/// UID and its identity. The messages get consecutive message numbers in the order of `messages`.
/// Returns the first message number.
pub(super) async fn add(
    tx: &mut Tx,
    account: &str,
    (folder, uid_validity): (&str, u32),
    messages: &[(Uid, Identity)],
) -> Result<i64, Error> {
    let count = i64::try_from(messages.len()).unwrap_or(i64::MAX);
    let next: i64 = tx.value(ALLOCATE_NUMBERS, (account, count)).await?;
    let first = next - count;
    let rows: Vec<_> = (first..).zip(messages).collect();
    for rows in rows.chunks(MAX_PER_STATEMENT) {
        on_tx!(tx, tx => {
            let mut insert = QueryBuilder::new(ADD_MESSAGES);
            insert.push_values(rows, |mut row, (uid, (imap_uid, identity))| {
                row.push_bind(account.to_owned())
                    .push_bind(*uid)
                    .push_bind(folder.to_owned())
                    .push_bind(i64::from(uid_validity))
                    .push_bind(i64::from(*imap_uid))
                    .push_bind(identity.to_vec());
            });
            insert.build().execute(tx).await.map(drop)
        })?;
    }
    Ok(first)
}

/// Marks the messages with message numbers from `first` upwards that have the identity of another
/// message, and these other messages.
pub(super) async fn mark_copies(tx: &mut Tx, account: &str, first: i64) -> Result<(), Error> {
    for mark in [MARK_COPIES, MARK_ORIGINALS] {
        tx.execute(mark, (account, first)).await?;
    }
    Ok(())
}
