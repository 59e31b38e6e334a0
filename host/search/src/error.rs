//! The errors of the index.

use std::any::Any;
use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};

use tantivy::TantivyError;
use tantivy::directory::error::{LockError, OpenReadError, OpenWriteError};

/// A failure of the index. After each of these errors except [`Error::Cancelled`], the caller
/// closes the index and searches on the mail server instead.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The files of the index are damaged or have another format. The caller deletes the folder and
    /// builds the index again.
    #[error("the search index is damaged: {0}")]
    Damaged(String),
    /// A file operation failed, for example because the disk is full.
    #[error("failed to access the search index: {0}")]
    Io(#[from] io::Error),
    /// Another writer of the index exists, possibly in another process.
    #[error("another writer of the search index exists")]
    Locked,
    /// The caller cancelled the search.
    #[error("the search was cancelled")]
    Cancelled,
}

impl From<TantivyError> for Error {
    fn from(error: TantivyError) -> Self {
        match error {
            TantivyError::IoError(error)
            | TantivyError::OpenReadError(OpenReadError::IoError {
                io_error: error, ..
            })
            | TantivyError::OpenWriteError(OpenWriteError::IoError {
                io_error: error, ..
            })
            | TantivyError::LockFailure(LockError::IoError(error), _) => from_io(&error),
            TantivyError::LockFailure(LockError::LockBusy, _) => Self::Locked,
            error => Self::Damaged(error.to_string()),
        }
    }
}

/// Converts an I/O error of tantivy. Invalid, truncated or missing data means that the index is
/// damaged, because tantivy reads only files that tantivy wrote.
fn from_io(error: &io::Error) -> Error {
    match error.kind() {
        io::ErrorKind::InvalidData | io::ErrorKind::UnexpectedEof | io::ErrorKind::NotFound => {
            Error::Damaged(error.to_string())
        }
        kind => Error::Io(io::Error::new(kind, error.to_string())),
    }
}

/// Runs a function of tantivy. A panic becomes [`Error::Damaged`], because tantivy does not
/// validate all data that it reads, and can panic if a file is damaged.
///
/// After an error, the caller must not use values that `function` changed.
pub(crate) fn guard<T>(function: impl FnOnce() -> Result<T, Error>) -> Result<T, Error> {
    catch_unwind(AssertUnwindSafe(function))
        .unwrap_or_else(|panic| Err(Error::Damaged(message(&*panic))))
}

fn message(panic: &(dyn Any + Send)) -> String {
    let message = panic.downcast_ref::<&str>().copied();
    let message = message.or_else(|| panic.downcast_ref::<String>().map(String::as_str));
    format!("a panic occurred: {}", message.unwrap_or("unknown reason"))
}
