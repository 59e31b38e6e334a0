//! The record of a preview: the changes that a handler would make. Host functions that change or
//! send something write a line to the record instead.

use std::mem;
use std::sync::{Arc, Mutex, PoisonError};

use http::Uri;
use latchmail_bindings::latchmail::host::types::Error;
use latchmail_core::codes;
use latchmail_net::fetch::Target;

use super::problem;
use crate::log_line::to_log_line;

/// The maximum number of lines of a record. Further lines are counted and dropped.
const MAX_LINES: usize = 1000;

/// The maximum number of messages that a line names.
const MAX_LISTED: usize = 10;

/// The record of a preview.
#[derive(Debug, Default)]
pub struct Recorder(Mutex<Lines>);

#[derive(Debug, Default)]
struct Lines {
    recorded: Vec<String>,
    dropped: usize,
}

impl Recorder {
    /// Removes the recorded lines, and returns them in the order of the calls. Each line is a
    /// phrase without control characters, for example `move message 12 to "Work"`.
    #[must_use]
    pub fn take(&self) -> Vec<String> {
        let mut lines = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let Lines {
            mut recorded,
            dropped,
        } = mem::take(&mut *lines);
        if dropped > 0 {
            recorded.push(format!("{dropped} more changes"));
        }
        recorded
    }

    fn record(&self, line: &str) {
        let mut lines = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if lines.recorded.len() < MAX_LINES {
            lines.recorded.push(to_log_line(line));
        } else {
            lines.dropped += 1;
        }
    }
}

/// The record of a call. `None` if the call is not a preview.
#[derive(Clone, Debug, Default)]
pub(crate) struct Preview(pub(crate) Option<Arc<Recorder>>);

impl Preview {
    /// In a preview, records a change and returns `true`. The host function must then not act.
    /// Returns `false` in other calls.
    pub(super) fn records(&self, line: impl FnOnce() -> String) -> bool {
        if let Some(recorder) = &self.0 {
            recorder.record(&line());
        }
        self.is_active()
    }

    /// In a preview, records an HTTP request whose method is not safe, and returns `true`. The host
    /// must then not send the request. Otherwise returns `false`. The record contains only the
    /// server of the URL.
    pub(super) fn records_request(&self, method: &str, url: &str) -> bool {
        let is_safe = ["GET", "HEAD"].contains(&method);
        !is_safe && self.records(|| format!("send {method} {}", without_path(url)))
    }

    /// Returns whether the call is a preview.
    pub(super) fn is_active(&self) -> bool {
        self.0.is_some()
    }

    /// Returns `denied` in a preview, for changes whose result is not known without the change.
    pub(super) fn refuse(&self) -> Result<(), Error> {
        match self.0 {
            None => Ok(()),
            Some(_) => Err(problem::denied(
                codes::PERMISSION_DENIED,
                "This function is not available in a preview",
            )),
        }
    }
}

/// Returns the scheme, the host and the port of a URL. The path and the query of a webhook are a
/// secret of the owner, and the operator reads the record.
fn without_path(url: &str) -> String {
    let target = url.parse().ok().and_then(|uri: Uri| Target::of(&uri));
    target.map_or_else(
        || "to an invalid URL".into(),
        |target| format!("{target}/…"),
    )
}

/// Returns a phrase for the messages of a change.
pub(super) fn messages(uids: &[u64]) -> String {
    let listed: Vec<_> = uids.iter().take(MAX_LISTED).map(u64::to_string).collect();
    let listed = listed.join(", ");
    match uids.len() {
        1 => format!("message {listed}"),
        all if all > MAX_LISTED => format!("messages {listed} and {} more", all - MAX_LISTED),
        _ => format!("messages {listed}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_record_has_a_limited_number_of_single_lines() {
        let recorder = Recorder::default();
        for number in 0..MAX_LINES + 2 {
            recorder.record(&format!("move message {number}\nto \"Work\""));
        }
        let lines = recorder.take();
        assert_eq!(lines.len(), MAX_LINES + 1);
        assert_eq!(lines[0], "move message 0\\nto \"Work\"");
        assert_eq!(lines[MAX_LINES], "2 more changes");
        assert!(recorder.take().is_empty());
    }

    #[test]
    fn a_recorded_request_does_not_contain_the_path_of_its_url() {
        let recorder = Arc::new(Recorder::default());
        let preview = Preview(Some(Arc::clone(&recorder)));
        for url in [
            "https://hooks.example.com:8443/T0/secret?key=secret",
            "https://ada:secret@hooks.example.com/",
        ] {
            assert!(preview.records_request("POST", url));
        }
        assert!(!preview.records_request("GET", "https://hooks.example.com/"));
        let lines = recorder.take();
        assert_eq!(
            lines,
            [
                "send POST https://hooks.example.com:8443/…",
                "send POST to an invalid URL"
            ]
        );
    }

    #[test]
    fn a_line_names_a_limited_number_of_messages() {
        assert_eq!(messages(&[7]), "message 7");
        assert_eq!(messages(&[7, 9]), "messages 7, 9");
        let many: Vec<u64> = (1..=12).collect();
        assert_eq!(
            messages(&many),
            "messages 1, 2, 3, 4, 5, 6, 7, 8, 9, 10 and 2 more"
        );
    }
}
