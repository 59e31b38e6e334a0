//! Latchmail: an HTTP API over real mailboxes.
//!
//! The map of the rooms. Arrows point one way, `main → http → {auth, limits, modules} → api → {directory, mail, outbox, aliases, store, fetch}`; every room
//! may use [`error`], [`config`], [`clock`] and [`caller`].
//!
//! | room | what it is for |
//! |---|---|
//! | [`http`] | the server, the router, the host's own routes, the API description |
//! | [`auth`] | who is asking: the Authorization header, sessions, secrets, sealing |
//! | [`limits`] | how often one may ask |
//! | [`life`] | which modules there are, and every change of that while the service runs |
//! | [`modules`] | the sandbox: loading components, calling one per request |
//! | [`api`] | what a component may call, one file an interface: check, convert, delegate |
//! | [`domains`] | custom domains: claimed, proved, released |
//! | [`teams`] | shared mailboxes: who is a member, what may be granted, and what acts for guests |
//! | [`plans`] | what the configuration lets an account have |
//! | [`directory`] | accounts and what acts for them, in SQLite or PostgreSQL |
//! | [`aliases`] | further addresses of accounts: which there can be |
//! | [`mail`] | the mailbox, over IMAP |
//! | [`dkim`] | the keys that domains sign their mail with, and signing |
//! | [`store`] | what modules keep for accounts |
//! | [`oauth`] | the embedded authorization server: what clients may ask for and are told |
//! | [`fetch`] | HTTP requests to the world, never to an address that is not meant to be reached |
//! | [`outbox`] | what leaves: messages written and handed to the submission service |
//! | [`inbound`] | `latchmail milter`: checks who sends a message before the mail server takes it |
//! | [`dns`] | what the DNS says of custom domains |
//! | [`logging`] | the log |
//! | [`module_log`] | recent log entries of each module, in memory |
//! | [`app`] | the rooms put together |
//! | [`operator`] | what the operator does at the command line |
//! | [`project`] | `latchmail module new`: a project for the author of a module |
//! | [`dev`] | a whole service with its mail servers on one machine |

pub mod aliases;
pub mod api;
pub mod app;
pub mod auth;
pub mod caller;
pub mod clock;
pub mod config;
mod cpu;
pub mod dev;
mod dial;
pub mod directory;
pub mod dkim;
pub mod dns;
pub mod domains;
pub mod error;
pub mod fetch;
#[cfg(any(test, feature = "testing"))]
pub mod fuzzing;
pub mod hardening;
mod hexadecimal;
pub mod http;
pub mod inbound;
pub mod life;
pub mod limits;
pub mod logging;
pub mod mail;
pub mod module_log;
pub mod modules;
mod network;
pub mod oauth;
pub mod operator;
pub mod outbox;
pub mod plans;
pub mod project;
mod sasl;
pub mod store;
pub mod teams;
mod turns;
