//! Reads single messages and attachments.

pub(crate) mod attachment;
pub(crate) mod download;
pub(crate) mod message;
