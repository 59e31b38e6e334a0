//! GET `/api/v1/mail/search`: searches one folder or all folders, and returns a page of the
//! messages found.

use latchmail_common::reading::{self, Found, SearchOptions};
use latchmail_sdk::capability::{Caller, Mailbox, QuerySyntax, SortOrder};
use latchmail_sdk::{Failure, Reply, Request};
use utoipa::ToSchema;

/// Search messages
///
/// Returns the messages that contain the words of `q` in their subject, sender, recipients, body or
/// attachment names, newest first. Case and accents are ignored. The last word can be the beginning
/// of a word. The operators are `from:`, `to:`, `subject:`, `has:attachment`, `is:unread`,
/// `label:`, `before:`, `after:`, `larger:`, `in:`, `"a phrase"`, `-word` and `OR`.
#[utoipa::path(
    get,
    path = "/api/v1/mail/search",
    operation_id = "searchMessages",
    tag = "Mail",
    params(
        ("q" = String, Query, min_length = 1, max_length = 1000, pattern = r"^[^\u0000-\u001f\u007f-\u009f]*[^ \u0000-\u001f\u007f-\u009f][^\u0000-\u001f\u007f-\u009f]*$", description = "The words to search for, and operators"),
        ("folder" = Option<String>, Query, description = "The folder's path; the default is `INBOX`. `*` searches all folders, except Junk and Trash if `q` does not name them with `in:`"),
        ("sort" = inline(Option<Sort>), Query, extensions(("x-latchmail" = json!(true))), description = "The order: `newest`, or `relevance` for the best match first; the default is `newest`"),
        ("syntax" = inline(Option<Syntax>), Query, extensions(("x-latchmail" = json!(true))), description = "`plain` searches for the characters of operators instead of interpreting them"),
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
                ("getThread" = (operation_id = "getThread", parameters(("id" = "$response.body#/messages/0/threadId")))),
                ("flagMessage" = (operation_id = "flagMessage", parameters(("uid" = "$response.body#/messages/0/uid")))),
                ("moveMessage" = (operation_id = "moveMessage", parameters(("uid" = "$response.body#/messages/0/uid")))),
                ("deleteMessage" = (operation_id = "deleteMessage", parameters(("uid" = "$response.body#/messages/0/uid"))))
            )
        ),
        (
            status = 400,
            description = "`Missing search term`, `Invalid search term`, `Invalid search parameters`, or `Invalid search query at character N: REASON` if an operator has an invalid value",
            body = latchmail_sdk::Failed
        ),
        (status = 404, description = "`Folder not found`", body = latchmail_sdk::Failed)
    )
)]
pub(crate) fn search_messages(
    host: &(impl Mailbox + Caller),
    request: &Request,
) -> Result<Reply, Failure> {
    let term = reading::term(request.query("q").unwrap_or_default())?;
    let paging = request.paging(50, reading::BAD_SEARCH)?;
    let options = SearchOptions {
        folder: reading::folder(request.query("folder")),
        sort: match request.query("sort") {
            None | Some("newest") => SortOrder::Newest,
            Some("relevance") => SortOrder::Relevance,
            Some(_) => {
                return Err(Failure::bad_request(
                    reading::BAD_SEARCH.0,
                    reading::BAD_SEARCH.1,
                ));
            }
        },
        syntax: match request.query("syntax") {
            None => QuerySyntax::Operators,
            Some("plain") => QuerySyntax::Plain,
            Some(_) => {
                return Err(Failure::bad_request(
                    reading::BAD_SEARCH.0,
                    reading::BAD_SEARCH.1,
                ));
            }
        },
    };
    Reply::json(&reading::search(host, term, options, paging)?)
}

/// The values of `sort`.
#[derive(ToSchema)]
#[schema(rename_all = "lowercase")]
#[expect(dead_code, reason = "used only for the API description")]
enum Sort {
    Newest,
    Relevance,
}

/// The values of `syntax`.
#[derive(ToSchema)]
#[schema(rename_all = "lowercase")]
#[expect(dead_code, reason = "used only for the API description")]
enum Syntax {
    Plain,
}

#[cfg(test)]
mod tests {
    use latchmail_sdk::capability::{Error, IndexState};
    use latchmail_sdk::codes;
    use latchmail_sdk::testing::{FakeHost, Letter, json, request};
    use serde_json::json;

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
    fn a_search_of_all_folders_returns_the_folder_of_each_message() {
        let host = FakeHost::new();
        for (folder, day) in [("INBOX", 2), ("Work", 3), ("Archive", 1), ("Junk", 4)] {
            let letter = Letter::from("grace@example.org").subject("needle");
            host.file(folder, letter.date(day * 86_400_000));
        }
        let found = |query: &[(&str, &str)]| {
            let response = json(search_messages(&host, &request(&[], query, "")));
            let messages = response["messages"].as_array().unwrap().iter();
            let folders = messages.map(|m| m["folder"].as_str().unwrap().to_owned());
            assert_eq!(response["index"], "ready");
            folders.collect::<Vec<_>>()
        };
        let all = found(&[("q", "needle"), ("folder", "*")]);
        assert_eq!(all, ["Work", "INBOX", "Archive"]);
        assert_eq!(found(&[("q", "needle"), ("folder", "Junk")]), ["Junk"]);
        assert_eq!(found(&[("q", "needle"), ("folder", "")]), ["INBOX"]);
    }

    #[test]
    fn a_result_of_the_index_has_the_positions_of_the_match() {
        let host = FakeHost::new();
        let letter = Letter::from("grace@example.org").text("Grüße & needle");
        host.deliver(letter.subject("One"));
        let query = [("q", "needle"), ("sort", "relevance"), ("syntax", "plain")];
        let search = || json(search_messages(&host, &request(&[], &query, "")));
        let snippet = json!({ "text": "Grüße & needle", "matches": [{ "start": 8, "end": 14 }] });
        assert_eq!(search()["messages"][0]["snippet"], snippet);
        host.set_index(IndexState::Building);
        assert_eq!(search()["index"], "building");
        assert!(search()["messages"][0].get("snippet").is_none());
        host.set_index(IndexState::Off);
        assert_eq!(search()["index"], "off");
    }

    #[test]
    fn an_invalid_search_has_one_error_text() {
        let host = FakeHost::new();
        let refused = |query: &[(&str, &str)]| {
            let failure = search_messages(&host, &request(&[], query, "")).unwrap_err();
            (failure.status, failure.text.into_owned())
        };
        for query in [&[][..], &[("q", "")], &[("q", "  "), ("page", "0")]] {
            assert_eq!(refused(query), (400, "Missing search term".into()));
        }
        for invalid in [
            ("limit", "101"),
            ("sort", "oldest"),
            ("syntax", "operators"),
        ] {
            let paging = refused(&[("q", "x"), invalid]);
            assert_eq!(paging, (400, "Invalid search parameters".into()));
        }
        assert_eq!(host.calls(), 0);
        let text = "Invalid search query at character 2: the date must be YYYY-MM-DD";
        let query = refused(&[("q", "é before:yesterday")]);
        assert_eq!(query, (400, text.into()));
        let plain = [("q", "before:yesterday"), ("syntax", "plain")];
        assert!(search_messages(&host, &request(&[], &plain, "")).is_ok());
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
        let term = answered(Error::invalid(codes::INVALID_SEARCH_TERM, "x"));
        assert_eq!(term, (400, "Invalid search term".into()));
    }
}
