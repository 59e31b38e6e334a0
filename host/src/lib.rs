//! Latchmail: an HTTP API over real mailboxes.
//!
//! The modules and their dependencies: `main → http → {auth, modules} → api → {mail, outbox, aliases, store, fetch} → latchmail_directory`. Every module may
//! use [`latchmail_core`]: callers, permissions, errors, the clock, the configuration, rate limits and keys.
//!
//! | module | purpose |
//! |---|---|
//! | [`http`] | the server, the router, the host's own routes, the API description |
//! | [`auth`] | authentication: the Authorization header, sessions, tokens, passwords |
//! | [`life`] | the module manager: which modules serve, and changes while the service runs |
//! | [`modules`] | the sandbox: loading components, calling one per request |
//! | [`api`] | the host functions of components, one file for each interface: check, convert, delegate |
//! | [`domains`] | custom domains: claim, verify, release |
//! | [`teams`] | shared mailboxes: members, grants, and the credentials of members |
//! | [`plans`] | the limits of accounts from the configuration |
//! | [`aliases`] | additional addresses of accounts, and their rules |
//! | [`mail`] | the mailbox, over IMAP |
//! | [`dkim`] | DKIM keys of domains, and signing |
//! | [`store`] | storage of modules for accounts |
//! | [`oauth`] | the embedded authorization server for agents |
//! | [`fetch`] | HTTP requests to allowed hosts on the internet |
//! | [`outbox`] | outbound mail: composes messages and submits them |
//! | [`inbound`] | `latchmail milter`: checks the sender of a message before the mail server accepts it |
//! | [`dns`] | DNS lookups for custom domains |
//! | [`logging`] | the log |
//! | [`module_log`] | recent log entries of each module, in memory |
//! | [`app`] | builds a running service from the modules |
//! | [`operator`] | the commands of the operator |
//! | [`project`] | `latchmail module new`: creates a project for a new module |
//! | [`dev`] | a complete service with its mail servers on one machine, for development |

use latchmail_core::{
    address, cpu, error, hexadecimal, key_file, keyring, limits, network, permissions, sealing,
    secrets, verdict,
};
pub use latchmail_core::{caller, clock, config};
pub use latchmail_directory as directory;

pub mod aliases;
pub mod api;
pub mod app;
pub mod auth;
pub mod dev;
mod dial;
pub mod dkim;
pub mod dns;
pub mod domains;
pub mod fetch;
#[cfg(any(test, feature = "testing"))]
pub mod fuzzing;
pub mod hardening;
pub mod http;
pub mod inbound;
pub mod life;
pub mod logging;
pub mod mail;
pub mod module_log;
pub mod modules;
pub mod oauth;
pub mod operator;
pub mod outbox;
pub mod plans;
pub mod project;
mod sasl;
pub mod store;
pub mod teams;
mod turns;
