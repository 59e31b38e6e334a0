//! The type of changes.

use latchmail_core::message_number::MessageNumber;

/// A change of a mailbox. The paths are correct for a client that applies the changes of a page in
/// order.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Change {
    /// A message was created in a folder.
    Created {
        /// The number of the message.
        number: MessageNumber,
        /// The path of the folder.
        folder: String,
        /// The flags of the message.
        flags: Vec<String>,
    },
    /// The flags of a message changed.
    Flags {
        /// The number of the message.
        number: MessageNumber,
        /// The path of the message's folder.
        folder: String,
        /// All flags of the message.
        flags: Vec<String>,
    },
    /// A message was moved.
    Moved {
        /// The number of the message.
        number: MessageNumber,
        /// The path of the new folder.
        folder: String,
        /// The path of the old folder.
        from: String,
        /// All flags of the message.
        flags: Vec<String>,
    },
    /// A message was deleted.
    Deleted {
        /// The number of the message.
        number: MessageNumber,
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
