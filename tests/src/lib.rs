//! Test support: the service as its clients see it.
//!
//! [`Service::start`] creates a service for one test: a database, the host with its modules, and a clock of its own. [`Service::with_mail`] adds
//! Dovecot and Postfix, which tests use one after another, and [`Service::with_own_mail`] private ones. Tests assert only what a client can notice.

mod agent;
mod answer;
pub mod browser;
mod built;
pub mod client;
mod conformance;
pub mod corpus;
#[cfg(test)]
mod crates;
mod directory;
pub mod dkim;
mod generated;
mod host;
mod inbox;
mod issuer;
mod log;
mod mail_servers;
mod mailbox;
pub mod milter;
mod nameserver;
mod operator;
mod person;
pub mod process;
mod raw;
mod relay;
mod sdk;
mod service;
mod site;
mod variant;

pub use agent::{Agent, TokenProxy};
pub use answer::Answer;
pub use browser::{Browser, Look};
pub use built::{cache, examples, fixtures, modules};
pub use client::Client;
pub use conformance::{Conformance, Report, Waiting};
pub use directory::alias;
pub use generated::Generated;
pub use host::Process;
pub use inbox::{RICH, app_password, expunge_all, imap, log_in};
pub use issuer::{CLIENT_SECRET, Issuer};
pub use log::Log;
pub use mail_servers::{AUTHSERV_ID, MailServers, holds_a_file};
pub use mailbox::{Imap, Stored, letter, mark, noise, put, stored, subjects};
pub use nameserver::Nameserver;
pub use operator::{Said, program};
pub use person::{PASSWORD, Person};
pub use raw::{EVENTUALLY, Raw, RawAnswer};
pub use relay::Relay;
pub use sdk::{Sdk, installed};
pub use service::{DOMAIN, Service, Setup, refusal, unloadable};
pub use site::Site;
pub use variant::Variant;
