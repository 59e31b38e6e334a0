//! The numbers of messages: assigns the numbers, finds the location of a number, and updates both
//! after changes of other clients.

pub(crate) mod locations;
mod lost_messages;
mod moved_messages;
pub(crate) mod reconcile;
mod sync;
