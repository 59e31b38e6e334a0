//! Properties of the IMAP client that hold for any reply. See [`crate::fuzzing`].

pub use super::imap::fuzzing::{encoded_name, imap_replies, imap_session};
