//! The service as its clients see it, on real mail servers and databases. One binary, because linking the service once per file took longer than
//! running the tests.
//!
//! A file is a section of the specification or a subject; a folder is what `.config/nextest.toml` selects by.

mod accounts;
mod agents;
mod attacks;
mod description;
mod directory;
mod http;
mod mail;
mod modules;
mod newcomers;
