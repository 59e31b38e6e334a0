//! The folders of a mailbox: their entries in the index, their ids and roles, and the rights of
//! members.

pub(crate) mod ids;
pub(crate) mod path;
pub(crate) mod rights;
pub(crate) mod roles;
pub(crate) mod states;
