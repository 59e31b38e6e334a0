//! The result of a check, and its two output formats.

use serde_json::json;

use crate::output::escape;

/// The status of a check.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Status {
    /// The check found no problem.
    Ok,
    /// The check found a problem that does not stop mail, or the subject of the check is not configured.
    Warning,
    /// The check found a problem that stops mail or the service.
    Failed,
}

impl Status {
    const fn name(self) -> &'static str {
        match self {
            Self::Ok => "ok",
            Self::Warning => "warning",
            Self::Failed => "failed",
        }
    }
}

/// The result of a check.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Finding {
    /// The name of the check. Several findings can have the same name, for example one for each domain.
    pub(super) check: &'static str,
    pub(super) status: Status,
    /// What the check found. May contain text from servers.
    pub(super) detail: String,
    /// What the operator can do. `None` if the status is `Ok`.
    pub(super) remedy: Option<String>,
}

impl Finding {
    pub(super) fn ok(check: &'static str, detail: impl Into<String>) -> Self {
        Self {
            check,
            status: Status::Ok,
            detail: detail.into(),
            remedy: None,
        }
    }

    pub(super) fn warning(
        check: &'static str,
        detail: impl Into<String>,
        remedy: impl Into<String>,
    ) -> Self {
        Self {
            check,
            status: Status::Warning,
            detail: detail.into(),
            remedy: Some(remedy.into()),
        }
    }

    pub(super) fn failed(
        check: &'static str,
        detail: impl Into<String>,
        remedy: impl Into<String>,
    ) -> Self {
        Self {
            status: Status::Failed,
            ..Self::warning(check, detail, remedy)
        }
    }

    /// Returns the finding as one line of text.
    pub(super) fn line(&self) -> String {
        let Self { check, detail, .. } = self;
        let line = format!("{:<7}  {check}: {}", self.status.name(), escape(detail));
        match &self.remedy {
            Some(remedy) => format!("{line}. Remedy: {}", escape(remedy)),
            None => line,
        }
    }

    /// Returns the finding as a JSON object on one line.
    pub(super) fn json(&self) -> String {
        json!({
            "check": self.check,
            "status": self.status.name(),
            "detail": self.detail,
            "remedy": self.remedy,
        })
        .to_string()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_finding_is_one_line_in_both_formats() {
        let ok = Finding::ok("imap", "Dovecot at 127.0.0.1:143, TLS not used");
        assert_eq!(
            ok.line(),
            "ok       imap: Dovecot at 127.0.0.1:143, TLS not used"
        );
        let failed = Finding::failed("smtp", "broken\nline", "start Postfix");
        assert_eq!(
            failed.line(),
            "failed   smtp: broken\\u{a}line. Remedy: start Postfix"
        );
        let json: serde_json::Value = serde_json::from_str(&failed.json()).unwrap();
        let expected = json!({
            "check": "smtp", "status": "failed", "detail": "broken\nline", "remedy": "start Postfix",
        });
        assert_eq!(json, expected);
        assert!(!failed.json().contains('\n'));
    }
}
