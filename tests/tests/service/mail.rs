//! Folders and messages: reading, searching, changing, sending.

mod attachments;
mod bulk_changes;
mod capabilities;
mod changes;
mod conditions;
mod deleted_flag;
mod isolation;
mod mail_bounds;
mod mail_corpus;
mod message_changes;
mod outage;
mod reading;
mod search;
mod search_index;
mod search_long;
pub(crate) mod send;
mod senders;
mod single_changes;
mod threads;
