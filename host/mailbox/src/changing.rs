//! Changes the messages of a mailbox: flags, moves, deletions, and copies of sent messages.

mod change;
pub(crate) mod sent_copy;
