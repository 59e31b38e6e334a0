//! Numbers of messages that the service itself moved or deleted.

use sqlx::QueryBuilder;

use super::{AT_ONCE, Opened, folders};
use crate::directory::Db;
use crate::directory::db::{Error, on_tx};

/// Conditions and values are appended to these.
const CLEAR: &str = "DELETE FROM messages WHERE folder_id = ";
const MOVE: &str = "UPDATE messages SET folder_id = ";
const FORGET: &str = "DELETE FROM messages WHERE account_id = ";

/// Messages were moved to a folder: each one's number, with its IMAP UID there. They keep their numbers.
pub(in crate::mail) async fn moved(
    db: &Db,
    account: &str,
    path: &str,
    uid_validity: u32,
    messages: &[(u64, u32)],
) -> Result<(), Error> {
    let mut tx = db.begin().await?;
    tx.lock_account(account).await?;
    let opened = Opened {
        uid_validity,
        ..Opened::default()
    };
    let folder = folders::noted_at(&mut tx, account, path, opened).await?;
    let validity = i64::from(uid_validity);
    let messages: Vec<(i64, i64)> = messages
        .iter()
        .filter_map(|(uid, imap_uid)| Some((i64::try_from(*uid).ok()?, i64::from(*imap_uid))))
        .collect();
    // Each takes three parameters.
    for messages in messages.chunks(AT_ONCE / 4) {
        // Whoever saw one there before this was written down took it for a copy: the older number holds.
        on_tx!(&mut tx, tx => {
            let mut query = QueryBuilder::new(CLEAR);
            query.push_bind(folder.clone()).push(" AND uid_validity = ").push_bind(validity);
            query.push(" AND imap_uid IN (0");
            for (_, imap_uid) in messages {
                query.push(", ").push_bind(*imap_uid);
            }
            query.push(") AND uid NOT IN (0");
            for (uid, _) in messages {
                query.push(", ").push_bind(*uid);
            }
            query.push(")").build().execute(tx).await.map(drop)
        })?;
        on_tx!(&mut tx, tx => {
            let mut query = QueryBuilder::new(MOVE);
            query.push_bind(folder.clone()).push(", uid_validity = ").push_bind(validity);
            query.push(", imap_uid = CASE uid");
            for (uid, imap_uid) in messages {
                query.push(" WHEN ").push_bind(*uid).push(" THEN ").push_bind(*imap_uid);
            }
            query.push(" END WHERE account_id = ").push_bind(account.to_owned()).push(" AND uid IN (0");
            for (uid, _) in messages {
                query.push(", ").push_bind(*uid);
            }
            query.push(")").build().execute(tx).await.map(drop)
        })?;
    }
    tx.commit().await
}

/// Messages are gone for good. Their numbers are not given again.
pub(in crate::mail) async fn forget(db: &Db, account: &str, uids: &[u64]) -> Result<(), Error> {
    let mut tx = db.begin().await?;
    tx.lock_account(account).await?;
    for uids in uids.chunks(AT_ONCE) {
        on_tx!(&mut tx, tx => {
            let mut query = QueryBuilder::new(FORGET);
            query.push_bind(account.to_owned()).push(" AND uid IN (0");
            for uid in uids.iter().filter_map(|uid| i64::try_from(*uid).ok()) {
                query.push(", ").push_bind(uid);
            }
            query.push(")").build().execute(tx).await.map(drop)
        })?;
    }
    tx.commit().await
}
