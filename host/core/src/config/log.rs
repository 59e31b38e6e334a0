//! `[log]`: the format and the filter of the log.

use serde::Deserialize;

use super::values::section;

section! {
    /// The section `[log]` of the configuration.
    pub struct Log {
        /// The format of the log.
        pub format: LogFormat = LogFormat::Human,
        /// The filter that selects log lines: a level such as `info`, or directives such as
        /// `latchmail=debug,info`.
        pub filter: String = "info".into(),
    }
}

/// The format of the log.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum LogFormat {
    /// Readable lines.
    Human,
    /// One JSON object per line.
    Json,
}
