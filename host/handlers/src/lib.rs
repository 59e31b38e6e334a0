//! Modules that act without a request: the service calls the handlers of a module for the events of
//! a mailbox and at the times of its timers, if the owner of the mailbox has enabled the module.
//!
//! Each mailbox and module have one job of the runner of jobs, so a module gets one call at a time
//! for a mailbox. The job calls the module for the timers that are due, and then for the next
//! events in their order: it reads the change log from the position of the module
//! ([`latchmail_events::Feed`]) and stores the position after the events that are done. The rights
//! of the module are read again before each step: those that the operator grants and those to which
//! the owner agreed.
//!
//! | file | purpose |
//! |---|---|
//! | `handlers` | the state, the calls, and the rights of a call |
//! | `job` | chooses the next call, and stops a call when a right ends |
//! | `events` | the calls for events |
//! | `timers` | the calls for timers |
//! | `outcome` | what follows after a call: the next call, a delay or a pause |
//! | `filter` | selects the events of a module |
//! | `switch` | enables and disables modules for the owner, and resumes them for the operator |
//! | `watch` | starts jobs when mailboxes, rights or modules change |
//! | `preview` | calls a module for past mail without changes |
//!
//! The sandbox of a call is in `latchmail-runtime`.

mod error;
mod events;
mod filter;
mod handlers;
mod job;
mod outcome;
mod preview;
mod switch;
mod timers;
mod watch;

pub use error::Error;
pub use handlers::{Handlers, Parts};
pub use job::{HandlerJobs, LIMITS};
pub use preview::{MAX_MESSAGES, Preview, PreviewedCall};
pub use switch::{MailboxCounts, ModuleMailboxes, PausedMailbox};
