//! Parses the page number and the page size of a call.

use latchmail_sdk::{Code, Failure, Paging};

/// The default number of messages per page.
pub(super) const DEFAULT_LIMIT: u32 = 20;

/// Returns the requested page.
///
/// # Errors
/// Returns 400 if a value is out of range. The error message contains `complaint` and the allowed
/// values.
pub(super) fn read(
    page: Option<u32>,
    limit: Option<u32>,
    (code, complaint): (Code, &'static str),
) -> Result<Paging, Failure> {
    Paging::of(page.unwrap_or(1), limit.unwrap_or(DEFAULT_LIMIT)).ok_or_else(|| {
        let text = format!("{complaint}: page must be at least 1, limit 1 to 100");
        Failure::bad_request(code, text)
    })
}
