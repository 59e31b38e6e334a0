//! Connections to other hosts: TCP and TLS, DNS lookups, HTTP requests to allowed hosts, and SASL.
//!
//! This crate does not depend on accounts or mailboxes, and does not handle requests.

pub mod certificate;
pub mod dns;
pub mod endpoint;
pub mod fetch;
pub mod sasl;
