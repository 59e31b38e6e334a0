//! GET `/api/v1/mail/search`: searches one folder for a term, and returns the messages found, newest first.

use latchmail_common::reading::{self, Found};
use latchmail_sdk::capability::{Caller, Mailbox};
use latchmail_sdk::{Failure, Reply, Request};

/// Search a folder
///
/// Returns the messages of one folder that contain `q` in their subject, sender, recipients or body, newest first. Case is ignored.
#[utoipa::path(
    get,
    path = "/api/v1/mail/search",
    operation_id = "searchMessages",
    tag = "Mail",
    params(
        ("q" = String, Query, min_length = 1, max_length = 1000, pattern = r"^[^\u0000-\u001f\u007f-\u009f]*[^ \u0000-\u001f\u007f-\u009f][^\u0000-\u001f\u007f-\u009f]*$", description = "The search term, taken literally: there are no operators"),
        ("folder" = Option<String>, Query, description = "The folder's path; the default is `INBOX`"),
        ("page" = Option<u32>, Query, minimum = 1, description = "The number of the page, from 1; the default is 1"),
        ("limit" = Option<u32>, Query, minimum = 1, maximum = 100, description = "The number of messages per page; the default is 50")
    ),
    responses(
        (
            status = 200,
            description = "The page",
            body = Found,
            links(
                ("getMessage" = (operation_id = "getMessage", parameters(("uid" = "$response.body#/messages/0/uid")))),
                ("flagMessage" = (operation_id = "flagMessage", parameters(("uid" = "$response.body#/messages/0/uid")))),
                ("moveMessage" = (operation_id = "moveMessage", parameters(("uid" = "$response.body#/messages/0/uid")))),
                ("deleteMessage" = (operation_id = "deleteMessage", parameters(("uid" = "$response.body#/messages/0/uid"))))
            )
        ),
        (status = 400, description = "`Missing search term`, `Invalid search term`, `Invalid search parameters`", body = latchmail_sdk::Failed),
        (status = 404, description = "`Folder not found`", body = latchmail_sdk::Failed)
    )
)]
pub(crate) fn search_messages(
    host: &(impl Mailbox + Caller),
    request: &Request,
) -> Result<Reply, Failure> {
    let term = reading::term(request.query("q").unwrap_or_default())?;
    let paging = request.paging(50, reading::BAD_SEARCH_PAGING)?;
    let folder = request
        .query("folder")
        .filter(|folder| !folder.is_empty())
        .unwrap_or("INBOX");
    Reply::json(&reading::search(host, folder, term, paging)?)
}

#[cfg(test)]
mod tests {
    use latchmail_sdk::capability::Error;
    use latchmail_sdk::testing::{FakeHost, Letter, json, request};

    use super::*;

    #[test]
    fn a_page_of_results_is_returned_with_its_number_and_size() {
        let host = FakeHost::new();
        for _ in 0..41 {
            host.deliver(Letter::from("grace@example.org").subject("Viele Grüße"));
        }
        let query = [("q", " Grüße "), ("page", "2"), ("limit", "20")];
        let response = json(search_messages(&host, &request(&[], &query, "")));
        let place = (&response["total"], &response["page"], &response["limit"]);
        assert_eq!(place, (&41.into(), &2.into(), &20.into()));
        assert_eq!(response["messages"][0]["uid"], 21);
    }

    #[test]
    fn an_invalid_search_has_the_error_of_the_specification() {
        let host = FakeHost::new();
        let refused = |query: &[(&str, &str)]| {
            let failure = search_messages(&host, &request(&[], query, "")).unwrap_err();
            (failure.status, failure.text.into_owned())
        };
        for query in [&[][..], &[("q", "")], &[("q", "  "), ("page", "0")]] {
            assert_eq!(refused(query), (400, "Missing search term".into()));
        }
        let paging = refused(&[("q", "x"), ("limit", "101")]);
        assert_eq!(paging, (400, "Invalid search parameters".into()));
        assert_eq!(host.calls(), 0);
    }

    #[test]
    fn a_failed_search_is_reported() {
        let answered = |error| {
            let search = request(&[], &[("q", "x")], "");
            let failure = search_messages(&FakeHost::failing(error), &search).unwrap_err();
            (failure.status, failure.text.into_owned())
        };
        assert_eq!(answered(Error::Internal), (500, "Search failed".into()));
        assert_eq!(answered(Error::NotFound), (404, "Folder not found".into()));
        let term = answered(Error::Invalid("x".into()));
        assert_eq!(term, (400, "Invalid search term".into()));
    }
}
