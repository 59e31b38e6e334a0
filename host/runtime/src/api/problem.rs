//! Constructors of WIT errors with a code and a text.

use latchmail_bindings::latchmail::host::types as wit;
use latchmail_core::Code;
use latchmail_core::error::Problem;

fn problem(code: Code, text: impl Into<String>) -> wit::Problem {
    wit::Problem {
        code: code.into(),
        text: text.into(),
    }
}

/// Converts the code and the text of an error to WIT.
pub(super) fn of(problem: Problem) -> wit::Problem {
    wit::Problem {
        code: problem.code.into(),
        text: problem.text.into_owned(),
    }
}

/// The caller may not perform the operation.
pub(super) fn denied(code: Code, text: impl Into<String>) -> wit::Error {
    wit::Error::Denied(problem(code, text))
}

/// An argument is invalid.
pub(super) fn invalid(code: Code, text: impl Into<String>) -> wit::Error {
    wit::Error::Invalid(problem(code, text))
}

/// The resource already exists, or other resources depend on it.
pub(super) fn conflict(code: Code, text: impl Into<String>) -> wit::Error {
    wit::Error::Conflict(problem(code, text))
}

/// A value or a result exceeds a limit.
pub(super) fn too_large(code: Code, text: impl Into<String>) -> wit::Error {
    wit::Error::TooLarge(problem(code, text))
}

/// The mail server refused the request with this text.
pub(super) fn rejected(text: impl Into<String>) -> wit::Error {
    wit::Error::Rejected(problem(latchmail_core::codes::MAIL_SERVER_REJECTED, text))
}
