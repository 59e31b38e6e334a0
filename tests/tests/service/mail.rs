//! Folders and messages: reading, searching, changing, sending.

mod attachments;
mod bulk_changes;
mod capabilities;
mod changes;
mod deleted_flag;
mod isolation;
mod listing_cursor;
mod mail_bounds;
mod mail_corpus;
mod outage;
mod reading;
mod search;
mod search_index;
mod search_long;
pub(crate) mod send;
mod senders;
mod single_changes;
mod threads;
