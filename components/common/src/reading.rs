//! Reads folders, pages of folders, search results and single messages.

use latchmail_sdk::capability::{Blob, Caller, Error, Mailbox, Page};
use latchmail_sdk::{Failure, Paging};
use serde::Serialize;
use utoipa::ToSchema;

use crate::model::{Detail, Folder, Summary};

/// The error message for an invalid page number or limit of a list.
pub const BAD_PAGING: &str = "Invalid paging parameters";
/// The error message for an invalid page number or limit of a search.
pub const BAD_SEARCH_PAGING: &str = "Invalid search parameters";

const NO_FOLDER: &str = "Folder not found";
const NO_MESSAGE: &str = "Message not found";

/// The folders of a mailbox.
#[derive(Serialize, ToSchema)]
pub struct FolderList {
    /// The folders with a role first, then the others sorted by path.
    pub folders: Vec<Folder>,
}

/// A page of the messages in a folder.
#[derive(Serialize, ToSchema)]
pub struct MessageList {
    /// The messages on this page, newest first.
    pub messages: Vec<Summary>,
    /// The number of messages in the whole folder.
    pub total: u32,
}

/// A page of search results.
#[derive(Serialize, ToSchema)]
pub struct Found {
    /// The messages on this page, newest first.
    pub messages: Vec<Summary>,
    /// The total number of messages that match the search.
    pub total: u32,
    /// The number of the page, from 1.
    pub page: u32,
    /// The number of messages per page.
    pub limit: u32,
}

/// Returns all folders with their message counts and roles.
///
/// # Errors
/// Returns an error if the host cannot list the folders. [`Failure::of`] converts the error of the host.
pub fn folders(host: &(impl Mailbox + Caller)) -> Result<FolderList, Failure> {
    let folders = host
        .list_folders()
        .map_err(|error| Failure::of(error, NO_FOLDER, host))?;
    Ok(FolderList {
        folders: folders.into_iter().map(Folder::from).collect(),
    })
}

/// Returns a page of the messages in a folder, newest first.
///
/// # Errors
/// Returns 404 if the folder does not exist. [`Failure::of`] converts any other error of the host.
pub fn messages(
    host: &(impl Mailbox + Caller),
    folder: &str,
    paging: Paging,
) -> Result<MessageList, Failure> {
    let listing = host
        .list_messages(folder, page(paging))
        .map_err(|error| Failure::of(error, NO_FOLDER, host))?;
    Ok(MessageList {
        messages: listing.messages.into_iter().map(Summary::from).collect(),
        total: listing.total,
    })
}

/// Removes the spaces around a search term.
///
/// # Errors
/// Returns 400 if the term is empty.
pub fn term(given: &str) -> Result<&str, Failure> {
    let term = given.trim_matches(' ');
    if term.is_empty() {
        return Err(Failure::bad_request("Missing search term"));
    }
    Ok(term)
}

/// Searches a folder for a term, and returns a page of the messages found, newest first.
///
/// # Errors
/// Returns 400 if the host rejects the term. Returns 404 if the folder does not exist. [`Failure::of`] converts any other error of the host.
pub fn search(
    host: &(impl Mailbox + Caller),
    folder: &str,
    term: &str,
    paging: Paging,
) -> Result<Found, Failure> {
    let listing =
        host.search_messages(folder, term, page(paging))
            .map_err(|error| match error {
                Error::Invalid(_) => Failure::bad_request("Invalid search term"),
                Error::Internal => Failure::new(500, "Search failed"),
                other => Failure::of(other, NO_FOLDER, host),
            })?;
    Ok(Found {
        messages: listing.messages.into_iter().map(Summary::from).collect(),
        total: listing.total,
        page: paging.page,
        limit: paging.limit,
    })
}

/// Checks the `uid` of a message in a request.
///
/// # Errors
/// Returns 400 if the `uid` is missing or 0.
pub fn uid(given: Option<u64>) -> Result<u64, Failure> {
    given
        .filter(|uid| *uid >= 1)
        .ok_or(Failure::bad_request("Invalid message UID"))
}

/// Returns the complete message with this `uid`. The message can be in any folder.
///
/// # Errors
/// Returns 404 if the message does not exist. [`Failure::of`] converts any other error of the host.
pub fn message(host: &(impl Mailbox + Caller), uid: u64) -> Result<Detail, Failure> {
    let message = host
        .get_message(uid)
        .map_err(|error| Failure::of(error, NO_MESSAGE, host))?;
    Ok(Detail::from(message))
}

/// Returns the same message as [`message`], but its texts are blobs. The second value contains the texts with their JSON names.
///
/// # Errors
/// Returns the same errors as [`message`].
pub fn message_with_blobs(
    host: &(impl Mailbox + Caller),
    uid: u64,
) -> Result<(Detail, impl Iterator<Item = (&'static str, Blob)>), Failure> {
    let message = host
        .get_message_with_blobs(uid)
        .map_err(|error| Failure::of(error, NO_MESSAGE, host))?;
    let text = message.text.map(|text| ("text", text));
    let html = message.html.map(|html| ("html", html));
    Ok((Detail::from(message.detail), text.into_iter().chain(html)))
}

fn page(paging: Paging) -> Page {
    Page {
        offset: paging.offset,
        limit: paging.limit,
    }
}
