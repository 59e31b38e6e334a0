//! The type of changes.

/// A change of a mailbox. Each path is valid for a client that has applied all preceding changes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Change {
    /// A message was created in a folder.
    Created {
        /// The message number.
        uid: u64,
        /// The path of the folder.
        folder: String,
        /// The flags of the message.
        flags: Vec<String>,
    },
    /// The flags of a message changed.
    Flags {
        /// The message number.
        uid: u64,
        /// The path of the message's folder.
        folder: String,
        /// All flags of the message.
        flags: Vec<String>,
    },
    /// A message was moved.
    Moved {
        /// The message number.
        uid: u64,
        /// The path of the new folder.
        folder: String,
        /// The path of the old folder.
        from: String,
        /// All flags of the message.
        flags: Vec<String>,
    },
    /// A message was deleted.
    Deleted {
        /// The message number.
        uid: u64,
        /// The path of the folder that contained the message.
        folder: String,
    },
    /// A folder was created.
    FolderCreated {
        /// The path of the folder.
        folder: String,
        /// The id of the folder.
        id: String,
    },
    /// A folder was renamed.
    FolderRenamed {
        /// The new path of the folder.
        folder: String,
        /// The old path of the folder.
        from: String,
        /// The id of the folder.
        id: String,
    },
    /// A folder was deleted with its messages.
    FolderDeleted {
        /// The path of the folder.
        folder: String,
        /// The id of the folder.
        id: String,
    },
}
