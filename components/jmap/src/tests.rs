//! Tests of the routes with an in-memory host, by type.

mod blobs;
mod client;
mod emails;
mod hostile;
mod mailboxes;
mod others;
mod scopes;
mod sessions;
mod submissions;
