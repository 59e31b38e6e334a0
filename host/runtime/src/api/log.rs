//! `log`: writes lines of a module to the host's log. Their size and number are limited and control characters are escaped, so that a guest can
//! neither flood nor forge the log.

use latchmail_bindings::latchmail::host::log::{Host, Level};

use super::Call;
use crate::module_log::{self, Source};

/// The maximum length of a line, in bytes.
const LONGEST: usize = 4096;

/// The maximum number of lines of one request. Lines beyond it are only counted.
const MOST: u32 = 100;

impl Host for Call {
    async fn write(&mut self, level: Level, message: String) -> wasmtime::Result<()> {
        if !self.may_log() {
            return Ok(());
        }
        let line = bounded(&message);
        let module = &*self.module;
        match level {
            Level::Trace => tracing::trace!(target: "module", module, "{line}"),
            Level::Debug => tracing::debug!(target: "module", module, "{line}"),
            Level::Info => tracing::info!(target: "module", module, "{line}"),
            Level::Warn => tracing::warn!(target: "module", module, "{line}"),
            Level::Error => tracing::error!(target: "module", module, "{line}"),
        }
        self.keep(level.into(), line);
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
    fn keep(&self, level: module_log::Level, line: String) {
        let request = self.origin.request.as_deref();
        self.log.write(request, level, Source::Log, line);
    }

    /// Counts a line and returns whether it may be written.
    pub(super) fn may_log(&mut self) -> bool {
        self.lines = self.lines.saturating_add(1);
        self.lines <= MOST
    }
}

impl Drop for Call {
    fn drop(&mut self) {
        if self.lines > MOST {
            let line = format!(
                "{} more lines in this request were not written",
                self.lines - MOST
            );
            tracing::warn!(target: "module", module = &*self.module, "{line}");
            self.keep(module_log::Level::Warn, line);
        }
    }
}

/// Escapes control characters and cuts the line at [`LONGEST`].
pub(crate) fn bounded(message: &str) -> String {
    let mut line = String::with_capacity(message.len().min(LONGEST));
    for character in message.chars() {
        if line.len() >= LONGEST {
            line.push('…');
            break;
        }
        if character.is_control() {
            line.extend(character.escape_default());
        } else {
            line.push(character);
        }
    }
    line
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_cannot_forge_another() {
        assert_eq!(bounded("a\nERROR b\u{1b}[2J"), "a\\nERROR b\\u{1b}[2J");
    }

    #[test]
    fn a_line_is_cut_at_its_bound() {
        assert!(bounded(&"é".repeat(10_000)).len() <= LONGEST + "é…".len());
    }
}
