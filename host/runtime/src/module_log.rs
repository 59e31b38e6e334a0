//! The recent log entries of each module. The entries are the lines that the module wrote, and the
//! errors of its requests.
//!
//! The entries are stored in memory, with a limit for each module, and are lost when the service
//! stops. The log of the service ([`latchmail_core::logging`]) contains the same lines. The host
//! never writes bodies, headers or credentials of requests into an entry, but a module can write
//! such data.

use std::collections::VecDeque;
use std::sync::{Mutex, MutexGuard, PoisonError};

use latchmail_core::clock::{Clock, Timestamp};
use serde::Serialize;
use utoipa::ToSchema;

/// Maximum number of entries of a module.
const MAX_ENTRIES: usize = 1_000;

/// Maximum size of a module's entries, in bytes of text.
const MAX_BYTES: usize = 512 * 1024;

/// The severity of an entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, ToSchema)]
#[serde(rename_all = "lowercase")]
#[schema(as = ModuleLogLevel)]
pub enum Level {
    /// Details of single steps.
    Trace,
    /// Information for developers.
    Debug,
    /// Information for operators.
    Info,
    /// A problem that the module or the host handled.
    Warn,
    /// An error.
    Error,
}

/// The source of an entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, ToSchema)]
#[serde(rename_all = "lowercase")]
#[schema(as = ModuleLogSource)]
pub enum Source {
    /// A line that the module wrote through the interface `log`.
    Log,
    /// A line that the module wrote to its standard output or standard error.
    Output,
    /// A report of the host about a request for which the module returned no valid response: a
    /// trap, an invalid response, a missed deadline, or no free sandbox.
    Host,
}

/// A log entry of a module.
#[derive(Clone, Debug, Serialize, ToSchema)]
#[schema(as = ModuleLogEntry)]
pub struct Entry {
    /// The time of the entry.
    #[schema(value_type = String, format = DateTime)]
    pub at: Timestamp,
    /// The id of the request, as in the header `X-Request-Id` of the response. Absent if the module
    /// wrote the entry outside of a request.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub request: Option<String>,
    /// The severity of the entry.
    pub level: Level,
    /// The source of the entry.
    pub source: Source,
    /// The text of the entry, on one line.
    pub message: String,
    /// The functions of the module that were active at a trap, the innermost function first.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[schema(required = false)]
    pub backtrace: Vec<String>,
}

impl Entry {
    fn size(&self) -> usize {
        let frames: usize = self.backtrace.iter().map(String::len).sum();
        let request = self.request.as_ref().map_or(0, String::len);
        size_of::<Self>() + request + self.message.len() + frames
    }
}

/// The log of one module. All versions of the module share the log.
#[derive(Debug)]
pub struct ModuleLog {
    clock: Clock,
    entries: Mutex<Entries>,
}

#[derive(Debug, Default)]
struct Entries {
    queue: VecDeque<Entry>,
    size: usize,
}

impl ModuleLog {
    /// Creates an empty log.
    #[must_use]
    pub fn new(clock: Clock) -> Self {
        Self {
            clock,
            entries: Mutex::default(),
        }
    }

    /// Adds an entry without a backtrace.
    pub fn write(&self, request: Option<&str>, level: Level, source: Source, message: String) {
        self.add(request, level, source, message, Vec::new());
    }

    /// Adds an entry of the host about an error of a request.
    pub fn report(&self, request: &str, message: String, backtrace: Vec<String>) {
        self.add(
            Some(request),
            Level::Error,
            Source::Host,
            message,
            backtrace,
        );
    }

    /// Adds an entry. Removes the oldest entries if the limits are exceeded.
    fn add(
        &self,
        request: Option<&str>,
        level: Level,
        source: Source,
        message: String,
        backtrace: Vec<String>,
    ) {
        let entry = Entry {
            at: self.clock.now(),
            request: request.map(ToOwned::to_owned),
            level,
            source,
            message,
            backtrace,
        };
        let mut entries = self.entries();
        entries.size += entry.size();
        entries.queue.push_back(entry);
        while entries.queue.len() > MAX_ENTRIES || entries.size > MAX_BYTES {
            let Some(oldest) = entries.queue.pop_front() else {
                break;
            };
            entries.size -= oldest.size();
        }
    }

    /// Returns all entries, the oldest first. If `request` is given, returns only the entries of
    /// the request with this id.
    #[must_use]
    pub fn read(&self, request: Option<&str>) -> Vec<Entry> {
        let entries = self.entries();
        let wanted = |entry: &&Entry| request.is_none() || entry.request.as_deref() == request;
        entries.queue.iter().filter(wanted).cloned().collect()
    }

    fn entries(&self) -> MutexGuard<'_, Entries> {
        self.entries.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn write(log: &ModuleLog, request: &str, message: String) {
        log.write(Some(request), Level::Info, Source::Log, message);
    }

    #[test]
    fn the_oldest_entries_are_removed_at_the_limit_of_their_number() {
        let log = ModuleLog::new(Clock::default());
        for n in 0..MAX_ENTRIES + 5 {
            write(&log, "a", n.to_string());
        }
        let entries = log.read(None);
        assert_eq!(entries.len(), MAX_ENTRIES);
        assert_eq!(entries[0].message, "5");
    }

    #[test]
    fn the_oldest_entries_are_removed_at_the_limit_of_their_size() {
        let log = ModuleLog::new(Clock::default());
        for _ in 0..MAX_ENTRIES {
            write(&log, "a", "x".repeat(4096));
        }
        log.report("b", "trapped".into(), vec!["f".repeat(1000)]);
        let size: usize = log.read(None).iter().map(Entry::size).sum();
        assert!(size <= MAX_BYTES && size > MAX_BYTES - 8192, "{size}");
        let last = log.read(Some("b"));
        assert_eq!((last.len(), last[0].level), (1, Level::Error));
    }
}
