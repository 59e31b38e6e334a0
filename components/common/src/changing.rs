//! Changes messages: flags, moves, and moves to Trash. Each function returns the numbers of the
//! messages that exist.

use latchmail_sdk::capability::{Caller, ConditionalError, Error, FlagAction, Mailbox};
use latchmail_sdk::{Failure, Request, codes};

use crate::reading::{NO_FOLDER, NO_MESSAGE};
use crate::versions;

/// Sets, removes or replaces flags. The change depends on the header `If-Match` of `request`.
///
/// # Errors
/// Returns 400 if a flag is invalid, or if there are no flags to set or to remove. Returns 412 if
/// the message has changed. [`Failure::of`] converts any other error of the host.
pub fn set_flags(
    host: &(impl Mailbox + Caller),
    request: Option<&Request>,
    uids: &[u64],
    flags: &[String],
    action: FlagAction,
) -> Result<Vec<u64>, Failure> {
    if flags.is_empty() && action != FlagAction::Replace {
        return Err(bad_flags());
    }
    let changed = versions::if_match(request, |version| {
        host.set_flags(uids, flags, action, version)
    });
    changed.map_err(|error| match error {
        ConditionalError::Failed(Error::Invalid(_)) => bad_flags(),
        other => versions::failure(other, NO_MESSAGE, host),
    })
}

/// Returns the failure for invalid flags.
#[must_use]
pub fn bad_flags() -> Failure {
    Failure::bad_request(codes::INVALID_FLAG_DATA, "Invalid flag data")
}

/// Moves messages to a folder. The change depends on the header `If-Match` of `request`.
///
/// # Errors
/// Returns 400 if there is no destination. Returns 404 if the folder does not exist. Returns 412 if
/// the message has changed. [`Failure::of`] converts any other error of the host.
pub fn move_to(
    host: &(impl Mailbox + Caller),
    request: Option<&Request>,
    uids: &[u64],
    destination: &str,
) -> Result<Vec<u64>, Failure> {
    if destination.is_empty() {
        return Err(bad_move());
    }
    let moved = versions::if_match(request, |version| {
        host.move_messages(uids, destination, version)
    });
    moved.map_err(|error| versions::failure(error, NO_FOLDER, host))
}

/// Returns the failure for an invalid destination.
#[must_use]
pub fn bad_move() -> Failure {
    Failure::bad_request(codes::INVALID_MOVE_DATA, "Invalid move data")
}

/// Moves messages to the folder with the role `\Trash`. The change depends on the header `If-Match`
/// of `request`.
///
/// # Errors
/// Returns 409 if there is no such folder. Returns 412 if the message has changed. [`Failure::of`]
/// converts any other error of the host.
pub fn trash(
    host: &(impl Mailbox + Caller),
    request: Option<&Request>,
    uids: &[u64],
) -> Result<Vec<u64>, Failure> {
    let moved = versions::if_match(request, |version| host.trash_messages(uids, version));
    moved.map_err(|error| versions::failure(error, NO_MESSAGE, host))
}

/// Checks that a change found its message.
///
/// # Errors
/// Returns 404 if `found` is empty.
pub fn require_found(found: &[u64]) -> Result<(), Failure> {
    if found.is_empty() {
        return Err(Failure::not_found(NO_MESSAGE.0, NO_MESSAGE.1));
    }
    Ok(())
}
