//! Lists the folders of a mailbox and the messages of a folder.

mod folders;
pub(crate) mod messages;
