//! Searches and threads of the fake host.

use super::mail::{Mail, Stored};
use super::mailbox::{check_page, paged};
use crate::capability::{
    Address, Error, Hit, IndexState, Match, Search, SearchError, SearchResult, Snippet, Thread,
    ThreadList, ThreadMessages, ThreadsError,
};
use crate::capability::{Detail, Page};
use latchmail_shape::codes;

/// Maximum length of a search query in bytes.
const MAX_QUERY: usize = 1000;

/// Maximum number of participants of a thread.
const MAX_PARTICIPANTS: usize = 50;

const SEEN: &str = "\\Seen";

impl Mail {
    /// Returns a page of the messages that contain the query as literal text. The fake host does
    /// not interpret operators. With the syntax `operators`, only the values of `before:` and
    /// `after:` are checked.
    pub(super) fn search(&self, search: &Search) -> Result<SearchResult, SearchError> {
        let query = search.query.as_str();
        check_page(search.page).map_err(SearchError::Failed)?;
        if query.is_empty() || query.len() > MAX_QUERY || query.chars().any(char::is_control) {
            return Err(SearchError::Failed(Error::invalid(
                codes::INVALID_SEARCH_TERM,
                format!(
                    "The search query must be 1 to {MAX_QUERY} bytes without control characters"
                ),
            )));
        }
        for (what, value, known) in [
            ("query syntax", &search.syntax, ["operators", "plain"]),
            ("sort order", &search.sort, ["newest", "relevance"]),
        ] {
            if !known.contains(&value.as_str()) {
                let text = format!("There is no {what} {value:?}");
                return Err(SearchError::Failed(Error::invalid(
                    codes::INVALID_FIELD,
                    text,
                )));
            }
        }
        if search.syntax == "operators" {
            check_dates(query)?;
        }
        let folders: Vec<&str> = match &search.folder {
            Some(folder) if self.has(folder) => vec![folder],
            Some(_) => return Err(SearchError::Failed(Error::NotFound)),
            None => self
                .paths()
                .filter(|(_, role)| !matches!(role, Some("\\Junk" | "\\Trash")))
                .map(|(path, _)| path)
                .collect(),
        };
        let mut hits: Vec<Hit> = folders
            .into_iter()
            .flat_map(|folder| self.of(folder))
            .filter(|(_, stored)| has_term(&stored.detail, query))
            .map(|(summary, stored)| Hit {
                summary,
                folder: stored.folder.clone(),
                snippet: self.snippet(stored, query),
            })
            .collect();
        hits.sort_by_key(|hit| {
            let in_text = search.sort == "relevance" && hit.snippet.is_some();
            let position = match search.folder {
                Some(_) => i64::from(hit.summary.seq),
                None => hit.summary.date,
            };
            std::cmp::Reverse((in_text, position, hit.summary.uid))
        });
        let (hits, total) = paged(hits, search.page);
        Ok(SearchResult {
            hits,
            total,
            index: self.index,
        })
    }

    /// Returns a page of the threads that have a message in the folder, or of all threads.
    pub(super) fn threads(
        &self,
        folder: Option<&str>,
        page: Page,
    ) -> Result<ThreadList, ThreadsError> {
        check_page(page).map_err(ThreadsError::Failed)?;
        if folder.is_some_and(|folder| !self.has(folder)) {
            return Err(ThreadsError::Failed(Error::NotFound));
        }
        self.check_index()?;
        let all = self.all();
        let mut threads: Vec<Thread> = Vec::new();
        for hit in all.iter().rev() {
            let id = &hit.summary.thread_id;
            if threads.iter().any(|thread| thread.id == *id) {
                continue;
            }
            let messages = || all.iter().filter(|one| one.summary.thread_id == *id);
            if folder.is_none_or(|folder| messages().any(|one| one.folder == folder)) {
                threads.push(thread(hit, &messages().collect::<Vec<_>>()));
            }
        }
        let (threads, total) = paged(threads, page);
        Ok(ThreadList { threads, total })
    }

    /// Returns a page of the messages of a thread, oldest first.
    pub(super) fn thread(&self, id: &str, page: Page) -> Result<ThreadMessages, ThreadsError> {
        check_page(page).map_err(ThreadsError::Failed)?;
        self.check_index()?;
        let mut messages = self.all();
        messages.retain(|hit| hit.summary.thread_id == id);
        if messages.is_empty() {
            return Err(ThreadsError::Failed(Error::NotFound));
        }
        messages.reverse();
        let (mut messages, total) = paged(messages, page);
        messages.reverse();
        Ok(ThreadMessages {
            id: id.to_owned(),
            messages,
            total,
        })
    }

    /// Returns all messages, oldest first.
    fn all(&self) -> Vec<Hit> {
        let messages = self.paths().flat_map(|(path, _)| self.of(path));
        let mut all: Vec<Hit> = messages
            .map(|(summary, stored)| Hit {
                summary,
                folder: stored.folder.clone(),
                snippet: None,
            })
            .collect();
        all.sort_by_key(|hit| (hit.summary.date, hit.summary.uid));
        all
    }

    pub(super) fn check_index(&self) -> Result<(), ThreadsError> {
        match self.index {
            IndexState::Ready => Ok(()),
            IndexState::Building | IndexState::Off => Err(ThreadsError::IndexNotReady),
        }
    }

    /// Returns the plain text of a message and the position of the first match. Returns `None` if
    /// the text does not match or the index is not ready.
    fn snippet(&self, stored: &Stored, query: &str) -> Option<Snippet> {
        let text = stored.detail.text.as_ref()?;
        let (text_lower, query) = (text.to_lowercase(), query.to_lowercase());
        let at = text_lower.find(&query)?;
        let count = |text: &str| u32::try_from(text.chars().count()).unwrap_or(u32::MAX);
        let start = count(&text_lower[..at]);
        let found = Match {
            start,
            end: start + count(&query),
        };
        (self.index == IndexState::Ready).then(|| Snippet {
            text: text.clone(),
            matches: vec![found],
        })
    }
}

/// Builds a thread from its newest message and all its messages, oldest first.
fn thread(newest: &Hit, messages: &[&Hit]) -> Thread {
    let mut participants: Vec<Address> = Vec::new();
    for sender in messages.iter().flat_map(|one| &one.summary.from) {
        if !participants.iter().any(|one| one.address == sender.address) {
            participants.push(sender.clone());
        }
    }
    participants.truncate(MAX_PARTICIPANTS);
    let is_unread = |one: &&&Hit| one.summary.flags.iter().all(|flag| flag != SEEN);
    let count = |number: usize| u32::try_from(number).unwrap_or(u32::MAX);
    Thread {
        id: newest.summary.thread_id.clone(),
        subject: messages
            .first()
            .map_or_else(String::new, |oldest| oldest.summary.subject.clone()),
        count: count(messages.len()),
        unread: count(messages.iter().filter(is_unread).count()),
        participants,
        newest: newest.clone(),
    }
}

/// Checks the values of `before:` and `after:`. A valid value has 10 characters, as in
/// `2026-11-20`.
fn check_dates(query: &str) -> Result<(), SearchError> {
    let mut position = 0;
    for word in query.split(' ') {
        let value = ["before:", "after:"]
            .iter()
            .find_map(|operator| word.strip_prefix(operator));
        if value.is_some_and(|value| value.len() != 10) {
            return Err(SearchError::InvalidQuery(format!(
                "Invalid search query at character {position}: the date must be YYYY-MM-DD"
            )));
        }
        position += word.chars().count() + 1;
    }
    Ok(())
}

fn has_term(detail: &Detail, term: &str) -> bool {
    let term = term.to_lowercase();
    let has = |text: &str| text.to_lowercase().contains(&term);
    let people = [&detail.summary.from, &detail.summary.to, &detail.cc];
    has(&detail.summary.subject)
        || detail.text.as_deref().is_some_and(has)
        || detail.html.as_deref().is_some_and(has)
        || people
            .into_iter()
            .flatten()
            .any(|person| has(&person.name) || has(&person.address))
}
