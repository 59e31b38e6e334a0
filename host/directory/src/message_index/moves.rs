//! Updates the message index for messages that the service moved or deleted. Finds copied messages,
//! and removes the messages that are not at their stored locations any longer.

use latchmail_core::message_number::{MessageNumber, Uid};
use sqlx::QueryBuilder;

use super::log::{self, LoggedChange, LoggedMessage};
use super::{IndexedMessage, MAX_PER_STATEMENT, MessageIndex, number};
use crate::db::{Error, on, on_tx};

const FOLDER: &str =
    "SELECT id FROM folders WHERE account_id = $1 AND path = $2 AND uid_validity = $3";
/// Callers append conditions.
const PREVIOUS_FOLDERS: &str = "SELECT m.uid, f.path FROM messages m \
     JOIN folders f ON f.id = m.previous_folder_id AND f.account_id = m.account_id \
     WHERE f.listed_path = f.path AND m.account_id = ";
/// Callers append conditions and values to `BEFORE`, `CLEAR` and `MOVE`.
const BEFORE: &str = "SELECT uid, folder_id, flags FROM messages WHERE account_id = ";
const CLEAR: &str = "DELETE FROM messages WHERE folder_id = ";
const MOVE: &str = "UPDATE messages SET previous_folder_id = CASE WHEN folder_id = ";
/// Deletes nothing if a concurrent request changed the message's location.
const REMOVE_LOST: &str = "DELETE FROM messages \
     WHERE account_id = $1 AND uid = $2 AND folder_id = $3 AND uid_validity = $4 AND imap_uid = $5 RETURNING uid, folder_id, flags";
const COPIED_FOLDERS: &str = "SELECT f.path FROM folders f WHERE f.account_id = $1 \
     AND EXISTS (SELECT 1 FROM messages m WHERE m.folder_id = f.id AND m.copied)";
const COPIES: &str = "SELECT m.uid, f.path, m.uid_validity, m.imap_uid, m.folder_id, m.identity FROM messages m \
     JOIN folders f ON f.id = m.folder_id WHERE f.account_id = $1 AND f.path = $2 AND m.copied ORDER BY m.imap_uid, m.uid";
const REMOVE: &str = "DELETE FROM messages WHERE account_id = ";

impl MessageIndex {
    /// Sets the new locations of messages that were moved to the folder `path`. `messages` contains
    /// the message number and the new IMAP UID of each message. The message numbers do not change.
    ///
    /// Returns `false` and changes nothing if the message index does not contain the folder with
    /// this UIDVALIDITY.
    ///
    /// # Errors
    /// Returns [`Error`] if the database fails.
    pub async fn moved(
        &self,
        account: &str,
        path: &str,
        uid_validity: u32,
        messages: &[(MessageNumber, Uid)],
    ) -> Result<bool, Error> {
        let mut tx = self.db.begin().await?;
        tx.lock_account(account).await?;
        let validity = i64::from(uid_validity);
        let folder: Option<String> = on_tx!(&mut tx, tx => sqlx::query_scalar(FOLDER)
            .bind(account)
            .bind(path)
            .bind(validity)
            .fetch_optional(tx)
            .await)?;
        let Some(folder) = folder else {
            return Ok(false);
        };
        let messages: Vec<(i64, i64)> = messages
            .iter()
            .filter_map(|(uid, imap_uid)| Some((i64::try_from(*uid).ok()?, i64::from(*imap_uid))))
            .collect();
        // The last statement needs three parameters for each message and five more, and the
        // databases limit the number of parameters. Therefore a chunk has fewer messages than
        // `MAX_PER_STATEMENT`.
        for messages in messages.chunks(MAX_PER_STATEMENT / 4) {
            // A concurrent request may have found a message in the new folder and assigned a new
            // message number to the message. Delete the row with the new message number, so that
            // the message keeps its old message number.
            let cleared: Vec<LoggedMessage> = on_tx!(&mut tx, tx => {
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
                query.push(") RETURNING uid, folder_id, flags");
                query.build_query_as().fetch_all(tx).await
            })?;
            let before: Vec<LoggedMessage> = on_tx!(&mut tx, tx => {
                let mut query = QueryBuilder::new(BEFORE);
                query.push_bind(account.to_owned()).push(" AND flags IS NOT NULL AND uid IN (0");
                for (uid, _) in messages {
                    query.push(", ").push_bind(*uid);
                }
                query.push(")").build_query_as().fetch_all(tx).await
            })?;
            let changes: Vec<LoggedChange> = before
                .into_iter()
                .chain(cleared)
                .map(LoggedMessage::change)
                .collect();
            log::append(&mut tx, account, &changes).await?;
            on_tx!(&mut tx, tx => {
                let mut query = QueryBuilder::new(MOVE);
                query.push_bind(folder.clone()).push(" THEN previous_folder_id ELSE folder_id END, folder_id = ");
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
        tx.commit().await?;
        Ok(true)
    }

    /// Returns the current path of the folder that contained each message before its last move.
    /// Omits messages that were never moved, and messages whose previous folder does not exist.
    ///
    /// # Errors
    /// Returns [`Error`] if the database fails.
    pub async fn previous_folders(
        &self,
        account: &str,
        numbers: &[MessageNumber],
    ) -> Result<Vec<(MessageNumber, String)>, Error> {
        let mut paths = Vec::new();
        for numbers in numbers.chunks(MAX_PER_STATEMENT) {
            let rows: Vec<(i64, String)> = on!(&self.db, pool => {
                let mut query = QueryBuilder::new(PREVIOUS_FOLDERS);
                query.push_bind(account.to_owned()).push(" AND m.uid IN (0");
                for uid in numbers.iter().filter_map(|number| i64::try_from(*number).ok()) {
                    query.push(", ").push_bind(uid);
                }
                query.push(")").build_query_as().fetch_all(pool).await
            })?;
            paths.extend(rows.into_iter().map(|(uid, path)| (number(uid), path)));
        }
        Ok(paths)
    }

    /// Removes from the message index the messages that were deleted permanently. The message
    /// numbers are not reused.
    ///
    /// # Errors
    /// Returns [`Error`] if the database fails.
    pub async fn remove(&self, account: &str, numbers: &[MessageNumber]) -> Result<(), Error> {
        let mut tx = self.db.begin().await?;
        tx.lock_account(account).await?;
        for numbers in numbers.chunks(MAX_PER_STATEMENT) {
            let removed: Vec<LoggedMessage> = on_tx!(&mut tx, tx => {
                let mut query = QueryBuilder::new(REMOVE);
                query.push_bind(account.to_owned()).push(" AND uid IN (0");
                for uid in numbers.iter().filter_map(|number| i64::try_from(*number).ok()) {
                    query.push(", ").push_bind(uid);
                }
                query.push(") RETURNING uid, folder_id, flags");
                query.build_query_as().fetch_all(tx).await
            })?;
            let changes: Vec<LoggedChange> =
                removed.into_iter().map(LoggedMessage::change).collect();
            log::append(&mut tx, account, &changes).await?;
        }
        tx.commit().await
    }

    /// Removes from the message index the messages that are not at their stored locations any
    /// longer. Skips a message if a concurrent request changed its location. The message numbers
    /// are not reused.
    ///
    /// # Errors
    /// Returns [`Error`] if the database fails. Some messages can be removed in that case.
    pub async fn remove_lost(
        &self,
        account: &str,
        messages: &[IndexedMessage],
    ) -> Result<(), Error> {
        for messages in messages.chunks(MAX_PER_STATEMENT) {
            let mut tx = self.db.begin().await?;
            tx.lock_account(account).await?;
            let mut changes = Vec::new();
            for message in messages {
                let place = &message.location;
                let removed: Option<LoggedMessage> = on_tx!(&mut tx, tx => sqlx::query_as(REMOVE_LOST)
                    .bind(account)
                    .bind(message.uid)
                    .bind(&message.folder_id)
                    .bind(place.uid_validity)
                    .bind(place.imap_uid)
                    .fetch_optional(tx)
                    .await)?;
                changes.extend(removed.map(LoggedMessage::change));
            }
            log::append(&mut tx, account, &changes).await?;
            tx.commit().await?;
        }
        Ok(())
    }

    /// Returns the paths of all folders that contain messages marked as copied.
    ///
    /// # Errors
    /// Returns [`Error`] if the database fails.
    pub async fn copied_folders(&self, account: &str) -> Result<Vec<String>, Error> {
        Ok(
            on!(&self.db, pool => sqlx::query_scalar(COPIED_FOLDERS).bind(account).fetch_all(pool).await)?,
        )
    }

    /// Returns the messages of the folder `path` that are marked as copied.
    ///
    /// # Errors
    /// Returns [`Error`] if the database fails.
    pub async fn copies_in(&self, account: &str, path: &str) -> Result<Vec<IndexedMessage>, Error> {
        Ok(on!(&self.db, pool => sqlx::query_as(COPIES)
            .bind(account)
            .bind(path)
            .fetch_all(pool)
            .await)?)
    }
}
