//! Converts searches, threads and changes between the interface `mailbox` and the host.

use crate::api::problem;
use latchmail_bindings::latchmail::host::mailbox as wit;
use latchmail_bindings::latchmail::host::types::Error;
use latchmail_core::codes;
use latchmail_core::message_number::MessageNumber;
use latchmail_mailbox::changelog::Change;
use latchmail_mailbox::search::Thread;
use latchmail_mailbox::search::{Hit, IndexStatus, SearchRequest, SearchResult, Snippet, Sort};

use super::{addresses, summary};
use crate::api::convert::{mailbox_error, unknown};

/// The maximum length of a search query, in bytes.
const MAX_QUERY: usize = 1000;

/// Checks the query of a search, and converts the search from WIT.
pub(super) fn search_request(search: &wit::Search) -> Result<SearchRequest<'_>, Error> {
    let query = search.query.as_str();
    if query.is_empty() || query.len() > MAX_QUERY || query.chars().any(char::is_control) {
        return Err(problem::invalid(
            codes::INVALID_SEARCH_TERM,
            format!("The search query must be 1 to {MAX_QUERY} bytes without control characters"),
        ));
    }
    Ok(SearchRequest {
        query,
        operators: match search.syntax.as_str() {
            "operators" => true,
            "plain" => false,
            other => return Err(unknown("query syntax", other)),
        },
        folder: search.folder.as_deref(),
        sort: match search.sort.as_str() {
            "newest" => Sort::Newest,
            "relevance" => Sort::Relevance,
            other => return Err(unknown("sort order", other)),
        },
        offset: search.page.offset,
        limit: search.page.limit,
    })
}

pub(super) fn search_result(result: SearchResult) -> wit::SearchResult {
    wit::SearchResult {
        hits: result.hits.into_iter().map(hit).collect(),
        total: result.total,
        index: match result.index {
            IndexStatus::Ready => wit::IndexState::Ready,
            IndexStatus::Building => wit::IndexState::Building,
            IndexStatus::Off => wit::IndexState::Off,
        },
    }
}

pub(super) fn search_error(error: latchmail_mailbox::Error) -> wit::SearchError {
    match error {
        latchmail_mailbox::Error::InvalidQuery(text) => wit::SearchError::InvalidQuery(text),
        other => wit::SearchError::Failed(mailbox_error(other)),
    }
}

pub(super) fn threads_error(error: latchmail_mailbox::Error) -> wit::ThreadsError {
    match error {
        latchmail_mailbox::Error::IndexNotReady => wit::ThreadsError::IndexNotReady,
        other => wit::ThreadsError::Failed(mailbox_error(other)),
    }
}

pub(super) fn changes_error(error: latchmail_mailbox::Error) -> wit::ChangesError {
    match error {
        latchmail_mailbox::Error::CursorExpired => wit::ChangesError::CursorExpired,
        other => wit::ChangesError::Failed(mailbox_error(other)),
    }
}

pub(super) fn hit(hit: Hit) -> wit::Hit {
    let snippet = |snippet: Snippet| wit::Snippet {
        text: snippet.text,
        matches: snippet
            .matches
            .into_iter()
            .map(|range| wit::Match {
                start: range.start,
                end: range.end,
            })
            .collect(),
    };
    wit::Hit {
        summary: summary(hit.summary),
        folder: hit.folder,
        snippet: hit.snippet.map(snippet),
    }
}

pub(super) fn thread(thread: Thread) -> wit::Thread {
    wit::Thread {
        id: thread.id,
        subject: thread.subject,
        count: thread.count,
        unread: thread.unread,
        participants: addresses(thread.participants),
        newest: hit(thread.newest),
    }
}

pub(in crate::api) fn change(change: Change) -> wit::Change {
    let message = |MessageNumber(uid), folder, flags| wit::ChangedMessage { uid, folder, flags };
    let named = |folder, id| wit::ChangedFolder { folder, id };
    match change {
        Change::Created {
            number,
            folder,
            flags,
        } => wit::Change::Created(message(number, folder, flags)),
        Change::Flags {
            number,
            folder,
            flags,
        } => wit::Change::Flags(message(number, folder, flags)),
        Change::Moved {
            number,
            folder,
            from,
            flags,
        } => wit::Change::Moved(wit::MovedMessage {
            message: message(number, folder, flags),
            from,
        }),
        Change::Deleted { number, folder } => wit::Change::Deleted(wit::DeletedMessage {
            uid: number.0,
            folder,
        }),
        Change::FolderCreated { folder, id } => wit::Change::FolderCreated(named(folder, id)),
        Change::FolderRenamed { folder, from, id } => {
            wit::Change::FolderRenamed(wit::RenamedFolder {
                folder: named(folder, id),
                from,
            })
        }
        Change::FolderDeleted { folder, id } => wit::Change::FolderDeleted(named(folder, id)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn errors_that_a_module_must_distinguish_have_their_own_variant() {
        let invalid = || latchmail_mailbox::Error::InvalidQuery("x".into());
        let search = search_error(invalid());
        assert!(matches!(search, wit::SearchError::InvalidQuery(text) if text == "x"));
        let threads = threads_error(latchmail_mailbox::Error::IndexNotReady);
        assert!(matches!(threads, wit::ThreadsError::IndexNotReady));
        let changes = changes_error(latchmail_mailbox::Error::CursorExpired);
        assert!(matches!(changes, wit::ChangesError::CursorExpired));
        let unavailable = || latchmail_mailbox::Error::Unavailable("x".into());
        let unavailable = (search_error(unavailable()), changes_error(unavailable()));
        assert!(matches!(
            unavailable,
            (
                wit::SearchError::Failed(Error::Unavailable),
                wit::ChangesError::Failed(Error::Unavailable)
            )
        ));
    }

    #[test]
    fn a_rename_and_a_move_keep_both_paths() {
        let moved = change(Change::Moved {
            number: MessageNumber(7),
            folder: "Archive".into(),
            from: "INBOX".into(),
            flags: vec!["\\Seen".into()],
        });
        assert!(
            matches!(moved, wit::Change::Moved(moved) if moved.from == "INBOX" && moved.message.folder == "Archive" && moved.message.uid == 7)
        );
        let renamed = change(Change::FolderRenamed {
            folder: "Work/Old".into(),
            from: "Old".into(),
            id: "1".into(),
        });
        assert!(
            matches!(renamed, wit::Change::FolderRenamed(renamed) if renamed.from == "Old" && renamed.folder.folder == "Work/Old")
        );
    }
}
