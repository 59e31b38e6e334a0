//! The results of an import, which the commands that import a file print.

use std::io::Read as _;
use std::path::Path;

use anyhow::{Context as _, bail};
use latchmail_terminal::output::{escape, print_lines};
use serde_json::{Value, json};

/// The result of an entry.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Status {
    /// The command made a change.
    Imported,
    /// There was nothing to change.
    Unchanged,
    /// The entry was not imported.
    Failed {
        /// The reason, as the end of a sentence whose subject is the entry.
        reason: String,
        /// Whether the address of the entry is reserved, so that no account can use it.
        reserved: bool,
    },
}

impl Status {
    /// Returns the status of an entry that was not imported.
    pub(crate) fn failed(reason: impl Into<String>) -> Self {
        Self::Failed {
            reason: reason.into(),
            reserved: false,
        }
    }
}

/// The results of all entries, in the order of the file.
#[derive(Debug, Default)]
pub(crate) struct Report {
    entries: Vec<(String, Status)>,
}

impl Report {
    pub(crate) fn add(&mut self, entry: impl Into<String>, status: Status) {
        self.entries.push((entry.into(), status));
    }

    /// Prints the results.
    ///
    /// # Errors
    /// Returns an error if an entry was not imported, or if the output cannot be written.
    pub(crate) fn print(&self, json: bool) -> anyhow::Result<()> {
        if json {
            let objects = self
                .entries
                .iter()
                .map(|(entry, status)| object(entry, status));
            print_lines(objects.map(|object| object.to_string()))?;
        } else {
            let failures = self
                .entries
                .iter()
                .filter_map(|(entry, status)| line(entry, status));
            print_lines(failures.chain([self.summary()]))?;
        }
        match self.count(is_failed) {
            0 => Ok(()),
            1 => bail!("1 entry was not imported"),
            failed => bail!("{failed} entries were not imported"),
        }
    }

    /// Returns the number of entries with each status, as one line.
    pub(crate) fn summary(&self) -> String {
        format!(
            "{} imported, {} unchanged, {} not imported",
            self.count(|status| *status == Status::Imported),
            self.count(|status| *status == Status::Unchanged),
            self.count(is_failed)
        )
    }

    fn count(&self, matches: impl Fn(&Status) -> bool) -> usize {
        let statuses = self.entries.iter().map(|(_, status)| status);
        statuses.filter(|status| matches(status)).count()
    }
}

const fn is_failed(status: &Status) -> bool {
    matches!(status, Status::Failed { .. })
}

/// Returns the line for an entry that was not imported.
fn line(entry: &str, status: &Status) -> Option<String> {
    let Status::Failed { reason, reserved } = status else {
        return None;
    };
    let reservation = if *reserved {
        "; the address is reserved"
    } else {
        ""
    };
    Some(format!(
        "{}: {}{reservation}",
        escape(entry),
        escape(reason)
    ))
}

fn object(entry: &str, status: &Status) -> Value {
    let (name, reason, reserved) = match status {
        Status::Imported => ("imported", None, false),
        Status::Unchanged => ("unchanged", None, false),
        Status::Failed { reason, reserved } => ("failed", Some(reason), *reserved),
    };
    json!({ "entry": entry, "status": name, "reason": reason, "reserved": reserved })
}

/// Reads the file of an import, or standard input if the name is `-`. Replaces bytes that are not
/// UTF-8, so that only the entries with such bytes are invalid.
pub(crate) fn read(file: &Path) -> anyhow::Result<String> {
    let bytes = if file == Path::new("-") {
        let mut bytes = Vec::new();
        std::io::stdin()
            .lock()
            .read_to_end(&mut bytes)
            .map(|_| bytes)
    } else {
        std::fs::read(file)
    };
    let bytes = bytes.with_context(|| format!("cannot read {}", file.display()))?;
    Ok(match String::from_utf8(bytes) {
        Ok(text) => text,
        Err(error) => String::from_utf8_lossy(error.as_bytes()).into_owned(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_failed_entries_have_a_line() {
        let mut report = Report::default();
        report.add("a@example.org", Status::Imported);
        report.add("b@example.org", Status::Unchanged);
        let reserved = Status::Failed {
            reason: "has several targets".into(),
            reserved: true,
        };
        report.add("c@example.org", reserved);
        report.add("\u{1b}", Status::failed("is not an address"));
        let lines: Vec<String> = report
            .entries
            .iter()
            .filter_map(|(entry, status)| line(entry, status))
            .collect();
        assert_eq!(
            lines,
            [
                "c@example.org: has several targets; the address is reserved",
                "\\u{1b}: is not an address"
            ]
        );
        assert_eq!(report.summary(), "1 imported, 1 unchanged, 2 not imported");
        let (entry, status) = &report.entries[2];
        assert_eq!(
            object(entry, status),
            json!({ "entry": "c@example.org", "status": "failed", "reason": "has several targets", "reserved": true })
        );
    }
}
