//! What a member may do in a shared mailbox, and what it cannot learn
//! about the rest.

mod attached;
mod connections;
mod folders;
mod index;
mod matrix;
mod revocation;
mod rules;
mod shared_mailbox;
