//! The two output formats of the result of a check.

use latchmail_terminal::output::escape;
use serde_json::json;

pub(super) use latchmail_core::finding::{Finding, Status};

/// Returns the finding as one line of text.
pub(super) fn line(finding: &Finding) -> String {
    let check = finding.check;
    let line = format!(
        "{:<7}  {check}: {}",
        finding.status.name(),
        escape(&finding.detail)
    );
    match &finding.remedy {
        Some(remedy) => format!("{line}. Remedy: {}", escape(remedy)),
        None => line,
    }
}

/// Returns the finding as a JSON object on one line.
pub(super) fn json(finding: &Finding) -> String {
    json!({
        "check": finding.check,
        "status": finding.status.name(),
        "detail": finding.detail,
        "remedy": finding.remedy,
    })
    .to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_finding_is_one_line_in_both_formats() {
        let ok = Finding::ok("imap", "Dovecot at 127.0.0.1:143, TLS not used");
        assert_eq!(
            line(&ok),
            "ok       imap: Dovecot at 127.0.0.1:143, TLS not used"
        );
        let failed = Finding::failed("smtp", "broken\nline", "start Postfix");
        assert_eq!(
            line(&failed),
            "failed   smtp: broken\\u{a}line. Remedy: start Postfix"
        );
        let json: serde_json::Value = serde_json::from_str(&super::json(&failed)).unwrap();
        let expected = json!({
            "check": "smtp", "status": "failed", "detail": "broken\nline", "remedy": "start Postfix",
        });
        assert_eq!(json, expected);
        assert!(!super::json(&failed).contains('\n'));
    }
}
