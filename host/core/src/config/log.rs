//! `[log]`: the format and the filter of the log.

use serde::Deserialize;

/// The section `[log]` of the configuration.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Log {
    /// The format of the log.
    pub format: LogFormat,
    /// The filter that selects log lines: a level such as `info`, or directives such as
    /// `latchmail=debug,info`.
    pub filter: String,
}

impl Default for Log {
    fn default() -> Self {
        Self {
            format: LogFormat::Human,
            filter: "info".into(),
        }
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
