//! Folders and messages: reading, searching, changing, sending.

mod attachments;
mod bulk_changes;
mod capabilities;
mod changes;
mod conditions;
mod deleted_flag;
mod filters;
mod folders;
mod imports;
mod isolation;
mod listing_cursor;
mod mail_bounds;
mod mail_corpus;
mod message_changes;
mod outage;
mod quota;
mod reading;
mod round_trips;
mod search;
mod search_index;
mod search_long;
pub(crate) mod send;
mod senders;
mod single_changes;
mod stored_messages;
mod threads;
