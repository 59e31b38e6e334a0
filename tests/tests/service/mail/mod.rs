//! Folders and messages: reading, searching, changing, sending.

mod capabilities;
mod changes;
mod deleted_flag;
mod isolation;
mod mail_bounds;
mod mail_corpus;
mod outage;
mod s4_3_attachments;
mod s4_3_bulk;
mod s4_3_changes;
mod s4_3_mail;
mod s4_3_search;
pub(crate) mod s4_3_send;
mod s4_3_senders;
mod search_index;
mod search_long;
mod threads;
