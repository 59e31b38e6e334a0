//! GET `/api/v1/mail/search`: the messages of one folder that have a term in them, newest first.

use latchmail_sdk::capability::{Caller, Error, Mailbox, Page};
use latchmail_sdk::{Failure, Reply, Request};
use serde::Serialize;
use utoipa::ToSchema;

use crate::model::Summary;

/// A page of what was found.
#[derive(Serialize, ToSchema)]
pub(crate) struct Found {
    /// Newest first.
    messages: Vec<Summary>,
    /// How many messages were found in all.
    total: u32,
    /// The page answered, from 1.
    page: u32,
    /// Messages a page.
    limit: u32,
}

/// Search a folder
///
/// The messages of one folder that have `q` in their subject, sender, recipients or body, whatever its case; newest first.
#[utoipa::path(
    get,
    path = "/api/v1/mail/search",
    operation_id = "searchMessages",
    tag = "Mail",
    params(
        ("q" = String, Query, min_length = 1, description = "What to look for, as it stands: there are no operators"),
        ("folder" = Option<String>, Query, description = "The folder's path; `INBOX` where absent"),
        ("page" = Option<u32>, Query, minimum = 1, description = "Which page, from 1; 1 where absent"),
        ("limit" = Option<u32>, Query, minimum = 1, maximum = 100, description = "Messages a page; 50 where absent")
    ),
    responses(
        (status = 200, description = "The page", body = Found),
        (status = 400, description = "`Missing search term`, `Invalid search term`, `Invalid search parameters`", body = latchmail_sdk::Failed),
        (status = 404, description = "`Folder not found`", body = latchmail_sdk::Failed)
    )
)]
pub(crate) fn search_messages(
    host: &(impl Mailbox + Caller),
    request: &Request,
) -> Result<Reply, Failure> {
    let term = request.query("q").unwrap_or_default().trim_matches(' ');
    if term.is_empty() {
        return Err(Failure::bad_request("Missing search term"));
    }
    let paging = request.paging(50, "Invalid search parameters")?;
    let folder = request
        .query("folder")
        .filter(|folder| !folder.is_empty())
        .unwrap_or("INBOX");
    let page = Page {
        offset: paging.offset,
        limit: paging.limit,
    };
    let listing = host
        .search_messages(folder, term, page)
        .map_err(|error| match error {
            Error::Invalid(_) => Failure::bad_request("Invalid search term"),
            Error::Internal => Failure::new(500, "Search failed"),
            other => Failure::of(other, "Folder not found", host),
        })?;
    Reply::json(&Found {
        messages: listing.messages.into_iter().map(Summary::from).collect(),
        total: listing.total,
        page: paging.page,
        limit: paging.limit,
    })
}

#[cfg(test)]
mod tests {
    use latchmail_sdk::capability::Listing;

    use super::*;
    use crate::testing::{FakeHost, asked, json, summary};

    #[test]
    fn a_page_of_what_was_found_is_answered_with_its_place() {
        let host = FakeHost {
            listing: Ok(Listing {
                messages: vec![summary(7)],
                total: 41,
            }),
            ..FakeHost::default()
        };
        let query = [("q", " Grüße "), ("page", "2"), ("limit", "20")];
        let answer = json(search_messages(&host, &asked(&[], &query)));
        let place = (&answer["total"], &answer["page"], &answer["limit"]);
        assert_eq!(place, (&41.into(), &2.into(), &20.into()));
        assert_eq!(answer["messages"][0]["uid"], 7);
        assert_eq!(*host.asked.borrow(), ["INBOX Grüße 20+20"]);
    }

    #[test]
    fn what_cannot_be_searched_for_is_refused_in_the_specifications_words() {
        let host = FakeHost::default();
        let refused = |query: &[(&str, &str)]| {
            let failure = search_messages(&host, &asked(&[], query)).unwrap_err();
            (failure.status, failure.text.into_owned())
        };
        for query in [&[][..], &[("q", "")], &[("q", "  "), ("page", "0")]] {
            assert_eq!(refused(query), (400, "Missing search term".into()));
        }
        let paging = refused(&[("q", "x"), ("limit", "101")]);
        assert_eq!(paging, (400, "Invalid search parameters".into()));
        assert!(host.asked.borrow().is_empty());
    }

    #[test]
    fn a_search_that_fails_says_so() {
        let answered = |error| {
            let host = FakeHost {
                listing: Err(error),
                ..FakeHost::default()
            };
            let failure = search_messages(&host, &asked(&[], &[("q", "x")])).unwrap_err();
            (failure.status, failure.text.into_owned())
        };
        assert_eq!(answered(Error::Internal), (500, "Search failed".into()));
        assert_eq!(answered(Error::NotFound), (404, "Folder not found".into()));
        let term = answered(Error::Invalid("x".into()));
        assert_eq!(term, (400, "Invalid search term".into()));
    }
}
