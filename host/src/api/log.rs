//! `log`: a module's lines in the host's log, bounded in size and number, so that a guest cannot drown or forge it.

use latchmail_bindings::latchmail::host::log::{Host, Level};

use super::Call;
use crate::module_log::{self, Source};

/// The longest line, in bytes.
const LONGEST: usize = 4096;

/// Lines of one request; the rest are counted.
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

    /// Whether one more line of this request is written.
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

/// The line as it is written: control characters escaped, cut at [`LONGEST`].
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
