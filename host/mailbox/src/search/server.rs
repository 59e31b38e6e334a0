//! Searches on the mail server, for accounts without a complete search index.
//!
//! The mail server searches for texts, not for words: a text also matches inside a word. The mail
//! server does not find words that contain HTML entities, and words that contain HTML tags. The
//! result has no snippets and is always sorted by arrival.

use latchmail_core::clock::Timestamp;
use latchmail_core::message_number::Uid;
use latchmail_imap::SearchKey;
use latchmail_imap::flag::Flag;
use latchmail_search::Query;
use latchmail_search::query::{Condition, Scope, Term};

use super::Searcher;
use crate::access::Access;
use crate::bounds::to_usize;
use crate::connections::retry::retry_read;
use crate::error::Error;
use crate::index::results::{Hit, IndexStatus, SearchRequest, SearchResult};

/// A message that matches a search of several folders.
struct Match<'a> {
    arrival: i64,
    path: &'a str,
    imap_uid: Uid,
    /// The position in the folder.
    seq: u32,
}

/// Converts a query to search keys for one folder. Returns `None` if no message of the folder can
/// match.
fn search_keys(query: &Query, text: &str, path: &str) -> Option<Vec<SearchKey>> {
    if query.clauses().is_empty() {
        return Some(vec![SearchKey::Text(text.to_owned())]);
    }
    let mut keys = Vec::new();
    'clauses: for clause in query.clauses() {
        let mut alternatives = None;
        for term in &clause.terms {
            let key = match term_key(term, path) {
                Ok(key) => key,
                Err(true) => continue 'clauses,
                Err(false) => continue,
            };
            alternatives = Some(match alternatives {
                None => key,
                Some(other) => SearchKey::Or(Box::new(other), Box::new(key)),
            });
        }
        keys.push(alternatives?);
    }
    Some(keys)
}

/// Converts a term to a search key. Returns `Err(true)` if every message of the folder matches the
/// term, and `Err(false)` if no message of the folder matches the term.
fn term_key(term: &Term, path: &str) -> Result<SearchKey, bool> {
    let key = match &term.condition {
        Condition::Text { scope, text, .. } => match scope {
            Scope::All => SearchKey::Text(text.clone()),
            Scope::From => SearchKey::From(text.clone()),
            Scope::To => SearchKey::To(text.clone()),
            Scope::Subject => SearchKey::Subject(text.clone()),
        },
        Condition::Attachment => SearchKey::Mixed,
        // Only the search index knows which messages have codes.
        Condition::Codes => return Err(term.negated),
        Condition::Unread => SearchKey::Unseen,
        Condition::Label(label) => match Flag::named(label).filter(Flag::is_keyword) {
            Some(keyword) => SearchKey::Keyword(keyword),
            None => return Err(term.negated),
        },
        Condition::Before(time) => SearchKey::SentBefore(day(*time)),
        Condition::After(time) => SearchKey::SentSince(day(*time)),
        Condition::Larger(size) => match u32::try_from(*size) {
            Ok(size) => SearchKey::Larger(size),
            Err(_) => return Err(term.negated),
        },
        Condition::Folder(folder) => {
            let is_folder = folder.to_lowercase() == path.to_lowercase();
            return Err(is_folder != term.negated);
        }
    };
    Ok(if term.negated {
        SearchKey::Not(Box::new(key))
    } else {
        key
    })
}

/// Returns a day as in a search key (RFC 3501, section 9, `date`).
fn day(millis: i64) -> String {
    let date = Timestamp::from_millis(millis).date();
    date.format("%-d-%b-%Y").to_string()
}

impl Searcher {
    /// Searches one folder on the mail server. Returns `None` if the folder does not exist.
    pub(crate) async fn search_folder_on_server(
        &self,
        access: &Access,
        query: &Query,
        path: &str,
        request: SearchRequest<'_>,
        index: IndexStatus,
    ) -> Result<Option<SearchResult>, Error> {
        let Some(keys) = search_keys(query, request.query, path) else {
            return Ok(Some(SearchResult {
                hits: Vec::new(),
                total: 0,
                index,
            }));
        };
        let listing = self
            .listing
            .search(access, path, &keys, request.offset, request.limit)
            .await?;
        Ok(listing.map(|listing| SearchResult {
            total: listing.total,
            hits: listing
                .messages
                .into_iter()
                .map(|summary| Hit {
                    summary,
                    folder: path.to_owned(),
                    snippet: None,
                })
                .collect(),
            index,
        }))
    }

    /// Searches several folders on the mail server. The caller must be allowed to read these
    /// folders.
    pub(crate) async fn search_folders_on_server(
        &self,
        access: &Access,
        query: &Query,
        paths: &[String],
        request: SearchRequest<'_>,
        index: IndexStatus,
    ) -> Result<SearchResult, Error> {
        let (mut matches, mut total) = (Vec::new(), 0_u32);
        let end = to_usize(request.offset.saturating_add(request.limit));
        for path in paths {
            let Some(keys) = search_keys(query, request.query, path) else {
                continue;
            };
            let mut lease = self.context.connections.lease(access, Some(path)).await?;
            let found = retry_read!(lease, session => session.search(path, &keys));
            let Some((_, uids)) = found else { continue };
            total = total.saturating_add(u32::try_from(uids.len()).unwrap_or(u32::MAX));
            // The messages on the page are among the last messages of each folder.
            let last = &uids[uids.len().saturating_sub(end)..];
            let positions = lease
                .session()
                .await?
                .selected_folder()?
                .positions(last)
                .await?;
            matches.extend(positions.into_iter().map(|message| Match {
                arrival: message.internal_date.map_or(0, Timestamp::millis),
                path,
                imap_uid: message.uid,
                seq: message.seq,
            }));
        }
        matches.sort_by_key(|one| std::cmp::Reverse((one.arrival, one.imap_uid)));
        let start = to_usize(request.offset);
        let page = matches
            .get(start..end.min(matches.len()))
            .unwrap_or_default();
        let mut hits: Vec<Option<Hit>> = page.iter().map(|_| None).collect();
        for path in paths {
            let uids: Vec<Uid> = page
                .iter()
                .filter(|one| one.path == path)
                .map(|one| one.imap_uid)
                .collect();
            if uids.is_empty() {
                continue;
            }
            let count = u32::try_from(uids.len()).unwrap_or(u32::MAX);
            let keys = [SearchKey::Uids(uids)];
            let listing = self.listing.search(access, path, &keys, 0, count).await?;
            let summaries = listing.into_iter().flat_map(|listing| listing.messages);
            for summary in summaries {
                // An expunge since the search can change positions. In that case, the message is
                // omitted.
                let is_it = |one: &Match<'_>| one.path == path && one.seq == summary.seq;
                let position = page.iter().position(is_it);
                if let Some(hit) = position.and_then(|position| hits.get_mut(position)) {
                    *hit = Some(Hit {
                        summary,
                        folder: path.clone(),
                        snippet: None,
                    });
                }
            }
        }
        Ok(SearchResult {
            hits: hits.into_iter().flatten().collect(),
            total,
            index,
        })
    }
}
