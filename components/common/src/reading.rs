//! Reads folders, pages of folders, search results and single messages.

use latchmail_sdk::capability::{
    Blob, Caller, Error, IndexState, Mailbox, MessageQuery, Page, QuerySyntax, Search, SearchError,
    SortOrder,
};
use latchmail_sdk::{Code, Failure, Paging, codes};
use serde::Serialize;
use utoipa::ToSchema;

use crate::model::{Detail, Folder, FoundMessage, NewText, Summary};

/// The code and the error message for an invalid page number or limit of a list.
pub const BAD_PAGING: (Code, &str) = (
    codes::INVALID_PAGING_PARAMETERS,
    "Invalid paging parameters",
);
/// The code and the error message for an invalid page number, limit, order or syntax of a search.
pub const BAD_SEARCH: (Code, &str) = (
    codes::INVALID_SEARCH_PARAMETERS,
    "Invalid search parameters",
);

/// The value of a parameter `folder` that selects all folders.
pub const ALL_FOLDERS: &str = "*";

/// The code and the error message for a folder that does not exist.
pub const NO_FOLDER: (Code, &str) = (codes::FOLDER_NOT_FOUND, "Folder not found");
/// The code and the error message for a message that does not exist.
pub const NO_MESSAGE: (Code, &str) = (codes::MESSAGE_NOT_FOUND, "Message not found");

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
    /// The messages on this page, in the requested order.
    pub messages: Vec<FoundMessage>,
    /// The total number of messages that match the search.
    pub total: u32,
    /// The number of the page, from 1.
    pub page: u32,
    /// The number of messages per page.
    pub limit: u32,
    /// The state of the search index.
    pub index: Index,
}

/// The state of the search index. `ready`: the index served the search. `building`: the index is
/// being built, so the mail server served the search. `off`: the service has no index, so the mail
/// server served the search.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, ToSchema)]
#[serde(rename_all = "lowercase")]
pub enum Index {
    /// The index served the search.
    Ready,
    /// The index is being built.
    Building,
    /// The service has no index.
    Off,
}

/// The parameters of a search.
#[derive(Clone, Copy, Debug)]
pub struct SearchOptions<'a> {
    /// The folder. `None` searches all folders except Junk and Trash.
    pub folder: Option<&'a str>,
    /// The order of the result.
    pub sort: SortOrder,
    /// The syntax of the term.
    pub syntax: QuerySyntax,
}

/// Returns the requested folder. Returns the inbox if the request contains no folder, and `None` if
/// the request is for all folders.
#[must_use]
pub fn folder(requested: Option<&str>) -> Option<&str> {
    match requested.filter(|folder| !folder.is_empty()) {
        None => Some("INBOX"),
        Some(ALL_FOLDERS) => None,
        Some(folder) => Some(folder),
    }
}

/// Returns all folders with their message counts and roles.
///
/// # Errors
/// Returns an error if the host cannot list the folders. [`Failure::of`] converts the error of the
/// host.
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
        .list_messages(&MessageQuery::page(folder, page(paging)))
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
        return Err(Failure::bad_request(
            codes::MISSING_SEARCH_TERM,
            "Missing search term",
        ));
    }
    Ok(term)
}

/// Searches for a term, and returns a page of the messages found.
///
/// # Errors
/// Returns 400 if the host rejects the term. Returns 404 if the folder does not exist.
/// [`Failure::of`] converts any other error of the host.
pub fn search(
    host: &(impl Mailbox + Caller),
    term: &str,
    options: SearchOptions<'_>,
    paging: Paging,
) -> Result<Found, Failure> {
    let search = Search {
        query: term.into(),
        syntax: options.syntax.into(),
        folder: options.folder.map(Into::into),
        sort: options.sort.into(),
        page: page(paging),
    };
    let result = host.search_messages(&search).map_err(|error| match error {
        SearchError::InvalidQuery(text) => Failure::bad_request(codes::INVALID_SEARCH_QUERY, text),
        SearchError::Failed(Error::Invalid(_)) => {
            Failure::bad_request(codes::INVALID_SEARCH_TERM, "Invalid search term")
        }
        SearchError::Failed(Error::Internal) => {
            Failure::new(500, codes::SEARCH_FAILED, "Search failed")
        }
        SearchError::Failed(other) => Failure::of(other, NO_FOLDER, host),
    })?;
    Ok(Found {
        messages: result.hits.into_iter().map(FoundMessage::from).collect(),
        total: result.total,
        page: paging.page,
        limit: paging.limit,
        index: match result.index {
            IndexState::Ready => Index::Ready,
            IndexState::Building => Index::Building,
            IndexState::Off => Index::Off,
        },
    })
}

/// Checks the `uid` of a message in a request.
///
/// # Errors
/// Returns 400 if the `uid` is missing or 0.
pub fn uid(given: Option<u64>) -> Result<u64, Failure> {
    given.filter(|uid| *uid >= 1).ok_or(Failure::bad_request(
        codes::INVALID_MESSAGE_UID,
        "Invalid message UID",
    ))
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

/// Returns the same message as [`message`], but its texts are blobs in the host. The second value
/// contains each text with the name of its JSON field.
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
    let mut detail = Detail::from(message.detail);
    if message.new_text.is_some() {
        detail.new_text = NewText::Separate;
    }
    let texts = [
        ("text", message.text),
        ("html", message.html),
        ("newText", message.new_text),
    ];
    let texts = texts.into_iter();
    Ok((detail, texts.filter_map(|(name, text)| Some((name, text?)))))
}

pub(crate) fn page(paging: Paging) -> Page {
    Page {
        offset: paging.offset,
        limit: paging.limit,
    }
}
