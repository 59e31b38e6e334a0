//! Jobs: work that the service does without a request, for example a message that a client sends
//! later. [`Jobs`] stores jobs. [`Runner`] does the jobs that are due: it leases each job from the
//! database, so that one host does the job, and calls the [`Handler`] for the kind of the job.
//!
//! A job has no caller. Its handler must check the rights of the job's account at that moment.
//!
//! A handler can run twice for the same job: a host can stop after the effect of a job and before
//! the record of its outcome. A handler whose effect must not happen twice needs a key for the
//! effect, for example the id of a message. A handler that changes other tables of the directory
//! ends the lease in the same transaction, with a function of the directory.

mod runner;
mod steps;
mod store;

pub use runner::{Handler, Limits, Outcome, Runner};
pub use steps::{Step, TURN, busy_wait, run_steps};
pub use store::{Job, Jobs, NewJob};
