//! Tests that take minutes: a host is killed, the servers behind the hosts stop, and a new version
//! replaces an old one.

mod deletions;
mod faults;
mod filed;
mod load;
mod scheduled;
mod sends;
mod snoozed;
mod upgrade;
