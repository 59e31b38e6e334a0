//! The changes of a mailbox as JSON.

use latchmail_sdk::capability::{
    self, Caller, ChangesError, Error, EventFilter, Mailbox, StreamError,
};
use latchmail_sdk::{Code, Failure, Reply, codes};
use serde::Serialize;
use utoipa::ToSchema;

use crate::reading::NO_FOLDER;

/// The code and the error message for an invalid parameter of a route that lists changes.
pub const BAD_CHANGES: (Code, &str) = (
    codes::INVALID_CHANGES_PARAMETERS,
    "Invalid changes parameters",
);

/// A list of consecutive changes of the mailbox.
#[derive(Serialize, ToSchema)]
pub struct ChangeList {
    /// The cursor after these changes: the `since` of the next request.
    pub cursor: String,
    /// `true` if more changes follow.
    pub more: bool,
    /// The changes, in the order in which a client must apply them.
    pub changes: Vec<Change>,
}

/// A change of the mailbox. The paths of folders are those after the preceding changes in the list:
/// a later change can rename a folder.
#[derive(Serialize, ToSchema)]
#[serde(tag = "type", rename_all = "camelCase")]
pub enum Change {
    /// A message was created in a folder.
    #[schema(title = "MessageCreated")]
    Created {
        /// The `uid` of the message.
        #[schema(minimum = 1, maximum = 9_007_199_254_740_991.0)]
        uid: u64,
        /// The path of the folder.
        folder: String,
        /// All flags and keywords of the message.
        flags: Vec<String>,
    },
    /// The flags of a message changed.
    #[schema(title = "FlagsChanged")]
    Flags {
        /// The `uid` of the message.
        #[schema(minimum = 1, maximum = 9_007_199_254_740_991.0)]
        uid: u64,
        /// The path of the message's folder.
        folder: String,
        /// All flags and keywords of the message.
        flags: Vec<String>,
    },
    /// A message was moved to another folder.
    #[schema(title = "MessageMoved")]
    Moved {
        /// The `uid` of the message.
        #[schema(minimum = 1, maximum = 9_007_199_254_740_991.0)]
        uid: u64,
        /// The path of the new folder.
        folder: String,
        /// The path of the old folder.
        from: String,
        /// All flags and keywords of the message.
        flags: Vec<String>,
    },
    /// A message was deleted.
    #[schema(title = "MessageDeleted")]
    Deleted {
        /// The `uid` of the message.
        #[schema(minimum = 1, maximum = 9_007_199_254_740_991.0)]
        uid: u64,
        /// The path of the folder that contained the message.
        folder: String,
    },
    /// A folder was created.
    #[schema(title = "FolderCreated")]
    FolderCreated {
        /// The path of the folder.
        folder: String,
        /// The id of the folder.
        id: String,
    },
    /// A folder was renamed. Each subfolder of the folder has its own change. The messages in the
    /// folder have no change.
    #[schema(title = "FolderRenamed")]
    FolderRenamed {
        /// The new path of the folder.
        folder: String,
        /// The old path of the folder.
        from: String,
        /// The id of the folder.
        id: String,
    },
    /// A folder was deleted with the messages that it contained.
    #[schema(title = "FolderDeleted")]
    FolderDeleted {
        /// The path of the folder.
        folder: String,
        /// The id of the folder.
        id: String,
    },
}

impl From<capability::Change> for Change {
    fn from(change: capability::Change) -> Self {
        match change {
            capability::Change::Created(one) => Self::Created {
                uid: one.uid,
                folder: one.folder,
                flags: one.flags,
            },
            capability::Change::Flags(one) => Self::Flags {
                uid: one.uid,
                folder: one.folder,
                flags: one.flags,
            },
            capability::Change::Moved(one) => Self::Moved {
                uid: one.message.uid,
                folder: one.message.folder,
                from: one.from,
                flags: one.message.flags,
            },
            capability::Change::Deleted(one) => Self::Deleted {
                uid: one.uid,
                folder: one.folder,
            },
            capability::Change::FolderCreated(one) => Self::FolderCreated {
                folder: one.folder,
                id: one.id,
            },
            capability::Change::FolderRenamed(one) => Self::FolderRenamed {
                folder: one.folder.folder,
                from: one.from,
                id: one.folder.id,
            },
            capability::Change::FolderDeleted(one) => Self::FolderDeleted {
                folder: one.folder,
                id: one.id,
            },
        }
    }
}

/// The media type of server-sent events.
const EVENT_STREAM: &str = "text/event-stream";

/// Returns a stream of the events since a cursor.
///
/// # Errors
/// Returns 410 if the cursor is not valid. Returns 400 if a type is unknown. Returns 404 if the
/// folder does not exist. Returns 429 if too many streams are open. [`Failure::of`] converts any
/// other error of the host.
pub fn stream(
    host: &(impl Mailbox + Caller),
    since: Option<&str>,
    filter: &EventFilter,
) -> Result<Reply, Failure> {
    let events = host.stream_events(since, filter);
    let events = events.map_err(|error| stream_failure(error, host))?;
    Ok(Reply::stream(EVENT_STREAM, events))
}

/// Returns the changes since a cursor. If there are no changes, waits for the first change, at most
/// `seconds` seconds.
///
/// # Errors
/// Returns the errors of [`list`]. Returns 429 if too many streams are open.
pub fn wait(
    host: &(impl Mailbox + Caller),
    since: &str,
    folder: Option<&str>,
    limit: u32,
    seconds: u32,
) -> Result<Reply, Failure> {
    let list = list(host, Some(since), folder, limit)?;
    if list.more || !list.changes.is_empty() {
        return Reply::json(&list);
    }
    let events = host.wait_for_changes(&list.cursor, folder, limit, seconds);
    let events = events.map_err(|error| stream_failure(error, host))?;
    Ok(Reply::stream("application/json", events))
}

fn stream_failure(error: StreamError, host: &impl Caller) -> Failure {
    match error {
        StreamError::CursorExpired => Failure::new(410, codes::CURSOR_EXPIRED, "Cursor expired"),
        StreamError::TooManyStreams => Failure::new(
            429,
            codes::TOO_MANY_STREAMS,
            "Too many open streams, please close some or try again later",
        ),
        StreamError::Failed(other) => Failure::of(other, NO_FOLDER, host),
    }
}

/// Returns the changes since a cursor, in one folder or in all folders. Without a cursor, returns
/// the current cursor.
///
/// # Errors
/// Returns 410 if the cursor is not valid. Returns 400 if the limit is out of range. Returns 404 if
/// the folder does not exist. [`Failure::of`] converts any other error of the host.
pub fn list(
    host: &(impl Mailbox + Caller),
    since: Option<&str>,
    folder: Option<&str>,
    limit: u32,
) -> Result<ChangeList, Failure> {
    let list = host
        .list_changes(since, folder, limit)
        .map_err(|error| match error {
            ChangesError::CursorExpired => {
                Failure::new(410, codes::CURSOR_EXPIRED, "Cursor expired")
            }
            ChangesError::Failed(Error::Invalid(_)) => {
                Failure::bad_request(BAD_CHANGES.0, BAD_CHANGES.1)
            }
            ChangesError::Failed(other) => Failure::of(other, NO_FOLDER, host),
        })?;
    Ok(ChangeList {
        cursor: list.cursor,
        more: list.more,
        changes: list.changes.into_iter().map(Change::from).collect(),
    })
}
