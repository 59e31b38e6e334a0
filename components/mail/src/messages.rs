//! GET `/api/v1/mail/folders/{folder}/messages`: returns a page of the messages in a folder, newest
//! first.

use latchmail_common::{Summary, reading};
use latchmail_sdk::capability::{Caller, Mailbox, MessageQuery, PageStart};
use latchmail_sdk::{Code, Failure, Reply, Request, codes};
use serde::Serialize;
use utoipa::ToSchema;

/// The code and the error message for an invalid filter.
const BAD_FILTER: (Code, &str) = (
    codes::INVALID_FIELD,
    "unread and flagged must be true or false",
);

/// A page of the messages in a folder.
#[derive(Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = MessageList)]
pub(crate) struct MessagePage {
    /// The messages on this page, newest first.
    messages: Vec<Summary>,
    /// The number of messages in the whole folder, or of those that match `unread` and `flagged`.
    total: u32,
    /// The `cursor` of the next page. `null` if no message follows.
    #[schema(required, extensions(("x-latchmail" = json!(true))))]
    next_cursor: Option<String>,
}

/// List messages
///
/// Returns a page of the messages in a folder, newest first. The path of a nested folder must be
/// URL-encoded: `Work%2FReports`. A `page` or `limit` that is out of range is an error. A page
/// after the last page is empty.
///
/// With `cursor` instead of `page`, no message is listed twice and none is omitted if messages
/// arrive or disappear between the requests. The first request has neither of the two parameters.
#[utoipa::path(
    get,
    path = "/api/v1/mail/folders/{folder}/messages",
    operation_id = "listMessages",
    tag = "Mail",
    params(
        ("folder" = String, Path, description = "The folder's path, URL-encoded"),
        ("page" = Option<u32>, Query, minimum = 1, description = "The number of the page, from 1; the default is 1"),
        ("limit" = Option<u32>, Query, minimum = 1, maximum = 100, description = "The number of messages per page; the default is 50"),
        ("unread" = inline(Option<OnlyTrue>), Query, extensions(("x-latchmail" = json!(true))), description = "`true`: only messages without the flag `\\Seen`"),
        ("flagged" = inline(Option<OnlyTrue>), Query, extensions(("x-latchmail" = json!(true))), description = "`true`: only messages with the flag `\\Flagged`"),
        ("cursor" = Option<String>, Query, extensions(("x-latchmail" = json!(true))), description = "The `nextCursor` of the previous page, instead of `page`. A cursor is valid only with the same folder, `unread` and `flagged`")
    ),
    responses(
        (
            status = 200,
            description = "The page",
            body = MessagePage,
            links(
                ("getMessage" = (operation_id = "getMessage", parameters(("uid" = "$response.body#/messages/0/uid")))),
                ("getThread" = (operation_id = "getThread", parameters(("id" = "$response.body#/messages/0/threadId")))),
                ("flagMessage" = (operation_id = "flagMessage", parameters(("uid" = "$response.body#/messages/0/uid")))),
                ("moveMessage" = (operation_id = "moveMessage", parameters(("uid" = "$response.body#/messages/0/uid")))),
                ("deleteMessage" = (operation_id = "deleteMessage", parameters(("uid" = "$response.body#/messages/0/uid")))),
                ("listMessages" = (operation_id = "listMessages", parameters(("folder" = "$request.path.folder"), ("cursor" = "$response.body#/nextCursor"))))
            )
        ),
        (status = 400, description = "`Invalid paging parameters`, `Invalid cursor`, or `unread and flagged must be true or false`", body = latchmail_sdk::Failed),
        (status = 404, description = "`Folder not found`", body = latchmail_sdk::Failed)
    )
)]
pub(crate) fn list_messages(
    host: &(impl Mailbox + Caller),
    request: &Request,
) -> Result<Reply, Failure> {
    let query = query(request)?;
    let listing = host
        .list_messages(&query)
        .map_err(|error| Failure::of(error, reading::NO_FOLDER, host))?;
    Reply::json(&MessagePage {
        messages: listing.messages.into_iter().map(Summary::from).collect(),
        total: listing.total,
        next_cursor: listing.next,
    })
}

/// The value of `unread` and `flagged`.
#[derive(ToSchema)]
#[schema(rename_all = "lowercase")]
#[expect(dead_code, reason = "used only for the API description")]
enum OnlyTrue {
    True,
}

/// Parses the parameters. Returns 400 if a parameter is invalid, or if the request has both a page
/// and a cursor.
fn query(request: &Request) -> Result<MessageQuery, Failure> {
    let paging = request.paging(50, reading::BAD_PAGING)?;
    let start = match request.query("cursor") {
        Some(_) if request.query("page").is_some() => {
            let (code, text) = reading::BAD_PAGING;
            return Err(Failure::bad_request(code, text));
        }
        Some(cursor) => PageStart::Cursor(cursor.into()),
        None => PageStart::Offset(paging.offset),
    };
    let mut filters = Vec::new();
    for name in ["unread", "flagged"] {
        match request.query(name) {
            None | Some("false") => {}
            Some("true") => filters.push(name.into()),
            Some(_) => return Err(Failure::bad_request(BAD_FILTER.0, BAD_FILTER.1)),
        }
    }
    Ok(MessageQuery {
        folder: request.path("folder").into(),
        filters,
        start,
        limit: paging.limit,
    })
}

#[cfg(test)]
mod tests {
    use latchmail_sdk::capability::{Error, FlagAction};
    use latchmail_sdk::testing::{FakeHost, Letter, json, request};
    use serde_json::{Value, json};

    use super::*;

    #[test]
    fn a_page_is_returned_with_the_number_of_messages_in_the_folder() {
        let host = FakeHost::new();
        for _ in 0..41 {
            host.file("Work/Reports", Letter::from("grace@example.org"));
        }
        let request = request(
            &[("folder", "Work/Reports")],
            &[("page", "3"), ("limit", "20")],
            "",
        );
        let response = json(list_messages(&host, &request));
        assert_eq!(response["total"], 41);
        assert_eq!(response["messages"].as_array().unwrap().len(), 1);
        assert_eq!(response["messages"][0]["uid"], 1);
        assert_eq!(response["messages"][0]["date"], "2026-11-20T08:00:00.000Z");
    }

    fn listed(host: &FakeHost, query: &[(&str, &str)]) -> Value {
        json(list_messages(
            host,
            &request(&[("folder", "INBOX")], query, ""),
        ))
    }

    fn uids(page: &Value) -> Vec<u64> {
        let messages = page["messages"].as_array().unwrap();
        let uids = messages.iter().map(|message| message["uid"].as_u64());
        uids.map(Option::unwrap).collect()
    }

    #[test]
    fn pages_by_cursor_show_each_message_once_while_messages_arrive_and_disappear() {
        let host = FakeHost::new();
        let deliver = || host.deliver(Letter::from("grace@example.org"));
        for _ in 0..5 {
            deliver();
        }
        let first = listed(&host, &[("limit", "2")]);
        assert_eq!(uids(&first), [5, 4]);
        deliver();
        host.delete_messages(&[4, 3], None).unwrap();
        let cursor = first["nextCursor"].as_str().unwrap();
        let last = listed(&host, &[("limit", "2"), ("cursor", cursor)]);
        assert_eq!((uids(&last), &last["total"]), (vec![2, 1], &json!(4)));
        assert_eq!(last["nextCursor"], Value::Null);
        assert!(last.as_object().unwrap().contains_key("nextCursor"));
    }

    #[test]
    fn filters_select_messages_and_count_them() {
        let host = FakeHost::new();
        for _ in 0..4 {
            host.deliver(Letter::from("grace@example.org"));
        }
        let flags = |flag: &str| [flag.to_owned()];
        host.set_flags(&[2, 3], &flags("\\Seen"), FlagAction::Add, None)
            .unwrap();
        host.set_flags(&[1, 2], &flags("\\Flagged"), FlagAction::Add, None)
            .unwrap();
        let unread = listed(&host, &[("unread", "true")]);
        assert_eq!((uids(&unread), &unread["total"]), (vec![4, 1], &json!(2)));
        assert_eq!(uids(&listed(&host, &[("flagged", "true")])), [2, 1]);
        let both = listed(&host, &[("unread", "true"), ("flagged", "true")]);
        assert_eq!(uids(&both), [1]);
    }

    #[test]
    fn invalid_cursors_and_filters_are_refused() {
        let host = FakeHost::new();
        for _ in 0..3 {
            host.deliver(Letter::from("grace@example.org"));
        }
        let first = listed(&host, &[("limit", "1")]);
        let cursor = first["nextCursor"].as_str().unwrap();
        let refused = |folder: &str, query: &[(&str, &str)]| {
            let refused = list_messages(&host, &request(&[("folder", folder)], query, ""));
            let refused = refused.unwrap_err();
            (refused.status, refused.text.into_owned())
        };
        let invalid = (400, "Invalid cursor".to_owned());
        assert_eq!(refused("Sent", &[("cursor", cursor)]), invalid);
        assert_eq!(
            refused("INBOX", &[("cursor", cursor), ("unread", "true")]),
            invalid
        );
        assert_eq!(refused("INBOX", &[("cursor", "")]), invalid);
        let paging = (400, reading::BAD_PAGING.1.to_owned());
        assert_eq!(
            refused("INBOX", &[("cursor", cursor), ("page", "1")]),
            paging
        );
        for value in ["no", "1", ""] {
            assert_eq!(
                refused("INBOX", &[("unread", value)]),
                (400, BAD_FILTER.1.into())
            );
        }
    }

    #[test]
    fn an_invalid_page_is_refused_before_the_mailbox_is_read() {
        let host = FakeHost::new();
        let request = request(&[("folder", "INBOX")], &[("limit", "101")], "");
        let refused = list_messages(&host, &request).unwrap_err();
        assert_eq!(
            refused,
            Failure::bad_request(
                codes::INVALID_PAGING_PARAMETERS,
                "Invalid paging parameters"
            )
        );
        assert_eq!(host.calls(), 0);
    }

    #[test]
    fn a_missing_folder_is_404_and_an_unavailable_mail_server_is_503() {
        let host = FakeHost::new();
        let refused = || list_messages(&host, &request(&[("folder", "x")], &[], "")).unwrap_err();
        assert_eq!(
            refused(),
            Failure::not_found(codes::FOLDER_NOT_FOUND, "Folder not found")
        );
        host.fail(Error::Unavailable);
        let away = refused();
        assert_eq!((away.status, away.retry_after), (503, Some(2)));
    }
}
