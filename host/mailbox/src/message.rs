//! The data of a message: types, identity, thread id and the results of the mail
//! server's checks. This module has no state.

pub(crate) mod authentication;
pub(crate) mod identity;
pub(crate) mod mark;
pub(crate) mod notice;
pub(crate) mod parts;
pub(crate) mod spam;
pub(crate) mod summary;
pub(crate) mod thread_ids;
pub(crate) mod types;
pub(crate) mod version;
