//! Which page of a list is asked for.

use latchmail_sdk::{Failure, Paging};

/// Messages a page where the agent does not say.
pub(super) const USUAL: u32 = 20;

/// The page that is asked for.
///
/// # Errors
/// 400 with `complaint`, and what would do.
pub(super) fn read(
    page: Option<u32>,
    limit: Option<u32>,
    complaint: &str,
) -> Result<Paging, Failure> {
    Paging::of(page.unwrap_or(1), limit.unwrap_or(USUAL)).ok_or_else(|| {
        Failure::bad_request(format!(
            "{complaint}: page must be at least 1, limit 1 to 100"
        ))
    })
}
