//! Connections to other hosts: TCP and TLS, DNS lookups, HTTP requests to allowed hosts, and SASL.
//!
//! This crate knows no accounts and no mailboxes, and it does not serve requests.

pub mod dial;
pub mod dns;
pub mod fetch;
pub mod sasl;
