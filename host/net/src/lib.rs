//! Connections to other hosts: TCP and TLS, DNS lookups, HTTP requests to allowed hosts, SASL, and
//! the verification of passwords by a mail server.
//!
//! This crate does not depend on accounts or mailboxes, and does not handle requests.

pub mod certificate;
pub mod dns;
pub mod dovecot_auth;
pub mod endpoint;
pub mod event_stream;
pub mod fetch;
pub mod imap_login;
pub mod sasl;
