//! Measures the duration of commands for metrics and traces. Metrics and traces contain the names
//! of commands, but no arguments.

use std::time::Instant;

use imap_proto::Status;
use latchmail_core::metrics;
use latchmail_core::traces::{Kind, Span};

/// The command name in metrics and traces for connecting to the server and reading the greeting.
pub(crate) const CONNECT: &str = "CONNECT";

/// A running command. If this value is dropped without a result, the command counts as failed: the
/// connection was lost, a time limit passed, or the request was cancelled.
#[derive(Debug)]
pub(crate) struct CommandTimer {
    name: &'static str,
    start: Instant,
    outcome: &'static str,
    span: Span,
}

impl CommandTimer {
    /// Starts the measurement of a command. `command` begins with the name of the command. Returns
    /// `None` for LOGOUT, because the client does not wait for the result of LOGOUT.
    pub(crate) fn start(command: &str) -> Option<Self> {
        let name = name(command);
        (name != LOGOUT).then(|| Self {
            name,
            start: Instant::now(),
            outcome: FAILED,
            span: Span::start(Kind::Client, || format!("imap {name}").into()),
        })
    }

    /// Ends the measurement with the result of the command.
    pub(crate) fn finish(mut self, status: &Status) {
        self.outcome = match status {
            Status::Ok => "ok",
            Status::No => "no",
            _ => BAD,
        };
    }
}

impl Drop for CommandTimer {
    fn drop(&mut self) {
        metrics::IMAP_COMMANDS.increment([self.name, self.outcome]);
        metrics::IMAP_DURATION.observe([self.name], self.start.elapsed());
        self.span.set("latchmail.outcome", self.outcome);
        if matches!(self.outcome, BAD | FAILED) {
            self.span.fail(self.outcome);
        }
    }
}

const BAD: &str = "bad";
const FAILED: &str = "failed";

const LOGOUT: &str = "LOGOUT";

/// Returns the name of a command without the prefix `UID`, or `other` for an unknown name.
fn name(command: &str) -> &'static str {
    let command = command.strip_prefix("UID ").unwrap_or(command);
    let name = command.split(' ').next().unwrap_or_default();
    let mut names = metrics::IMAP_COMMAND_NAMES.iter().chain([&LOGOUT]);
    names.find(|known| **known == name).unwrap_or(&"other")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_name_of_a_command_is_counted() {
        for (command, expected) in [
            ("UID FETCH 1:* (FLAGS)", "FETCH"),
            ("FETCH 1 (UID)", "FETCH"),
            ("LOGIN ada secret", "LOGIN"),
            ("CAPABILITY", "CAPABILITY"),
            ("SECRET", "other"),
            ("", "other"),
        ] {
            assert_eq!(name(command), expected);
        }
        assert!(CommandTimer::start("LOGOUT").is_none());
    }

    #[test]
    fn a_command_without_a_result_counts_as_failed() {
        let count = |outcome| metrics::IMAP_COMMANDS.with(["UNSELECT", outcome]).get();
        let (failed, bad) = (count("failed"), count("bad"));
        drop(CommandTimer::start("UNSELECT"));
        CommandTimer::start("UNSELECT")
            .unwrap()
            .finish(&Status::Bad);
        assert!(count("failed") >= failed + 1.0 && count("bad") >= bad + 1.0);
    }
}
