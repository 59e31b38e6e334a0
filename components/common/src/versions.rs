//! Conditional requests for messages: 304 if the client has the current representation, and 412 if
//! a message has changed since the client read it.

use latchmail_sdk::capability::{Caller, ConditionalError, Mailbox, MessageVersion};
use latchmail_sdk::{Code, Failure, Reply, Request, codes};

use crate::reading::NO_MESSAGE;

/// Maximum number of entity tags of `If-Match` that are compared.
const MAX_TAGS: usize = 20;

/// The version that no message has.
const NO_VERSION: &str = "";

/// Returns the 304 response if `If-None-Match` contains the entity tag that `tag` returns. Does not
/// read the message if the request has no such header.
///
/// # Errors
/// Returns 404 if the message does not exist. [`Failure::of`] converts any other error of the host.
pub fn not_modified(
    host: &(impl Mailbox + Caller),
    request: &Request,
    uid: u64,
    tag: impl FnOnce(&MessageVersion) -> String,
) -> Result<Option<Reply>, Failure> {
    let Some(tags) = request.if_none_match() else {
        return Ok(None);
    };
    let version = host
        .get_version(uid)
        .map_err(|error| Failure::of(error, NO_MESSAGE, host))?;
    let tag = tag(&version);
    Ok(tags.match_weakly(&tag).then(|| Reply::not_modified(&tag)))
}

/// Calls `change` with the version that `If-Match` requires. Without a request, for example for
/// several messages, the change does not depend on a version. If the header contains several entity
/// tags, tries each of them, because a caller can have the right to change messages without the
/// right to read them.
///
/// # Errors
/// Returns [`ConditionalError::VersionMismatch`] if the message has none of the versions. Returns
/// the other errors of `change`.
pub fn if_match<T>(
    request: Option<&Request>,
    change: impl Fn(Option<&str>) -> Result<T, ConditionalError>,
) -> Result<T, ConditionalError> {
    let required = request.and_then(Request::if_match);
    let Some(required) = required.filter(|tags| !tags.is_any()) else {
        return change(None);
    };
    let mut tags: Vec<&str> = required.strong().take(MAX_TAGS).collect();
    let last = tags.pop().unwrap_or(NO_VERSION);
    for tag in tags {
        match change(Some(tag)) {
            Err(ConditionalError::VersionMismatch) => {}
            other => return other,
        }
    }
    change(Some(last))
}

/// Converts an error of a conditional change to a failure. `missing` is the code and the text of
/// the response if the host returns `not-found`.
pub fn failure(
    error: ConditionalError,
    missing: (Code, &'static str),
    host: &impl Caller,
) -> Failure {
    match error {
        ConditionalError::VersionMismatch => {
            Failure::new(412, codes::MESSAGE_CHANGED, "The message has changed")
        }
        ConditionalError::Failed(error) => Failure::of(error, missing, host),
    }
}
