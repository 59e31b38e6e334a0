//! The errors of methods and of objects in `/set` (RFC 8620, sections 3.6.2 and 5.3).

use latchmail_sdk::capability::{
    ChangesError, ConditionalError, DraftError, Error, FilterError, Problem, QueryError,
    ThreadsError,
};
use serde_json::{Map, Value, json};

/// The error of a method.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct MethodError {
    kind: &'static str,
    description: Option<String>,
    /// Whether the host refused the caller's credential, so that the whole request fails.
    pub(crate) is_credential_refused: bool,
}

/// The result of a method.
pub(crate) type MethodResult = Result<Value, MethodError>;

impl MethodError {
    pub(crate) fn new(kind: &'static str) -> Self {
        Self {
            kind,
            description: None,
            is_credential_refused: false,
        }
    }

    pub(crate) fn with(kind: &'static str, description: impl Into<String>) -> Self {
        Self {
            description: Some(description.into()),
            ..Self::new(kind)
        }
    }

    /// The error for an argument that is missing, unknown or of the wrong type.
    pub(crate) fn invalid(description: impl Into<String>) -> Self {
        Self::with("invalidArguments", description)
    }

    /// The error for a state from which the changes are not known.
    pub(crate) fn no_changes() -> Self {
        Self::new("cannotCalculateChanges")
    }

    #[cfg(test)]
    pub(crate) fn kind(&self) -> &'static str {
        self.kind
    }

    pub(crate) fn to_json(&self) -> Value {
        let mut error = Map::new();
        error.insert("type".into(), self.kind.into());
        if let Some(description) = &self.description {
            error.insert("description".into(), description.as_str().into());
        }
        error.into()
    }
}

impl From<Error> for MethodError {
    fn from(error: Error) -> Self {
        match error {
            Error::Denied(problem) => Self::with("forbidden", problem.text),
            Error::Invalid(problem) | Error::Conflict(problem) => {
                Self::with("invalidArguments", problem.text)
            }
            Error::TooLarge(problem) => Self::with("requestTooLarge", problem.text),
            Error::Rejected(problem) => Self::with("serverFail", problem.text),
            Error::CredentialRefused => Self {
                is_credential_refused: true,
                ..Self::new("serverFail")
            },
            Error::Unavailable => Self::new("serverUnavailable"),
            Error::OutcomeUnknown => Self::new("serverPartialFail"),
            Error::NotFound | Error::Internal | Error::OverQuota => Self::new("serverFail"),
        }
    }
}

impl From<QueryError> for MethodError {
    fn from(error: QueryError) -> Self {
        match error {
            QueryError::IndexNotReady => {
                let text = "The search index of the mailbox is being built";
                Self::with("serverUnavailable", text)
            }
            QueryError::CursorExpired => Self::no_changes(),
            QueryError::AnchorNotFound => Self::new("anchorNotFound"),
            QueryError::Unsupported(name) => Self::with("unsupportedFilter", name),
            QueryError::TooManyStreams => Self::new("serverUnavailable"),
            QueryError::Failed(error) => error.into(),
        }
    }
}

impl From<ThreadsError> for MethodError {
    fn from(error: ThreadsError) -> Self {
        match error {
            ThreadsError::IndexNotReady => QueryError::IndexNotReady.into(),
            ThreadsError::Failed(error) => error.into(),
        }
    }
}

impl From<ChangesError> for MethodError {
    fn from(error: ChangesError) -> Self {
        match error {
            ChangesError::CursorExpired => Self::no_changes(),
            ChangesError::Failed(error) => error.into(),
        }
    }
}

impl From<FilterError> for MethodError {
    fn from(error: FilterError) -> Self {
        match error {
            FilterError::Unsupported(text) => Self::with("serverFail", text),
            FilterError::VersionMismatch => Self::new("stateMismatch"),
            FilterError::Failed(error) => error.into(),
        }
    }
}

/// The error of an object in `/set`.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct SetError {
    kind: &'static str,
    description: Option<String>,
    properties: Vec<String>,
    /// Another member of the error.
    more: Option<(&'static str, Value)>,
    is_credential_refused: bool,
}

impl SetError {
    pub(crate) fn new(kind: &'static str) -> Self {
        Self {
            kind,
            description: None,
            properties: Vec::new(),
            more: None,
            is_credential_refused: false,
        }
    }

    pub(crate) fn with(kind: &'static str, description: impl Into<String>) -> Self {
        Self {
            description: Some(description.into()),
            ..Self::new(kind)
        }
    }

    /// The error for properties with invalid values.
    pub(crate) fn invalid(properties: &[&str], description: impl Into<String>) -> Self {
        Self {
            properties: properties.iter().map(|&one| one.to_owned()).collect(),
            ..Self::with("invalidProperties", description)
        }
    }

    pub(crate) fn not_found() -> Self {
        Self::new("notFound")
    }

    /// Returns whether the error is that of an invalid value.
    pub(crate) fn is_invalid(&self) -> bool {
        self.kind == "invalidProperties"
    }

    /// Changes the type.
    pub(crate) fn with_kind(self, kind: &'static str) -> Self {
        Self { kind, ..self }
    }

    /// Adds another member.
    pub(crate) fn and(mut self, name: &'static str, value: Value) -> Self {
        self.more = Some((name, value));
        self
    }

    #[cfg(test)]
    pub(crate) fn kind(&self) -> &'static str {
        self.kind
    }

    /// Returns the error of the method if the whole request must fail.
    pub(crate) fn fatal(&self) -> Option<MethodError> {
        self.is_credential_refused
            .then(|| Error::CredentialRefused.into())
    }

    pub(crate) fn to_json(&self) -> Value {
        let mut error = Map::new();
        error.insert("type".into(), self.kind.into());
        if let Some(description) = &self.description {
            error.insert("description".into(), description.as_str().into());
        }
        if !self.properties.is_empty() {
            error.insert("properties".into(), json!(self.properties));
        }
        if let Some((name, value)) = &self.more {
            error.insert((*name).into(), value.clone());
        }
        error.into()
    }
}

fn described(kind: &'static str, problem: Problem) -> SetError {
    SetError::with(kind, problem.text)
}

impl From<Error> for SetError {
    fn from(error: Error) -> Self {
        match error {
            Error::NotFound => Self::not_found(),
            Error::Denied(problem) => described("forbidden", problem),
            Error::Invalid(problem) | Error::Conflict(problem) => {
                described("invalidProperties", problem)
            }
            Error::TooLarge(problem) => described("tooLarge", problem),
            Error::Rejected(problem) => described("forbidden", problem),
            Error::CredentialRefused => Self {
                is_credential_refused: true,
                ..Self::new("serverFail")
            },
            Error::Unavailable => Self::new("serverUnavailable"),
            Error::OutcomeUnknown => Self::new("serverPartialFail"),
            Error::Internal => Self::new("serverFail"),
            Error::OverQuota => Self::new("overQuota"),
        }
    }
}

impl From<ConditionalError> for SetError {
    fn from(error: ConditionalError) -> Self {
        match error {
            ConditionalError::VersionMismatch => Self::new("serverFail"),
            ConditionalError::Failed(error) => error.into(),
        }
    }
}

impl From<DraftError> for SetError {
    fn from(error: DraftError) -> Self {
        match error {
            DraftError::VersionMismatch => Self::not_found(),
            DraftError::FileNotFound(_) => Self::new("blobNotFound"),
            DraftError::Unfinished(field) => {
                let text = format!("The field {field} of the email is missing or invalid");
                Self::with("invalidEmail", text).and("properties", json!([field]))
            }
            DraftError::Failed(error) => error.into(),
        }
    }
}

impl From<MethodError> for SetError {
    fn from(error: MethodError) -> Self {
        Self {
            description: error.description,
            is_credential_refused: error.is_credential_refused,
            ..Self::new(error.kind)
        }
    }
}
