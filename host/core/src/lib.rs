//! Types that all crates of Latchmail use: callers, permissions, errors, the clock, the
//! configuration, rate limits, and the service's keys.
//!
//! This crate does no network I/O, has no database, and depends only on the crate that modules use
//! too. It reads the environment, the configuration file and the key files.

pub mod account_permits;
pub mod address;
pub mod caller;
pub mod clock;
pub mod config;
pub mod cpu;
pub mod detached_tasks;
pub mod ended_credentials;
pub mod error;
pub mod finding;
pub mod fingerprint;
#[cfg(any(test, feature = "testing"))]
pub mod fuzzing;
pub mod hexadecimal;
pub mod key_file;
pub mod keyring;
pub mod limits;
pub mod logging;
pub mod mail_server_start;
pub mod message_number;
pub mod metrics;
pub mod network;
pub mod permissions;
pub mod policy;
pub mod rate_limit;
pub mod sealing;
pub mod secret_file;
pub mod secrets;
pub mod traces;
pub mod work_queue;

pub use latchmail_shape::{Code, codes, event_type};
