//! The library of the service tests: starts a service, and calls it as its clients do.
//!
//! [`Service::start`] creates a service for one test: a database, the host with its modules, and a
//! clock of its own. [`Service::with_mail`] adds Dovecot and Postfix, which tests use one after
//! another, and [`Service::with_own_mail`] private ones. Tests assert only what a client can
//! notice.

mod account_page;
pub mod administrator;
mod agent;
mod another_host;
pub mod browser;
mod built;
pub mod client;
pub mod collector;
mod conformance;
pub mod corpus;
#[cfg(test)]
mod crates;
mod database;
mod directory;
pub mod dkim;
mod docker_registry;
mod embedded;
mod event_stream;
pub mod existing_server;
mod fake_registry;
mod generated;
mod host;
mod inbox;
mod issuer;
mod log;
mod mail_servers;
mod mail_users;
mod mailbox;
mod mailbox_copy;
mod mailbox_model;
pub mod milter;
mod nameserver;
mod next_server;
mod operator;
mod person;
mod postgres_server;
pub mod process;
mod prometheus;
pub mod provider;
mod random;
mod raw;
mod receiver;
mod redis_server;
mod relay;
mod response;
mod scrape;
mod sdk;
mod searching;
mod second_host;
mod service;
mod settings;
mod several_hosts;
mod site;
mod test_run;
pub mod tls;
mod variant;
mod wait;

pub use agent::{Agent, TokenProxy};
pub use another_host::AnotherHost;
pub use browser::{Browser, BrowserOptions};
pub use built::{cache, examples, fixtures, modules};
pub use client::Client;
pub use conformance::{Conformance, PendingRun, Report};
pub use directory::{add_alias, forget_imports};
pub use docker_registry::DockerRegistry;
pub use event_stream::{EventStream, StreamedEvent, refused_stream};
pub use existing_server::ExistingServer;
pub use fake_registry::{FakeRegistry, REGISTRY_CREDENTIALS, SigningKey};
pub use generated::GeneratedClient;
pub use host::HostProcess;
pub use inbox::{RICH_MESSAGE, app_password, expunge_all, imap, log_in};
pub use issuer::{CLIENT_SECRET, Issuer};
pub use log::Log;
pub use mail_servers::{AUTHSERV_ID, MailServers, contains_file};
pub use mail_users::{MASTER_PASSWORD, MailUsers};
pub use mailbox::{
    Imap, StoredMessage, append_message, message_with_subject, random_bytes, store_flags,
    stored_messages, subjects,
};
pub use mailbox_copy::{Content, MailboxCopy};
pub use mailbox_model::{Model, ModelFolder, ModelMessage, TwoActors, close_folder, folder_paths};
pub use nameserver::Nameserver;
pub use next_server::NextServer;
pub use operator::{ProgramOutput, program};
pub use person::{PASSWORD, Person};
pub use postgres_server::PostgresServer;
pub use prometheus::Prometheus;
pub use provider::{PersonBrowser, Provider};
pub use random::Random;
pub use raw::{RawClient, RawResponse};
pub use receiver::{Behaviour, Received, Receiver};
pub use redis_server::{REDIS_PASSWORD, Redis};
pub use relay::Relay;
pub use response::Response;
pub use scrape::{METRICS, Scrape};
pub use sdk::{Sdk, tools_folder};
pub use searching::{percent_encoded, subjects_of};
pub use second_host::SecondHost;
pub use service::{DOMAIN, Service, Setup};
pub use settings::{load_problem, start_error};
pub use several_hosts::{Host, PUBLIC_LIMIT, SeveralHosts};
pub use site::Site;
pub use variant::{Actor, Planted, Puppet, Variant};
pub use wait::{TEST_TIMEOUT, wait_until};
