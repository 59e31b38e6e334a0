//! The data of an account as an archive: a zip file with one mbox file for each folder, and JSON
//! files with the data that mbox loses. [`Exports`] writes archives as jobs, in steps that survive
//! the end of the process. [`archive`] and [`mbox`] also read archives and mbox files, for imports.
//!
//! This crate does not store messages in mailboxes. `docs/export.md` describes the files of an
//! archive.
//!
//! | file | purpose |
//! |---|---|
//! | `exports` | starts, finds and deletes exports |
//! | `job` | the steps of an export |
//! | `work` | the files of an unfinished export |
//! | `account` | the JSON files about the account |
//! | [`archive`] | the form of an archive: writes the zip file, and reads it |
//! | [`mbox`] | writes and reads mbox files |

mod account;
pub mod archive;
mod error;
mod exports;
mod job;
pub mod mbox;
mod work;

pub use error::Error;
pub use exports::{Archive, Export, Exports, Parts, Started, Status};
pub use job::{ExportJobs, LIMITS};
