//! The folders of paths, and the current states of messages, for the journal of grants.

use latchmail_core::message_number::MessageNumber;
use sqlx::QueryBuilder;

use super::{MAX_PER_STATEMENT, MessageIndex, number};
use crate::db::{Error, on};
use crate::grant_changes::Place;

const FOLDER_ID: &str = "SELECT id FROM folders WHERE account_id = $1 AND path = $2";
const FOLDER_PATH: &str =
    "SELECT path FROM folders WHERE account_id = $1 AND id = $2 AND listed_path = path";
/// Callers append the account and conditions.
const STATES: &str =
    "SELECT uid, folder_id, uid_validity, imap_uid, flags FROM messages WHERE account_id = ";

/// The state of a message at the last sync.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CurrentState {
    /// The number of the message.
    pub number: MessageNumber,
    /// The location.
    pub place: Place,
    /// The flags, without `\Recent`.
    pub flags: Vec<String>,
}

#[derive(sqlx_macros::FromRow)]
struct Row {
    uid: i64,
    folder_id: String,
    uid_validity: i64,
    imap_uid: i64,
    flags: Option<String>,
}

impl MessageIndex {
    /// Returns the service's own id of the folder with this path. Returns `None` if the index does
    /// not contain the folder.
    ///
    /// # Errors
    /// Returns [`Error`] if the database fails.
    pub async fn folder_id(&self, account: &str, path: &str) -> Result<Option<String>, Error> {
        self.db.optional_value(FOLDER_ID, [account, path]).await
    }

    /// Returns the current path of a folder. Returns `None` if the folder does not exist.
    ///
    /// # Errors
    /// Returns [`Error`] if the database fails.
    pub async fn folder_path(&self, account: &str, id: &str) -> Result<Option<String>, Error> {
        self.db.optional_value(FOLDER_PATH, [account, id]).await
    }

    /// Returns the states of messages at the last sync. Omits messages that do not exist.
    ///
    /// # Errors
    /// Returns [`Error`] if the database fails.
    pub async fn current_states(
        &self,
        account: &str,
        numbers: &[MessageNumber],
    ) -> Result<Vec<CurrentState>, Error> {
        let mut states = Vec::with_capacity(numbers.len());
        for numbers in numbers.chunks(MAX_PER_STATEMENT) {
            let rows: Vec<Row> = on!(&self.db, pool => {
                let mut query = QueryBuilder::new(STATES);
                query.push_bind(account.to_owned()).push(" AND uid IN (0");
                for uid in numbers.iter().filter_map(|number| i64::try_from(*number).ok()) {
                    query.push(", ").push_bind(uid);
                }
                query.push(")").build_query_as().fetch_all(pool).await
            })?;
            states.extend(rows.into_iter().map(|row| {
                CurrentState {
                    number: number(row.uid),
                    place: Place {
                        folder: row.folder_id,
                        uid_validity: u32::try_from(row.uid_validity).unwrap_or(0),
                        imap_uid: u32::try_from(row.imap_uid).unwrap_or(0),
                    },
                    flags: row
                        .flags
                        .unwrap_or_default()
                        .split_whitespace()
                        .map(ToOwned::to_owned)
                        .collect(),
                }
            }));
        }
        Ok(states)
    }
}
