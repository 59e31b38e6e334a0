//! The result of a check of the service or of a server that it uses. `latchmail doctor` and the
//! operator's page show these results.

/// The status of a check.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Status {
    /// The check found no problem.
    Ok,
    /// The check found a problem that does not stop mail, or the subject of the check is not
    /// configured.
    Warning,
    /// The check found a problem that stops mail or the service.
    Failed,
}

impl Status {
    /// Returns the name of the status.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Ok => "ok",
            Self::Warning => "warning",
            Self::Failed => "failed",
        }
    }
}

/// The result of a check.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Finding {
    /// The name of the check. Several findings can have the same name, for example one for each
    /// domain.
    pub check: &'static str,
    /// The status.
    pub status: Status,
    /// What the check found. May contain text from servers.
    pub detail: String,
    /// What the operator can do. `None` if the status is `Ok`.
    pub remedy: Option<String>,
}

impl Finding {
    /// Creates the result of a check that found no problem.
    pub fn ok(check: &'static str, detail: impl Into<String>) -> Self {
        Self {
            check,
            status: Status::Ok,
            detail: detail.into(),
            remedy: None,
        }
    }

    /// Creates a warning.
    pub fn warning(
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

    /// Creates the result of a failed check.
    pub fn failed(
        check: &'static str,
        detail: impl Into<String>,
        remedy: impl Into<String>,
    ) -> Self {
        Self {
            status: Status::Failed,
            ..Self::warning(check, detail, remedy)
        }
    }
}
