//! What a member may do in a shared mailbox, and what it cannot learn
//! about the rest.

mod attached;
mod changing_folders;
mod connections;
mod folders;
mod index;
mod matrix;
mod outbox;
mod replies;
mod revocation;
pub(crate) mod rules;
pub(crate) mod shared_mailbox;
mod trash;
