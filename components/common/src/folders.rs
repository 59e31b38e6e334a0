//! Creates, renames and deletes folders.

use latchmail_sdk::capability::{Caller, Error, Mailbox, MessageDisposal};
use latchmail_sdk::{Failure, codes};

use crate::model::Folder;
use crate::reading::NO_FOLDER;

/// Creates a folder.
///
/// # Errors
/// Returns 400 if the path is not valid. Returns 409 if the folder exists. Returns 413 if the
/// mailbox has the maximum number of folders.
pub fn create(host: &(impl Mailbox + Caller), path: &str) -> Result<Folder, Failure> {
    require_path(path)?;
    let folder = host.create_folder(path);
    folder
        .map(Folder::from)
        .map_err(|error| failure(error, host))
}

/// Renames a folder with its subfolders.
///
/// # Errors
/// Returns 400 if the new path is not valid. Returns 404 if the folder does not exist. Returns 409
/// if the new path is taken, or if the folder has a role.
pub fn rename(host: &(impl Mailbox + Caller), folder: &str, path: &str) -> Result<Folder, Failure> {
    require_path(path)?;
    let renamed = host.rename_folder(folder, path);
    renamed
        .map(Folder::from)
        .map_err(|error| failure(error, host))
}

/// Deletes a folder. `messages` is the value of the parameter with this name.
///
/// # Errors
/// Returns 400 if `messages` is not valid. Returns 404 if the folder does not exist. Returns 409 if
/// the folder must not be deleted.
pub fn delete(
    host: &(impl Mailbox + Caller),
    folder: &str,
    messages: Option<&str>,
) -> Result<(), Failure> {
    let messages = match messages {
        None => MessageDisposal::Refuse,
        Some("trash") => MessageDisposal::Trash,
        Some("delete") => MessageDisposal::Delete,
        Some(_) => {
            return Err(Failure::bad_request(
                codes::INVALID_MESSAGES_PARAMETER,
                "Invalid messages parameter",
            ));
        }
    };
    let deleted = host.delete_folder(folder, messages);
    deleted.map_err(|error| failure(error, host))
}

/// Refuses an empty path. The host checks the path further, because only the host knows the mail
/// server.
fn require_path(path: &str) -> Result<(), Failure> {
    if path.is_empty() {
        return Err(bad_path());
    }
    Ok(())
}

/// Returns the failure for a path that no folder can have.
#[must_use]
pub fn bad_path() -> Failure {
    Failure::bad_request(codes::INVALID_FOLDER_PATH, "Invalid folder path")
}

fn failure(error: Error, host: &impl Caller) -> Failure {
    match error {
        Error::Invalid(_) => bad_path(),
        other => Failure::of(other, NO_FOLDER, host),
    }
}
