//! The interface `log`, for lines of a module in the log of the service and in the module's own
//! log. The number of lines in one request is limited.

use latchmail_bindings::latchmail::host::log::{Host, Level};

use super::call::Call;
use super::host_call::host_call;
use crate::log_line::to_log_line;
use crate::module_log::{self, Source};

/// The maximum number of log lines of one request. Further lines are counted and dropped.
const MAX_LINES: u32 = 100;

impl Host for Call {
    async fn write(&mut self, level: Level, message: String) -> wasmtime::Result<()> {
        let _span = host_call("log.write");
        if !self.count_log_line() {
            return Ok(());
        }
        let line = to_log_line(&message);
        let module = &*self.module;
        match level {
            Level::Trace => tracing::trace!(target: "module", module, "{line}"),
            Level::Debug => tracing::debug!(target: "module", module, "{line}"),
            Level::Info => tracing::info!(target: "module", module, "{line}"),
            Level::Warn => tracing::warn!(target: "module", module, "{line}"),
            Level::Error => tracing::error!(target: "module", module, "{line}"),
        }
        self.write_entry(level.into(), line);
        Ok(())
    }
}

impl From<Level> for module_log::Level {
    fn from(level: Level) -> Self {
        match level {
            Level::Trace => Self::Trace,
            Level::Debug => Self::Debug,
            Level::Info => Self::Info,
            Level::Warn => Self::Warn,
            Level::Error => Self::Error,
        }
    }
}

impl Call {
    /// Adds a line to the module's own log.
    fn write_entry(&self, level: module_log::Level, line: String) {
        let request = self.origin.request.as_deref();
        self.log.write(request, level, Source::Log, line);
    }

    /// Counts a log line. Returns `true` if the line is within the limit and must be written.
    pub(super) fn count_log_line(&mut self) -> bool {
        self.log_lines = self.log_lines.saturating_add(1);
        self.log_lines <= MAX_LINES
    }
}

impl Drop for Call {
    fn drop(&mut self) {
        if self.log_lines > MAX_LINES {
            let line = format!(
                "dropped {} log lines: a request can write at most {MAX_LINES}",
                self.log_lines - MAX_LINES
            );
            tracing::warn!(target: "module", module = &*self.module, "{line}");
            self.write_entry(module_log::Level::Warn, line);
        }
    }
}
