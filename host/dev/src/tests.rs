//! Tests of the stack with real daemons and a real directory. They show how Dovecot and Postfix use
//! the contract of `docs/mailserver.md`.

mod lifetime;
mod log_in;
mod postgresql;
mod production;
mod refusals;
mod sessions;
mod support;
mod transport;
